"""The points of a case, a sweep's and its variants, and how they are plotted in a terminal."""

from __future__ import annotations

from tests.runtime_samples import GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.points import all_variants, swept_cases, variants_of
from tilec.bench.report import Point
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.sweeps import parse_sweep
from tilec.manifest.types import Case


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
