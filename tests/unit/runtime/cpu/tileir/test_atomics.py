"""Atomic operations, held against a reference that updates one element after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.amount import examples
from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, run_op, tile
from tests.unit.runtime.cpu.tileir.undetermined import garbage
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.frame import AccessKind
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    MemoryOrder,
    MemoryScope,
    PartitionView,
    Pointer,
    Scalar,
    StridedView,
    TensorView,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, Array
from tilec_runtime.cpu.tileir.views import Tensor

BASE = 0x7000_0000_0000
INTEGERS = (Scalar.I32, Scalar.I64)
FLOATS = (Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64)
MODES = [
    (mode, element)
    for mode in AtomicMode
    for element in (FLOATS if mode is AtomicMode.ADDF else INTEGERS)
]
MODES += [(AtomicMode.XCHG, element) for element in (Scalar.F32, Scalar.F64)]
# Compares bits, and swaps.
SWAPS = [(None, element) for element in (Scalar.I32, Scalar.I64, Scalar.F32, Scalar.F64)]


def combined(mode: AtomicMode, old: Any, new: Any) -> Any:
    """One update, by NumPy scalars."""
    unsigned = f"u{old.itemsize}"
    table: dict[AtomicMode, Callable[[], Any]] = {
        AtomicMode.AND: lambda: old & new,
        AtomicMode.OR: lambda: old | new,
        AtomicMode.XOR: lambda: old ^ new,
        AtomicMode.ADD: lambda: old + new,
        AtomicMode.ADDF: lambda: (
            flushed(flushed(old) + flushed(new)) if old.dtype == np.float32 else old + new
        ),
        AtomicMode.MAX: lambda: max(old, new),
        AtomicMode.MIN: lambda: min(old, new),
        AtomicMode.UMAX: lambda: max(old, new, key=lambda item: int(item.view(unsigned))),
        AtomicMode.UMIN: lambda: min(old, new, key=lambda item: int(item.view(unsigned))),
        AtomicMode.XCHG: lambda: new,
    }
    return table[mode]()


def flushed(number: Any) -> Any:
    """Numbers of float32 below the normal range are zeros to atomic units."""
    return (
        np.copysign(np.float32(0), number)
        if abs(number) < np.finfo(np.float32).smallest_normal
        else number
    )


def numbers(rng: np.random.Generator, element: Scalar, shape: tuple[int, ...]) -> Array:
    if element is Scalar.F32 and rng.integers(0, 2):
        return (rng.normal(0, 2, shape) * np.finfo(np.float32).smallest_normal).astype(np.float32)
    if element.is_float:
        return rng.normal(0, 100, shape).astype(STORAGE[element])
    return rng.integers(-(1 << 31), 1 << 31, shape).astype(STORAGE[element])


def attributes(mode: AtomicMode | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"order": MemoryOrder.RELAXED, "scope": MemoryScope.DEVICE}
    return found if mode is None else {**found, "mode": mode}


def update(
    mode: AtomicMode | None,
    element: Scalar,
    memory: Memory,
    addresses: Array,
    values: Array,
    mask: Array | None,
    compare: Array | None = None,
    **more: Any,
) -> Array:
    """An update by a mode, or a comparison and swap."""
    shape = addresses.shape[1:]
    operands: dict[str, Any] = {
        "pointers": (tile(Pointer(element), *shape), addresses),
        "value": (tile(element, *shape), values),
    }
    if mask is not None:
        operands["mask"] = (tile(Scalar.I1, *shape), mask)
    if compare is not None:
        operands["compare"] = (tile(element, *shape), compare)
    name = "atomic_cas_tko" if mode is None else "atomic_rmw_tko"
    results = [tile(element, *shape), TOKEN]
    found, token = run_op(name, operands, results, attributes(mode), memory=memory, **more)
    assert token is None
    return np.asarray(found)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, Array, Array | None, np.random.Generator]:
    """Blocks, the elements that each updates, a mask, random numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    blocks, shape = draw(st.integers(1, 8)), draw(st.sampled_from([(), (1,), (4,), (2, 8)]))
    rows = draw(st.sampled_from([1, blocks]))
    most = draw(st.sampled_from([1, 2, 5, 1000]))
    index = rng.integers(0, most, (rows, *shape))
    if most == 1000 and draw(st.booleans()):
        index = np.arange(index.size).reshape(index.shape)
    mask = (
        rng.integers(0, 2, (draw(st.sampled_from([1, blocks])), *shape)).astype(np.bool_)
        if draw(st.booleans())
        else None
    )
    return blocks, index, mask, rng


