"""What the rules say of operations that do not fit: which operation, where, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.cpu.tileir.build import F32, I1, I32, I64, TOKEN, Builder, module, tile
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    FloatAttr,
    Global,
    MemoryOrder,
    MemoryScope,
    Overflow,
    Pointer,
    Predicate,
    Rounding,
    Scalar,
    Signedness,
    Value,
)
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.cpu.tileir.verify import RULES, verify
from tilec_runtime.errors import TileIRError

ROW = tile(Scalar.F32, 4)
POINTER = tile(Pointer(Scalar.F32))
NEAREST = {"rounding": Rounding.NEAREST_EVEN, "flush_to_zero": False}
Fill = Callable[..., object]


def said(fill: Fill, params: tuple[Any, ...] = (F32, I32, I1, POINTER), **more: Any) -> str:
    """What the error of a kernel says."""
    with pytest.raises(TileIRError) as caught:
        verify(module(params, fill, **more))
    return str(caught.value)


def test_every_operation_has_its_rules() -> None:
    assert RULES.keys() == OPS.keys()


def test_a_message_names_operation_place_and_what_to_do() -> None:
    def fill(b: Builder, x: Value, n: Value, *_: Value) -> None:
        b.op("negf", {"source": x}, F32, line=3)
        b.op("addf", {"lhs": x, "rhs": n}, F32, NEAREST, line=7)
        b.ret()

    with pytest.raises(TileIRError) as caught:
        verify(module((F32, I32, I1, POINTER), fill, name="sums"))
    assert str(caught.value) == (
        "kernel.py:7:1: Tile IR does not fit together: operation 1 of sums, addf: rhs is tile<i32>, but lhs is tile<f32>\n"
        "  cause: the compiler that wrote it has a fault (tileiras and drivers refuse this too), or the file is damaged\n"
        "  fix: build it again"
    )
    assert caught.value.kernel == "sums"
    assert caught.value.location is not None
    assert (
        caught.value.location.file,
        caught.value.location.line,
        caught.value.location.column,
    ) == ("kernel.py", 7, 1)


def one(
    name: str,
    operands: Callable[..., dict[str, Any]],
    results: Any = (),
    attributes: dict[str, Any] | None = None,
) -> Fill:
    """A kernel with one operation, whose operands are made from the parameters."""

    def fill(b: Builder, x: Value, n: Value, flag: Value, pointer: Value) -> None:
        b.op(name, operands(b, x, n, flag, pointer), results, attributes)
        b.ret()

    return fill


LOADED: dict[str, Any] = {"mask": None, "padding": None, "token": None}
CASES: dict[str, tuple[Fill, str]] = {
    "element": (
        one("negf", lambda b, x, n, *_: {"source": n}, I32),
        "negf: source is tile<i32>, not a tile of f16 or bf16 or f32 or f64",
    ),
    "rounding": (
        one(
            "addf",
            lambda b, x, *_: {"lhs": x, "rhs": x},
            F32,
            {"rounding": Rounding.APPROX, "flush_to_zero": False},
        ),
        "addf: rounding approx is not for f32",
    ),
    "conversion": (
        one(
            "ftof",
            lambda b, x, *_: {"source": x},
            tile(Scalar.F8E4M3FN),
            {"rounding": Rounding.ZERO},
        ),
        "ftof: rounding zero is not for f32 to f8E4M3FN",
    ),
    "shorter": (
        one("trunci", lambda b, x, n, *_: {"source": n}, I64, {"overflow": Overflow.NONE}),
        "trunci: source i32 and result i64 do not go together",
    ),
    "division": (
        one(
            "divi",
            lambda b, x, n, *_: {"lhs": n, "rhs": n},
            I32,
            {"signedness": Signedness.UNSIGNED, "rounding": Rounding.NEGATIVE_INF},
        ),
        "divi: rounding negative_inf is not for this division",
    ),
    "comparison": (
        one(
            "cmpi",
            lambda b, x, n, *_: {"lhs": n, "rhs": n},
            I32,
            {"predicate": Predicate.EQUAL, "signedness": Signedness.SIGNED},
        ),
        "cmpi: result is tile<i32>, not a tile of i1",
    ),
    "constant": (
        one("constant", lambda *_: {}, ROW, {"value": bytes(5)}),
        "constant: 5 bytes are no tile<4xf32>",
    ),
    "iota": (
        one("iota", lambda *_: {}, tile(Scalar.I8, 512)),
        "iota: tile<512xi8> cannot hold its indices",
    ),
    "broadcast": (
        one("broadcast", lambda b, x, *_: {"source": b.spread(x, 2)}, ROW),
        "broadcast: tile<2xf32> cannot be spread over tile<4xf32>",
    ),
    "reshape": (
        one("reshape", lambda b, x, *_: {"source": b.spread(x, 2)}, ROW),
        "reshape: tile<2xf32> and tile<4xf32> differ in size",
    ),
    "permutation": (
        one(
            "permute",
            lambda b, x, *_: {"source": b.spread(x, 2, 4)},
            tile(Scalar.F32, 4, 2),
            {"permutation": (1, 1)},
        ),
        "permute: permutation [1, 1] is none of the dimensions of tile<2x4xf32>",
    ),
    "cat": (
        one(
            "cat", lambda b, x, *_: {"lhs": b.spread(x, 2), "rhs": b.spread(x, 4)}, ROW, {"dim": 0}
        ),
        "cat: tile<2xf32> and tile<4xf32> do not make tile<4xf32>",
    ),
    "indices": (
        one(
            "extract",
            lambda b, x, n, *_: {"source": b.spread(x, 8, 4), "indices": (n,)},
            tile(Scalar.F32, 2, 4),
        ),
        "extract: 1 indices are given for tile<8x4xf32>",
    ),
    "mma": (
        one(
            "mmaf",
            lambda b, x, *_: {
                "lhs": b.spread(x, 4, 8),
                "rhs": b.spread(x, 4, 8),
                "acc": b.spread(x, 4, 8),
            },
            tile(Scalar.F32, 4, 8),
            {"fast_acc": False},
        ),
        "mmaf: tile<4x8xf32> times tile<4x8xf32> is no tile<4x8xf32>",
    ),
    "pointee": (
        one(
            "load_ptr_tko",
            lambda b, x, n, f, p: {"source": p, **LOADED},
            (I32, TOKEN),
            {"order": MemoryOrder.WEAK},
        ),
        "load_ptr_tko: tile<ptr<f32>> does not point to tile<i32>",
    ),
    "order": (
        one(
            "load_ptr_tko",
            lambda b, x, n, f, p: {"source": p, **LOADED},
            (F32, TOKEN),
            {"order": MemoryOrder.RELEASE},
        ),
        "load_ptr_tko: it cannot be release",
    ),
    "scope": (
        one(
            "load_ptr_tko",
            lambda b, x, n, f, p: {"source": p, **LOADED},
            (F32, TOKEN),
            {"order": MemoryOrder.ACQUIRE},
        ),
        "load_ptr_tko: acquire is without a scope",
    ),
    "atomic": (
        one(
            "atomic_rmw_tko",
            lambda b, x, n, f, p: {"pointers": p, "value": x, "mask": None, "token": None},
            (F32, TOKEN),
            {"order": MemoryOrder.RELAXED, "scope": MemoryScope.DEVICE, "mode": AtomicMode.MAX},
        ),
        "atomic_rmw_tko: max is not for tile<f32>",
    ),
    "global": (
        one("get_global", lambda *_: {}, POINTER, {"name": "table"}),
        "get_global: there is no global table",
    ),
    "join": (
        one("join_tokens", lambda b, *_: {"tokens": (b.op("make_token", {}, TOKEN),)}, TOKEN),
        "join_tokens: one token cannot be joined",
    ),
    "print": (
        one(
            "print_tko", lambda b, x, *_: {"args": (x,), "token": None}, TOKEN, {"text": "%d of %d"}
        ),
        "print_tko: its text has 2 conversions for 1 values",
    ),
    "percent": (
        one("print_tko", lambda *_: {"args": (), "token": None}, TOKEN, {"text": "100%"}),
        "print_tko: its text has a % that begins no conversion",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_operation(name: str) -> None:
    fill, message = CASES[name]
    assert f"of kernel, {message}\n" in said(fill)


def in_loop(*, ends: str = "continue", carried: Any = I32, given: Any = I32) -> Fill:
    def fill(b: Builder, x: Value, n: Value, flag: Value, pointer: Value) -> None:
        values = {I32: n, F32: x}
        body = b.region((I32, carried), lambda i, c: b.op(ends, {"values": values[given]}))
        b.op(
            "for",
            {"lower": n, "upper": n, "step": n, "init": n},
            I32,
            {"unsigned_cmp": False},
            (body,),
        )
        b.ret()

    return fill


def branches(first: str, second: str, results: Any = ()) -> Fill:
    def fill(b: Builder, x: Value, n: Value, flag: Value, pointer: Value) -> None:
        made = [
            b.region((), lambda name=name: b.op(name, {"values": ()})) for name in (first, second)
        ]
        b.op("if", {"condition": flag}, results, {}, made)
        b.ret()

    return fill


def unfinished(b: Builder, x: Value, *_: Value) -> None:
    b.op("negf", {"source": x}, F32)


def twice(b: Builder, *_: Value) -> None:
    b.ret()
    b.ret()


def effect(b: Builder, x: Value, n: Value, flag: Value, pointer: Value) -> None:
    def body(lhs: Value, rhs: Value) -> None:
        b.op("assert", {"condition": flag}, (), {"message": ""})
        b.op("yield", {"values": lhs})

    region = b.region((F32, F32), body)
    b.op(
        "reduce",
        {"operands": b.spread(x, 4)},
        F32,
        {"dim": 0, "identities": (FloatAttr(Scalar.F32, 0),)},
        (region,),
    )
    b.ret()


def reduced(result: Any, args: tuple[Any, ...], yielded: int = 1, **more: Any) -> Fill:
    """Adds up a row."""
    attributes = {"dim": 0, "identities": (FloatAttr(Scalar.F32, 0),), **more}

    def fill(b: Builder, x: Value, *_: Value) -> None:
        region = b.region(args, lambda *found: b.op("yield", {"values": found[:yielded]}))
        b.op("reduce", {"operands": b.spread(x, 4)}, result, attributes, (region,))
        b.ret()

    return fill


STRUCTURE: dict[str, tuple[Fill, str]] = {
    "no end": (unfinished, "the body in kernel ends without a terminator"),
    "two ends": (twice, "operation 0 of kernel, return: operations follow it in its block"),
    "break from a for": (in_loop(ends="break"), "break: it cannot end a block of for"),
    "yield from a for": (in_loop(ends="yield"), "yield: it cannot end a block of for"),
    "carried values": (
        in_loop(given=F32),
        "continue: the values are (tile<f32>) instead of (tile<i32>)",
    ),
    "arguments of a loop": (
        in_loop(carried=F32),
        "for: the arguments of its block are (tile<i32>, tile<f32>) instead of (tile<i32>, tile<i32>)",
    ),
    "continue without a loop": (
        branches("continue", "yield"),
        "continue: it cannot end a block of if",
    ),
    "no yield": (
        branches("yield", "return", I32),
        "yield: the values are () instead of (tile<i32>)",
    ),
    "effects in a reduction": (
        effect,
        "assert: it has effects, which the block of a reduction may not have",
    ),
    "result of a reduction": (
        reduced(ROW, (F32, F32)),
        "reduce: the result of tile<4xf32> is tile<4xf32>",
    ),
    "dimension": (
        reduced(F32, (F32, F32), dim=1),
        "reduce: there is no dimension 1 in tile<4xf32>",
    ),
    "identity": (
        reduced(F32, (F32, F32), identities=(FloatAttr(Scalar.F64, 0),)),
        "reduce: an identity of tile<4xf32> is of another type",
    ),
    "identities": (
        reduced(F32, (F32, F32), identities=()),
        "reduce: there are 1 operands, 0 identities and 1 results",
    ),
    "block of a reduction": (
        reduced(F32, (F32, I32)),
        "reduce: the arguments of its block are not two scalars for each operand",
    ),
    "yields of a reduction": (
        reduced(F32, (F32, F32), yielded=2),
        "yield: the values are (tile<f32>, tile<f32>) instead of (tile<f32>)",
    ),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_blocks(name: str) -> None:
    fill, message = STRUCTURE[name]
    assert f"{message}\n" in said(fill)


def done(b: Builder, *_: Value) -> None:
    b.ret()


def test_parameters_are_scalars() -> None:
    assert "parameter 1 of kernel is tile<4xf32>, not a number or a pointer\n" in said(
        done, (F32, ROW)
    )
    assert "parameter 0 of kernel is token, not a number or a pointer\n" in said(done, (TOKEN,))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ((("a", ROW, bytes(15), 0),), "the global a has 15 bytes for tile<4xf32>"),
        ((("a", F32, bytes(4), 0),), "the global a has 4 bytes for tile<f32>"),
        ((("a", ROW, bytes(16), 3),), "the global a has an alignment of 3 bytes"),
        ((("a", ROW, bytes(16), 0), ("a", ROW, bytes(4), 16)), "there are two globals a"),
    ],
)
def test_globals(variables: tuple[tuple[Any, ...], ...], message: str) -> None:
    made = tuple(
        Global(name=name, type=kind, data=data, alignment=alignment)
        for name, kind, data, alignment in variables
    )
    assert f"Tile IR cannot be read: {message}\n" in said(done, variables=made)
