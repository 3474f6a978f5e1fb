"""Kernels, built by hand, that do what cuda.tile cannot be brought to write; run by the interpreter
with the checker watching."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, I64, TOKEN, Builder, module, program, tile
from tilec_runtime.cpu.tileir.check.checker import Checker
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind, Side
from tilec_runtime.cpu.tileir.check.provenance import Provenance
from tilec_runtime.cpu.tileir.execute import Options, execute
from tilec_runtime.cpu.tileir.ir import (
    Bounded,
    DivBy,
    MemoryOrder,
    Op,
    Overflow,
    Pointer,
    Scalar,
    Tile,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import FaultError

POINTER = tile(Pointer(Scalar.I32))


WEAK = {"order": MemoryOrder.WEAK}


Fill = Callable[..., object]


def at(b: Builder, pointer: Value, number: Value) -> Value:
    found: Value = b.op("offset", {"pointer": pointer, "offset": number}, pointer.type)
    return found


def store(b: Builder, pointer: Value, value: Value, line: int = 0) -> None:
    b.op("store_ptr_tko", {"destination": pointer, "value": value}, TOKEN, WEAK, line=line)


def load(b: Builder, pointer: Value, line: int = 0) -> Value:
    found: Value = b.op("load_ptr_tko", {"source": pointer}, [I32, TOKEN], WEAK, line=line)[0]
    return found


def block(b: Builder) -> Value:
    found: Value = b.op("get_tile_block_id", {}, [I32, I32, I32])[0]
    return found


def ended(fill: Fill) -> Fill:
    """The same with a return at its end."""

    def whole(b: Builder, *args: Value) -> None:
        fill(b, *args)
        b.ret()

    return whole


def line(side: Finding | Side | None) -> int:
    assert side is not None
    assert side.location is not None
    return side.location.line


def checked(
    kinds: list[Tile],
    fill: Fill,
    arguments: list[Any],
    arrays: Mapping[str, Array],
    slots: list[str],
    blocks: int = 4,
    **options: Any,
) -> tuple[Finding, ...]:
    """What the checker finds in a launch; the arrays' addresses stand for their names in the
    arguments.
    """
    made = program(kinds, ended(fill))
    memory = Memory(MemoryRegion.of(name, array) for name, array in arrays.items())
    checker = Checker(made.function, memory, slots=slots, **options)
    given = [arrays[item].ctypes.data if isinstance(item, str) else item for item in arguments]
    execute(made, given, (blocks, 1, 1), memory, Options(observer=checker))
    return checker.findings


@pytest.mark.parametrize(
    ("promise", "x", "y", "overflows"),
    [
        (Overflow.NSW, 2**31 - 1, 1, True),
        (Overflow.NSW, 2**31 - 2, 1, False),
        (Overflow.NSW, -1, 1, False),
        (Overflow.NUW, -1, 1, True),
        (Overflow.NUW, 2**31 - 1, 1, False),
        (Overflow.NW, -1, 1, True),
        (Overflow.NONE, 2**31 - 1, 1, False),
    ],
)
def test_arithmetic_that_wraps_although_it_promises_not_to(
    promise: Overflow, x: int, y: int, overflows: bool
) -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        b.op("addi", {"lhs": x, "rhs": y}, I32, {"overflow": promise}, line=9)

    found = checked([I32, I32], fill, [x, y], {}, ["x", "y"])
    assert [item.kind for item in found] == [FindingKind.OVERFLOW] * overflows
    if overflows:
        assert (
            found[0].what
            == f"addi overflows where the kernel promises that it does not: {x} and {y}"
        )
        assert (line(found[0]), found[0].block, found[0].count) == (9, (0, 0, 0), 4)


def test_only_blocks_whose_arithmetic_wraps_count() -> None:
    def fill(b: Builder, x: Value) -> None:
        b.op("muli", {"lhs": x, "rhs": block(b)}, I32, {"overflow": Overflow.NSW})

    (found,) = checked([I32], fill, [2**30], {}, ["x"])
    assert (found.block, found.count) == ((2, 0, 0), 2)
    assert found.what.endswith(": 1073741824 and 2")


def test_a_misaligned_pointer_ends_the_launch_and_is_told() -> None:
    x = np.zeros(16, np.int32)

    def fill(b: Builder, pointer: Value) -> None:
        load(b, pointer, line=7)

    with pytest.raises(
        FaultError, match=r"no multiple of the element's 4 bytes \(byte 2 of x\)"
    ) as caught:
        checked([POINTER], fill, [x.ctypes.data + 2], {"x": x}, ["x.ptr"])
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.parameter) == (7, "x")


def test_promises_about_pointers_and_numbers() -> None:
    x = np.zeros(16, np.int32)

    def fill(b: Builder, pointer: Value, n: Value) -> None:
        b.op("assume", {"value": pointer}, POINTER, {"predicate": DivBy(4096)}, line=3)
        again = b.op("assume", {"value": n}, I32, {"predicate": Bounded(0, None)}, line=4)
        b.op("assume", {"value": again}, I32, {"predicate": Bounded(0, 100)}, line=5)

    address = (x.ctypes.data & ~4095) + 16
    first, second = checked([POINTER, I32], fill, [address, 200], {"x": x}, ["x.ptr", "n"])
    assert (
        first.what
        == f"the address of x, {address:#x}, is not a multiple of 4096 bytes, as the kernel assumes"
    )
    assert second.what == "n is 200; the kernel assumes that it is at least 0 and at most 100"
    assert [(item.kind, item.parameter, line(item)) for item in (first, second)] == [
        (FindingKind.BROKEN_PROMISE, "x", 3),
        (FindingKind.BROKEN_PROMISE, "n", 5),
    ]


def test_a_pointer_that_lands_in_another_parameter() -> None:
    """No memory lies between the parameters, so that no access is outside of all memory."""
    both = np.zeros(32, np.int32)

    def fill(b: Builder, x: Value, y: Value) -> None:
        load(b, x, line=1)
        store(b, at(b, y, b.constant(-3)), b.constant(1), line=3)

    found = checked(
        [POINTER, POINTER],
        fill,
        ["x", "y"],
        {"x": both[:16], "y": both[16:]},
        ["x.ptr", "y.ptr"],
        blocks=1,
    )
    (stray,) = found
    assert stray.what == "writes element [-3] of y, which has 16: that is memory of x"
    assert (stray.kind, stray.parameter, stray.index, line(stray)) == (
        FindingKind.OUT_OF_BOUNDS,
        "y",
        (-3,),
        3,
    )


def test_an_access_outside_belongs_to_its_pointer_and_not_to_what_lies_near() -> None:
    whole = np.zeros(1000, np.int32)

    def fill(b: Builder, x: Value, y: Value) -> None:
        store(b, at(b, y, b.constant(500)), b.constant(1))

    (found,) = checked(
        [POINTER, POINTER],
        fill,
        ["x", "y"],
        {"x": whole[510:520], "y": whole[:10]},
        ["x.ptr", "y.ptr"],
        blocks=1,
    )
    assert found.what == "writes element [500] of y, which has 10"


def test_elements_beyond_two_gigabytes_are_named_rightly() -> None:
    wide = tile(Pointer(Scalar.I32))
    x = np.zeros(8, np.int32)

    def fill(b: Builder, pointer: Value) -> None:
        load(b, at(b, pointer, b.constant(2**33, Scalar.I64)))

    (found,) = checked([wide], fill, ["x"], {"x": x}, ["x.ptr"], blocks=1)
    assert (found.index, found.what) == ((2**33,), "reads element [8589934592] of x, which has 8")


def gather(
    b: Builder, pointer: Value, stride: Value, first: Value, columns: int, mask: Value | None = None
) -> None:
    """Load `x[first, 0:columns]` as cuda.tile does: each index times its stride, added up."""
    shape = (columns,)
    single = [b.op("reshape", {"source": value}, tile(Scalar.I32, 1)) for value in (first, stride)]
    rows = [b.op("broadcast", {"source": value}, tile(Scalar.I32, *shape)) for value in single]
    plain = {"overflow": Overflow.NONE}
    row = b.op("muli", {"lhs": rows[0], "rhs": rows[1]}, tile(Scalar.I32, *shape), plain)
    column = b.op("iota", {}, tile(Scalar.I32, *shape))
    last = b.op(
        "muli",
        {"lhs": column, "rhs": b.constant(1, Scalar.I32, *shape)},
        tile(Scalar.I32, *shape),
        plain,
    )
    offset = b.op("addi", {"lhs": row, "rhs": last}, tile(Scalar.I32, *shape), plain)
    base = b.op("reshape", {"source": pointer}, tile(Pointer(Scalar.I32), 1))
    many = b.op("broadcast", {"source": base}, tile(Pointer(Scalar.I32), *shape))
    place = b.op("offset", {"pointer": many, "offset": offset}, tile(Pointer(Scalar.I32), *shape))
    b.op(
        "load_ptr_tko",
        {"source": place, "mask": mask},
        [tile(Scalar.I32, *shape), TOKEN],
        WEAK,
        line=50,
    )


@pytest.mark.parametrize(
    ("columns", "stride", "count", "what"),
    [
        (4, 12, 0, ""),
        (
            16,
            12,
            12,
            "reads element [0, 12] of x, whose extents are [4, 12]",
        ),  # three of its blocks stay in the memory of x
        (
            16,
            13,
            0,
            "",
        ),  # not the stride of x: these are other indices, and nothing is known of them
    ],
)
def test_an_index_beyond_its_extent_that_hits_the_next_row(
    columns: int, stride: int, count: int, what: str
) -> None:
    x = np.zeros((4, 12), np.int32)

    def fill(b: Builder, pointer: Value, step: Value) -> None:
        gather(b, pointer, step, block(b), columns)

    found = checked(
        [POINTER, I32], fill, ["x", stride], {"x": x}, ["x.ptr", "x.stride[0]"], blocks=3
    )
    assert [(one.kind, one.what, one.parameter, one.count, line(one)) for one in found] == [
        (FindingKind.OUT_OF_BOUNDS, what, "x", count, 50)
    ] * bool(count)


@pytest.mark.parametrize(
    ("number", "found"), [(0, ""), (11, ""), (12, "1 element"), (15, "4 elements"), (16, "")]
)
def test_memory_between_the_rows_of_an_array(number: int, found: str) -> None:
    x = np.zeros((4, 16), np.int32)[:, :12]
    findings = checked(
        [POINTER],
        lambda b, pointer: load(b, at(b, pointer, b.constant(number))),
        ["x"],
        {"x": x},
        ["x.ptr"],
        blocks=1,
    )
    assert [one.what for one in findings] == [
        f"reads memory {found} behind element [0, 11] of x, which is between its elements"
    ] * bool(found)


def test_elements_of_an_array_whose_rows_overlap_are_all_its_own() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(32, np.int32), (4, 6), (16, 8))
    fill = lambda b, pointer: load(b, at(b, pointer, b.constant(7)))  # noqa: E731
    assert checked([POINTER], fill, ["x"], {"x": x}, ["x.ptr"], blocks=1) == ()


def stored(b: Builder, pointer: Value) -> None:
    b.op("store_ptr_tko", {"destination": pointer, "value": b.constant(1)}, TOKEN, WEAK)


def loaded(b: Builder, pointer: Value, kind: Any = POINTER) -> Value:
    found: Value = b.op("load_ptr_tko", {"source": pointer}, [kind, TOKEN], WEAK)[0]
    return found


def provenance(fill: Callable[..., object]) -> tuple[Provenance, dict[str, Op]]:
    """Of a kernel with pointers x and y; and its operations by name."""

    def whole(b: Builder, *args: Value) -> None:
        fill(b, *args)
        b.ret()

    function = module([POINTER, POINTER], whole).functions[0]
    return Provenance(function, ["x", "y"]), {op.name: op for op in function.walk()}


def test_loops_hand_pointers_on() -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        def body(at: Value, pointer: Value) -> None:
            stored(b, pointer)
            b.op("continue", {"values": [y]})

        bounds = {name: b.constant(n) for name, n in (("lower", 0), ("upper", 4), ("step", 1))}
        b.op(
            "for",
            {**bounds, "init": [x]},
            [POINTER],
            {},
            [b.region([b.constant(0).type, POINTER], body)],
        )

    found, _ = provenance(fill)
    assert set(found.written or ()) == {"x", "y"}


def test_branches_yield_pointers() -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        both = [
            b.region((), lambda: b.op("yield", {"values": [y]})),
            b.region((), lambda: b.op("yield", {"values": [y]})),
        ]
        stored(b, b.op("if", {"condition": b.constant(True, Scalar.I1)}, [POINTER], {}, both))

    found, _ = provenance(fill)
    assert set(found.written or ()) == {"y"}


@pytest.mark.parametrize(
    "source",
    [
        lambda b, x: loaded(b, x, POINTER),
        lambda b, x: b.op("int_to_ptr", {"source": b.constant(64, Scalar.I64)}, POINTER),
        lambda b, x: b.op(
            "int_to_ptr", {"source": b.op("ptr_to_int", {"source": x}, I64)}, POINTER
        ),
        lambda b, x: b.op("get_global", {}, POINTER, {"name": "table"}),
    ],
)
def test_pointers_out_of_memory_and_numbers_are_anybodys(source: Callable[..., Value]) -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        stored(b, source(b, x))

    found, ops = provenance(fill)
    assert found.of(ops["store_ptr_tko"]) is None
    assert found.written is None
