"""What ncu prints, read in the layouts of several versions; the sentences that come of it."""

from __future__ import annotations

import pytest

from tests.ncu_samples import H200, H200_CASES, LONG, RAW, SOURCE
from tilec.runner.ncu import Bound, Launch, read_raw, read_source, summarize, to_json
from tilec.runner.ncu_words import words


def test_a_launch_that_memory_bounds() -> None:
    (launch,) = read_raw(RAW)
    found = summarize(launch)
    assert (found.kernel, found.bound, found.registers, found.blocks, found.waves) == ("scale", Bound.MEMORY, 40, 4096, 3.88)
    assert found.seconds == pytest.approx(4.1e-6)
    assert (found.compute, found.memory) == (12.4, 88.2)
    assert found.levels == (("DRAM", 88.2), ("L2", 42.1), ("L1 and shared memory", 31.5))
    assert (found.achieved, found.theoretical, found.limiter) == (61.9, 75, "registers")
    assert found.stalls == (("long_scoreboard", 60.0), ("barrier", 20.0), ("not_selected", 10.0))
    assert words(found) == (
        (
            "memory bounds it, DRAM most (compute 12 %, memory 88 % of what the GPU can do): fewer bytes help: smaller dtypes, fusing with "
            "what comes before or after, keeping what is read twice"
        ),
        "occupancy 62 % of at most 75 %, which registers allow",
        "warps wait for data from global or local memory (60 %); other warps at a barrier of the block (20 %)",
    )
    document = to_json(found)
    assert (document["bound"], document["levels"]["DRAM"]) == ("memory", 88.2)


def test_one_metric_in_each_row() -> None:
    (launch,) = read_raw(LONG)
    found = summarize(launch)
    assert (found.kernel, found.bound, found.achieved, found.stalls) == ("scale(float *)", Bound.COMPUTE, None, ())
    assert found.seconds == pytest.approx(1.205e-3)
    assert words(found) == ("compute bounds it (compute 92 %, memory 20 % of what the GPU can do): fewer or cheaper instructions help",)


def test_units_in_the_heads() -> None:
    text = '"ID","Kernel Name","gpu__time_duration.sum [us]","sm__throughput.avg.pct_of_peak_sustained_elapsed [%]"\n"0","k","2.5","10"\n'
    (launch,) = read_raw(text)
    assert (launch.seconds, summarize(launch).compute) == (pytest.approx(2.5e-6), 10)


@pytest.mark.parametrize("text", ["", "==PROF== nothing\n", '"ID"\n', "\n\n", '"a","b"\n"1","2"\n'])
def test_no_table_is_no_launch(text: str) -> None:
    assert read_raw(text) == ()
    assert read_source(text) == ()


def launch(**metrics: float) -> Launch:
    names = {
        "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "waves": "launch__waves_per_multiprocessor",
        "blocks": "launch__grid_size",
        "achieved": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "theoretical": "sm__maximum_warps_per_active_cycle_pct",
    }
    return Launch(kernel="k", metrics={names.get(name, name): (value, "%") for name, value in metrics.items()})


@pytest.mark.parametrize(
    ("found", "bound", "beginning"),
    [
        (launch(compute=30, memory=40), Bound.LATENCY, "it waits (compute 30 %, memory 40 %"),
        (
            launch(compute=3, memory=4, waves=0.12, blocks=16),
            Bound.GRID,
            "the grid is too small (compute 3 %, memory 4 %",
        ),
        (launch(compute=85, memory=80), Bound.BOTH, "memory and compute are both near what they can do"),
        (launch(compute=85, memory=61), Bound.COMPUTE, "compute bounds it"),
        (launch(compute=10, memory=70, l2=70, dram=20), Bound.MEMORY, "memory bounds it, L2 most"),
        (launch(compute=10, dram=70), Bound.MEMORY, "memory bounds it, DRAM most"),  # a version without the share of all memory
        (launch(memory=70), Bound.UNKNOWN, "what bounds it is unknown"),
        (launch(), Bound.UNKNOWN, "what bounds it is unknown"),
    ],
)
def test_what_bounds(found: Launch, bound: Bound, beginning: str) -> None:
    assert summarize(found).bound is bound
    assert words(summarize(found))[0].startswith(beginning)


def measured(case: str) -> Launch:
    """A launch as an H200 counted it."""
    place = H200_CASES.index(case)
    return Launch(kernel=case, metrics={name: (float(row[place]), "") for name, row in H200.items() if row[place] is not None})


