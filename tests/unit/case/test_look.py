"""What is guessed for a kernel of a file without a manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.case.look import guessed_manifest
from tilec.manifest.load import load_text
from tilec.manifest.types import Input, Kernel
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec_runtime.errors import Location

LANGUAGES = {"tile": (".py",), "cuda": (".cu",), "triton": (), "simt": ()}


def guessed(language: str, *params: ParamDecl, **more: object) -> Kernel:
    decl = KernelDecl(name="k", location=Location(file="k.py"), params=params, **more)  # type: ignore[arg-type]
    text = guessed_manifest("k", "k.py", language, decl)
    (kernel,) = load_text(text, Path("/p/tilec.toml"), languages=LANGUAGES).kernels
    return kernel


def test_a_typed_kernel_gets_axes_and_inputs_alone() -> None:
    kernel = guessed(
        "tile",
        ParamDecl(name="y", type="tl.Mut[T, N]", kind="tensor", dtype="T", rank=2, out=True),
        ParamDecl(name="x", type="tl.Ref[T, 1]", kind="tensor", dtype="T", rank=1, out=False),
        ParamDecl(name="f", type="float", kind="scalar", dtype="f32"),
        ParamDecl(name="g", type="float", kind="scalar", dtype="f32", default=1.0),
        axes=(AxisUse(name="T", dtype=True, where=""), AxisUse(name="N", dtype=False, where="")),
        grid=("1",),
    )
    assert kernel.matrix.axes == (("T", ("f32",)), ("N", (128,)))
    assert (kernel.params, kernel.launch.grid) == ((), ())
    y, x, f = kernel.cases[0].inputs
    assert (y.shape, x.shape, f) == (("256", "256"), ("256",), Input(name="f", value=2.0))


@pytest.mark.parametrize(("language", "block"), [("triton", ()), ("cuda", ("256",))])
def test_what_is_not_annotated_is_an_array_or_a_count(
    language: str, block: tuple[str, ...]
) -> None:
    kernel = guessed(
        language,
        ParamDecl(name="y", kind="tensor", out=True),
        ParamDecl(name="x", kind="tensor"),
        ParamDecl(name="n_elements", kind="tensor"),
        ParamDecl(name="BLOCK", kind="constant"),
    )
    assert [(p.name, p.dtype, p.rank) for p in kernel.params] == [
        ("y", "f32", 1),
        ("x", "f32", 1),
        ("n_elements", "i32", None),
    ]
    assert kernel.launch.grid == (f"cdiv(y.size, {256 if block else 128})",)
    assert kernel.launch.block == block
    assert kernel.cases[0].inputs[-1] == Input(name="n_elements", value=4096)
