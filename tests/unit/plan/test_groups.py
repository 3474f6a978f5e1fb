"""Which variants are compiled in one go: by source, options and target, from the whole manifest, in
sorted chunks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.unit.plan.test_plan import CUDA_DECL, cuda_kernel, plan
from tilec.manifest.types import Kernel, Launch, Matrix, Override
from tilec.model.job import Job, Member
from tilec_runtime.model.arch import Target

PLAIN = dataclasses.replace(
    CUDA_DECL, name="plain", qualified="plain", template=(), params=CUDA_DECL.params[3:]
)
PLAIN_KERNEL = Kernel(
    name="plain",
    source="k.cu",
    function="plain",
    language="cuda",
    launch=Launch(grid=("1",), block=("256",)),
)
ALL = tuple(
    Member(symbol="scale<{T}, {VEC}>", axes=(("T", dtype), ("VEC", width)))
    for dtype in ("f16", "f32")
    for width in (1, 4)
)


def planned(*kernels: Kernel, together: int = 16, **request: Any) -> tuple[Job, ...]:
    decls = {"scale": CUDA_DECL, "plain": PLAIN}
    decls = {n: dataclasses.replace(decl, together=together) for n, decl in decls.items()}
    return plan(*kernels, decls=decls, **request).jobs


def groups(kernel: Kernel, **request: Any) -> dict[str, tuple[Member, ...]]:
    return {job.id: job.group for job in planned(kernel, **request)}


def test_selection_changes_no_group() -> None:
    whole = groups(cuda_kernel())
    for select, targets in (
        (("scale-f16-VEC1",), ()),
        (("*-sm_80",), ()),
        ((), ("sm_80",)),
        (("scale-f32-VEC4-sm_80",), ("sm_80", "sm_90")),
    ):
        some = groups(cuda_kernel(), select=select, targets=targets)
        assert some
        assert all(group == ALL and whole.get(name, ALL) == group for name, group in some.items())


def test_a_variant_that_the_manifest_leaves_out_is_in_no_group() -> None:
    """What does not compile for a target must not keep the rest from being compiled together."""
    rule = Override(select="scale-f16-*", targets=(Target.parse("compute_80"),))
    made = groups(cuda_kernel(), overrides=(rule,))
    assert made["scale-f32-VEC1-sm_80"] == ALL[2:]
    assert made["scale-f32-VEC1-compute_80"] == ALL
    assert "scale-f16-VEC1-sm_80" not in made


def test_groups_are_bounded_and_sorted() -> None:
    axes = (("T", ("f32", "f16")), ("VEC", (16, 1, 2, 4, 8)))
    made = groups(cuda_kernel(matrix=Matrix(axes=axes)), together=4, targets=("sm_80",))
    order = [
        Member(symbol="scale<{T}, {VEC}>", axes=(("T", t), ("VEC", v)))
        for t in ("f16", "f32")
        for v in (1, 2, 4, 8, 16)
    ]
    assert sorted(set(made.values()), key=lambda group: order.index(group[0])) == [
        tuple(order[0:4]),
        tuple(order[4:8]),
        tuple(order[8:]),
    ]
    moved = cuda_kernel(matrix=Matrix(axes=(("T", ("f16", "f32")), ("VEC", (1, 2, 4, 8, 16)))))
    assert (
        groups(moved, together=4, targets=("sm_80",)) == made
    )  # the order of the manifest says nothing


def test_kernels_of_one_source_share_groups_where_their_options_are_equal() -> None:
    made = planned(cuda_kernel(), PLAIN_KERNEL)
    assert {job.group for job in made} == {(Member(symbol="plain"), *ALL)}
    apart = planned(cuda_kernel(), PLAIN_KERNEL, options={"plain": (("std", "c++20"),)})
    assert {job.group for job in apart} == {ALL, ()}
    elsewhere = planned(cuda_kernel(), dataclasses.replace(PLAIN_KERNEL, source="other.cu"))
    assert {job.group for job in elsewhere} == {ALL, ()}
