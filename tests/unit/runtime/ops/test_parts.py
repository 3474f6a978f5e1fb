"""Parts of mutable borrows in what writes: launches, copies, fills, partitions and graphs."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.unit.runtime.ops.graph_samples import COUNT, Cpu
from tilec_runtime import Stream, api, use_device
from tilec_runtime.errors import BorrowError

HALF = COUNT // 2


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


def test_launches_write_parts(cpu: Cpu) -> None:
    t, x = cpu.tensor(0), cpu.tensor(1).share()
    stream = cpu.stream
    with use_device(cpu.device), t.borrow_mut() as m, x.clone()[:HALF] as read:
        cpu.module.add(m[:HALF], read, read, stream=stream)
        for _ in range(3):  # the remembered plan too
            cpu.module.add(m[HALF:], read, read, 2.0, stream=stream)
        with m[:HALF] as first:
            given = cpu.add(first, m[HALF:], read).sync()  # reads one part, and writes another
            assert given is first
            op = cpu.add(first, read, read)
            with pytest.raises(BorrowError, match=r"the launch of add .* still writes it"):
                first.to_host()
            op.sync_on(stream)
            with pytest.raises(
                BorrowError, match=r"the launch of add .*: the slice .* still writes it"
            ):
                cpu.module.add(m, x, x, stream=stream)
            with pytest.raises(
                BorrowError, match=r"the launch of add .*: the slice .* still writes it"
            ):
                cpu.add(m, x, x)
            with (
                first.borrow() as still,
                pytest.raises(
                    BorrowError, match=r"the launch of add .*: the borrow .* still reads it"
                ),
            ):
                cpu.module.add(first, still, read, stream=stream)
    stream.sync()
    assert t.to_host().tolist() == [2] * HALF + [3] * HALF


def test_many_parts_in_random_order_give_what_numpy_gives(cpu: Cpu) -> None:
    numbers, expected = random.Random(7), np.zeros((6, 8), np.float32)
    ranges = [slice(*pair) for pair in itertools.combinations(range(7), 2)]
    with use_device(cpu.device), Stream(cpu.device, driver=cpu.driver) as other:
        t = api.zeros((6, 8)).sync()
        with t.borrow_mut() as m:
            for number in range(60):
                index = (numbers.choice(ranges), numbers.choice(ranges))
                array = np.full(expected[index].shape, number, np.float32)
                op = api.memcpy(m[index], api.from_host(array))
                op.sync() if number % 2 else op.sync_on(other)
                expected[index] = array
            assert np.array_equal(m.to_host(), expected)
