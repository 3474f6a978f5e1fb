"""What a new build changes: for callers, each with whether it breaks them, and in its images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.bundle_samples import Sample
from tilec.inspection.diff import Change, compare
from tilec.inspection.report import Report
from tilec_runtime.model.arch import ARCHS, dotted
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, ToolInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.table import DispatchRule

KERNEL = Sample().kernel("rmsnorm")
replace = dataclasses.replace


def report(info: BundleInfo, digest: str = "a") -> Report:
    return Report(path=f"{digest}.tilec", kind="bundle", size=100, digest=digest, info=info)


def told(new: KernelInfo, old: KernelInfo = KERNEL) -> list[tuple[str, bool]]:
    return [(change.what, change.breaking) for change in changes([old], [new])]


def changes(old: list[KernelInfo], new: list[KernelInfo]) -> tuple[Change, ...]:
    one, other = (replace(Sample().info(), kernels=tuple(kernels)) for kernels in (old, new))
    return compare(report(one), report(other, "b")).changes


def with_param(name: str, **values: Any) -> KernelInfo:
    return replace(
        KERNEL, params=tuple(replace(p, **values) if p.name == name else p for p in KERNEL.params)
    )


def test_equal_kernels_change_nothing() -> None:
    assert told(KERNEL) == []
    assert [change.what for change in changes([KERNEL], [])] == ["removed"]
    assert [(c.kernel, c.what, c.breaking) for c in changes([], [KERNEL])] == [
        ("rmsnorm", "added", False)
    ]


SCALE = Param(name="scale", kind=ParamKind.SCALAR, dtype="f32")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (replace(KERNEL, params=KERNEL.params[:2]), [("parameter eps: f32 = 1e-06 removed", True)]),
        (replace(KERNEL, params=(*KERNEL.params, SCALE)), [("parameter scale: f32 added, without a default", True)]),
        (replace(KERNEL, params=(*KERNEL.params, replace(SCALE, default=2.0))), [("parameter scale: f32 = 2.0 added", False)]),
        (
            replace(KERNEL, params=(replace(SCALE, default=2.0), *KERNEL.params)),
            [("parameter scale: f32 = 2.0 added, in front of others", True)],
        ),
        (
            replace(KERNEL, params=(KERNEL.params[1], KERNEL.params[0], KERNEL.params[2])),
            [("parameters in another order: x, y, eps; was y, x, eps", True)],
        ),
        (with_param("x", kind=ParamKind.PTR), [("parameter x: pointer, was x: T[2]", True)]),
        (with_param("x", rank=3), [("x: rank 3; was 2", True)]),
        (with_param("x", rank=-1), [("x: rank -1; was 2", False)]),
        (with_param("x", out=True), [("x: out True; was False", True)]),
        (with_param("x", dtype="f16"), [("x takes f16; was f16, f32", True)]),
        (with_param("x", align=32), [("x: align 32; was 16", True)]),
        (with_param("x", align=8), [("x: align 8; was 16", False)]),
        (with_param("x", shape_divisible=(1, 8)), [("x: shape divisible (1, 8); was (1, 4)", True)]),
        (with_param("x", shape_divisible=()), [("x: shape divisible (); was (1, 4)", False)]),
        (with_param("y", stride=None), [("y: stride None; was (None, 1)", True)]),
        (with_param("eps", default=1e-5), [("default of eps is 1e-05; was 1e-06", False)]),
        (with_param("eps", default=None), [("default of eps is none; was 1e-06", True)]),
    ],
)  # fmt: skip
def test_parameters(new: KernelInfo, expected: list[tuple[str, bool]]) -> None:
    assert told(new) == expected


def test_axes() -> None:
    fewer = replace(KERNEL, axes=(("T", ("f16", "bf16")), ("B", (128,))))
    assert told(fewer) == [
        ("y takes bf16, f16; was f16, f32", True),
        ("x takes bf16, f16; was f16, f32", True),
        ("B = 64 is no longer built", True),
        ("T = bf16 is built too", False),
    ]
    assert told(replace(KERNEL, axes=KERNEL.axes[:1], default=())) == [("axis B removed", True)]
    more = replace(KERNEL, axes=(*KERNEL.axes, ("W", (1, 2))))
    assert told(more) == [("axis W added, without a default", True)]
    assert told(replace(more, default=(*more.default, ("W", 1)))) == [("axis W added", False)]
    assert told(replace(KERNEL, default=())) == [("default of B is none; was 128", True)]
    ruled = replace(KERNEL, default=(), rules=(DispatchRule(when="", take=(("B", 64),)),))
    assert [row for row in told(replace(KERNEL, default=()), ruled) if row[1]] == [
        ("no rule decides B now", True)
    ]
    assert told(replace(KERNEL, default=(("B", 64),))) == [("default of B is 64; was 128", False)]


def test_launch() -> None:
    launch = LaunchInfo(
        grid=("7",),
        block=("128",),
        shared="0",
        cluster=(2,),
        cooperative=True,
        requires=("eps > 0",),
    )
    assert told(replace(KERNEL, launch=launch)) == [
        ("requires eps > 0", True),
        ("no longer requires x.shape[0] == y.shape[0]", False),
        ("grid 7; was cdiv(x.shape[0], B)", False),
        ("block 128; was 256", False),
        ("shared 0; was 256 * 4", False),
        ("cluster 2; was none", False),
        ("cooperative True; was none", False),
    ]


def test_a_launch_that_callers_configure() -> None:
    required = replace(KERNEL, launch=replace(KERNEL.launch, open=("block",)))
    optional = replace(KERNEL, launch=replace(required.launch, preset=True))
    assert told(required) == [("config is required; was refused", True)]
    assert told(optional) == [("config is optional; was refused", False)]


@pytest.mark.parametrize(
    ("was", "now", "breaking"),
    [
        ("", "deny", False),
        ("allow", "", True),
        ("warn", "deny", True),
        ("deny", "", False),
        ("", "allow", False),
        ("allow", "warn", False),
    ],
)
def test_what_may_be_compiled_at_load(was: str, now: str, breaking: bool) -> None:
    old, new = (replace(KERNEL, jit=JitFallback(said) if said else None) for said in (was, now))
    assert told(new, old) == [
        (f"jit-fallback {now or 'not said'}; was {was or 'not said'}", breaking)
    ]


def test_gpus_that_nothing_runs_on_any_more() -> None:
    def only(keep: Callable[[str], bool]) -> KernelInfo:
        images = tuple(
            replace(v, images=tuple(i for i in v.images if keep(str(i.target))))
            for v in KERNEL.variants
        )
        return replace(KERNEL, variants=images)

    # PTX of compute_80 serves every later GPU, and cubins of 8.0 those of 8.x.
    assert told(only(lambda target: target != "sm_90")) == []
    found = told(only(lambda target: target.startswith("sm_")))
    later = [dotted(cc) for cc in ARCHS if cc[0] > 9]
    lost = ", ".join(["8.7", "8.8", *later])
    assert found == [(f"no longer runs on compute capability {lost}", True)]


def test_package_and_tools() -> None:
    old = Sample().info()
    tool = ToolInfo(name="ptxas", version="13.5.1", digest="2" * 64)
    new = replace(
        old,
        package=replace(old.package, module="acme"),
        min_driver=610,
        profile="debug",
        toolchain=(*old.toolchain, tool),
    )
    found = compare(report(old), report(new, "b"))
    assert [(change.kernel, change.what, change.breaking) for change in found.changes] == [
        ("", "imported as acme, was acme_kernels", True),
        ("", "drivers from branch 610; was branch 580", True),
        ("", "profile debug, was release", False),
    ]
    assert [dataclasses.astuple(one) for one in found.tools] == [("ptxas", "", "13.5.1")]
    assert (found.same, found.images, found.added, found.removed) == (24, (), (), ())


def test_tensors_that_may_be_none() -> None:
    name = next(param.name for param in KERNEL.params if param.kind is ParamKind.TENSOR)
    params = tuple(replace(param, optional=param.name == name) for param in KERNEL.params)
    absent = tuple(
        replace(v, id=f"{v.id}-no", assume=(Assumption(param=name, absent=True),))
        for v in KERNEL.variants[:1]
    )
    optional = replace(KERNEL, params=params, variants=(*KERNEL.variants, *absent))
    assert told(optional) == [(f"{name} may be None; it was required", False)]
    assert told(KERNEL, optional) == [(f"{name} may no longer be None", True)]
    added = replace(
        KERNEL,
        params=(
            *KERNEL.params,
            Param(name="b", kind=ParamKind.TENSOR, dtype="f32", rank=1, optional=True),
        ),
    )
    assert [change.partition(" added")[2] for change, _ in told(added)] == [""]
    assert [breaking for _, breaking in told(added)] == [False]
