"""Stepping through blocks: what each operation held, breakpoints, look-ups, and kernels as text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Golden
from tests.unit.runtime.cpu.tileir.build import F32, I32, TOKEN, Builder, module, tile
from tests.unit.runtime.cpu.tileir.test_control import less
from tilec_runtime.cpu.tileir import trace as tileir
from tilec_runtime.cpu.tileir.execute import Options, execute, prepare
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Attribute,
    GatherScatterView,
    Global,
    HintsAttr,
    IntegerAttr,
    Loc,
    MemoryOrder,
    MemoryScope,
    Module,
    Op,
    Overflow,
    Padding,
    PartitionView,
    Pointer,
    Predicate,
    Scalar,
    Signature,
    Signedness,
    StridedView,
    TensorView,
    Tile,
    Type,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import FORMS, op_text, place_text, render
from tilec_runtime.cpu.tileir.trace import short
from tilec_runtime.cpu.tileir.views import Tensor
from tilec_runtime.errors import ArgumentError, FaultError, UsageError

ROW = tile(Scalar.I32, 8)


def kernel() -> Module:
    """Adds the block's number to 0 .. 7, once more in each pass of a loop of two, and in block 3
    asserts what is not so.
    """

    def fill(b: Builder) -> None:
        x, _, _ = b.op("get_tile_block_id", {}, [I32] * 3)  # line 1
        row = b.op("iota", {}, ROW)
        wide = b.op(
            "broadcast", {"source": b.op("reshape", {"source": x}, tile(Scalar.I32, 1))}, ROW
        )

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
        b.op("assert", {"condition": less(b, x, b.constant(3))}, (), {"message": "far"}, line=70)
        b.ret()

    return module((), fill)


def test_each_step_shows_an_operation_with_its_tiles() -> None:
    steps = list(
        tileir.step(kernel(), [], (4, 1, 1), Memory(), (2, 0, 0), Options(output=lambda text: None))
    )
    names = [executed.op.name for executed in steps]
    assert names[:4] == ["get_tile_block_id", "iota", "reshape", "broadcast"]
    assert (names.count("addi"), names.count("for")) == (2, 1)
    assert {executed.block for executed in steps} == {(2, 0, 0)}
    assert [int(item) for item in steps[0].results] == [2, 0, 0]
    first, second = (executed for executed in steps if executed.op.name == "addi")
    assert first.line == 50
    assert first.operands["lhs"][0].tolist() == list(range(8))
    assert first.results[0].tolist() == [2 + i for i in range(8)]
    assert second.results[0].tolist() == [4 + i for i in range(8)]
    loop = next(executed for executed in steps if executed.op.name == "for")
    assert loop.starts
    assert loop.results == ()
    assert [int(loop.operands[name][0]) for name in ("lower", "upper", "step")] == [0, 2, 1]


def test_a_breakpoint_stops_at_each_pass_and_values_can_be_looked_up() -> None:
    with tileir.step(kernel(), [], (4, 1, 1), Memory(), (1, 0, 0)) as stepper:
        with pytest.raises(KeyError, match="%0 has no value yet"):
            stepper.value(0)
        first = stepper.run_to(50)
        assert first is not None
        number = first.op.results[0].index
        assert stepper.value(number).tolist() == [1 + i for i in range(8)]
        second = stepper.run_to(50, "kernel.py")
        assert second is not None
        assert stepper.value(second.op.results[0]).tolist() == [2 + i for i in range(8)]
        assert stepper.run_to(50, "other.py") is None
        assert stepper.last is not None
        assert list(stepper) == []


def test_numpy_warns_as_before_while_a_kernel_is_stepped_through() -> None:
    with (
        np.errstate(all="raise"),
        tileir.step(kernel(), [], (4, 1, 1), Memory(), (1, 0, 0)) as stepper,
    ):
        assert stepper.run_to(50) is not None
        assert set(np.geterr().values()) == {"raise"}


def test_a_fault_comes_out_of_the_step_that_meets_it() -> None:
    stepper = tileir.step(
        kernel(), [], (4, 1, 1), Memory(), (3, 0, 0), Options(output=lambda text: None)
    )
    assert stepper.run_to(60) is not None
    with pytest.raises(FaultError, match=r"block \(3, 0, 0\): the assertion failed: far"):
        stepper.finish()


def test_blocks_must_be_of_the_grid() -> None:
    with pytest.raises(UsageError, match=r"block \(4, 0, 0\) is not of the grid \(4, 1, 1\)"):
        tileir.step(kernel(), [], (4, 1, 1), Memory(), (4, 0, 0))


def test_grids_and_blocks_of_one_axis_are_numbers() -> None:
    for grid, block in ((4, 1), ((4,), (1,)), ((4, 1), [1, 0]), ((4, 1, 1), [(1,)])):
        with tileir.step(
            kernel(), [], grid, Memory(), block, Options(output=lambda text: None)
        ) as stepper:
            assert next(stepper).block == (1, 0, 0)


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        ((4, 1, 1, 1), 0, r"grid is \(4, 1, 1, 1\)"),
        ("4", 0, "grid is '4'"),
        (2.5, 0, "grid is 2.5"),
        (4, (1.5,), r"block is \(1.5,\)"),
        (4, None, "block is None"),
        (True, 0, "grid is True"),
    ],
)
def test_other_grids_and_blocks_are_none(grid: Any, block: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words) as caught:
        tileir.step(kernel(), [], grid, Memory(), block)
    assert caught.value.fix == "give one to three whole numbers: 3, or (3, 1, 1)"


def test_a_trace_has_a_line_for_each_operation() -> None:
    steps = tileir.step(
        prepare(kernel()), [], (4, 1, 1), Memory(), (2, 0, 0), Options(output=lambda text: None)
    )
    lines = [str(executed) for executed in steps]
    assert lines[0].startswith(
        "kernel.py:1:1: %0, %1, %2 = get_tile_block_id  -> int32 2, int32 0, int32 0"
    )
    assert any(line.endswith("broadcast %4  -> int32[8] 2, 2, 2, 2, 2, 2, ...") for line in lines)
    assert any(
        line.startswith("kernel.py:40:1: ")
        and " for " in line
        and " <- int32 0, int32 2, int32 1" in line
        for line in lines
    )


def test_tiles_are_shown_short() -> None:
    assert short(np.float32(0.1)[None][0:1]) == "float32[1] 0.1"
    assert (
        short(np.zeros((2, 4), np.bool_))
        == "bool[2x4] False, False, False, False, False, False, ..."
    )
    assert (
        short(Tensor(np.array([4096]), np.array([[3, 4]]), np.array([[4, 1]])))
        == "tensor (3, 4) at 0x1000"
    )
    assert short(object()) == "object"


def test_stepping_gives_what_a_launch_gives() -> None:
    stepped: list[str] = []
    launched: list[str] = []
    for x in range(3):
        tileir.step(
            kernel(), [], (3, 1, 1), Memory(), (x, 0, 0), Options(output=stepped.append)
        ).finish()
    execute(prepare(kernel()), [], (3, 1, 1), Memory(), Options(output=launched.append))
    assert "".join(stepped) == "".join(launched)


def test_a_trace_shows_what_attributes_say_and_addresses_by_parameter() -> None:
    """So that the lines of two runs, whose memory lies elsewhere, are the same."""
    pointers = tile(Pointer(Scalar.F32), 4)

    def fill(b: Builder, x: Value, limit: Value) -> None:
        wide = b.op(
            "broadcast",
            {"source": b.op("reshape", {"source": x}, tile(Pointer(Scalar.F32), 1))},
            pointers,
        )
        index = b.op("iota", {}, tile(Scalar.I32, 4))
        at = b.op("offset", {"pointer": wide, "offset": index}, pointers)
        bound = b.op(
            "broadcast",
            {"source": b.op("reshape", {"source": limit}, tile(Scalar.I32, 1))},
            tile(Scalar.I32, 4),
        )
        compare = {"predicate": Predicate.LESS_THAN, "signedness": Signedness.SIGNED}
        mask = b.op("cmpi", {"lhs": index, "rhs": bound}, tile(Scalar.I1, 4), compare)
        one = b.constant(np.ones(4, "f4"), Scalar.F32, 4)
        mode = {"order": MemoryOrder.RELAXED, "scope": MemoryScope.DEVICE, "mode": AtomicMode.ADDF}
        b.op(
            "atomic_rmw_tko",
            {"pointers": at, "value": one, "mask": mask},
            [tile(Scalar.F32, 4), TOKEN],
            mode,
        )
        b.ret()

    made = module((tile(Pointer(Scalar.F32)), I32), fill)
    seen = []
    for _ in range(2):
        memory = Memory()
        region = memory.new("x", 8)
        region.itemsize = 4
        stepper = tileir.step(made, [region.address, 2], (1, 1, 1), memory)
        assert [f"%{value.index} {held}" for value, held in stepper.parameters()] == [
            "%0 ptr<f32> x+0",
            "%1 int32 2",
        ]
        seen.append("\n".join(map(str, stepper)))
    assert seen[0] == seen[1]
    assert (
        "offset %3, %4  -> ptr<f32>[4] x+0, x+1, x+2, x+3" in seen[0]
    )  # two of them out of bounds
    assert "cmpi less_than signed %4, %7  -> bool[4] True, True, False, False" in seen[0]
    assert "atomic_rmw_tko relaxed device addf %5, %9, %8  -> float32[4] 0, 0, " in seen[0]


def test_parameters_that_share_their_memory_keep_their_names() -> None:
    data = np.zeros(4, "f4")
    made = module((tile(Pointer(Scalar.F32)), tile(Pointer(Scalar.F32))), lambda b, x, y: b.ret())
    memory = Memory([MemoryRegion.of("x", data), MemoryRegion.of("y", data)])
    stepper = tileir.step(made, [data.ctypes.data] * 2, (1, 1, 1), memory)
    assert [held for _, held in stepper.parameters()] == ["ptr<f32> x+0", "ptr<f32> y+0"]


FOLDER = Path(__file__).parents[4]


SAMPLE = FOLDER / "samples" / "tileir" / "scale.tilebc"


SOURCE = "tests/samples/tileir/scale.py"


POINTER = tile(Pointer(Scalar.F32))


MATRIX = TensorView(Scalar.F32, (None, 4), (4, 1))


def test_a_kernel_with_its_source_lines(golden: Golden) -> None:
    sources = {SOURCE: (FOLDER.parent / SOURCE).read_text(encoding="utf-8").splitlines()}
    golden(
        FOLDER / "golden" / "tileir" / "scale.txt",
        render(read_module(SAMPLE.read_bytes()), sources),
    )


def test_every_operation_has_a_form() -> None:
    assert FORMS.keys() == OPS.keys()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (tile(Scalar.F32), "tile<f32>"),
        (tile(Scalar.F8E5M3FNU, 2, 4), "tile<2x4xfnv8E5M3FNU>"),
        (tile(Pointer(Scalar.I8), 4), "tile<4xptr<i8>>"),
        (Pointer(Scalar.F16, 0), "ptr<f16, <none>>"),
        (TensorView(Scalar.F16, (), ()), "tensor_view<f16>"),
        (
            TensorView(Scalar.F16, (4,), (1,), 0),
            "tensor_view<4xf16, strides=[1], #cuda_tile.ptr_attr<none>>",
        ),
        (
            PartitionView((2, 8), MATRIX, (0, 1)),
            "partition_view<tile=(2x8), tensor_view<?x4xf32, strides=[4,1]>>",
        ),
        (
            PartitionView((2, 8), MATRIX, (1, 0), Padding.NAN),
            "partition_view<tile=(2x8), padding_value = nan, tensor_view<?x4xf32, strides=[4,1]>, dim_map=[1, 0]>",
        ),
        (
            StridedView((2, 8), (1, 4), MATRIX, (0, 1)),
            "strided_view<tile=(2x8), traversal_strides=[1,4], tensor_view<?x4xf32, strides=[4,1]>>",
        ),
        (
            GatherScatterView((2, 8), MATRIX, 1, Padding.ZERO),
            "gather_scatter_view<tile=(2x8), padding_value = zero, tensor_view<?x4xf32, strides=[4,1]>, sparse_dim=1>",
        ),
        (TOKEN, "token"),
        (Signature((F32, TOKEN), (I32,)), "(tile<f32>, token) -> (tile<i32>)"),
    ],
)
def test_types(kind: Type, text: str) -> None:
    assert type_text(kind) == text


def op(
    name: str,
    operands: dict[str, tuple[Type, ...]],
    results: tuple[Type, ...] = (),
    **attributes: Attribute,
) -> str:
    """The text of an operation, its operands %0, %1 … and its results behind them."""
    number = 0

    def value(kind: Type) -> Value:
        nonlocal number
        number += 1
        return Value(number - 1, kind)

    given = {key: tuple(value(kind) for kind in types) for key, types in operands.items()}
    made = tuple(value(kind) for kind in results)
    return op_text(
        Op(
            name=name,
            results=made,
            operands=given,
            attributes=attributes,
            regions=(),
            loc=None,
            number=0,
        )
    )


def constant(kind: Tile, data: bytes) -> str:
    return (
        op("constant", {}, (kind,), value=data)
        .removeprefix("%0 = constant ")
        .removesuffix(f" : {type_text(kind)}")
    )


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
    assert constant(kind, data) == text


HINTS = HintsAttr({"sm_90": {"latency": IntegerAttr(Scalar.I32, 3), "allow_tma": False}})


def test_globals_producer_and_functions() -> None:
    def fill(b: Builder) -> None:
        b.ret()

    table = Global(
        name="table",
        type=tile(Scalar.I8, 2),
        data=b"\1\2",
        alignment=16,
        constant=True,
        private=True,
    )
    whole = dataclasses.replace(module((), fill, variables=(table,)), producer="somebody 1.0")
    assert render(whole) == (
        "// Tile IR 13.4, by somebody 1.0\n"
        "global private constant @table <i8: [1, 2]> alignment = 16 : tile<2xi8>\n"
        "\n"
        "entry @kernel() {  // kernel.py:1:1\n"
        "  return  // kernel.py:1:1\n"
        "}\n"
    )


def test_operations_of_a_library_stand_under_the_line_that_calls_it() -> None:
    place = Loc("lib.py", 3, 0, Loc("kernel.py", 2, 4))
    assert place_text(place) == "lib.py:3:1, called at kernel.py:2:5"
    assert place_text(None) == ""

    def fill(b: Builder, x: Value) -> None:
        b.op("negf", {"source": x}, F32)
        b.ret()

    whole = module((F32,), fill)
    [function] = whole.functions
    negated, end = function.body.ops
    ops = (dataclasses.replace(negated, loc=place), dataclasses.replace(end, loc=None))
    whole = dataclasses.replace(
        whole,
        functions=(
            dataclasses.replace(
                function, loc=None, body=dataclasses.replace(function.body, ops=ops)
            ),
        ),
    )
    assert render(whole, {"kernel.py": ["def kernel(x):", "    lib.negate(x)"]}).splitlines()[
        2:
    ] == [
        "entry @kernel(%0: tile<f32>) {",
        "  // kernel.py:2 | lib.negate(x)",
        "  %1 = negf %0 : tile<f32>  // lib.py:3:1, called at kernel.py:2:5",
        "  return",
        "}",
    ]
