"""Pointers: arithmetic, conversions, loads and stores, memory of a block's own."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from tests.amount import examples
from tests.unit.runtime.cpu.tileir.build import TOKEN, Builder, launch, program, run_op, tile
from tests.unit.runtime.cpu.tileir.undetermined import garbage
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.execute import Options, launched
from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import Global, MemoryOrder, Op, Pointer, Scalar, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import BINDERS
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, Array
from tilec_runtime.errors import FaultError

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


def at_block(array: Array, block: int, place: tuple[int, ...]) -> Any:
    """An element of a block, of which there may be one row for all."""
    index = (block if len(array) > 1 else 0, *place)
    return array[index]


def raw(regions: list[MemoryRegion], address: int, size: int) -> Array:
    """The bytes at an address."""
    (region,) = [item for item in regions if item.address <= address < item.end]
    return region.data[address - region.address : address - region.address + size]


@examples(50)
@given(batch=batches(), padded=st.booleans())
def test_loads_give_what_lies_at_each_address(
    batch: tuple[Scalar, list[MemoryRegion], Array, Array | None, int], padded: bool
) -> None:
    element, regions, addresses, mask, blocks = batch
    layout, padding = LAYOUTS[element], np.ones((), LAYOUTS[element].held)[()]
    for observer in (None, Watcher()):
        more: dict[str, Any] = {"padding": padding} if padded and mask is not None else {}
        found = load(
            Memory(regions), element, addresses, mask, blocks=blocks, observer=observer, **more
        )
        assert found.dtype == layout.held
        rows = max(len(addresses), 1 if mask is None else len(mask))
        assert len(found) == rows
        for place in np.ndindex(*found.shape):
            block, rest = place[0], place[1:]
            if mask is not None and not at_block(mask, block, rest):
                expected = padding if more else garbage(layout, found.shape[1:])[rest]
            else:
                at = int(at_block(addresses, block, rest))
                expected = layout.decode(raw(regions, at, layout.size).view(layout.raw))[0]
            assert found[place].tobytes() == expected.tobytes()


@examples(50)
@given(batch=batches(), one=st.booleans())
def test_of_stores_to_one_place_the_last_stays(
    batch: tuple[Scalar, list[MemoryRegion], Array, Array | None, int], one: bool
) -> None:
    element, regions, addresses, mask, blocks = batch
    layout = LAYOUTS[element]
    rng = np.random.default_rng(len(addresses))
    shape = (1 if one else blocks, *addresses.shape[1:])
    values = layout.decode(
        rng.integers(0, 2 if element is Scalar.I1 else 256, (*shape, layout.size), np.uint8).view(
            layout.raw
        )[..., 0]
    )
    before = [region.data.copy() for region in regions]
    for block in range(blocks):
        for place in np.ndindex(*addresses.shape[1:]):
            if mask is None or at_block(mask, block, place):
                at = int(at_block(addresses, block, place))
                stored = at_block(layout.encode(values), block, place)
                raw(regions, at, layout.size)[:] = np.frombuffer(stored.tobytes(), np.uint8)
    expected = [region.data.copy() for region in regions]
    for observer in (None, Watcher()):
        for region, data in zip(regions, before, strict=True):
            region.data[:] = data
        store(Memory(regions), element, addresses, values, mask, blocks=blocks, observer=observer)
        for region, data in zip(regions, expected, strict=True):
            np.testing.assert_array_equal(region.data, data)


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
    (number,) = run_op("ptr_to_int", {"source": (pointer, addresses)}, tile(Scalar.I64, 6))
    assert (number - BASE).tolist() == [[0, 0, 1, 1, 2, 2]]
    found = load(memory, Scalar.F4E2M1FN, addresses)
    assert found.dtype == ml_dtypes.float4_e2m1fn
    assert found.view(np.uint8).tolist() == [[1, 14, 7, 4, 5, 15]]


def test_pointers_become_numbers_and_other_pointers() -> None:
    held = np.array([[BASE, BASE + 3]])
    for name, source, result in (
        ("ptr_to_int", tile(Pointer(Scalar.F32), 2), tile(Scalar.I64, 2)),
        ("int_to_ptr", tile(Scalar.I64, 2), tile(Pointer(Scalar.I8), 2)),
        ("ptr_to_ptr", tile(Pointer(Scalar.F32), 2), tile(Pointer(Scalar.I8), 2)),
    ):
        np.testing.assert_array_equal(run_op(name, {"source": (source, held)}, result)[0], held)


@pytest.mark.parametrize(
    ("element", "held"),
    [
        (Scalar.I4, np.array([1, -2, 7, -8], np.int8)),
        (Scalar.I1, np.array([True, False, False, True])),
        (Scalar.TF32, np.array([1.5, -2, 0, 3], np.float32)),
        (Scalar.F64, np.array([1.5, -2, 0, 3])),
    ],
)
def test_variables_of_a_module_are_loaded_and_stored(element: Scalar, held: Array) -> None:
    pointers = tile(Pointer(element), 4)
    data = held.tobytes()
    if element is Scalar.I1:
        data = np.packbits(held, bitorder="little").tobytes()
    elif element is Scalar.TF32:
        data = b"".join(
            int(bits >> 13).to_bytes(3, "little") for bits in held.view(np.uint32).tolist()
        )

    def fill(builder: Builder) -> None:
        def spread(name: str) -> Value:
            base = builder.op("get_global", {}, tile(Pointer(element)), {"name": name})
            wide = builder.op(
                "broadcast",
                {"source": builder.op("reshape", {"source": base}, tile(Pointer(element), 1))},
                pointers,
            )
            places = builder.constant(np.arange(4, dtype=np.int32), Scalar.I32, 4)
            made: Value = builder.op("offset", {"pointer": wide, "offset": places}, pointers)
            return made

        found, _ = builder.op(
            "load_ptr_tko", {"source": spread("table")}, [tile(element, 4), TOKEN], WEAK
        )
        builder.op("store_ptr_tko", {"destination": spread("copy"), "value": found}, TOKEN, WEAK)
        again, _ = builder.op(
            "load_ptr_tko", {"source": spread("copy")}, [tile(element, 4), TOKEN], WEAK
        )
        seen.append(again)
        builder.ret()

    seen: list[Value] = []
    kind = tile(element, 4)
    zeros = bytes(len(data))
    variables = [
        Global(name="table", type=kind, data=data, alignment=0, constant=True),
        Global(name="copy", type=kind, data=zeros, alignment=64),
    ]
    made = program([], fill, variables=variables)
    memory = Memory()
    with launched(made, [], (1, 1, 1), memory, Options()) as start:
        assert start is not None
        assert start.launch.globals["copy"] % 64 == 0
        frame = start.frame(np.arange(1))
        for step in (
            BINDERS[op.name](op, lambda block: lambda frame: ())
            for op in made.function.body.ops[:-1]
        ):
            step(frame)
        assert frame.get(seen[0]).tolist() == [held.tolist()]
        (table,) = [region for region in memory.regions if region.name == "table"]
        assert not table.writable
    assert memory.regions == ()


def test_an_address_past_the_end_names_the_parameter_and_the_element() -> None:
    array = np.zeros((4, 4), np.float32)
    region = MemoryRegion.of("x", array)
    addresses = region.address + 4 * np.arange(8)[:, None] * 4 + np.array([[0, 8]])
    with pytest.raises(FaultError) as error:
        load(Memory([region]), Scalar.F32, addresses, grid=(2, 2, 2))
    what = f"kernel: load_ptr_tko reads address {region.end:#x}, which is element 16 of x with 16 elements, in block (0, 0, 1)"
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


def test_addresses_far_from_all_memory() -> None:
    one = np.array([[8]])
    with pytest.raises(
        FaultError,
        match="store_ptr_tko writes address 0x8, which is in no memory of the launch: there is none, in block",
    ):
        store(Memory(), Scalar.F32, one, np.zeros((1, 1), np.float32))
    memory = Memory([MemoryRegion("x", BASE, np.zeros(4, np.uint8), itemsize=4)])
    with pytest.raises(
        FaultError,
        match="reads address 0x8, which is in no memory of the launch; the nearest is x with 1 element, in",
    ):
        load(memory, Scalar.F32, one)
    with pytest.raises(
        FaultError, match="is only partly in x: element 0 of 1 element, where 8 bytes do not fit"
    ):
        load(memory, Scalar.F64, np.array([[BASE]]))
    assert load(memory, Scalar.F32, one, np.array([[False]]), padding=5).tolist() == [[5]]


def test_an_address_between_elements() -> None:
    memory = Memory([MemoryRegion("x", BASE, np.zeros(64, np.uint8), itemsize=4)])
    addresses = np.array([[BASE, BASE + 6]])
    with pytest.raises(FaultError) as error:
        load(memory, Scalar.F32, addresses)
    what = f"load_ptr_tko is given address {BASE + 6:#x}, which is no multiple of the element's 4 bytes (byte 6 of x), in block (0, 0, 0)"
    assert error.value.what == f"kernel: {what}"
    load(memory, Scalar.F32, addresses, np.array([[True, False]]))


def test_a_constant_is_not_written() -> None:
    memory = Memory(
        [MemoryRegion("table", BASE, np.zeros(64, np.uint8), itemsize=4, writable=False)]
    )
    with pytest.raises(
        FaultError,
        match=r"store_ptr_tko writes element 2 of table, which may only be read, in block \(1, 0, 0\)",
    ):
        store(
            memory,
            Scalar.F32,
            np.array([[0], [BASE + 8]]),
            np.zeros((1, 1), np.float32),
            np.array([[False], [True]]),
            grid=(2, 1, 1),
        )


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
    memory = Memory()
    where = launch(4, memory)
    result = Value(0, tile(Pointer(Scalar.F32)))
    op = Op(
        name="alloca",
        results=(result,),
        operands={},
        attributes={"count": 3, "alignment": 64},
        regions=(),
        loc=None,
        number=7,
    )
    step = BINDERS["alloca"](op, lambda block: lambda frame: ())
    frame = Frame(where, np.arange(4))
    step(frame)
    first = frame.get(result)
    assert (first % 64 == 0).all()
    assert (np.diff(np.sort(first)) >= 12).all()
    store(memory, Scalar.F32, first[:, None], np.arange(4, dtype=np.float32)[:, None])
    # Some of the blocks once more, as in a loop: each has what it had.
    part = frame.narrow(np.array([2, 0]))
    step(part)
    assert load(memory, Scalar.F32, part.get(result)[:, None]).tolist() == [[2], [0]]
    frame.flush()
    assert memory.regions == ()
    with pytest.raises(FaultError, match="no memory of the launch"):
        load(memory, Scalar.F32, first[:, None])
