"""Memory of launches, and pointers: arithmetic, conversions, loads, stores, atomic updates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.amount import examples
from tests.unit.runtime.cpu.tileir.build import (
    I32,
    TOKEN,
    Builder,
    partition,
    program,
    region_of,
    run_op,
    tile,
)
from tests.unit.runtime.cpu.tileir.samples import garbage
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import AccessKind, Options
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Global,
    MemoryOrder,
    MemoryScope,
    Pointer,
    Scalar,
    TensorView,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, Array
from tilec_runtime.cpu.tileir.views import Tensor
from tilec_runtime.errors import FaultError


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
    region = region_of("x", view)
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


BASE = 0x7000_0000_0010
WEAK = {"order": MemoryOrder.WEAK}


def load(
    memory: Memory,
    element: Scalar,
    addresses: Array,
    mask: Array | None = None,
    padding: Any = None,
    **more: Any,
) -> Array:
    shape = addresses.shape[1:]
    operands: dict[str, Any] = {"source": (tile(Pointer(element), *shape), addresses)}
    if mask is not None:
        operands["mask"] = (tile(Scalar.I1, *shape), mask)
    if padding is not None:
        operands["padding"] = (
            tile(element, *shape),
            np.full((1, *shape), padding, STORAGE[element]),
        )
    found, token = run_op(
        "load_ptr_tko", operands, [tile(element, *shape), TOKEN], WEAK, memory=memory, **more
    )
    assert token is None
    return np.asarray(found)


def store(
    memory: Memory,
    element: Scalar,
    addresses: Array,
    value: Array,
    mask: Array | None = None,
    **more: Any,
) -> None:
    shape = addresses.shape[1:]
    operands: dict[str, Any] = {
        "destination": (tile(Pointer(element), *shape), addresses),
        "value": (tile(element, *shape), value),
    }
    if mask is not None:
        operands["mask"] = (tile(Scalar.I1, *shape), mask)
    run_op("store_ptr_tko", operands, TOKEN, WEAK, memory=memory, **more)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Scalar, list[MemoryRegion], Array, Array | None, int]:
    """Element type, two regions, addresses of elements in them, a mask, and a number of blocks."""
    element = draw(st.sampled_from([kind for kind in Scalar if kind.bits != 4]))
    size, rng = LAYOUTS[element].size, np.random.default_rng(draw(st.integers(0, 1 << 30)))
    regions = [
        MemoryRegion(name, BASE + far, rng.integers(0, 256, 16 * size, np.uint8), itemsize=size)
        for name, far in (("x", 0), ("y", 4096))
    ]
    blocks, shape = draw(st.integers(1, 4)), draw(st.sampled_from([(), (1,), (4,), (2, 4)]))
    rows = draw(st.sampled_from([1, blocks]))
    addresses = BASE + rng.integers(0, 16, (rows, *shape)) * size
    if draw(st.booleans()):
        addresses += rng.integers(0, 2, addresses.shape) * 4096
    mask = (
        rng.integers(0, 2, (draw(st.sampled_from([1, blocks])), *shape)).astype(np.bool_)
        if draw(st.booleans())
        else None
    )
    if mask is not None and len(mask) == len(addresses):
        addresses = np.where(mask, addresses, 1)
    return element, regions, addresses, mask, blocks


def bytes_at(regions: list[MemoryRegion], address: int, size: int) -> Array:
    (region,) = [item for item in regions if item.address <= address < item.end]
    return region.data[address - region.address : address - region.address + size]


def taken(mask: Array | None, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.array(True) if mask is None else mask, shape)


@examples(50)
@given(batch=batches(), padded=st.booleans())
def test_loads_give_what_lies_at_each_address(
    batch: tuple[Scalar, list[MemoryRegion], Array, Array | None, int], padded: bool
) -> None:
    element, regions, addresses, mask, blocks = batch
    layout, shape = LAYOUTS[element], (blocks, *addresses.shape[1:])
    more: dict[str, Any] = {"padding": 1} if padded and mask is not None else {}
    left_out = np.ones(shape[1:], layout.held) if more else garbage(layout, shape[1:])
    places = np.broadcast_to(addresses, shape)
    for observer in (None, Watcher()):
        found = load(
            Memory(regions), element, addresses, mask, blocks=blocks, observer=observer, **more
        )
        assert found.dtype == layout.held
        for place in np.ndindex(shape):
            wanted = left_out[place[1:]]
            if taken(mask, shape)[place]:
                there = bytes_at(regions, int(places[place]), layout.size)
                wanted = layout.decode(there.view(layout.raw))[0]
            assert np.broadcast_to(found, shape)[place].tobytes() == wanted.tobytes()


@examples(50)
@given(batch=batches(), one=st.booleans())
def test_of_stores_to_one_place_the_last_stays(
    batch: tuple[Scalar, list[MemoryRegion], Array, Array | None, int], one: bool
) -> None:
    element, regions, addresses, mask, blocks = batch
    layout, shape = LAYOUTS[element], (blocks, *addresses.shape[1:])
    rng = np.random.default_rng(len(addresses))
    most, rows = 2 if element is Scalar.I1 else 256, 1 if one else blocks
    data = rng.integers(0, most, (rows, *shape[1:], layout.size), np.uint8)
    values = layout.decode(data.view(layout.raw)[..., 0])
    stored = np.broadcast_to(layout.encode(values), shape)
    places = np.broadcast_to(addresses, shape)
    memories = [
        [
            MemoryRegion(region.name, region.address, region.data.copy(), itemsize=layout.size)
            for region in regions
        ]
        for _ in range(2)
    ]
    for memory, observer in zip(memories, (None, Watcher()), strict=True):
        store(Memory(memory), element, addresses, values, mask, blocks=blocks, observer=observer)
    for place in np.ndindex(shape):
        if taken(mask, shape)[place]:
            there = bytes_at(regions, int(places[place]), layout.size)
            there[:] = np.frombuffer(stored[place].tobytes(), np.uint8)
    for memory in memories:
        for region, wanted in zip(memory, regions, strict=True):
            np.testing.assert_array_equal(region.data, wanted.data)


def test_four_bit_elements_lie_two_to_a_byte() -> None:
    region = MemoryRegion("x", BASE, np.array([0x21, 0x43, 0xF5], np.uint8))
    memory = Memory([region])
    pointer = tile(Pointer(Scalar.I4), 6)
    base = np.full((1, 6), BASE)
    (addresses,) = run_op(
        "offset",
        {"pointer": (pointer, base), "offset": (tile(Scalar.I32, 6), np.arange(6)[None])},
        pointer,
    )
    assert load(memory, Scalar.I4, addresses).tolist() == [[1, 2, 3, 4, 5, -1]]
    (back,) = run_op(
        "offset",
        {"pointer": (pointer, addresses), "offset": (tile(Scalar.I32, 6), -np.arange(6)[None])},
        pointer,
    )
    np.testing.assert_array_equal(back, base)
    store(memory, Scalar.I4, addresses[:, 1:3], np.array([[-2, 7]], np.int8))
    assert region.data.tolist() == [0xE1, 0x47, 0xF5]


def test_pointers_become_numbers_and_other_pointers() -> None:
    held = np.array([[BASE, BASE + 3]])
    for name, source, result in (
        ("ptr_to_int", tile(Pointer(Scalar.F32), 2), tile(Scalar.I64, 2)),
        ("int_to_ptr", tile(Scalar.I64, 2), tile(Pointer(Scalar.I8), 2)),
        ("ptr_to_ptr", tile(Pointer(Scalar.F32), 2), tile(Pointer(Scalar.I8), 2)),
    ):
        np.testing.assert_array_equal(run_op(name, {"source": (source, held)}, result)[0], held)


@pytest.mark.parametrize(
    ("element", "data", "shown"),
    [
        (Scalar.I4, bytes([1, 0xFE, 7, 0xF8]), "[1, -2, 7, -8]"),
        (Scalar.I1, b"\x09", "[1, 0, 0, 1]"),
        (Scalar.TF32, bytes.fromhex("00fe01000006000000000202"), "[1.5, -2, 0, 3]"),
        (Scalar.F64, np.array([1.5, -2, 0, 3]).tobytes(), "[1.5, -2, 0, 3]"),
    ],
    ids=str,
)
def test_variables_of_a_module_are_loaded_and_stored(
    element: Scalar, data: bytes, shown: str
) -> None:
    kind, pointers = tile(element, 4), tile(Pointer(element), 4)

    def fill(b: Builder) -> None:
        def at(name: str) -> Value:
            base = b.op("get_global", {}, tile(Pointer(element)), {"name": name})
            places = b.constant(np.arange(4, dtype=np.int32), Scalar.I32, 4)
            found: Value = b.op(
                "offset", {"pointer": b.spread(base, 4), "offset": places}, pointers
            )
            return found

        table = b.op("load_ptr_tko", {"source": at("table")}, [kind, TOKEN], WEAK)[0]
        b.op("store_ptr_tko", {"destination": at("copy"), "value": table}, TOKEN, WEAK)
        copy = b.op("load_ptr_tko", {"source": at("copy")}, [kind, TOKEN], WEAK)[0]
        b.show(copy, text="%g" if element.is_float else "%d")
        b.ret()

    variables = [
        Global(name="table", type=kind, data=data, alignment=0, constant=True),
        Global(name="copy", type=kind, data=bytes(len(data)), alignment=64),
    ]
    texts: list[str] = []
    memory, options = Memory(), Options(output=texts.append)
    execute(program([], fill, variables=variables), [], (1, 1, 1), memory, options)
    assert (texts, memory.regions) == ([shown], ())


def test_an_address_past_the_end_names_the_parameter_and_the_element() -> None:
    array = np.zeros((4, 4), np.float32)
    region = region_of("x", array)
    addresses = region.address + 4 * np.arange(8)[:, None] * 4 + np.array([[0, 8]])
    with pytest.raises(FaultError) as error:
        load(Memory([region]), Scalar.F32, addresses, grid=(2, 2, 2))
    what = f"kernel: load_ptr_tko in block (0, 0, 1): reads address {region.end:#x}, which is element 16 of x with 16 elements"
    assert error.value.what == what
    assert error.value.cause == "an index is out of range, or a mask lets it through"
    assert error.value.fix.startswith(
        "compare the index with the number of elements; run `tilec sanitize --device cpu`"
    )
    assert (error.value.kernel, error.value.block, error.value.parameter, error.value.index) == (
        "kernel",
        (0, 0, 1),
        "x",
        (16,),
    )


store_one = functools.partial(store, value=np.zeros((1, 1), np.float32))


@pytest.mark.parametrize(
    ("regions", "access", "element", "address", "what"),
    [
        (
            (),
            store_one,
            Scalar.F32,
            8,
            "writes address 0x8, which is in no memory .* there is none",
        ),
        (("x",), load, Scalar.F32, 8, "reads address 0x8, .*; the nearest is x with 1 element"),
        (("x",), load, Scalar.F64, BASE, "only partly in x: element 0 of 1 element, where 8 bytes"),
        (
            ("x",),
            load,
            Scalar.F16,
            BASE + 1,
            r"no multiple of .* 2 bytes \(byte 1 of x\)",
        ),
        (
            ("x",),
            store_one,
            Scalar.F32,
            BASE,
            "writes element 0 of x, which may only be read",
        ),
    ],
)
def test_refuses_an_address_unless_it_is_masked(
    regions: tuple[str, ...], access: Any, element: Scalar, address: int, what: str
) -> None:
    memory = Memory(
        MemoryRegion(name, BASE, np.zeros(4, np.uint8), itemsize=4, writable=False)
        for name in regions
    )
    with pytest.raises(FaultError, match=what):
        access(memory, element, np.array([[address]]))
    access(memory, element, np.array([[address]]), mask=np.array([[False]]))


def test_an_observer_is_told_of_each_region_and_of_what_lies_outside() -> None:
    regions = [
        MemoryRegion("x", BASE, np.full(8, 1, np.uint8)),
        MemoryRegion("y", BASE + 4096, np.full(8, 2, np.uint8)),
    ]
    watcher = Watcher(go_on=True)
    addresses = np.array([[BASE, BASE + 8, BASE + 4100], [BASE + 3, BASE + 4096, BASE - 1]])
    assert load(Memory(regions), Scalar.I8, addresses, observer=watcher).tolist() == [
        [1, 0, 2],
        [1, 2, 0],
    ]
    (told,) = watcher.outsides
    assert (told.rows.tolist(), told.addresses.tolist(), told.index) == (
        [0, 1],
        [BASE + 8, BASE - 1],
        None,
    )
    assert [
        (access.region.name, access.offsets[access.mask].tolist()) for access in watcher.accesses
    ] == [("x", [0, 3]), ("y", [4, 0])]


def test_blocks_allocate_memory_of_their_own_until_they_are_done() -> None:
    """Also in a loop, each pass of which finds what the one before has left."""

    def fill(b: Builder) -> None:
        x = b.block()

        def body(count: Value) -> None:
            own = b.op("alloca", {}, tile(Pointer(Scalar.I32)), {"count": 3, "alignment": 64})
            b.show(b.op("ptr_to_int", {"source": own}, tile(Scalar.I64)), text="%lld ")
            old = b.op("load_ptr_tko", {"source": own}, [I32, TOKEN], WEAK)[0]
            first = b.compare(count, b.constant(1))
            new = b.op("select", {"condition": first, "if_true": x, "if_false": b.add(old, x)}, I32)
            b.op("store_ptr_tko", {"destination": own, "value": new}, TOKEN, WEAK)
            b.show(new, text="%d;")
            b.op("continue")

        ends = {"lower": b.constant(0), "upper": b.constant(2), "step": b.constant(1), "init": ()}
        b.op("for", ends, (), {}, [b.region([I32], body)])
        b.ret()

    memory, texts = Memory(), list[str]()
    execute(program([], fill), [], (4, 1, 1), memory, Options(output=texts.append))
    shown = [part.split() for part in "".join(texts).split(";")[:-1]]
    assert [int(number) for _, number in shown] == [0, 0, 1, 2, 2, 4, 3, 6]
    addresses = np.array([int(address) for address, _ in shown]).reshape(4, 2)
    assert (addresses[:, 0] == addresses[:, 1]).all()
    assert (addresses % 64 == 0).all()
    assert (np.diff(np.sort(addresses[:, 0])) >= 12).all()
    assert memory.regions == ()


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
def updates(draw: st.DrawFn) -> tuple[int, Array, Array | None, np.random.Generator]:
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
@given(batch=updates(), one=st.booleans(), watched=st.booleans())
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
        partition((2, 4), tensor, (0, 1), steps=(step, 4))
        if step != 2
        else partition((2, 4), tensor, (0, 1))
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
