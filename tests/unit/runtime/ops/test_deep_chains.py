"""Ops that functions of `then` make one inside of the other: as deep as one likes, with results,
errors and moves as of flat chains.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import DeviceOp, as_op
from tilec_runtime.errors import TilecError

DEEP = 3 * sys.getrecursionlimit()


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
