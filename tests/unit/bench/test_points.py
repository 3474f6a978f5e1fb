"""The points of a case: its variants."""

from __future__ import annotations

from tests.runtime_samples import GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.points import all_variants, variants_of
from tilec.bench.report import Point
from tilec.case.cases import BoundCase, expand_cases
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
