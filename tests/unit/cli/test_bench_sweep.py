"""The variants of a case, and how they are plotted."""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime_samples import ADD, GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.measure import Measurement
from tilec.bench.report import CaseBench
from tilec.cli.bench_sweep import BAR, bar_text, forgiven, plot_lines, sweep, variants_of
from tilec.errors import DriverError, LaunchError
from tilec.manifest.types import Case
from tilec.runner.cases import BoundCase, expand_cases


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
    assert [one.name for one in sweep((f16, bf16), {"gemm": GEMM})] == [*(one.name for one in found), "gemm/4k[bf16]"]


def test_what_a_case_chooses_is_not_swept() -> None:
    (chosen,) = cases(axes=(("BM", 64),))
    assert variants_of(chosen, GEMM) == (chosen,)
    assert sweep((chosen,), {"add": ADD}) == (chosen,)


def measured(name: str, seconds: float) -> CaseBench:
    return CaseBench(name=name, kernel="gemm", measurement=Measurement(samples=(seconds,) * 9, launches=1, steady=True))


def test_variants_are_plotted_the_fastest_first() -> None:
    lines = list(plot_lines([measured("g/4k BM=64", 8e-4), measured("g/1k", 1e-4), measured("g/4k BM=128", 4e-4)]))
    assert lines == [
        "",
        "g/4k by variant",
        f"  BM=128   400.0 us   1.00x  {'█' * (BAR // 2)}",
        f"  BM=64    800.0 us   2.00x  {'█' * BAR}",
    ]
    assert max(map(len, plot_lines([measured(f"g/4k {'BM=128,' * 9}", 4e-4)]))) <= 80
    assert list(plot_lines([measured("g/1k", 1e-4)])) == []


@pytest.mark.parametrize(("part", "bar"), [(1.0, "█" * BAR), (0.5, "█" * (BAR // 2)), (0.0, "▏"), (0.0167, "▌"), (0.5125, "█" * 15 + "▍")])
def test_bars_are_exact_to_an_eighth(part: float, bar: str) -> None:
    assert bar_text(part) == bar


def test_a_variant_that_refuses_the_arguments_is_left_out_and_other_errors_are_not() -> None:
    refused = dataclasses.replace(measured("g/4k BM=64", 1.0), status="error", measurement=None, error=LaunchError("not divisible"))
    assert (forgiven(refused).status, forgiven(refused).reason, forgiven(refused).error) == ("skipped", "BM=64: not divisible", None)
    broken = dataclasses.replace(refused, error=DriverError("lost", result="X"))
    assert forgiven(broken) is broken
