"""Tuning records in the plan: what is refused, with its place in the file; what is shipped; and
what a digest covers.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from tests.unit.plan.test_plan import TILE_DECL, cuda_kernel, plan, problems, tile_kernel
from tilec.manifest.types import AssumeSet, Bench, Case, Input, Kernel, Matrix, Override
from tilec.model.job import InputFile, Source
from tilec.model.tuning import TunedDevice, TunedEntry, TuningRecord
from tilec.plan.tuning import Tuned, cases_digest, kernel_digest
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.table import TuningTable

Files = dict[str, Tuned]
TOOL = ToolInfo(name="tileiras", version="13.4.1", digest="c" * 64)


def tuned_entry(low: int, high: int, dtype: str, bm: int, bn: int) -> TunedEntry:
    return TunedEntry(
        case="c",
        ranges=((low, high),),
        at=(low,),
        point=(("T", dtype), ("BM", bm), ("BN", bn)),
        variant="v",
        median_us=2.0,
        interval_us=(1.0, 3.0),
        samples=9,
    )


def tuned(
    *entries: TunedEntry,
    of: Kernel | None = None,
    target: str = "sm_90",
    now: str = "a" * 64,
    **changes: Any,
) -> Files:
    space = plan(of or tile_kernel()).kernels[0].space
    device = TunedDevice(
        name="H200", cc=(9, 0), multiprocessors=132, target=Target.parse(target), entries=entries
    )
    record = TuningRecord(
        kernel="gemm",
        kernel_digest="a" * 64,
        space_digest=space,
        toolchain=(TOOL,),
        sizes=("c.shape[0]",),
        devices=(device,),
    )
    record = dataclasses.replace(record, **changes)
    return {
        "gemm": Tuned(
            path="tuning/gemm.json",
            record=record,
            kernel_digest=now,
            tools=(TOOL,),
        )
    }


GOOD = tuned_entry(1024, 2047, "f16", 64, 256)


def refused(files: dict[str, Tuned], kernel: Kernel | None = None) -> list[str]:
    return problems(kernel or tile_kernel(), tuned=files)


def test_a_record_becomes_the_kernels_table() -> None:
    made = plan(tile_kernel(), tuned=tuned(GOOD))
    table = made.kernels[0].info.table
    assert table is not None
    assert (table.source, table.sizes) == ("tuning/gemm.json", ("c.shape[0]",))
    assert [(d.name, d.cc, d.multiprocessors) for d in table.devices] == [("H200", (9, 0), 132)]
    assert [(e.ranges, e.point) for e in table.devices[0].entries] == [(GOOD.ranges, GOOD.point)]
    assert made.notes == plan(tile_kernel()).notes
    assert len(made.jobs) == len(plan(tile_kernel()).jobs)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        (
            tuned(GOOD, now="b" * 64),
            "kernel_digest: the kernel has changed since it was tuned: its source, a file",
        ),
        (
            tuned(GOOD, kernel="scale"),
            "kernel: the file was written for kernel 'scale', and kernel.gemm names it",
        ),
        (
            tuned(GOOD, space_digest="b" * 64),
            "space_digest: what there is to choose from has changed since it was tuned: the matrix",
        ),
        (
            tuned(GOOD, target="sm_100"),
            "devices[0].target: H200 was tuned with sm_100, which is no target of this project",
        ),
        (tuned(GOOD, sizes=("q.shape[0]",)), "sizes[0]: "),
        (tuned(GOOD, sizes=("c.shape[2]",)), "sizes[0]: c has rank 2: there is no c.shape[2]"),
        (
            tuned(tuned_entry(1, 2, "f16", 32, 128)),
            "entries[0].point: T = 'f16', BM = 32, BN = 128 is no point of the kernel's matrix",
        ),
        (
            tuned(GOOD, tuned_entry(2000, 3000, "f16", 64, 128)),
            "[1].ranges: speaks of sizes of which devices[0].entries[0] speaks too",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refuses_records_that_do_not_hold(files: dict[str, Tuned], what: str) -> None:
    (message,) = refused(files)
    assert what in message
    if "changed" in what or "target" in what:
        assert message.endswith("run `tilec tune gemm`, or take dispatch.table out of kernel.gemm")
    if "the kernel has changed" in what:
        assert (
            "table in the manifest: run `tilec tune --confirm gemm` if its code should be the same; else run `tilec tune"
            in message
        )


def test_the_manifest_may_say_what_tells_launches_apart() -> None:
    kernel = dataclasses.replace(tile_kernel(), sizes=("c.shape[0]",))
    assert plan(kernel, tuned=tuned(GOOD, of=kernel)).kernels[0].info.table is not None
    other = dataclasses.replace(kernel, sizes=("c.shape[1]",))
    (message,) = refused(tuned(GOOD, of=other), other)
    assert "sizes: dispatch.sizes has changed since it was tuned: run `tilec tune gemm`" in message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("c.shape[2]", "c has rank 2: there is no c.shape[2]"),
        ("c", "c is a tensor: say c.shape[0], c.size or c.dtype"),
        ("q.shape[0]", "unknown name 'q'"),
        ("c.shape[0] > 2", "'c.shape[0] > 2' is a condition and must be a number"),
    ],
)
def test_sizes_that_no_launch_has_are_refused(text: str, what: str) -> None:
    (message,) = problems(dataclasses.replace(tile_kernel(), sizes=(text,)))
    assert what in message


def test_builds_aside_pass_over_stale_records() -> None:
    """All points are there to be looked at, and launches take one that fits."""
    kernel = dataclasses.replace(tile_kernel(), table="tuning/gemm.json", keep="winners")
    held = plan(kernel, tuned=tuned(GOOD, of=kernel), shipped=False).kernels[0]
    assert held.info.table is not None
    assert len(held.info.table.devices) == 1
    stale = plan(kernel, tuned=tuned(GOOD, of=kernel, now="b" * 64), shipped=False)
    (other,) = stale.kernels
    assert other.info.table == TuningTable(source="tuning/gemm.json", sizes=(), devices=())
    assert len(held.jobs) == len(other.jobs) == len(plan(tile_kernel()).kernels[0].jobs)
    (lost,) = (note for note in plan(kernel, shipped=False).notes if "tuning" in note)
    assert (
        lost
        == "tuning/gemm.json is passed over, a build would refuse it: it is not there, or cannot be read; `tilec check` says more"
    )
    (note,) = (note for note in stale.notes if "tuning" in note)
    assert note.startswith(
        "tuning/gemm.json is passed over, a build would refuse it: kernel_digest: the kernel has changed"
    )


def test_other_versions_are_a_note() -> None:
    then = ToolInfo(name="tileiras", version="13.2.0", digest="d" * 64)
    (note,) = plan(tile_kernel(), tuned=tuned(GOOD, toolchain=(then,)), targets=["sm_90"]).notes
    assert note == (
        "tuning/gemm.json was measured with tileiras 13.2.0, this build has tileiras 13.4.1: "
        "`tilec tune` says whether its choices still hold"
    )


def test_winners_and_the_default_are_kept() -> None:
    kernel = tile_kernel(keep="winners", assume=(AssumeSet(aligned=(("", 16),)), AssumeSet()))
    jobs = plan(kernel, tuned=tuned(GOOD, of=kernel), targets=["sm_90"]).jobs
    assert [job.variant.id for job in jobs] == [
        "gemm-f16-BM64-BN256-al16",
        "gemm-f16-BM64-BN256",
        "gemm-f16-BM128-BN128-al16",
        "gemm-f16-BM128-BN128",
        "gemm-bf16-BM128-BN128-al16",
        "gemm-bf16-BM128-BN128",
    ]
    assert plan(kernel, tuned=tuned(GOOD, of=kernel)).kernels[0].info.axes[1:] == (
        ("BM", (64, 128)),
        ("BN", (128, 256)),
    )


def test_the_space_is_what_there_is_to_choose_from() -> None:
    def space(kernel: Kernel, **more: Any) -> str:
        return plan(kernel, **more).kernels[0].space

    base = space(tile_kernel())
    assert (
        space(tile_kernel(default=(("BM", 64), ("BN", 128)), keep="winners", table="x.json"))
        == base
    )
    assert space(tile_kernel(), targets=["sm_80"]) == base
    assert (
        space(tile_kernel(), overrides=(Override(select="other-*", hints=(("occupancy", 2),)),))
        == base
    )
    changed = [
        space(
            tile_kernel(
                matrix=Matrix(axes=(("T", ("f16",)), ("BM", (64, 128)), ("BN", (128, 256))))
            )
        ),
        space(tile_kernel(assume=(AssumeSet(aligned=(("", 16),)), AssumeSet()))),
        space(tile_kernel(hints=(("", (("occupancy", 2),)),))),
        space(
            tile_kernel(),
            overrides=(Override(select="gemm-f16-*-sm_90", hints=(("occupancy", 2),)),),
        ),
    ]
    assert len({base, *changed}) == 5


def test_the_kernel_is_what_it_is_compiled_from() -> None:
    source = Source(root="project", path="k.py")
    files = [InputFile(name="k.py", digest="1"), InputFile(name="<cuda>/a.h", digest="2")]

    def digest(kernel: Kernel, files: list[InputFile] = files, source: Source = source) -> str:
        return kernel_digest(kernel, source, files)

    base = digest(tile_kernel())
    assert (
        digest(tile_kernel(), [files[0], InputFile(name="<cuda>/a.h", digest="3")]) == base
    )  # the toolchain's
    assert digest(tile_kernel(), files[::-1]) == base
    assert digest(tile_kernel(default=())) == base
    changed = [
        digest(tile_kernel(), [InputFile(name="k.py", digest="9")]),
        digest(tile_kernel(function="other")),
        digest(tile_kernel(params=())),
        digest(tile_kernel(), source=dataclasses.replace(source, options=(("std", "c++20"),))),
        digest(cuda_kernel()),
    ]
    assert len({base, *changed}) == 6
    assert TILE_DECL.name == "gemm"


SETS = "kernel.gemm.assume.sets[0]"


@pytest.mark.parametrize(
    ("assume", "what"),
    [
        (
            AssumeSet(extent=(("a", (None,)),)),
            f"{SETS}.extent.a: 1 extents for a, which has rank 2",
        ),
        (
            AssumeSet(extent=(("q", (None, 1)),)),
            f"{SETS}.extent.q: 'q' is no tensor parameter of the kernel: it has c, a",
        ),
        (
            AssumeSet(contiguous=("q",)),
            f"{SETS}.contiguous[0]: 'q' is no tensor parameter of the kernel: it has c, a",
        ),
        (
            AssumeSet(extent=(("a", (None, 40)),), divisible=(("a", (1, 16)),)),
            f"{SETS}: a: extent 1 is 40, which is not divisible by 16",
        ),
        (
            AssumeSet(stride=(("a", (1, 4)),)),
            f"{SETS}: a: the parameter takes stride 1 in dimension 1, which is not divisible by 4",
        ),
        (
            AssumeSet(extent=(("a", (None, 40)),), stride=(("a", (16, 1)),)),
            f"{SETS}: a: the parameter takes stride 40 in dimension 0, which is not divisible by 16",
        ),
    ],
)
def test_facts_that_no_tensor_has_are_refused(assume: AssumeSet, what: str) -> None:
    assert problems(tile_kernel(assume=(assume, AssumeSet()))) == [what]


def test_a_log_knows_its_cases_by_what_they_measure_and_are_held_against() -> None:
    item = Input(name="x", shape=("64",), dtype="f32")
    kernel = Kernel(
        name="k",
        source="k.py",
        function="k",
        language="tile",
        cases=(Case(name="big", inputs=(item,), reference="r.py:x"),),
    )

    def of(**changes: object) -> str:
        return cases_digest(
            dataclasses.replace(kernel, cases=(dataclasses.replace(kernel.cases[0], **changes),))
        )  # type: ignore[arg-type]

    known = cases_digest(kernel)
    assert of(bench=Bench(flops="1")) == known
    assert known not in {
        of(inputs=(dataclasses.replace(item, shape=("128",)),)),
        of(inputs=(dataclasses.replace(item, small=("8",)),)),
        of(inputs=(dataclasses.replace(item, high=math.inf),)),
        of(axes=(("BM", 64),)),
        of(reference="r.py:y"),
        of(name="small"),
    }
