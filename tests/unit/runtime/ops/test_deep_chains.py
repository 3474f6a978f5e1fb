"""Ops that functions of `then` make one inside of the other: as deep as one likes, with results,
errors and moves as of flat chains.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import DeviceOp, Tensor, as_op, with_context
from tilec_runtime.errors import TilecError

DEEP = 10 * sys.getrecursionlimit()


def down(number: int) -> DeviceOp[int]:
    return as_op(number).then(lambda left: down(left - 1) if left else as_op(0))


def test_recursion_through_then(held: Held) -> None:
    assert down(DEEP).sync() == 0
    assert down(DEEP).map(lambda last: last + 1).future().result() == 1


def test_steps_behind_it_run_with_its_result(held: Held) -> None:
    """Not in the last place: each level adds one on the way back."""

    def count(number: int) -> DeviceOp[int]:
        return (
            as_op(number)
            .then(lambda left: count(left - 1) if left else as_op(0))
            .map(lambda found: found + 1)
        )

    assert count(DEEP).sync() == DEEP + 1


def test_an_error_far_down_names_its_step(held: Held) -> None:
    def fail(number: int) -> DeviceOp[Any]:
        def go(left: int) -> DeviceOp[Any]:
            if not left:
                raise TilecError("the work")
            return fail(left - 1)

        return as_op(number).then(go)

    with pytest.raises(
        TilecError, match=r"^the work\n  op: then, created at .*test_deep_chains.py:\d+$"
    ):
        fail(DEEP).sync()
    with pytest.raises(
        TilecError, match=r"^the work\n  op: then, created at .*test_deep_chains.py:\d+$"
    ):
        fail(2).sync()


def test_an_error_far_down_gives_back_what_moved_in(held: Held) -> None:
    z, x, y = (Tensor.from_foreign(ones(4), driver=held.driver) for _ in range(3))

    def again(left: int, found: tuple[Any, ...]) -> DeviceOp[Any]:
        if not left:
            return with_context(lambda _: 1 // 0)
        return held.module.ops.add(*found).then(lambda found: again(left - 1, found))

    with pytest.raises(ZeroDivisionError):
        again(50, (z, x, y)).sync()
    assert [np.asarray(t).shape for t in (z, x, y)] == [(4,)] * 3
    assert np.asarray(held.module.ops.add(z, x, y).first().sync()).tolist() == [2.0] * 4
