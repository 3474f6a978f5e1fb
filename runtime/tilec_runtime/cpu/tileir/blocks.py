"""The footprint of a block, and the batches and the order in which blocks run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from tilec_runtime.cpu.tileir.frame import Grid
from tilec_runtime.cpu.tileir.ir import Function, Op, Tile, Type
from tilec_runtime.cpu.tileir.values import Array, storage
from tilec_runtime.errors import CallError, LaunchLimitError

# Bytes of one value for a whole batch; a few such values stay in a core's cache.
_CACHE = 2 << 20
# Bytes of all tiles of a batch.
_MEMORY = 256 << 20
# The largest batch, for small tiles.
_MOST = 8192
# Blocks in flight if they take turns, as on a large GPU. They start in the order of their numbers.
_IN_FLIGHT = 256
# Matrix products, and the number of their multiplications that cost as much as one element of
# another operation.
_PRODUCTS = frozenset({"mmaf", "mmai", "mmaf_scaled"})
_FUSED = 16


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Footprint:
    """Memory and work of one block of a kernel, with one iteration of each loop.

    Attributes:
        largest: size of its largest tile in bytes.
        total: size of all its tiles in bytes.
        elements: elements that its operations compute; costly operations count more.
        calls: number of its operations.
        loops: whether it has loops.
    """

    largest: int
    total: int
    elements: int
    calls: int
    loops: bool

    @property
    def batch(self) -> int:
        """Number of blocks to run together, so that single tiles fit the cache."""
        return max(1, min(_MOST, _CACHE // self.largest, _MEMORY // self.total))

    @property
    def flight(self) -> int:
        """Number of blocks that take turns.

        It is at least two, so that one block can wait for another.
        """
        return max(2, min(_IN_FLIGHT, 4 * _MEMORY // self.total))


def footprint(function: Function) -> Footprint:
    """Compute the footprint of one block."""
    ops = list(function.walk())
    sizes = [_bytes(result.type) for op in ops for result in op.results]
    return Footprint(
        largest=max(sizes, default=1) or 1,
        total=sum(sizes) or 1,
        elements=sum(map(_work, ops)),
        calls=len(ops),
        loops=any(op.name in ("for", "loop") for op in ops),
    )


def _bytes(kind: Type) -> int:
    """Return the size of one block's value in bytes; 0 if it is not a tile."""
    return storage(kind.element).itemsize * math.prod(kind.shape) if isinstance(kind, Tile) else 0


def _work(op: Op) -> int:
    """Return the elements that an operation computes per block, weighted by its cost."""
    own = sum(
        math.prod(result.type.shape) if isinstance(result.type, Tile) else 1
        for result in op.results
    )
    if op.name in _PRODUCTS:
        factor = op.operand("lhs").type
        assert isinstance(factor, Tile)
        own *= 1 + factor.shape[-1] // _FUSED
    return own


def batches(grid: Grid, size: int, order: str | int) -> Iterator[Array]:
    """Yield a grid's block numbers in batches of at most `size`, x fastest.

    Raises:
        CallError: the order is unknown.
    """
    count = math.prod(grid)
    if isinstance(order, int):
        numbers = np.random.default_rng(abs(order)).permutation(count)
        yield from (numbers[start : start + size] for start in range(0, count, size))
        return
    if order not in ("forward", "reverse"):
        raise CallError(
            f"no order of blocks is called {order!r}",
            fix='take "forward", "reverse" or a number as the seed of a random order',
        )
    for start in range(0, count, size):
        numbers = np.arange(start, min(start + size, count))
        yield numbers if order == "forward" else count - 1 - numbers


# Elements per second that NumPy computes, and the fixed cost of an operation in seconds, both on a
# slow core.
_RATE = 300e6
_CALL = 3e-6


def refuse_huge(each: Footprint, grid: Grid, batch: int, most: int, kernel: str) -> None:
    """Refuse a launch that computes too many elements; `batch` is as in `Options`.

    Raises:
        LaunchLimitError: the launch exceeds the limit; the message estimates its time.
    """
    blocks = math.prod(grid)
    elements = blocks * each.elements
    if elements <= most:
        return
    rounds = -(-blocks // (batch or each.batch))
    seconds = elements / _RATE + rounds * each.calls * _CALL
    work = f"{blocks:,} blocks, {'at least' if each.loops else 'about'} {elements:.3g} elements and {duration(seconds)}"
    raise LaunchLimitError(
        f"{kernel}: grid {grid} is too much for the cpu device: {work}; the limit is {most:.3g} elements",
        cause="a grid that is meant for a GPU",
        fix="launch on a smaller problem, or raise the limit: CpuOptions(elements=...)",
        kernel=kernel,
    )


def duration(seconds: float) -> str:
    """Format a time, such as `3 minutes`."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1000:.0f} ms"
