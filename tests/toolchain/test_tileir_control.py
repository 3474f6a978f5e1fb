"""Control flow of real kernels on the CPU: blocks that part, leave early, lock, and wait for
earlier and later blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilec_runtime.cpu.tileir.execute import prepare
from tilec_runtime.errors import FaultError

pytestmark = pytest.mark.toolchain
pytest.importorskip("cuda.tile", reason="needs cuda-tile")

from tests.toolchain import tileir_kernels as kernels  # noqa: E402 - imports cuda.tile

ORDERS: list[dict[str, Any]] = [{}, {"order": "reverse"}, {"order": 7}, {"batch": 1}, {"batch": 3}]


@pytest.mark.parametrize("options", ORDERS)
def test_blocks_take_different_branches(options: dict[str, Any]) -> None:
    x = np.arange(10 * 16, dtype=np.float32)
    y = np.zeros_like(x)
    kernels.run(kernels.divergent, 10, x, y, **options)
    rows = x.reshape(10, 16).copy()
    rows[0::3] *= 2
    rows[1] += 100
    rows[4] += 100
    rows[7] -= 100
    np.testing.assert_array_equal(y.reshape(10, 16), rows)


@pytest.mark.parametrize("options", ORDERS)
def test_loops_have_bounds_of_each_block(options: dict[str, Any]) -> None:
    n = np.array([0, 5, 1, -3, 100, 7, 7], np.int32)
    y = np.full(7, -1, np.int32)
    kernels.run(kernels.own_bounds, 7, n, y, **options)
    assert y.tolist() == [sum(range(0, int(bound), 2)) for bound in n]


@pytest.mark.parametrize("options", ORDERS)
def test_while_loops_break_and_continue(options: dict[str, Any]) -> None:
    y = np.zeros(30, np.int32)
    kernels.run(kernels.collatz, 30, y, 100, **options)

    def steps(number: int) -> int:
        count = 0
        while count < 100 and number != 1:
            count += 1
            number = number // 2 if number % 2 == 0 else 3 * number + 1
        return count

    assert y.tolist() == [steps(number + 1) for number in range(30)]


@pytest.mark.parametrize("options", ORDERS)
def test_blocks_return_early(options: dict[str, Any]) -> None:
    x = np.arange(8 * 16, dtype=np.float32)
    y = np.zeros_like(x)
    kernels.run(kernels.early, 8, x, y, **options)
    wanted = x.reshape(8, 16) + 1
    wanted[4] += 999
    wanted[1::2] = 0
    np.testing.assert_array_equal(y.reshape(8, 16), wanted)


@pytest.mark.parametrize("options", ORDERS)
def test_a_spin_lock_is_taken_by_one_block_at_a_time(options: dict[str, Any]) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels.run(kernels.locked, 300, lock, total, **options)
    assert (lock[0], total[0]) == (0, 300)


@pytest.mark.parametrize("options", ORDERS)
def test_a_block_waits_for_a_later_one(options: dict[str, Any]) -> None:
    flag, y = np.zeros(1, np.int32), np.zeros(2, np.int32)
    kernels.run(kernels.later, 200, flag, y, **options)
    assert y.tolist() == [7, 8]


@pytest.mark.parametrize("options", ORDERS)
def test_a_chain_of_blocks_is_longer_than_what_is_in_flight(options: dict[str, Any]) -> None:
    x = np.arange(600 * 16, dtype=np.int32)
    flags, sums = np.zeros(600, np.int32), np.zeros(600, np.int32)
    kernels.run(kernels.chained, 600, x, flags, sums, **options)
    np.testing.assert_array_equal(sums, np.cumsum(x.reshape(600, 16).sum(1)))


def test_waiting_for_what_never_comes_is_a_fault_that_names_the_loop() -> None:
    with pytest.raises(FaultError) as caught:
        kernels.run(kernels.stuck, 3, np.zeros(1, np.int32), kernel="stuck-i32")
    text = str(caught.value)
    assert "tileir_kernels.py" in text
    assert (
        "stuck-i32: block (0, 0, 0) and 2 more wait in a loop for what no block in flight does"
        in text
    )
    assert "fix: let blocks wait only for blocks with smaller numbers" in text
    assert caught.value.location is not None
    assert caught.value.location.line > 0


def test_waiting_for_a_block_that_cannot_start_is_a_fault() -> None:
    flag, y = np.zeros(1, np.int32), np.zeros(2, np.int32)
    # As on a GPU that holds fewer blocks than the grid has, if all but the last one waited: here
    # only block 0 waits, so it goes well.
    kernels.run(kernels.later, 2000, flag, y)
    assert y.tolist() == [7, 8]


def test_only_loops_that_can_wait_make_blocks_take_turns() -> None:
    x = np.zeros(16, np.int32)
    waits = {
        name: bool(prepare(kernels.compiled(getattr(kernels, name), arguments)).waits)
        for name, arguments in {
            "locked": (x, x),
            "later": (x, x),
            "chained": (x, x, x),
            "own_bounds": (x, x),
            "collatz": (x, 9),
            "early": (x, x),
        }.items()
    }
    assert waits == {
        "locked": True,
        "later": True,
        "chained": True,
        "own_bounds": False,
        "collatz": False,
        "early": False,
    }


def test_kernels_print_and_assert() -> None:
    texts: list[str] = []
    x = np.array([0, 1, 2, 3, 4, 5], np.float32)
    with pytest.raises(
        FaultError,
        match=r"assert in block \(2, 0, 0\): the assertion failed, first for element \(1,\) of its tile: too large",
    ):
        kernels.run(kernels.talks, 3, x, output=texts.append)
    assert "".join(texts) == "".join(f"block {i}: [{2 * i:f}, {2 * i + 1:f}]\n" for i in range(3))


def test_stepping_goes_by_source_lines_of_the_kernel() -> None:
    x = np.arange(4 * 16, dtype=np.int32)
    flags, sums = np.zeros(4, np.int32), np.zeros(4, np.int32)
    with kernels.stepped(kernels.chained, 4, (2, 0, 0), x, flags, sums) as stepper:
        line = kernels.line_of("own = ct.sum")
        stop = stepper.run_to(line, "tileir_kernels.py")
        assert stop is not None
        assert stop.block == (2, 0, 0)
        found = {
            executed.op.name: executed
            for executed in [stop, *(next(stepper) for _ in range(6))]
            if executed.line == line
        }
        assert found["load_view_tko"].results[0].tolist() == list(range(32, 48))
        assert int(found["reduce"].results[0]) == sum(range(32, 48))
        stepper.finish()
    # Where blocks wait for each other all of them run, though one is shown.
    assert flags.tolist() == [1] * 4
    np.testing.assert_array_equal(sums, np.cumsum(x.reshape(4, 16).sum(1)))
