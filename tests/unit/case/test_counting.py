"""Cases beyond what a kernel counts in are refused by their extents alone: none of their arrays is
made.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime_samples import ADD, ADD_ABI, slot
from tilec.case.cases import BoundCase, bind, small_case
from tilec.case.counting import require_countable
from tilec.manifest.types import Case, Input
from tilec_runtime.errors import CaseError
from tilec_runtime.model.kernel import VariantInfo
from tilec_runtime.model.safety import Safety

WIDE = tuple(slot("i64", s.expr) if s.expr == "z.shape[0]" else s for s in ADD_ABI)


def case(extent: str, *abis: object, small: str = "", safe: bool = False) -> BoundCase:
    variants = tuple(VariantInfo(id=f"add-{number}", abi=abi) for number, abi in enumerate(abis))
    info = dataclasses.replace(ADD, variants=variants, safety=Safety() if safe else None)
    inputs = tuple(
        Input(name=name, shape=(extent,), small=(small,) if small else None, dtype="f32")
        for name in "zxy"
    )
    return bind(Case(name="c", inputs=inputs), info)


@pytest.mark.parametrize("extent", ["0", str((1 << 31) - 1)])
def test_what_is_counted_is_taken(extent: str) -> None:
    require_countable(case(extent, ADD_ABI))


@pytest.mark.parametrize("extent", [str(1 << 31), "2 * 1073741824"])
def test_what_is_beyond_is_refused_in_words(extent: str) -> None:
    with pytest.raises(CaseError) as caught:
        require_countable(case(extent, ADD_ABI))
    assert (
        caught.value.what == "add/c: z.shape[0] is 2147483648, which the kernel's i32 cannot hold"
    )
    assert (
        "pass parts of the tensor whose extents and strides fit, or build the kernel with 64-bit ones"
        in caught.value.fix
    )


def test_a_variant_that_counts_further_takes_it() -> None:
    require_countable(case(str(1 << 31), ADD_ABI, WIDE))
    require_countable(case(str(1 << 40), WIDE))


def test_before_anything_is_compiled_the_safe_language_counts_in_32_bits() -> None:
    with pytest.raises(
        CaseError, match=r"z\.shape\[0\] is 2147483648, which the kernel's i32 cannot hold"
    ):
        require_countable(case(str(1 << 31), (), safe=True))
    require_countable(case(str(1 << 31), ()))  # of others nothing is known yet


def test_what_is_compared_is_looked_at_by_itself() -> None:
    large = case(str(1 << 31), ADD_ABI, small="8")
    require_countable(small_case(large))
    with pytest.raises(CaseError):
        require_countable(large)


def test_saved_benchmarks_stay_comparable_when_a_case_is_compared_at_other_extents() -> None:
    from tilec.bench.cases import inputs_digest

    assert (
        inputs_digest(case("4096", ADD_ABI))
        == inputs_digest(case("4096", ADD_ABI, small="8"))
        != inputs_digest(case("8", ADD_ABI))
    )
