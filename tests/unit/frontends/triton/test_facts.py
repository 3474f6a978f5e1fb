"""Facts about the arguments of Triton kernels: nothing is said that a launch does not verify."""

from __future__ import annotations

from typing import Any

import pytest

from tilec.frontends.triton.facts import ArgumentFacts
from tilec.model.job import Variant
from tilec_runtime.model.signature import Assumption, Param, ParamKind


def tensor(name: str, rank: int = 2, **facts: Any) -> Param:
    return Param(name=name, kind=ParamKind.TENSOR, dtype="T", rank=rank, **facts)


def scalar(name: str, dtype: str) -> Param:
    return Param(name=name, kind=ParamKind.SCALAR, dtype=dtype)


def facts(*params: Param, assume: tuple[Assumption, ...] = ()) -> ArgumentFacts:
    return ArgumentFacts(
        params,
        Variant(kernel="k", id="k", axes=(("T", "f16"), ("BM", 64), ("FAST", True)), assume=assume),
    )


X = Assumption(param="x", shape=(4, 32), align=16)


@pytest.mark.parametrize(
    ("text", "divisor"),
    [
        ("x.shape[0]", 4),
        ("x.shape[1]", 32),
        ("x.shape[-1]", 32),
        ("x.stride[0]", 32),  # contiguous: the extent behind it
        ("x.stride[1]", 1),
        ("x.size", 128),
        ("nbytes(x)", 1),
        ("x.shape[0] * x.shape[1]", 128),
        ("x.shape[0] + x.shape[1]", 4),
        ("x.shape[1] - 16", 16),
        ("-x.shape[1]", 32),
        ("min(x.shape[0], 6)", 1),
        ("x.ptr", 16),
        ("x.shape[1] * 0.5", 1),
        ("(x.shape[1] == 3) * 16", 1),
        ("(x.shape[1] > 3 or n > 1) * 16", 1),
        ("next_pow2(x.shape[1])", 1),
        ("eps * 16", 1),
        ("n // 2 * 16", 16),
        ("n % 1.5 * 16", 1),
        ("BM * 2", 128),
        ("BM + n", 1),
        ("cdiv(x.shape[1], 2)", 1),
        ("x.shape[1] // 2", 1),
        ("n", 1),
        ("n * 16", 16),
        ("0", 0),
        ("y.shape[0]", 1),
        ("x.shape[9]", 1),
        ("x.shape[n]", 1),
        ("not an expression", 1),
    ],
)
def test_divisors(text: str, divisor: int) -> None:
    scalars = (scalar("n", "i32"), scalar("eps", "f32"))
    assert facts(tensor("x"), tensor("y"), *scalars, assume=(X,)).divisor(text) == divisor


def test_without_assumptions_nothing_is_known() -> None:
    known = facts(tensor("x"))
    assert [known.divisor(t) for t in ("x.shape[0]", "x.size", "x.stride[0]")] == [1, 1, 1]
    assert known.divisor("x.ptr") == 1


def test_facts_that_are_always_demanded_count_too() -> None:
    known = facts(tensor("x", align=32, shape_divisible=(3, 8)), assume=(X,))
    assert [known.divisor(t) for t in ("x.shape[0]", "x.shape[1]", "x.ptr")] == [12, 32, 32]


def test_strides_that_are_not_contiguous_follow_from_nothing() -> None:
    free = facts(tensor("x", stride=(None, None)), assume=(X,))
    assert [free.divisor(f"x.stride[{k}]") for k in (0, 1)] == [1, 1]
    said = facts(tensor("x", stride=(None, 1)), assume=(Assumption(param="x", stride=(8, 1)),))
    assert [said.divisor(f"x.stride[{k}]") for k in (0, 1)] == [8, 1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("BM", 64),
        ("cdiv(BM, 16) - 3", 1),
        ("FAST", None),
        ("T", None),
        ("n", None),
        ("x.stride[1]", 1),
        ("x.stride[0]", None),
        ("x.shape[0]", None),
    ],
)
def test_values_that_are_the_same_in_every_launch(text: str, value: int | None) -> None:
    assert facts(tensor("x", stride=(None, 1)), assume=(X,)).constant(text) == value


def test_products_beyond_64_bits_stay_divisors() -> None:
    huge = facts(
        tensor("x", rank=3), assume=(Assumption(param="x", shape=(2**30, 3 * 2**30, 2**30)),)
    )
    divisor = huge.divisor("x.size")
    assert 0 < divisor <= 2**62
    assert (3 * 2**90) % divisor == 0


def test_extents_that_are_known_are_constants() -> None:
    known = Assumption(param="x", extent=(None, 48))
    told = facts(tensor("x"), assume=(known,))
    assert [
        told.constant(text)
        for text in ("x.shape[0]", "x.shape[1]", "x.shape[-1]", "x.stride[0]", "x.stride[1]")
    ] == [
        None,
        48,
        48,
        48,
        1,
    ]
    assert [told.divisor(text) for text in ("x.shape[1]", "x.size", "x.shape[1] - 16")] == [
        48,
        48,
        32,
    ]
    free = facts(tensor("x", stride=(None, None)), assume=(known,))
    assert [free.constant(text) for text in ("x.shape[1]", "x.stride[0]", "x.stride[1]")] == [
        48,
        None,
        None,
    ]


def test_contiguous_tensors_have_their_strides() -> None:
    told = facts(
        tensor("x", stride=(None, None)),
        assume=(Assumption(param="x", shape=(1, 16), contiguous=True),),
    )
    assert told.constant("x.stride[1]") == 1
    assert told.constant("x.stride[0]") is None
    assert told.divisor("x.stride[0]") == 16
