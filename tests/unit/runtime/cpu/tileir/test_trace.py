"""Stepping through blocks: what each operation held, breakpoints, look-ups, and kernels as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Golden
from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, Builder, module, region_of, tile
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import (
    Op,
    Overflow,
    Pointer,
    Scalar,
    Tile,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.cpu.tileir.program import Program, prepare
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import FORMS, op_text, render
from tilec_runtime.cpu.tileir.trace import Stepper
from tilec_runtime.errors import ArgumentError, FaultError

ROW, POINTER = tile(Scalar.I32, 8), tile(Pointer(Scalar.I32))


def kernel() -> Program:
    """Adds the block's number to 0 .. 7, once more in each pass of a loop of two, and in block 3
    asserts what is not so.
    """

    def fill(b: Builder) -> None:
        x = b.block()  # line 1
        row = b.op("iota", {}, ROW)
        wide = b.spread(x, 8)

        def body(_: Value, total: Value) -> None:
            more = b.op(
                "addi", {"lhs": total, "rhs": wide}, ROW, {"overflow": Overflow.NONE}, line=50
            )
            b.op("continue", {"values": [more]})

        ends = {
            "lower": b.constant(0),
            "upper": b.constant(2),
            "step": b.constant(1),
            "init": [row],
        }
        total = b.op("for", ends, [ROW], {}, [b.region([I32, ROW], body)], line=40)
        b.op("print_tko", {"args": [total]}, TOKEN, {"text": "%d\n"}, line=60)
        b.op("assert", {"condition": b.compare(x, b.constant(3))}, (), {"message": "far"}, line=70)
        b.ret()

    return prepare(module((), fill))


def test_each_step_shows_an_operation_with_its_tiles() -> None:
    steps = list(
        Stepper(kernel(), [], (4, 1, 1), Memory(), (2, 0, 0), Options(output=lambda text: None))
    )
    names = [executed.op.name for executed in steps]
    assert names[:4] == ["get_tile_block_id", "iota", "reshape", "broadcast"]
    assert (names.count("addi"), names.count("for")) == (2, 1)
    assert {executed.block for executed in steps} == {(2, 0, 0)}
    assert [int(item) for item in steps[0].results] == [2, 0, 0]
    first, second = (executed for executed in steps if executed.op.name == "addi")
    assert str(first.location) == "kernel.py:50:1"
    assert first.operands["lhs"][0].tolist() == list(range(8))
    assert first.results[0].tolist() == [2 + i for i in range(8)]
    assert second.results[0].tolist() == [4 + i for i in range(8)]
    loop = next(executed for executed in steps if executed.op.name == "for")
    assert loop.starts
    assert loop.results == ()
    assert [int(loop.operands[name][0]) for name in ("lower", "upper", "step")] == [0, 2, 1]


def test_a_breakpoint_stops_at_each_pass() -> None:
    with Stepper(kernel(), [], (4, 1, 1), Memory(), (1, 0, 0)) as stepper:
        for number, file in enumerate(("", "kernel.py"), start=1):
            executed = stepper.run_to(50, file)
            assert executed is not None
            assert executed.results[0].tolist() == [number + i for i in range(8)]
        assert stepper.run_to(50, "other.py") is None
        assert list(stepper) == []


def test_a_fault_comes_out_of_the_step_that_meets_it() -> None:
    stepper = Stepper(
        kernel(), [], (4, 1, 1), Memory(), (3, 0, 0), Options(output=lambda text: None)
    )
    assert stepper.run_to(60) is not None
    with pytest.raises(FaultError, match=r"block \(3, 0, 0\): the assertion failed: far"):
        list(stepper)


@pytest.mark.parametrize("block", [(1.5,), None, (1, 2, 3, 4), True])
def test_other_blocks_are_none(block: Any) -> None:
    with pytest.raises(ArgumentError, match="block is") as caught:
        Stepper(kernel(), [], (4, 1, 1), Memory(), block)
    assert caught.value.fix == "give one to three whole numbers: 3, or (3, 0, 0)"


def test_a_trace_has_a_line_for_each_operation() -> None:
    """Addresses are told by parameter, so that the lines of two runs are the same; parameters that
    share their memory keep their names.
    """

    def fill(b: Builder, x: Value, _: Value) -> None:
        at = b.op("offset", {"pointer": x, "offset": b.block()}, POINTER)
        b.compare(b.load(at, I32), b.constant(7))
        b.ret()

    data = np.zeros(2, np.int32)
    memory = Memory([region_of("x", data), region_of("y", data)])
    made = prepare(module((POINTER, POINTER), fill))
    stepper = Stepper(made, [data.ctypes.data] * 2, (2, 1, 1), memory, (1, 0, 0))
    assert [str(held) for _, held in stepper.parameters()] == ["ptr<i32> x+0", "ptr<i32> y+0"]
    assert [str(executed) for executed in stepper] == [
        "kernel.py:1:1: %2, %3, %4 = get_tile_block_id  -> int32 1, int32 0, int32 0",
        "kernel.py:2:1: %5 = offset %0, %2  -> ptr<i32> x+1",
        "kernel.py:3:1: %6, %7 = load_ptr_tko weak %5  -> int32 0",
        "kernel.py:4:1: %8 = constant  -> int32 7",
        "kernel.py:5:1: %9 = cmpi less_than signed %6, %8  -> bool True",
    ]


FOLDER = Path(__file__).parents[4]


def test_a_kernel_with_its_source_lines(golden: Golden) -> None:
    source, sample = FOLDER / "samples/tileir/scale.py", FOLDER / "samples/tileir/scale.tilebc"
    lines = {"tests/samples/tileir/scale.py": source.read_text(encoding="utf-8").splitlines()}
    text = render(read_module(sample.read_bytes()), lines)
    golden(FOLDER / "golden/tileir/scale.txt", text)


def test_every_operation_has_a_form() -> None:
    assert FORMS.keys() == OPS.keys()


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (tile(Scalar.F32), b"\0\0\x80\x3f", "<f32: 1.0>"),
        (tile(Scalar.I32, 1024), b"\xff\xff\xff\xff", "<i32: -1>"),
        (tile(Scalar.I32, 2), b"\1\0\0\0\1\0\0\0", "<i32: 1>"),
        (tile(Scalar.F32, 2), b"\0\0\0\0\0\0\0\x80", "<f32: [0.0, -0.0]>"),
        (tile(Scalar.I8, 2, 2), b"\1\2\3\4", "<i8: [[1, 2], [3, 4]]>"),
        (tile(Scalar.I1, 2), b"\1", "<i1: [true, false]>"),
        (tile(Scalar.I8, 32), bytes(range(32)), "<i8: 0, 1, 2, 3, 4, 5, 6, 7, ... 32 in all>"),
        (tile(Scalar.F32, 2), b"\0\0\xc0\x7f\0\0\x80\xff", "<f32: [nan, -inf]>"),
    ],
)
def test_constants(kind: Tile, data: bytes, text: str) -> None:
    constant = Op(
        name="constant",
        results=(Value(0, kind),),
        operands={},
        attributes={"value": data},
        regions=(),
        loc=None,
        number=0,
    )
    assert op_text(constant) == f"%0 = constant {text} : {type_text(kind)}"
