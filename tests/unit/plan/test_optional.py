"""Tensors that may be None: the variants that they make, and where they cannot stand."""

from __future__ import annotations

import dataclasses

import pytest

from tilec.manifest.locate import Locator
from tilec.manifest.types import (
    Bench,
    Case,
    Input,
    Kernel,
    Launch,
    Manifest,
    Matrix,
    Package,
    ParamTable,
    Profile,
    Targets,
)
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Source
from tilec.plan import LanguageFacts, Plan, make_plan
from tilec_runtime.errors import Location, ManifestError
from tilec_runtime.model.arch import Target, TargetKind

DECL = KernelDecl(
    name="norm",
    location=Location(file="k.py", line=3),
    params=(
        *(ParamDecl(name=name, kind="tensor") for name in ("y", "x", "b")),
        ParamDecl(name="n", kind="scalar", dtype="i32", type="tl.int32"),
    ),
)


def norm_params() -> tuple[ParamTable, ParamTable]:
    return ParamTable(name="y", out=True, dtype="f32", rank=1), ParamTable(
        name="x", dtype="f32", rank=1
    )


def norm(**changes: object) -> Kernel:
    kernel = Kernel(
        name="norm",
        source="k.py",
        function="norm",
        symbol="norm",
        language="triton",
        params=(*norm_params(), ParamTable(name="b", dtype="f32", rank=1, optional=True)),
        args=("y.ptr", "x.ptr", "b.ptr", "i32(b.size)"),
        launch=Launch(grid=("x.size",), requires=("b.size == x.size",)),
        cases=(Case(name="plain", inputs=tuple(Input(name=name, shape=("8",)) for name in "yx")),),
    )
    return dataclasses.replace(kernel, **changes)  # type: ignore[arg-type]


def planned(kernel: Kernel) -> Plan:
    return planned_of(kernel, DECL)


def planned_of(kernel: Kernel, decl: KernelDecl) -> Plan:
    triton = LanguageFacts(kinds=(TargetKind.CUBIN,), refuse=lambda _: "", simt=True)
    manifest = Manifest(
        path="tilec.toml",
        root="project",
        package=Package(name="p", version="1", module="p"),
        targets=Targets(default=(Target.parse("sm_90"),), groups=(), min_driver=580),
        profiles=(Profile(name="release"),),
        kernels=(kernel,),
        overrides=(),
        locate=Locator("", "tilec.toml"),
    )
    languages = {"triton": dataclasses.replace(triton, simt=False), "cuda": triton}
    return make_plan(
        manifest,
        {kernel.name: decl},
        languages,
        {kernel.name: Source(root="project", path="k.py")},
        profile="release",
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"language": "cuda", "launch": Launch(grid=("1",), block=("32",))},
            "kernel.norm.params.b.optional: a cuda kernel takes no tensor that may be None",
        ),
        (
            {"launch": Launch(grid=("cdiv(b.size, 256)",))},
            "kernel.norm.launch.grid[0]: 'cdiv(b.size, 256)' reads b, which may be None: read a tensor that every call gives",
        ),
        (
            {
                "matrix": Matrix(axes=(("T", ("f16", "f32")),)),
                "params": (*norm_params(), ParamTable(name="b", dtype="T", rank=1, optional=True)),
            },
            "kernel.norm.params.b.dtype: T is said by b alone, which may be None: give it a dtype",
        ),
        (
            {
                "cases": (
                    Case(
                        name="c",
                        inputs=tuple(Input(name=n, shape=("8",)) for n in "yx"),
                        bench=Bench(bytes="nbytes(b)"),
                    ),
                )
            },
            "kernel.norm.case.c.bench.bytes: 'nbytes(b)' reads b, which may be None",
        ),
        (
            {"matrix": Matrix(max_variants=1)},
            "the matrix gives 2 variants, more than max-variants = 1",
        ),
    ],
)
def test_refuses_optional_parameters_where_none_may_stand(
    changes: dict[str, object], what: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        planned(norm(**changes))
    assert what in str(caught.value)


def test_only_tensors_may_be_none() -> None:
    scalar = ParamTable(name="s", dtype="f32", optional=True)
    with pytest.raises(
        ManifestError,
        match=r"kernel\.norm\.params\.s\.optional: 's' is a scalar, and only tensors may be None",
    ):
        planned(norm(params=(*norm().params, scalar), args=("y.ptr", "x.ptr", "b.ptr", "i32(s)")))
