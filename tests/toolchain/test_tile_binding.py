"""Parameters of tile kernels as cuda.tile gets them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolchain.projects import tensor
from tilec.frontends.tile import api
from tilec.frontends.tile.signature import bind
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.signature import Assumption, Param

pytestmark = pytest.mark.toolchain

HERE = Location(file="k.py", line=3)


def job(*params: Param, assume: tuple[Assumption, ...] = (), **axes) -> Job:
    decl = KernelDecl(name="k", location=HERE)
    spec = KernelSpec(
        name="k",
        language="tile",
        source=Source(root="", path="k.py"),
        decl=decl,
        symbol="",
        params=params,
    )
    return Job(
        spec=spec,
        variant=Variant(kernel="k", id="k", axes=tuple(axes.items()), assume=assume),
        target=Target.parse("sm_80"),
    )


def bound(made: Job, *names: str, **annotations: api.Annotation) -> list[Any]:
    params = [ParamDecl(name=n, kind="tensor", location=HERE) for n in (*names, *annotations)]
    return list(bind(made, params, annotations)[0])


def test_facts_of_parameter_and_assumption_are_joined_by_their_least_common_multiple() -> None:
    made = job(
        tensor("x", rank=2, shape_divisible=(4, 6), stride_divisible=(2, 1), align=4),
        assume=(
            Assumption(param="x", shape=(6, 4), stride=(3, 1), align=6),
            Assumption(param="y", align=128),
        ),
    )
    (array,) = bound(made, "x")
    assert (array.shape_divisible_by, array.stride_divisible_by) == ((12, 12), (6, 1))
    assert array.base_addr_divisible_by == 12


@pytest.mark.parametrize(
    ("outputs", "shared"),
    [((False, False, True), ("x", "y")), ((False, True), ()), ((True, True), ())],
)
def test_outputs_overlap_nothing_and_inputs_may_overlap_each_other(
    outputs: tuple[bool, ...], shared: tuple[str, ...]
) -> None:
    names = ("x", "y", "z")[: len(outputs)]
    made = job(*(tensor(name, rank=2, out=out) for name, out in zip(names, outputs, strict=True)))
    arrays = zip(names, bound(made, *names), strict=True)
    assert tuple(name for name, array in arrays if array.alias_groups) == shared


def test_extents_of_dtypes_of_half_bytes_are_even() -> None:
    made = job(
        tensor("x", "f4e2m1", 2),
        assume=(Assumption(param="x", extent=(None, 3)),),
    )
    with pytest.raises(
        CompileError, match="'x' has rows of 3 elements, and f4e2m1 has 2 in a byte"
    ):
        bound(made, "x")


@pytest.mark.parametrize(
    ("inner", "value"), [(int, True), (int, 0.5), (bool, 1), (float, True), (int, "f32")]
)
def test_constants_of_the_wrong_kind(inner, value):
    with pytest.raises(CompileError, match="constant 'N' is"):
        bound(job(N=value), N=api.Annotation(constant=True, inner=inner))