@pytest.mark.parametrize(
    ("case", "bound", "sentences"),
    [
        # 4 bytes in a thread use half of an H200's memory: that is no copy at the memory's limit, and no idle one either.
        ("copied/large", Bound.MEMORY_LATENCY, ("it waits for memory (compute 40 %, memory 53 %", "occupancy 72 % of at most 100 %")),
        # L2 is busier than DRAM, with traffic between its halves; it is DRAM that is at its limit.
        ("copied_wide/large", Bound.MEMORY, ("memory bounds it, DRAM most (compute 16 %, memory 84 %",)),
        (
            "waiting/some",
            Bound.MEMORY_LATENCY,
            (
                "it waits for memory (compute 2 %, memory 12 %",
                "global memory moves 7.3 times as many sectors as its accesses need",
                "occupancy 6 % of at most 6 %: so few warps cannot fill the time",
            ),
        ),
        (
            "conflicted/some",
            Bound.MEMORY,
            ("memory bounds it, L1 and shared memory most", "shared memory takes 31.8 times as many passes as its accesses need"),
        ),
        ("computed/some", Bound.COMPUTE, ("compute bounds it, f32 and integer multiply-adds most (compute 96 %",)),
        ("copied/few", Bound.GRID, ("the grid is too small (compute 0 %, memory 1 % of what the GPU can do): 16 blocks fill 0.02",)),
        ("gemm/4k", Bound.COMPUTE, ("compute bounds it, tensor cores most (compute 88 %, memory 67 %", "occupancy 9 % of at most 12 %")),
        ("stencil/2k", Bound.COMPUTE, ("compute bounds it, the issue of instructions most (compute 68 %",)),
        ("softmax/1k", Bound.MEMORY_LATENCY, ("it waits for memory (compute 23 %, memory 38 %",)),  # 0.97 of a wave is no small grid
    ],
)
def test_what_an_h200_counted(case: str, bound: Bound, sentences: tuple[str, ...]) -> None:
    found = summarize(measured(case))
    assert found.bound is bound
    assert all(text.startswith(sentence) for text, sentence in zip(words(found), sentences, strict=False))
    # What would shorten a wait is told only of launches that wait, and once.
    assert "load earlier" not in " ".join(words(found))


def test_a_last_wave_that_leaves_the_gpu_empty() -> None:
    assert "its last wave of blocks fills 10 % of the GPU" in words(summarize(launch(compute=30, memory=40, waves=1.1)))[1]
    assert not [
        text for waves in (0.9, 1.0, 1.9, 4.5) for text in words(summarize(launch(compute=30, memory=40, waves=waves))) if "wave" in text
    ]


def test_a_limit_of_occupancy_is_named_where_there_is_one() -> None:
    limits = {"launch__occupancy_limit_shared_mem": 2.0, "launch__occupancy_limit_registers": 9.0}
    found = summarize(launch(compute=1, memory=1, achieved=20, theoretical=25, **limits))
    assert words(found)[1].startswith("occupancy 20 % of at most 25 %, which shared memory allows")
    assert words(summarize(launch(compute=1, memory=1, achieved=90, theoretical=100, **limits)))[1] == "occupancy 90 % of at most 100 %"


def test_occupancy_that_is_not_reached() -> None:
    assert "leave the rest empty" in words(summarize(launch(compute=1, memory=1, achieved=20, theoretical=100)))[1]
    assert "leave the rest empty" not in words(summarize(launch(compute=1, memory=1, achieved=80, theoretical=100)))[1]


def test_stalls_by_samples_where_that_is_all_there_is() -> None:
    found = summarize(
        launch(
            smsp__pcsamp_warps_issue_stalled_wait=30,
            smsp__pcsamp_warps_issue_stalled_selected=10,
            smsp__pcsamp_warps_issue_stalled_wait_not_issued=99,
        )
    )
    assert found.stalls == (("wait", 75.0),)


def test_a_stall_that_nobody_knows_yet_is_told_by_its_name() -> None:
    name = "smsp__average_warps_issue_stalled_new_unit_per_issue_active.ratio"
    assert words(summarize(launch(compute=1, memory=1, **{name: 2.0})))[-1] == "warps wait for new unit (100 %): see the report"


def test_samples_of_instructions() -> None:
    found = read_source(SOURCE)
    assert [(one.text, one.samples) for one in found] == [("LDC R1, c[0x0][0x28]", 1), ("LDG.E R0, desc[UR4][R2.64]", 1000), ("EXIT", 0)]
    assert found[1].stalls == {"long_sb": 990, "wait": 10}


def test_samples_under_their_older_name() -> None:
    text = '"Source","Sampling Data (All)"\n"EXIT","7"\n'
    assert [(one.text, one.samples) for one in read_source(text)] == [("EXIT", 7)]
    assert read_source('"Source","Live Registers"\n"EXIT","7"\n') == ()
