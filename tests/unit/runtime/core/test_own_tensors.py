"""Launches of tensors of tilec's own, through the core and through Python's path: the same waits,
launches and errors.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver
from tests.unit.runtime.core import samples
from tests.unit.runtime.core.test_agreement import CALLS, Counting, Plain
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Stream, Tensor, load

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
