"""Regions and memory: what an address belongs to, and which element of a parameter it is."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from([1, 2, -1, -2]), min_size=3, max_size=3),
    order=st.permutations(range(3)),
)
def test_every_element_of_a_view_is_found_by_its_address(
    shape: list[int], steps: list[int], order: list[int]
) -> None:
    base = np.arange(16**3, dtype=np.int32).reshape(16, 16, 16)[: shape[0] * 3]
    view = base[tuple(slice(None, None, step) for step in steps[: len(shape)])]
    view = view[tuple(slice(0, extent) for extent in shape)]
    if view.ndim == 3:
        view = view.transpose(order)
    region = MemoryRegion.of("x", view)
    start = view.ctypes.data
    for index in np.ndindex(*view.shape):
        address = start + sum(i * s for i, s in zip(index, view.strides, strict=True))
        offset = address - region.address
        assert 0 <= offset <= region.data.size - 4
        assert region.element(offset) == index
        assert region.data[offset : offset + 4].view(np.int32)[0] == view[index]


A = MemoryRegion("a", 0x1000, np.zeros(16, np.uint8))
B = MemoryRegion("b", 0x2000, np.zeros(16, np.uint8))
WIDE = MemoryRegion("wide", 0x1000, np.zeros(256, np.uint8), writable=False)
NARROW = MemoryRegion("narrow", 0x1010, np.zeros(16, np.uint8))


@pytest.mark.parametrize(
    ("regions", "address", "writing", "found"),
    [
        ((B, A), 0x1000, False, A),
        ((B, A), 0x100F, False, A),
        ((B, A), 0x1010, False, None),
        ((B, A), 0xFFF, False, None),
        ((B, A), 0x2005, False, B),
        ((WIDE, NARROW), 0x1011, False, WIDE),
        ((WIDE, NARROW), 0x1011, True, NARROW),
        ((WIDE, NARROW), 0x1080, True, WIDE),
        ((MemoryRegion("empty", 0x1000, np.zeros(0, np.uint8)),), 0x1000, False, None),
    ],
)
def test_finds_the_region_of_an_address(
    regions: tuple[MemoryRegion, ...], address: int, writing: bool, found: MemoryRegion | None
) -> None:
    assert Memory(regions).find(address, writing=writing) is found


def test_finds_the_nearest_region() -> None:
    assert Memory((B, A)).nearest(0x1010) is A
    assert Memory((B, A)).nearest(0x1FFF) is B
    assert Memory().nearest(5) is None
