"""The claims of an op on its arguments, taken and given up in one call each; and ops that are used
once, by whichever thread comes first.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import fake_driver
from tests.unit.runtime.core.samples import core
from tests.waiting import at_once
from tilec_runtime import as_op
from tilec_runtime.device.marks import Line
from tilec_runtime.errors import UsedOpError
from tilec_runtime.tensors.lease import Claim, Holder, Lease
from tilec_runtime.tensors.tensor import Tensor
from tilec_runtime.tensors.uses import Uses

WHO = Holder("the launch of add")
READS, MOVES = Claim(WHO, writes=False), Claim(WHO, writes=True, moved=True)


def tensor(extent: int = 4) -> Tensor:
    return Tensor.uninitialized((extent,), "f32", driver=fake_driver(), ordinal=0, stream=0)


def claimed(*tensors: Any) -> list[dict[int, Claim]]:
    return [dict(one.lease.taken) for one in tensors]


def test_owned_tensors_move_in_and_shared_ones_are_read() -> None:
    z, x = tensor(), tensor().share()
    tiles = tensor().partition(2)
    values = (z, x, tiles, 1, 2.0, True, None)
    assert core.claim(values, (0, 2), 7, READS, MOVES)
    assert claimed(z, x, tiles) == [{7: MOVES}, {7: READS}, {7: MOVES}]
    other = x.clone()
    assert core.claim((other,), (), 8, READS, MOVES)  # readers do not exclude each other
    core.release(values, 7)
    core.release(values, 7)
    assert claimed(z, x, tiles) == [{}, {8: READS}, {}]


def readonly() -> Tensor:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return Tensor.from_foreign(array)


KEPT = tensor()
KEPT.lease.taken[1] = MOVES
GONE = tensor()
GONE.share()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tensor().view(4),
        lambda: tensor().borrow_mut(),
        lambda: tensor().partition_mut(2),
        lambda: np.zeros(4),
        lambda: np.float32(1),
        lambda: as_op(1),
        lambda: tensor().share(),
        readonly,
        lambda: KEPT,
        lambda: GONE,
    ],
)
def test_what_only_python_claims_leaves_nothing_claimed(make: Any) -> None:
    first, last = tensor(), make()
    before = claimed(last) if isinstance(last, Tensor) else None
    assert core.claim((first, last), (1,), 7, READS, MOVES) is False
    assert claimed(first) == [{}]
    assert before is None or claimed(last) == before


def test_last_uses_are_found_as_python_finds_them() -> None:
    """Random uses of two pieces of memory on three lines, lasting ones among them."""
    draw = random.Random(7)
    lines = [Line(0, handle) for handle in range(3)]
    found = set()
    for _ in range(300):
        memory = [(Lease(), Uses(), draw.random() < 0.5) for _ in range(2)]
        for lease, uses, _ in memory:
            for _ in range(draw.randrange(4)):
                line, write = draw.choice(lines[:2]), draw.random() < 0.5
                uses.note(line, write=write, lasting=draw.random() < 0.8)
            if draw.random() < 0.2:
                lease.taken[1] = draw.choice((READS, MOVES))
        for line in lines:
            free = not any(lease.taken for lease, _, _ in memory)
            last = all(uses.lasts(line, write=write) for _, uses, write in memory)
            assert core.are_last(tuple(memory), line) is (free and last)
            found.add((free, last))
    assert len(found) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: core.are_last((), 1),
        lambda: core.are_last(((1, 2),), Line(0, 1)),
        lambda: core.claim((), (), 1, READS),
        lambda: core.claim([], (), 1, READS, MOVES),
        lambda: core.claim((), [], 1, READS, MOVES),
        lambda: core.are_usable([]),
        lambda: core.release([], 1),
        lambda: core.release(()),
    ],
)
def test_arguments_of_other_types_are_refused(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_of_threads_that_use_an_op_up_one_succeeds() -> None:
    for _ in range(50):
        op: Any = as_op(1)
        won: list[int] = []

        def take(op: Any = op, won: list[int] = won) -> None:
            with contextlib.suppress(UsedOpError):
                op._take("executed")
                won.append(1)

        at_once(*[take] * 4)
        assert won == [1]