@pytest.mark.parametrize(("mode", "element"), [*MODES, *SWAPS], ids=str)
@examples(12)
@given(batch=batches(), one=st.booleans(), watched=st.booleans())
def test_updates_follow_each_other_by_block(
    mode: AtomicMode | None,
    element: Scalar,
    batch: tuple[int, Array, Array | None, np.random.Generator],
    one: bool,
    watched: bool,
) -> None:
    blocks, index, mask, rng = batch
    shape = (blocks, *index.shape[1:])
    few = np.array([0.0, -0.0, np.nan, 1] if element.is_float else range(4), STORAGE[element])
    draw = functools.partial(numbers, rng, element) if mode else functools.partial(rng.choice, few)
    data = draw((1000,))
    values = draw((1 if one and mode else blocks, *index.shape[1:]))
    compare = None if mode else draw(shape)
    expected = data.copy()
    before = (
        np.broadcast_to(garbage(LAYOUTS[element], index.shape[1:]), shape).copy()
        if compare is None
        else compare.copy()
    )
    places, new = np.broadcast_to(index, shape), np.broadcast_to(values, shape)
    with np.errstate(all="ignore"):
        for place in np.ndindex(shape):
            if mask is None or np.broadcast_to(mask, shape)[place]:
                at = places[place]
                before[place] = expected[at]
                if mode is not None:
                    expected[at] = combined(mode, expected[at], new[place])
                elif compare is not None and before[place].tobytes() == compare[place].tobytes():
                    expected[at] = new[place]
    region = MemoryRegion("x", BASE, data.view(np.uint8), itemsize=data.itemsize)
    watcher = Watcher()
    found = update(
        mode,
        element,
        Memory([region]),
        BASE + index * data.itemsize,
        values,
        mask,
        compare,
        blocks=blocks,
        observer=watcher if watched else None,
    )
    assert found.dtype == data.dtype
    assert found.tobytes() == before.tobytes()
    assert data.tobytes() == expected.tobytes()
    for access in watcher.accesses:
        assert (access.kind, access.scope) == (AccessKind.ATOMIC, MemoryScope.DEVICE)


def reduce_one_by_one(
    mode: AtomicMode,
    data: Array,
    values: Array,
    index: list[Array],
    steps: tuple[int, int],
    stride: int,
    blocks: int,
) -> None:
    """Tiles of 2 x 4 of a tensor of 6 x 9."""
    for block in range(blocks):
        first = [
            int(item[block if len(item) > 1 else 0]) * step
            for item, step in zip(index, steps, strict=True)
        ]
        for row, column in np.ndindex(2, 4):
            y, x = first[0] + row, first[1] + column
            if 0 <= y < 6 and 0 <= x < 9:
                at = y * stride + x
                data[at] = combined(
                    mode, data[at], values[block if len(values) > 1 else 0, row, column]
                )


@pytest.mark.parametrize(
    ("mode", "element"),
    [(AtomicMode.ADD, Scalar.I32), (AtomicMode.UMAX, Scalar.I64), (AtomicMode.ADDF, Scalar.F32)],
)
@examples(50)
@given(
    seed=st.integers(0, 1 << 20),
    step=st.integers(1, 5),
    stride=st.sampled_from([0, 1, 9]),
    same=st.booleans(),
    watched=st.booleans(),
)
def test_reductions_through_views(
    mode: AtomicMode, element: Scalar, seed: int, step: int, stride: int, same: bool, watched: bool
) -> None:
    rng = np.random.default_rng(seed)
    data, blocks = numbers(rng, element, (64,)), int(rng.integers(1, 7))
    values = numbers(rng, element, (int(rng.choice([1, blocks])), 2, 4))
    index = [rng.integers(-1, 3, 1 if same else blocks), rng.integers(0, 3, 1 if same else blocks)]
    tensor = TensorView(element, (None, None), (None, None))
    view = (
        StridedView((2, 4), (step, 4), tensor, (0, 1))
        if step != 2
        else PartitionView((2, 4), tensor, (0, 1))
    )
    expected = data.copy()
    with np.errstate(all="ignore"):
        reduce_one_by_one(mode, expected, values, index, (step, 4), stride, blocks)
    held = Tensor(np.array([BASE]), np.array([[6, 9]]), np.array([[stride, 1]]))
    operands: dict[str, Any] = {
        "view": (view, held),
        "index": [(I32, item.astype(np.int32)) for item in index],
        "value": (tile(element, 2, 4), values),
    }
    memory = Memory([MemoryRegion("x", BASE, data.view(np.uint8), itemsize=data.itemsize)])
    observer = Watcher() if watched else None
    run_op(
        "atomic_red_view_tko",
        operands,
        TOKEN,
        attributes(mode),
        memory=memory,
        blocks=blocks,
        observer=observer,
    )
    if mode is AtomicMode.ADDF:
        # Blocks whose tiles overlap add in some order.
        np.testing.assert_allclose(
            data, expected, rtol=1e-4, atol=1e-2 if abs(expected).max() > 1 else 1e-37
        )
    else:
        np.testing.assert_array_equal(data, expected)
