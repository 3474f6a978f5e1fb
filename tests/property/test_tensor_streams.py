"""Random programs over tensors, views, owners and streams that are held up, against the same programs one step at a time in NumPy."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpu_samples import device
from tilec.errors import OwnershipError
from tilec.runtime import MemPool, Module, SharedTensor, Stream, Tensor
from tilec.runtime.cpu_driver import CpuDriver

SIZE = 16
STREAMS = 3

# (what, three numbers that choose tensors and streams)
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "new", "drop", "share", "unwrap", "view", "release", "read", "reshape"]),
        st.integers(0, 7),
        st.integers(0, 7),
        st.integers(0, 7),
        st.integers(0, STREAMS - 1),
    ),
    max_size=40,
)


@dataclasses.dataclass
class Slot:
    """A tensor, what it has to hold, and a view that is open."""

    tensor: Tensor | SharedTensor
    expected: np.ndarray
    view: Any = None


class Machine:
    """Carries out a program on a device whose streams take their time, and whose freed memory is overwritten and given out again."""

    def __init__(self, module: Module, driver: CpuDriver, streams: list[Stream]) -> None:
        self.module, self.driver, self.streams = module, driver, streams
        self.pool = MemPool("cpu", release_threshold=1 << 20, driver=driver)
        self.slots: list[Slot] = []
        for number in range(3):
            self.new(number, 0, 0, number)

    def slot(self, number: int) -> Slot:
        return self.slots[number % len(self.slots)]

    def new(self, a: int, _b: int, _c: int, stream: int) -> None:
        handle = self.streams[stream].handle
        made = Tensor.uninitialized(SIZE, "f32", driver=self.driver, ordinal=-1, stream=handle, pool=self.pool.handle)
        self.driver.fill(-1, made.ptr, 0, made.nbytes, handle)
        start = Tensor.from_foreign(np.full(SIZE, a + 1, np.float32), driver=self.driver)
        zero = Tensor.from_foreign(np.zeros(SIZE, np.float32), driver=self.driver)
        self.module.add(self.streams[stream], made, start, zero)
        self.slots.append(Slot(made, np.full(SIZE, a + 1, np.float32)))

    def add(self, a: int, b: int, c: int, stream: int) -> None:
        z, x, y = self.slot(a), self.slot(b), self.slot(c)
        if z is x or z is y:
            return
        alpha = float(a % 3 - 1)
        allowed = isinstance(z.tensor, Tensor) and z.view is None

        def launch() -> None:
            self.module.add(self.streams[stream], z.tensor, x.tensor, y.tensor, alpha=alpha)

        if not allowed:
            with pytest.raises(OwnershipError):
                launch()
            return
        launch()
        z.expected = x.expected * np.float32(alpha) + y.expected

    def drop(self, a: int, _b: int, _c: int, _stream: int) -> None:
        if len(self.slots) > 3:
            self.slots.remove(self.slot(a))

    def share(self, a: int, _b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        if isinstance(slot.tensor, Tensor):
            self.moves(slot, slot.tensor.share)

    def unwrap(self, a: int, _b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        if isinstance(slot.tensor, SharedTensor):
            self.moves(slot, slot.tensor.try_unwrap)

    def reshape(self, a: int, _b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        if isinstance(slot.tensor, Tensor):
            self.moves(slot, lambda: slot.tensor.reshape(4, 4).reshape(SIZE))

    def moves(self, slot: Slot, move: Any) -> None:
        if slot.view is None:
            slot.tensor = move()
        else:
            with pytest.raises(OwnershipError):
                move()

    def view(self, a: int, b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        if slot.view is None:
            slot.view = slot.tensor[b : b + 4]
        assert np.asarray(slot.view).tolist() == slot.expected[self.start(slot) :][:4].tolist()

    def start(self, slot: Slot) -> int:
        return (slot.view.ptr - slot.tensor.ptr) // 4

    def release(self, a: int, b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        if slot.view is not None and b % 2:
            slot.view.release()
        slot.view = None

    def read(self, a: int, _b: int, _c: int, _stream: int) -> None:
        slot = self.slot(a)
        assert np.asarray(slot.tensor).tolist() == slot.expected.tolist()


@given(PROGRAMS, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_programs_give_what_they_give_one_step_at_a_time(program: list[tuple[str, int, int, int, int]], seed: int) -> None:
    delays = random.Random(seed)
    module, driver = device()
    driver._poison = True
    driver._pace = lambda: time.sleep(delays.choice((0, 0, 0, 0.0005, 0.002)))
    streams = [Stream("cpu", driver=driver) for _ in range(STREAMS)]
    machine = Machine(module, driver, streams)
    for what, a, b, c, stream in program:
        getattr(machine, what)(a, b, c, stream)
    for number in range(len(machine.slots)):
        machine.read(number, 0, 0, 0)
    queues = list(driver._queues.values())
    for stream in streams:  # before the tensors that were used on them
        stream.close()
    machine.slots.clear()
    for queue in [*queues, *driver._queues.values()]:
        queue.wait()
    assert machine.pool.stats.used == 0


def test_the_programs_would_see_unordered_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where storages forget to let streams wait."""
    monkeypatch.setattr("tilec.runtime.tensors.storage.hold", lambda *_: None)
    program = [("new", 1, 0, 0, 0), *[("add", n % 3, n + 1, n + 2, n % STREAMS) for n in range(30)], ("read", 0, 0, 0, 0)]

    def run_some() -> None:
        for seed in range(40):
            test_programs_give_what_they_give_one_step_at_a_time.hypothesis.inner_test(program, seed)  # type: ignore[attr-defined]

    with pytest.raises(AssertionError):
        run_some()
