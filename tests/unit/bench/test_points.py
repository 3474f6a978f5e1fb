"""The points of a case: its variants."""

from __future__ import annotations

from tests.runtime_samples import GEMM
from tests.tune_samples import A, B, C, kernel_with
from tilec.bench.points import with_variants
from tilec.bench.report import Point
from tilec.case.cases import BoundCase, expand_cases
from tilec.manifest.types import Case


def cases(**facts: object) -> tuple[BoundCase, ...]:
    return expand_cases(kernel_with(Case(name="4k", inputs=(A, B, C), **facts)), GEMM)  # type: ignore[arg-type]


def test_a_case_has_the_variants_that_its_inputs_leave_open() -> None:
    """Of f16 two tiles were built, of bf16 one: it stays as it is."""
    f16, bf16 = cases()
    *found, last = with_variants([(f16, None), (bf16, None)], {"gemm": GEMM})
    assert last == (bf16, None)
    assert [one.name for one, _ in found] == ["gemm/4k[f16] BM=64", "gemm/4k[f16] BM=128"]
    assert [one.choose for one, _ in found] == [(("BM", 64),), (("BM", 128),)]
    assert [dict(one.axes)["BM"] for one, _ in found] == [64, 128]
    assert [point for _, point in found] == [
        Point(base="gemm/4k[f16]", variant=variant) for variant in ("BM=64", "BM=128")
    ]
