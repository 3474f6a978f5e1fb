"""Which variants are compiled in one go: by source, options and target, from the whole manifest, in
sorted chunks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec.manifest.locate import Locator
from tilec.manifest.types import (
    Kernel,
    Launch,
    Manifest,
    Matrix,
    Override,
    Package,
    ParamTable,
    Profile,
    Targets,
)
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Member, Source
from tilec.plan import LanguageFacts, Plan, make_plan
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target, TargetKind

CUDA = LanguageFacts(kinds=(TargetKind.CUBIN, TargetKind.PTX), refuse=lambda _t: "", simt=True)
SCALE = KernelDecl(
    name="scale",
    qualified="scale",
    location=Location(file="k.cu", line=1),
    template=("T", "VEC"),
    params=(
        ParamDecl(name="x", type="T*", kind="tensor", dtype="T", out=True),
        ParamDecl(name="s", type="float", kind="scalar", dtype="f32"),
    ),
    together=16,
)
PLAIN = dataclasses.replace(
    SCALE, name="plain", qualified="plain", template=(), params=SCALE.params[1:]
)
KERNEL = Kernel(
    name="scale",
    source="k.cu",
    function="scale",
    symbol="scale<{T}, {VEC}>",
    language="cuda",
    matrix=Matrix(axes=(("T", ("f16", "f32")), ("VEC", (1, 4)))),
    params=(ParamTable(name="x", rank=1), ParamTable(name="s")),
    args=("x.ptr", "s"),
    launch=Launch(grid=("cdiv(x.size, 256 * VEC)",), block=("256",)),
    default=(("VEC", 4),),
)
PLAIN_KERNEL = dataclasses.replace(
    KERNEL,
    name="plain",
    function="plain",
    symbol="",
    matrix=Matrix(),
    params=(),
    args=None,
    launch=Launch(grid=("1",), block=("256",)),
    default=(),
)
ALL = tuple(
    Member(symbol="scale<{T}, {VEC}>", axes=(("T", dtype), ("VEC", width)))
    for dtype in ("f16", "f32")
    for width in (1, 4)
)


def plan(
    *kernels: Kernel,
    together: int = 16,
    options: dict[str, tuple[tuple[str, str], ...]] | None = None,
    overrides: tuple[Override, ...] = (),
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
) -> Plan:
    manifest = Manifest(
        path="tilec.toml",
        root="project",
        package=Package(name="p", version="1", module="p"),
        targets=Targets(default=(Target.parse("sm_80"), Target.parse("compute_80"))),
        profiles=(Profile(name="release"),),
        kernels=kernels,
        overrides=overrides,
        locate=Locator("tilec.toml", ""),
    )
    known = {"scale": SCALE, "plain": PLAIN}
    return make_plan(
        manifest,
        {k.name: dataclasses.replace(known[k.name], together=together) for k in kernels},
        {"cuda": CUDA},
        {
            k.name: Source(root="project", path=k.source, options=(options or {}).get(k.name, ()))
            for k in kernels
        },
        targets=targets,
        select=select,
    )


def scale(**changes: Any) -> Kernel:
    return dataclasses.replace(KERNEL, **changes)


def groups(made: Plan) -> dict[str, tuple[Member, ...]]:
    return {job.id: job.group for job in made.jobs}


def test_selection_changes_no_group() -> None:
    whole = groups(plan(scale()))
    for select, targets in (
        (("scale-f16-VEC1",), ()),
        (("*-sm_80",), ()),
        ((), ("sm_80",)),
        (("scale-f32-VEC4-sm_80",), ("sm_80", "sm_90")),
    ):
        some = groups(plan(scale(), select=select, targets=targets))
        assert some
        assert all(group == ALL and whole.get(name, ALL) == group for name, group in some.items())


def test_a_variant_that_the_manifest_leaves_out_is_in_no_group() -> None:
    """What does not compile for a target must not keep the rest from being compiled together."""
    made = groups(
        plan(
            scale(),
            overrides=(Override(select="scale-f16-*", targets=(Target.parse("compute_80"),)),),
        )
    )
    assert made["scale-f32-VEC1-sm_80"] == ALL[2:]
    assert made["scale-f32-VEC1-compute_80"] == ALL
    assert "scale-f16-VEC1-sm_80" not in made


def test_groups_are_bounded_and_sorted() -> None:
    axes = (("T", ("f32", "f16")), ("VEC", (16, 1, 2, 4, 8)))
    made = groups(plan(scale(matrix=Matrix(axes=axes)), together=4, targets=("sm_80",)))
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
    moved = scale(matrix=Matrix(axes=(("T", ("f16", "f32")), ("VEC", (1, 2, 4, 8, 16)))))
    assert (
        groups(plan(moved, together=4, targets=("sm_80",))) == made
    )  # the order of the manifest says nothing


def test_kernels_of_one_source_share_groups_where_their_options_are_equal() -> None:
    made = plan(scale(), PLAIN_KERNEL)
    assert {job.group for job in made.jobs} == {(Member(symbol="plain"), *ALL)}
    apart = plan(scale(), PLAIN_KERNEL, options={"plain": (("std", "c++20"),)})
    assert {job.group for job in apart.jobs} == {ALL, ()}
    elsewhere = plan(scale(), dataclasses.replace(PLAIN_KERNEL, source="other.cu"))
    assert {job.group for job in elsewhere.jobs} == {ALL, ()}
