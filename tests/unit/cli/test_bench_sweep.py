"""The points of a sweep, and how a terminal shows them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bench_samples import app
from tests.runtime_samples import GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.measure import Measurement
from tilec.bench.points import swept_cases
from tilec.bench.report import CaseBench, Point, RivalResult
from tilec.bench.statistics import Interval
from tilec.bench.work import NO_WORK, Work
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.sweeps import parse_sweep
from tilec.cli.bench_show import Rows
from tilec.manifest.types import Bench, Case


def cases(**facts: object) -> tuple[BoundCase, ...]:
    return expand_cases(kernel_with(Case(name="4k", inputs=(A, B, C), **facts)), GEMM)  # type: ignore[arg-type]


def test_a_sweep_keeps_the_points_of_a_case_together() -> None:
    every, points = swept_cases(lambda _value: cases(), parse_sweep("n=1,2"))
    assert [one.name for one in every] == [
        "gemm/4k[f16] n=1",
        "gemm/4k[f16] n=2",
        "gemm/4k[bf16] n=1",
        "gemm/4k[bf16] n=2",
    ]
    assert points["gemm/4k[bf16] n=2"] == Point(base="gemm/4k[bf16]", at="2")


def measured(name: str, seconds: float, *, rival: float = 0.0, work: Work = NO_WORK) -> CaseBench:
    base, _, rest = name.partition(" ")
    point = Point(base=base, at=rest.partition("=")[2])
    interval = Interval(low=1.0, high=1.0, coverage=0.95)
    rivals = (
        (RivalResult(text="torch:mm(a, b)", measurement=times(rival), interval=interval),)
        if rival
        else ()
    )
    return CaseBench(
        name=name, kernel="gemm", measurement=times(seconds), point=point, rivals=rivals, work=work
    )


def times(seconds: float) -> Measurement:
    return Measurement(samples=(seconds,) * 9, launches=1, steady=True)


@pytest.mark.parametrize("at", ["1024", "2048,a_word_that_is_as_long_as_a_name"])
def test_rows_of_points_tell_each_other_apart_in_a_narrow_terminal(
    at: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The case is said once; what differs is never shortened, though it may take a line of its own."""
    monkeypatch.setattr("tilec.cli.bench_show.terminal_width", lambda: 80)
    results = [
        measured(f"a_kernel_of_long_name/4k n={n}", 1e-4, rival=1e-4) for n in (at, f"{at}0")
    ]
    listed = [
        dataclasses.replace(cases()[0], name=one.name, bench=Bench(against=("torch:mm(a, b)",)))
        for one in results
    ]
    table = Rows(app(tmp_path), listed, {one.name: one.point for one in results if one.point})
    for one in results:
        table.print(one)
    lines = capsys.readouterr().out.splitlines()
    names = [line.strip().partition("  ")[0] for line in lines]
    assert names.count("a_kernel_of_long_name/4k") == 1
    assert [name for name in names if name.startswith("n=")] == [f"n={n}" for n in (at, f"{at}0")]
    assert [line[:20] for line in lines if "torch" in line] == ["    torch:mm(a, b)  "] * 2
    assert max(map(len, lines)) <= 80
