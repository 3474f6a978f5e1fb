"""How Tile IR is printed: a whole kernel as a golden file, and what each part of an operation looks
like.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.unit.runtime.cpu.tileir.build import F32, I32, TOKEN, Builder, module, tile
from tilec_runtime.cpu.tileir.ir import (
    Attribute,
    GatherScatterView,
    Global,
    HintsAttr,
    IntegerAttr,
    Loc,
    Op,
    Padding,
    PartitionView,
    Pointer,
    Scalar,
    Signature,
    StridedView,
    TensorView,
    Tile,
    Type,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import FORMS, op_text, place_text, render

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
