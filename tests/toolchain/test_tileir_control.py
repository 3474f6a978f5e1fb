"""Control flow of real kernels on the CPU: blocks that part, leave early, lock, and wait for
earlier and later blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilec_runtime.errors import FaultError

pytestmark = pytest.mark.toolchain
pytest.importorskip("cuda.tile", reason="needs cuda-tile")

from tests.toolchain import tileir_kernels as kernels  # noqa: E402 - imports cuda.tile

ORDERS: list[dict[str, Any]] = [{}, {"order": "reverse"}, {"order": 7}, {"batch": 1}, {"batch": 3}]


@pytest.mark.parametrize("options", ORDERS)
def test_a_spin_lock_is_taken_by_one_block_at_a_time(options: dict[str, Any]) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels.run(kernels.locked, 300, lock, total, **options)
    assert (lock[0], total[0]) == (0, 300)


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
