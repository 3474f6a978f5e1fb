"""Operators: what the manifest says of them, as the index has it, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.unit.plan.test_plan import CUDA
from tilec.manifest.load import load_text
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Source
from tilec.plan import Plan, make_plan
from tilec_runtime.errors import Location, ManifestError
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo, OutputInfo

HEAD = """edition = 1
package.name = "p"
targets.default = ["sm_90"]
"""
FORWARD = """
[kernel.norm]
source = "k.cu"
matrix = { B = [64] }
params = { y = { rank = 2, out = true }, x = { rank = 2 }, w = { rank = 1 }, i = { rank = 1 } }
args = ["y.ptr", "x.ptr", "w.ptr", "i.ptr", "eps"]
launch = { grid = ["cdiv(x.size, B)"], block = [64] }
"""
BACKWARD = """
[kernel.norm_backward]
source = "k.cu"
params = { dx = { rank = 2, out = true }, dw = { rank = 1, out = true }, dy = { rank = 2 }, x = { rank = 2 } }
args = ["dx.ptr", "dw.ptr", "dy.ptr", "x.ptr", "eps"]
launch = { grid = [1], block = [64] }
"""
OUTPUTS = 'op.outputs = { y = { like = "x" } }\n'
ITS = 'op.outputs = { dx = { like = "x" }, dw = { shape = ["x.shape[1]"] } }\n'
ARGS = 'op.backward = { kernel = "norm_backward", args = { dx = "grad_x", dw = "grad_w", dy = "grad_y" } }\n'


def tensor(name: str, dtype: str = "f32", *, out: bool = False) -> ParamDecl:
    return ParamDecl(name=name, type="float*", kind="tensor", dtype=dtype, out=out)


EPS = ParamDecl(name="eps", type="float", kind="scalar", dtype="f32")
DECLS = {
    "norm": (tensor("y", out=True), tensor("x"), tensor("w"), tensor("i", "i32"), EPS),
    "fill": (tensor("y", out=True), EPS),
    "norm_backward": (
        tensor("dx", out=True),
        tensor("dw", out=True),
        tensor("dy"),
        tensor("x"),
        EPS,
    ),
}


def plan(text: str, **request: object) -> Plan:
    manifest = load_text(HEAD + text, Path("/p/tilec.toml"), languages={"cuda": (".cu",)})
    return make_plan(
        manifest,
        {
            kernel.name: KernelDecl(
                name=kernel.name,
                qualified=kernel.name,
                location=Location(file="k.cu", line=1),
                params=DECLS[kernel.name],
            )
            for kernel in manifest.kernels
        },
        {"cuda": CUDA},
        {kernel.name: Source(root="project", path=kernel.source) for kernel in manifest.kernels},
        **request,  # type: ignore[arg-type]
    )


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        plan(text)
    return [problem.message for problem in caught.value.problems]


def test_the_index_says_what_a_call_allocates() -> None:
    outputs = (
        'op.outputs = { y = { shape = ["x.shape[0]", "cdiv(x.size, B)"], dtype = "float32" } }\n'
    )
    found = plan(FORWARD + outputs).kernels[0].info.op
    assert found == OperatorInfo(
        outputs=(OutputInfo(param="y", shape=("x.shape[0]", "cdiv(x.size, B)"), dtype="f32"),)
    )
    assert plan(FORWARD).kernels[0].info.op is None
    assert plan(FORWARD + "op = {}\n").kernels[0].info.op == OperatorInfo()


def test_a_backward_is_another_operator() -> None:
    first, second = plan(FORWARD + OUTPUTS + ARGS + BACKWARD + ITS).kernels
    assert first.info.op is not None
    assert first.info.op.backward == BackwardInfo(
        kernel="norm_backward",
        args=(("dx", "grad_x"), ("dw", "grad_w"), ("dy", "grad_y"), ("x", "x"), ("eps", "eps")),
    )
    assert second.info.op is not None
    assert second.info.op.outputs[1] == OutputInfo(param="dw", shape=("x.shape[1]",), dtype="f32")


def test_a_build_without_the_backward_has_no_gradient() -> None:
    (kernel,) = plan(FORWARD + OUTPUTS + ARGS + BACKWARD + ITS, select=["norm-*"]).kernels
    assert kernel.info.op is not None
    assert kernel.info.op.backward is None


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("y = {}", "give one of like and shape"),
        ('y = { like = "x", shape = [1, 2] }', "give one of like and shape"),
        ('y = { like = "y" }', "y is the output itself: an operator that reads and writes y takes"),
        ('y = { like = "w" }', "w has rank 1, and y 2: write its shape"),
        ('y = { like = "z" }', "'z' is no tensor of every call"),
        ('y = { like = "eps" }', "'eps' is no tensor of every call"),
        ('x = { like = "w" }', "the kernel does not write x, so a call cannot return it"),
        ('z = { like = "x" }', "there is no parameter 'z'"),
        ('y = { shape = ["x.shape[0]"] }', "1 extents, and y has rank 2"),
        ('y = { shape = ["y.shape[0]", 1] }', "y is an output: its shape cannot be inferred"),
        ('y = { shape = ["x.shape[2]", 1] }', "x has rank 2: there is no x.shape[2]"),
        ('y = { shape = ["x.stride[0]", 1] }', "x.stride says no shape"),
        ('y = { shape = ["C", 1] }', "unknown name 'C'"),
        ('y = { shape = ["x", 1] }', "x is a tensor: say x.shape[0], x.size or x.dtype"),
        (
            'y = { shape = ["x.size == 1", 1] }',
            "'x.size == 1' is a condition and must be a number",
        ),
        ('y = { like = "x", dtype = "f16" }', "y takes f32, and a call would allocate f16"),
        ('y = { like = "x", dtype = "i.dtype" }', "y takes f32, and a call would allocate i32"),
        ('y = { like = "x", dtype = "T" }', "the dtype of y is T, which no input has"),
    ],
)
def test_outputs_that_cannot_be_inferred_are_refused(outputs: str, expected: str) -> None:
    (found,) = problems(FORWARD + f"op.outputs = {{ {outputs} }}\n")
    assert f": {expected}" in found


def test_an_output_that_the_kernel_reads_first_is_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    y, *rest = DECLS["norm"]
    monkeypatch.setitem(DECLS, "norm", (dataclasses.replace(y, read=True), *rest))
    (found,) = problems(FORWARD + OUTPUTS)
    assert "the kernel reads y before it writes it, and what a call allocates holds any" in found
    assert plan(FORWARD + "op = {}\n").kernels[0].info.op == OperatorInfo()


@pytest.mark.parametrize(
    ("backward", "its", "expected"),
    [
        ('"nothing"', ITS, "there is no kernel 'nothing'"),
        ('"norm_backward"', "", "norm_backward is no operator: give it [kernel.norm_backward.op]"),
        ('"norm_backward"', "op = {}\n", "norm_backward allocates no output"),
        ('"norm_backward"', ITS, "nothing is given for dx of norm_backward: norm has no parameter"),
    ],
)
def test_backwards_that_are_no_gradient_are_refused(backward: str, its: str, expected: str) -> None:
    found = problems(FORWARD + OUTPUTS + f"op.backward = {backward}\n" + BACKWARD + its)
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"dz": "x"}, "norm_backward has no parameter 'dz'"),
        ({"dw": "grad_i"}, "i may be i32, and integers have no gradient"),
        ({"dw": "grad_eps"}, "eps is a number, and gradients are of tensors"),
        ({"dw": "grad_x"}, "grad_x is given twice"),
        (
            {"dw": "w"},
            "norm_backward returns dw, which must be the gradient of an input of norm, and is w",
        ),
        ({"dy": "i"}, "dy of norm_backward takes f32, and i may be i32"),
        ({"x": "grad_w"}, "the backward kernel computes grad_w, but x is not an output"),
    ],
)
def test_arguments_of_a_backward_that_do_not_fit_are_refused(
    changed: dict[str, str], expected: str
) -> None:
    args = {"dx": "grad_x", "dw": "grad_w", "dy": "grad_y", **changed}
    listed = ", ".join(f'{name} = "{value}"' for name, value in args.items())
    backward = f'op.backward = {{ kernel = "norm_backward", args = {{ {listed} }} }}\n'
    found = problems(FORWARD + OUTPUTS + backward + BACKWARD + ITS)
    assert any(expected in problem for problem in found), found


def test_a_tensor_that_may_be_none_has_no_gradient() -> None:
    optional = FORWARD.replace("w = { rank = 1 }", "w = { rank = 1, optional = true }")
    found = problems(optional + OUTPUTS + ARGS + BACKWARD + ITS)
    assert any(
        "w of norm may be None, and dw of norm_backward is a tensor of every call" in problem
        for problem in found
    ), found
