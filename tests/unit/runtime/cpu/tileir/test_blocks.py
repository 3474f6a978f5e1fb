"""Order and batches of blocks, and what a launch is estimated to cost."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.unit.runtime.cpu.tileir.build import Builder, program
from tilec_runtime.cpu.tileir.blocks import batches
from tilec_runtime.cpu.tileir.execute import Options, execute
from tilec_runtime.cpu.tileir.ir import Rounding, Scalar
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import LaunchLimitError, UsageError

GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5))


@given(GRIDS, st.integers(1, 200), st.sampled_from(["forward", "reverse"]) | st.integers(0, 99))
def test_every_block_runs_once_in_batches_of_bounded_size(
    grid: tuple[int, int, int], size: int, order: str | int
) -> None:
    parts = list(batches(grid, size, order))
    assert max(len(part) for part in parts) <= size
    numbers = np.concatenate(parts).tolist()
    count = math.prod(grid)
    assert sorted(numbers) == list(range(count))
    if not isinstance(order, int):
        assert numbers == list(range(count))[:: 1 if order == "forward" else -1]


def test_random_orders_differ_and_come_again() -> None:
    first, again, other = (
        np.concatenate(list(batches((500, 1, 1), 64, seed))).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first != list(range(500))


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(UsageError, match="no order of blocks is called 'sideways'"):
        list(batches((4, 1, 1), 4, "sideways"))


def tiles(*shape: int) -> Program:
    def fill(b: Builder) -> None:
        value = b.spread(b.constant(1.0, Scalar.F32), *shape)
        operands = {"lhs": value, "rhs": value}
        b.op("addf", operands, value.type, {"rounding": Rounding.NEAREST_EVEN})
        b.ret()

    return program((), fill)


def test_a_huge_grid_is_refused_before_it_starts() -> None:
    made = tiles(64, 64)
    with pytest.raises(LaunchLimitError) as caught:
        execute(made, [], (1 << 20, 1 << 10, 1), Memory(), Options(kernel="add-f32"))
    text = str(caught.value)
    assert text.startswith(
        "add-f32: grid (1048576, 1024, 1) is too much for the cpu device: 1,073,741,824 blocks, about 8.8e+12 elements and"
    )
    assert "fix: launch on a smaller problem, or raise the limit of elements" in text
    execute(made, [], (4, 1, 1), Memory(), Options(elements=4 * 9000))
    with pytest.raises(LaunchLimitError):
        execute(made, [], (4, 1, 1), Memory(), Options(elements=4 * 8000))
