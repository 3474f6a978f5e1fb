"""Parts of mutable borrows that copies write."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.unit.runtime.ops.graph_samples import Cpu
from tilec_runtime import Stream, api, use_device


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


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
