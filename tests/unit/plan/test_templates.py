"""What a plan reads from the arguments of a kernel's template, and from types of C++."""

from __future__ import annotations

import dataclasses

from tests.unit.plan.test_plan import CUDA_DECL, cuda_kernel, plan, problems


def test_cuda_parameters_come_from_the_source_through_the_template() -> None:
    planned = plan(cuda_kernel()).kernels[0]
    assert [(p.name, p.kind.value, p.dtype, p.rank, p.out) for p in planned.info.params] == [
        ("x", "tensor", "T", 1, False),
        ("y", "tensor", "T", 1, True),
        ("s", "scalar", "f32", 0, False),
    ]
    assert planned.info.dtype_axes == ("T",)
    assert [(s.type, s.expr, s.size) for s in planned.jobs[0].spec.abi] == [
        ("ptr", "y.ptr", 8),
        ("ptr", "x.ptr", 8),
        ("i32", "x.size", 4),
        ("f32", "s", 4),
    ]


def test_a_template_parameter_pack_takes_several_arguments() -> None:
    decls = {"scale": dataclasses.replace(CUDA_DECL, template=("T", "VECS..."))}
    for symbol in ("scale<{T}, {VEC}>", "scale<{T}, {VEC}, 2, 3>"):
        planned = plan(cuda_kernel(symbol=symbol), decls=decls).kernels[0]
        assert planned.info.params[0].dtype == "T"
    assert problems(cuda_kernel(symbol="scale"), decls=decls) == [
        'kernel.scale.symbol: scale is a template: say which instance, for example symbol = "scale<{T}, …>"'
    ]
