"""Kernels, built by hand, that do what cuda.tile cannot be brought to write; run by the interpreter
with the checker watching."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, I64, Builder, module, program, region_of, tile
from tilec_runtime.cpu.tileir.check.checker import Checker
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind, Side
from tilec_runtime.cpu.tileir.check.provenance import Provenance
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import (
    Overflow,
    Pointer,
    Scalar,
    Tile,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.values import Array

POINTER = tile(Pointer(Scalar.I32))


Fill = Callable[..., object]


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
    memory = Memory(region_of(name, array) for name, array in arrays.items())
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


BOTH, WHOLE = np.zeros(32, np.int32), np.zeros(1000, np.int32)


@pytest.mark.parametrize(
    ("x", "y", "element", "what"),
    [
        # No memory lies between the parameters, so that no access is outside of all memory.
        (BOTH[:16], BOTH[16:], -3, "[-3] of y, which has 16: that is memory of x"),
        # It belongs to its pointer, and not to what lies near.
        (WHOLE[510:520], WHOLE[:10], 500, "[500] of y, which has 10"),
        (WHOLE[:8], BOTH[:8], 2**33, "[8589934592] of y, which has 8"),
    ],
)
def test_an_access_outside_names_parameter_and_element(
    x: Array, y: Array, element: int, what: str
) -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        b.load(x)
        b.store(b.at(y, b.constant(element, Scalar.I64)), b.constant(1), line=5)

    arrays, slots = {"x": x, "y": y}, ["x.ptr", "y.ptr"]
    (found,) = checked([POINTER, POINTER], fill, ["x", "y"], arrays, slots, blocks=1)
    assert found.what == f"writes element {what}"
    assert (found.kind, found.parameter, found.index, line(found)) == (
        FindingKind.OUT_OF_BOUNDS,
        "y",
        (element,),
        5,
    )


def gather(b: Builder, pointer: Value, stride: Value, first: Value, columns: int) -> None:
    """Load `x[first, 0:columns]` as cuda.tile does: each index times its stride, added up."""
    kind, plain = tile(Scalar.I32, columns), {"overflow": Overflow.NONE}
    rows, strides = b.spread(first, columns), b.spread(stride, columns)
    row = b.op("muli", {"lhs": rows, "rhs": strides}, kind, plain)
    ones = b.constant(1, Scalar.I32, columns)
    column = b.op("muli", {"lhs": b.op("iota", {}, kind), "rhs": ones}, kind, plain)
    b.load(b.at(b.spread(pointer, columns), b.add(row, column)), kind, line=50)


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
        gather(b, pointer, step, b.block(), columns)

    found = checked(
        [POINTER, I32], fill, ["x", stride], {"x": x}, ["x.ptr", "x.stride[0]"], blocks=3
    )
    assert [(one.kind, one.what, one.parameter, one.count, line(one)) for one in found] == [
        (FindingKind.OUT_OF_BOUNDS, what, "x", count, 50)
    ] * bool(count)


@pytest.mark.parametrize(
    ("number", "found"), [(0, False), (11, False), (12, True), (15, True), (16, False)]
)
def test_memory_between_the_rows_of_an_array(number: int, found: bool) -> None:
    x = np.zeros((4, 16), np.int32)[:, :12]
    findings = checked(
        [POINTER],
        lambda b, pointer: b.load(b.at(pointer, b.constant(number))),
        ["x"],
        {"x": x},
        ["x.ptr"],
        blocks=1,
    )
    assert [one.what for one in findings] == [
        "reads memory behind element [0, 11] of x, which is between its elements"
    ] * found


def test_elements_of_an_array_whose_rows_overlap_are_all_its_own() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(32, np.int32), (4, 6), (16, 8))
    fill = lambda b, pointer: b.load(b.at(pointer, b.constant(7)))  # noqa: E731
    assert checked([POINTER], fill, ["x"], {"x": x}, ["x.ptr"], blocks=1) == ()


def handed_on(b: Builder, x: Value, y: Value) -> Value:
    """By a loop: x where it makes no pass, else y."""
    ends = {name: b.constant(n) for name, n in (("lower", 0), ("upper", 4), ("step", 1))}
    body = b.region([I32, POINTER], lambda *_: b.op("continue", {"values": [y]}))
    found: Value = b.op("for", {**ends, "init": [x]}, [POINTER], {}, [body])
    return found


def yielded(b: Builder, x: Value, y: Value) -> Value:
    both = [b.region((), lambda: b.op("yield", {"values": [y]})) for _ in range(2)]
    found: Value = b.op("if", {"condition": b.constant(True, Scalar.I1)}, [POINTER], {}, both)
    return found


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (handed_on, {"x", "y"}),
        (yielded, {"y"}),
        (lambda b, x, y: b.load(x, POINTER), None),
        (lambda b, x, y: b.op("int_to_ptr", {"source": b.constant(64, Scalar.I64)}, POINTER), None),
        (
            lambda b, x, y: b.op(
                "int_to_ptr", {"source": b.op("ptr_to_int", {"source": x}, I64)}, POINTER
            ),
            None,
        ),
        (lambda b, x, y: b.op("get_global", {}, POINTER, {"name": "table"}), None),
    ],
)
def test_pointers_are_followed_to_parameters(
    source: Callable[..., Value], written: set[str] | None
) -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        b.store(source(b, x, y), b.constant(1))

    found = Provenance(module([POINTER, POINTER], ended(fill)).functions[0], ["x", "y"])
    assert (None if found.written is None else set(found.written)) == written
