"""Tensors of tilec's own: launches through the core and through Python's path make the same waits,
launches and errors; and the claims of an op, taken and given up in one call each.
"""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver
from tests.unit.runtime.core import samples
from tests.unit.runtime.core.samples import Counting, Plain, core
from tests.unit.runtime.core.test_agreement import CALLS
from tests.waiting import at_once
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Stream, Tensor, as_op, load
from tilec_runtime.device.lines import Line
from tilec_runtime.errors import UsedOpError
from tilec_runtime.tensors.lease import Claim, Holder

assert samples.core is not None


class Side:
    """A program on a driver."""

    def __init__(self, kind: type[FakeDriver]) -> None:
        self.driver = kind((H200, H200), fake_driver(ADD).kernels)
        self.module = load(bundle_of(ADD), 0, driver=self.driver)
        self.streams = [Stream(0, driver=self.driver) for _ in range(3)]
        self.things: list[Any] = [self.tensor(0) for _ in range(4)]
        self.ops: list[Any] = []

    def tensor(self, stream: int) -> Tensor:
        return Tensor.uninitialized(
            (64,), "f32", driver=self.driver, ordinal=0, stream=self.streams[stream].handle
        )

    def take(self, verb: str, numbers: tuple[int, ...]) -> Any:
        """Carry out a step; its launches and waits, and its error. The collector may free memory at
        any step: on a stream of its own.
        """
        streams = {stream.handle: place for place, stream in enumerate(self.streams)}
        before = len(self.driver.steps)
        error = ""
        try:
            self.step(verb, *numbers)
        except Exception as found:  # noqa: BLE001 - errors are compared
            error = re.sub("0x[0-9a-f]+", "an address", f"{type(found).__name__}: {found}")
        made = [
            step
            for step in self.driver.steps[before:]
            if step.call in ("launch", "wait") and step.stream in streams
        ]
        return verb, [(step.call, streams[step.stream]) for step in made], error

    def step(self, verb: str, a: int, b: int, c: int, d: int) -> None:
        z, x, y = (self.things[number % len(self.things)] for number in (a, b, c))
        stream = self.streams[d % 3]
        match verb:
            case "launch":
                self.module.add(z, x, y, stream=stream if d < 6 else stream.handle)
            case "same":  # on one stream, as most programs do
                for _ in range(3):
                    self.module.add(*self.things[:3], stream=stream)
            case "op":
                self.ops.append(self.module.ops.add(z, x, y))
            case "run" if self.ops:
                self.ops.pop(a % len(self.ops)).enqueue_on(stream)
            case "forget" if self.ops:
                del self.ops[a % len(self.ops)]
            case "view":
                self.things.append(x[0:64])
            case "write":
                self.things.append(z.borrow_mut())
            case "release" if hasattr(x, "release"):
                x.release()
            case "move":
                self.things.append(z.reshape(64))
            case "share":
                self.things.append(z.share())
            case "drop" if len(self.things) > 4:
                del self.things[a % len(self.things)]
            case "new":
                self.things = [*(self.tensor(d % 3) for _ in range(3)), *self.things[:8]]
            case "sync":
                x.storage.sync(write=bool(d % 2))
            case "close":
                self.streams[d % 3] = Stream(0, driver=self.driver)
                stream.close()
            case "events":
                x.storage.pass_through(stream.handle, write=bool(a % 2))


VERBS = (
    *("launch",) * 10,
    *("same",) * 8,
    *(
        "op",
        "op",
        "run",
        "run",
        "forget",
        "view",
        "write",
        "release",
        "release",
        "move",
        "share",
        "drop",
        "drop",
        "drop",
    ),
    *("new", "new", "new", "new", "sync", "close", "events"),
)


@pytest.mark.parametrize("seed", range(6))
def test_the_core_and_python_agree(seed: int) -> None:
    source = random.Random(seed)
    fast, plain = Side(Counting), Side(Plain)
    refused = 0
    for _ in range(CALLS // 6):
        verb, numbers = source.choice(VERBS), tuple(source.randrange(9) for _ in range(4))
        found, expected = fast.take(verb, numbers), plain.take(verb, numbers)
        assert found == expected
        refused += bool(found[2])
    assert isinstance(fast.driver, Counting)
    assert fast.driver.hits > CALLS // 60, "the core launches"
    assert refused > CALLS // 60, "errors are met"


WHO = Holder("the launch of add")
READS, MOVES = Claim(WHO, writes=False), Claim(WHO, writes=True, moved=True)


def tensor(extent: int = 4) -> Tensor:
    return Tensor.uninitialized((extent,), "f32", driver=fake_driver(), ordinal=0, stream=0)


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
    before = dict(last.lease.taken) if isinstance(last, Tensor) else None
    assert core.claim((first, last), (1,), 7, READS, MOVES) is False
    assert first.lease.taken == {}
    assert before is None or last.lease.taken == before


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
