"""The points of a case, a sweep's and its variants, and how they are plotted in a terminal."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
import pytest

from tests.bench_samples import app
from tests.runtime_samples import ADD, GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.measure import Measurement
from tilec.bench.points import all_variants, swept_cases, variants_of
from tilec.bench.report import CaseBench, Point, RivalResult
from tilec.bench.statistics import Interval
from tilec.bench.work import NO_WORK, Work
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.sweeps import parse_sweep
from tilec.cli.bench_show import Rows, plot_lines
from tilec.manifest.types import Bench, Case


def cases(**facts: object) -> tuple[BoundCase, ...]:
    return expand_cases(kernel_with(Case(name="4k", inputs=(A, B, C), **facts)), GEMM)  # type: ignore[arg-type]


def test_a_case_has_the_variants_that_its_inputs_leave_open() -> None:
    """Of f16 two tiles were built, of bf16 one: it stays as it is."""
    f16, bf16 = cases()
    found = variants_of(f16, GEMM)
    assert [one.name for one in found] == ["gemm/4k[f16] BM=64", "gemm/4k[f16] BM=128"]
    assert [one.choose for one in found] == [(("BM", 64),), (("BM", 128),)]
    assert [dict(one.axes)["BM"] for one in found] == [64, 128]
    assert variants_of(bf16, GEMM) == (bf16,)
    every, points = all_variants((f16, bf16), {"gemm": GEMM}, {})
    assert [one.name for one in every] == [*(one.name for one in found), "gemm/4k[bf16]"]
    assert points == {
        one.name: Point(base="gemm/4k[f16]", variant=one.name.split()[1]) for one in found
    }


def test_a_sweep_keeps_the_axes_that_a_case_chooses() -> None:
    (chosen,) = cases(axes=(("BM", 64),))
    assert variants_of(chosen, GEMM) == (chosen,)
    assert all_variants((chosen,), {"add": ADD}, {}) == ((chosen,), {})


def test_a_sweep_keeps_the_points_of_a_case_together() -> None:
    every, points = swept_cases(lambda _value: cases(), parse_sweep("n=1,2"))
    assert [one.name for one in every] == [
        "gemm/4k[f16] n=1",
        "gemm/4k[f16] n=2",
        "gemm/4k[bf16] n=1",
        "gemm/4k[bf16] n=2",
    ]
    assert points["gemm/4k[bf16] n=2"] == Point(base="gemm/4k[bf16]", at="2")
    both, known = all_variants(every, {"gemm": GEMM}, points)
    assert [one.name for one in both][:3] == [
        "gemm/4k[f16] n=1 BM=64",
        "gemm/4k[f16] n=1 BM=128",
        "gemm/4k[f16] n=2 BM=64",
    ]
    assert known["gemm/4k[f16] n=2 BM=64"] == Point(base="gemm/4k[f16]", at="2", variant="BM=64")
    assert known["gemm/4k[bf16] n=2"] == Point(base="gemm/4k[bf16]", at="2")


def measured(name: str, seconds: float, *, rival: float = 0.0, work: Work = NO_WORK) -> CaseBench:
    base, _, rest = name.partition(" ")
    at, _, variant = rest.rpartition(" ") if "BM" in rest else (rest, "", "")
    point = Point(base=base, at=at.partition("=")[2], variant=variant) if rest else None
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


@pytest.mark.parametrize("variant", ["BM=64", "BM=128,BN=128,BK=64,STAGES=3"])
def test_rows_of_points_tell_each_other_apart_in_a_narrow_terminal(
    variant: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The case is said once; what differs is never shortened, though it may take a line of its own."""
    monkeypatch.setattr("tilec.cli.bench_show.terminal_width", lambda: 80)
    results = [
        measured(f"a_kernel_of_long_name/4k n={n} {variant}", 1e-4, rival=1e-4)
        for n in (1024, 2048)
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
    assert [name for name in names if name.startswith("n=")] == [
        f"n={n} {variant}" for n in (1024, 2048)
    ]
    assert [line[:20] for line in lines if "torch" in line] == ["    torch:mm(a, b)  "] * 2
    assert max(map(len, lines)) <= 80


def shown(results: list[CaseBench], sweep: str) -> list[str]:
    return [click.unstyle(line) for line in plot_lines(results, sweep)]


def test_variants_are_listed_the_fastest_first() -> None:
    lines = shown(
        [measured("g/4k BM=64", 8e-4), measured("g/1k", 1e-4), measured("g/4k BM=128", 4e-4)], ""
    )
    assert lines == [
        "",
        "g/4k by variant",
        "  variant      time  to best",
        "  BM=128   400.0 us    1.00x",
        "  BM=64    800.0 us    2.00x",
    ]
    assert shown([measured("g/1k", 1e-4)], "") == []
