"""A sound use of every operation that cuda-tile's encoder writes, and what builds a module around
one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tests.toolchain.tile_encoder import (
    Body,
    Writer,
    bounded,
    div_by,
    enum,
    floating,
    hints,
    integer,
)
from tests.unit.runtime.cpu.tileir.build import gathered, partition
from tilec_runtime.cpu.tileir.ir import (
    Padding,
    Pointer,
    Scalar,
    TensorView,
    Tile,
    Token,
    Type,
    Version,
    View,
)

Given: TypeAlias = "Type | Sequence[Type] | None"
Region: TypeAlias = "tuple[Sequence[Type], Callable[[Body], None]]"
F16, BF16, F32, F64, TF32 = Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64, Scalar.TF32
I1, I4, I8, I16, I32, I64 = Scalar.I1, Scalar.I4, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64
E4M3, E8M0, F4 = Scalar.F8E4M3FN, Scalar.F8E8M0FNU, Scalar.F4E2M1FN
TOKEN = Token()


def tile(element: Scalar | Pointer, *shape: int) -> Tile:
    return Tile(element, shape)


def pointers(pointee: Scalar, *shape: int) -> Tile:
    return Tile(Pointer(pointee), shape)


FLAG, INT = tile(I1), tile(I32)
MATRIX = TensorView(F32, (None, 64), (64, 1))
PARTS = partition((4, 8), MATRIX, (0, 1), Padding.NAN)
TURNED = partition((4, 8), MATRIX, (1, 0))
STEPS = partition((4, 8), MATRIX, (0, 1), Padding.ZERO, (2, 8))
ROWS = gathered((4, 8), MATRIX, 0, Padding.NEG_INF)
COLUMNS = gathered((4, 8), MATRIX, 1)
R, S, V = enum("RoundingMode"), enum("Signedness"), enum("IntegerOverflow")
ORDER, SCOPE, MODE = enum("MemoryOrderingSemantics"), enum("MemoryScope"), enum("AtomicRMWMode")
COMPARE, NANS = enum("ComparisonPredicate"), enum("ComparisonOrdering")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A use of an operation, its parts as the encoder takes them. An attribute that is a function
    is called with the body.
    """

    name: str
    results: tuple[Given, ...] = ()
    operands: tuple[Given, ...] = ()
    attributes: tuple[Any, ...] = ()
    regions: tuple[Region, ...] = ()
    variables: tuple[tuple[str, Type, bytes], ...] = ()


def call(name: str, results: Any = (), operands: Any = (), *attributes: Any, **more: Any) -> Call:
    return Call(
        name=name,
        results=_several(results),
        operands=_several(operands),
        attributes=attributes,
        **more,
    )


def _several(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def module(use: Call, version: Version = (13, 4)) -> bytes:
    """A kernel that makes the operands out of its parameters, and then does the one operation."""
    wanted = [
        kind
        for given in use.operands
        for kind in (given if isinstance(given, list) else [given] if given else [])
    ]

    def fill(body: Body) -> None:
        parameters = iter(list(body.values))
        made = iter([_make(body, kind, parameters) for kind in wanted])
        operands = [
            [next(made) for _ in given]
            if isinstance(given, list)
            else next(made)
            if given
            else None
            for given in use.operands
        ]
        results = [
            body.types(given) if isinstance(given, list) else body.types([given])[0]
            for given in use.results
        ]
        attributes = [
            item(body) if callable(item) and not isinstance(item, type) else item
            for item in use.attributes
        ]
        body.write(use.name, *results, *operands, *attributes, regions=use.regions)
        if use.name not in ("Return", "Yield", "Break", "Continue"):
            body.write("Return", [])

    return Writer(version).module(
        [kind for given in wanted for kind in _needs(given)], fill, variables=use.variables
    )


def _needs(kind: Type) -> Iterator[Type]:
    """Scalar parameters that a value is made of."""
    match kind:
        case Tile(element, _) if element is not F4:
            yield Tile(element, ())
        case TensorView(element, shape, strides, mark):
            yield Tile(Pointer(element, mark), ())
            yield from (INT for extent in (*shape, *strides) if extent is None)
        case View():
            yield from _needs(kind.tensor)


def _make(body: Body, kind: Type, given: Iterator[Any]) -> Any:
    [number] = body.types([kind])
    match kind:
        case Tile(element, shape):
            # A single number of four bits does not exist.
            value = body.write("Constant", number, b"\0")[0] if element is F4 else next(given)
            if shape and element is not F4:
                [value] = body.write(
                    "Reshape", body.types([Tile(element, (1,) * len(shape))])[0], value
                )
            return (
                body.write("Broadcast", number, value)[0]
                if set(shape) - {1} and element is not F4
                else value
            )
        case TensorView(_, shape, strides, _):
            base = next(given)
            extents, steps = (
                [next(given) for extent in numbers if extent is None]
                for numbers in (shape, strides)
            )
            return body.write("MakeTensorView", number, base, extents, steps)[0]
        case Token():
            return body.write("MakeToken", number)[0]
        case _:
            makers = {
                "partition_view": "MakePartitionView",
                "strided_view": "MakeStridedView",
                "gather_scatter_view": "MakeGatherScatterView",
            }
            return body.write(makers[kind.name], number, _make(body, kind.tensor, given))[0]


def _ends(name: str, *places: int) -> Callable[[Body], None]:
    def end(body: Body) -> None:
        body.write(name, [body.values[place] for place in places])

    return end


def _sums(body: Body) -> None:
    body.write("AddF", body.types([tile(F32)])[0], *body.values[-2:], R.NEAREST_EVEN, False)
    _ends("Yield", -1)(body)


def _picks(body: Body) -> None:
    _ends("Yield", -4, -2)(body)


def _leaves(body: Body) -> None:
    body.write("If", [], body.values[-1], regions=[([], _ends("Break", -1)), ([], _ends("Yield"))])
    _ends("Continue", -1)(body)


PAIR = [tile(F32, 4, 8), tile(I32, 4, 8)]
IDENTITIES = (
    lambda b: [floating(b, F32, 0.0)],
    lambda b: [floating(b, F32, float("-inf")), integer(b, I32, -1)],
)
WEAK = (ORDER.WEAK, None, None)


def _hinted(_: Body) -> Any:
    return hints({"sm_90": {"latency": 3, "allow_tma": False}})


def _numbers() -> Iterator[Call]:
    for name in (
        "AbsF",
        "Ceil",
        "Floor",
        "Cos",
        "CosH",
        "Sin",
        "SinH",
        "Tan",
        "Log",
        "Log2",
        "NegF",
    ):
        yield call(name, tile(F16, 4), tile(F16, 4))
    for name in ("AddF", "SubF", "MulF", "DivF"):
        yield call(name, tile(F32, 4), (tile(F32, 4),) * 2, R.NEAREST_EVEN, False)
        yield call(name, tile(F32, 4), (tile(F32, 4),) * 2, R.NEGATIVE_INF, True)
    yield call("DivF", tile(F32), (tile(F32),) * 2, R.APPROX, True)
    yield call("DivF", tile(F32), (tile(F32),) * 2, R.FULL, False)
    yield call("Fma", tile(F64, 2), (tile(F64, 2),) * 3, R.ZERO, False)
    yield call("Fma", tile(F32, 2), (tile(F32, 2),) * 3, R.NEAREST_EVEN, True)
    for name in ("Exp", "TanH"):
        yield call(name, tile(F64, 4), tile(F64, 4), R.FULL)
        yield call(name, tile(F32, 4), tile(F32, 4), R.APPROX)
    for name in ("Exp2", "Rsqrt"):
        yield call(name, tile(BF16, 4), tile(BF16, 4), False)
        yield call(name, tile(F32, 4), tile(F32, 4), True)
    yield call("Sqrt", tile(F32, 4), tile(F32, 4), R.APPROX, True)
    yield call("Sqrt", tile(F64, 4), tile(F64, 4), R.POSITIVE_INF, False)
    for name in ("MaxF", "MinF"):
        yield call(name, tile(F32, 4), (tile(F32, 4),) * 2, True, True)
        yield call(name, tile(F16, 4), (tile(F16, 4),) * 2, False, False)
    for name in ("RemF", "FPowF", "Atan2"):
        yield call(name, tile(BF16, 4), (tile(BF16, 4),) * 2)
    yield call("FPowI", tile(F64, 4), (tile(F64, 4), tile(I8, 4)))
    yield call("AbsI", tile(I64), tile(I64))
    yield call("NegI", tile(I16, 8), tile(I16, 8), V.NSW)
    for name in ("AddI", "SubI", "MulI", "ShLI"):
        for promise in V:
            yield call(name, tile(I8, 8), (tile(I8, 8),) * 2, promise)
    for name in ("RemI", "MaxI", "MinI", "ShRI"):
        yield call(name, tile(I32, 8), (tile(I32, 8),) * 2, S.Signed)
        yield call(name, tile(I64, 8), (tile(I64, 8),) * 2, S.Unsigned)
    for name in ("AndI", "OrI", "XOrI", "MulhiI"):
        yield call(name, tile(I1, 8), (tile(I1, 8),) * 2)
    for rounding in (R.ZERO, R.POSITIVE_INF, R.NEGATIVE_INF):
        yield call("DivI", tile(I32, 8), (tile(I32, 8),) * 2, S.Signed, rounding)
    yield call("DivI", tile(I16, 8), (tile(I16, 8),) * 2, S.Unsigned, R.ZERO)
    for predicate in COMPARE:
        yield call("CmpF", tile(I1, 8), (tile(F16, 8),) * 2, predicate, NANS.ORDERED)
        yield call("CmpI", tile(I1, 8), (tile(I8, 8),) * 2, predicate, S.Unsigned)
    yield call("CmpF", tile(I1), (tile(F64),) * 2, COMPARE.NOT_EQUAL, NANS.UNORDERED)
    yield call("Select", pointers(F32, 4), (tile(I1, 4), pointers(F32, 4), pointers(F32, 4)))


def _conversions() -> Iterator[Call]:
    yield call("ExtI", tile(I64, 4), tile(I4, 4), S.Signed)
    yield call("ExtI", tile(I8, 4), tile(I1, 4), S.Unsigned)
    yield call("TruncI", tile(I4, 4), tile(I32, 4), V.NW)
    yield call("FToF", tile(E4M3, 4), tile(F32, 4), R.NEAREST_EVEN)
    yield call("FToF", tile(TF32, 4), tile(F32, 4), R.NEAREST_AWAY)
    yield call("FToF", tile(F32, 4), tile(F4, 4), R.NEAREST_EVEN)
    yield call("FToF", tile(E8M0, 4), tile(F32, 4), R.POSITIVE_INF)
    yield call("FToI", tile(I32, 4), tile(F16, 4), S.Signed, R.NEAREST_INT_TO_ZERO, True)
    yield call("FToI", tile(I8, 4), tile(F64, 4), S.Unsigned, R.NEAREST_INT_TO_ZERO, False)
    yield call("IToF", tile(BF16, 4), tile(I64, 4), S.Unsigned, R.NEAREST_EVEN)
    yield call("Bitcast", tile(F16, 4), tile(I16, 4))
    yield call("PtrToInt", tile(I64, 2), pointers(F16, 2))
    yield call("IntToPtr", pointers(F16, 2), tile(I64, 2))
    yield call("PtrToPtr", pointers(I8, 2), pointers(F16, 2))
    yield call("Pack", tile(I8, 8), tile(F4, 16))
    yield call("Unpack", tile(F32, 2), tile(I8, 8))


def _shapes() -> Iterator[Call]:
    yield call("Constant", tile(F32, 2, 2), (), b"\0\0\x80\x3f\0\0\x00\xc0\0\0\xc0\x7f\1\0\0\0")
    yield call("Constant", tile(I32, 1024), (), b"\xfe\xff\xff\xff")
    yield call("Constant", tile(I1, 4), (), b"\5")
    yield call("Constant", tile(TF32, 2), (), b"\x00\xfc\x01\0\0\0")
    yield call("Iota", tile(I16, 16))
    yield call("Broadcast", tile(F32, 2, 4, 8), tile(F32, 1, 4, 1))
    yield call("Reshape", tile(I8, 2, 4), tile(I8, 8))
    yield call("Reshape", tile(I8), tile(I8, 1, 1))
    yield call("Permute", tile(F32, 8, 2, 4), tile(F32, 2, 4, 8), [2, 0, 1])
    yield call("Cat", tile(F16, 2, 8), (tile(F16, 2, 4),) * 2, 1)
    yield call("Extract", tile(F32, 2, 8), (tile(F32, 4, 8), [INT, INT]))
    yield call("Extract", tile(F32), (tile(F32), []))
    yield call("Insert", tile(F32, 4, 8), (tile(F32, 2, 8), tile(F32, 4, 8), [INT, INT]))
    yield call(
        "MmaF", tile(F32, 4, 8), (tile(F16, 4, 16), tile(F16, 16, 8), tile(F32, 4, 8)), False
    )
    yield call(
        "MmaF",
        tile(F32, 2, 4, 8),
        (tile(E4M3, 2, 4, 16), tile(E4M3, 2, 16, 8), tile(F32, 2, 4, 8)),
        True,
    )
    yield call(
        "MmaI",
        tile(I32, 4, 8),
        (tile(I8, 4, 16), tile(I8, 16, 8), tile(I32, 4, 8)),
        S.Signed,
        S.Unsigned,
    )
    scaled = (tile(F4, 4, 64), tile(F4, 64, 8), tile(F32, 4, 8), tile(E4M3, 4, 4), tile(E4M3, 4, 8))
    yield call("MmaFScaled", tile(F32, 4, 8), scaled)
    yield call(
        "Reduce",
        ([tile(F32, 4)],),
        ([tile(F32, 4, 8)],),
        1,
        IDENTITIES[0],
        regions=((([tile(F32)] * 2), _sums),),
    )
    twice = ([tile(F32)] * 2 + [INT] * 2, _picks)
    yield call(
        "Reduce", ([tile(F32, 8), tile(I32, 8)],), (PAIR,), 0, IDENTITIES[1], regions=(twice,)
    )
    yield call(
        "Scan",
        ([tile(F32, 4, 8)],),
        ([tile(F32, 4, 8)],),
        1,
        True,
        IDENTITIES[0],
        regions=((([tile(F32)] * 2), _sums),),
    )
    yield call("Scan", (PAIR,), (PAIR,), 0, False, IDENTITIES[1], regions=(twice,))


def _memory() -> Iterator[Call]:
    yield call("LoadPtrTko", (tile(F32, 4), TOKEN), (pointers(F32, 4), None, None, None), *WEAK)
    full = (pointers(F32, 4), tile(I1, 4), tile(F32, 4), TOKEN)
    yield call("LoadPtrTko", (tile(F32, 4), TOKEN), full, ORDER.ACQUIRE, SCOPE.TL_BLK, _hinted)
    yield call("StorePtrTko", TOKEN, (pointers(F16, 4), tile(F16, 4), None, None), *WEAK)
    yield call(
        "StorePtrTko",
        TOKEN,
        (pointers(F16, 4), tile(F16, 4), tile(I1, 4), TOKEN),
        ORDER.RELEASE,
        SCOPE.SYS,
        _hinted,
    )
    for mode in MODE:
        kind = F32 if mode.name in ("ADDF", "XCHG") else I64
        operands = (pointers(kind, 4), tile(kind, 4), tile(I1, 4), TOKEN)
        yield call(
            "AtomicRMWTko", (tile(kind, 4), TOKEN), operands, ORDER.ACQ_REL, SCOPE.DEVICE, mode
        )
        if mode.name != "XCHG":
            view = partition((4,), TensorView(kind, (None,), (1,)), (0,))
            yield call(
                "AtomicRedViewTko",
                TOKEN,
                (view, [INT], tile(kind, 4), TOKEN),
                ORDER.RELAXED,
                SCOPE.DEVICE,
                mode,
                [False],
            )
    cas = (pointers(I32, 4), tile(I32, 4), tile(I32, 4), None, None)
    yield call("AtomicCASTko", (tile(I32, 4), TOKEN), cas, ORDER.RELAXED, SCOPE.SYS)
    yield call(
        "AtomicCASTko",
        (tile(F64), TOKEN),
        (pointers(F64), *(tile(F64),) * 2, FLAG, TOKEN),
        ORDER.ACQUIRE,
        SCOPE.DEVICE,
    )
    for view in (PARTS, TURNED, STEPS):
        yield call(
            "LoadViewTko", (tile(F32, 4, 8), TOKEN), (view, [INT, INT], TOKEN), *WEAK, [False, True]
        )
    for view, index in ((ROWS, [tile(I64, 4), INT]), (COLUMNS, [INT, tile(I32, 8)])):
        loaded = call(
            "LoadViewTko",
            (tile(F32, 4, 8), TOKEN),
            (view, index, None),
            ORDER.RELAXED,
            SCOPE.DEVICE,
            _hinted,
            [False] * 2,
        )
        yield loaded
        yield call(
            "StoreViewTko",
            TOKEN,
            (tile(F32, 4, 8), view, index, TOKEN),
            ORDER.RELEASE,
            SCOPE.SYS,
            None,
            [True, True],
        )
    yield call(
        "StoreViewTko",
        TOKEN,
        (tile(F32, 4, 8), STEPS, [tile(I64)] * 2, None),
        ORDER.WEAK,
        None,
        _hinted,
        [False] * 2,
    )
    yield call("MakeTensorView", MATRIX, (pointers(F32), [tile(I64)], []))
    yield call(
        "MakeTensorView", TensorView(I8, (None, None), (None, 1)), (pointers(I8), [INT, INT], [INT])
    )
    yield call(
        "MakeTensorView", TensorView(F32, (4,), (1,), 0), (Tile(Pointer(F32, 0), ()), [], [])
    )
    yield call("MakePartitionView", TURNED, MATRIX)
    yield call("MakeStridedView", STEPS, MATRIX)
    yield call("MakeGatherScatterView", COLUMNS, MATRIX)
    yield call("GetIndexSpaceShape", ([INT, INT],), PARTS)
    yield call("GetTensorShape", ([tile(I64)] * 2,), MATRIX)
    yield call(
        "GetGlobal", pointers(F32), (), "table", variables=(("table", tile(F32, 4), bytes(16)),)
    )
    yield call("Alloca", pointers(F32), (), 16, 64, False)
    yield call("Alloca", pointers(I8), (), 16, 4, True)
    yield call("Offset", pointers(F32, 4), (pointers(F32, 4), tile(I64, 4)))


def _others() -> Iterator[Call]:
    yield call("GetTileBlockId", (INT,) * 3)
    yield call("GetNumTileBlocks", (INT,) * 3)
    yield call("MakeToken", TOKEN)
    yield call("JoinTokens", TOKEN, ([TOKEN, TOKEN, TOKEN],))
    yield call("GdcWaitTko", TOKEN, (None,))
    yield call("GdcWaitTko", TOKEN, TOKEN)
    yield call("GdcLaunchDependentsTko", TOKEN, TOKEN)
    yield call("MemoryFenceAliasTko", TOKEN, TOKEN)
    yield call("PrintTko", TOKEN, ([tile(F32, 4), INT], TOKEN), 'x: %f, "%d"\n 100 %%')
    yield call("Assert", (), tile(I1, 4), 'no "zero"')
    for predicate in (div_by(16), bounded(0, None), bounded(None, 5), bounded(-3, 100)):
        yield call("Assume", INT, INT, predicate)
    yield call("Assume", tile(I32, 8), tile(I32, 8), div_by(4, 2, 0))
    yield call("Assume", MATRIX, MATRIX, div_by(8))
    yield call("Return", (), ([],))
    yield call("If", ([],), FLAG, regions=(([], _ends("Return")), ([], _ends("Yield"))))
    yield call("If", ([FLAG],), FLAG, regions=(([], _ends("Yield", 0)), ([], _ends("Yield", 0))))
    yield call("For", ([],), (INT, INT, INT, []), True, regions=(([INT], _ends("Continue")),))
    carried = [tile(F32, 4), TOKEN]
    yield call(
        "For",
        (carried,),
        (INT, INT, INT, carried),
        False,
        regions=(([INT, *carried], _ends("Continue", -2, -1)),),
    )
    yield call("Loop", ([INT],), ([INT],), regions=(([INT], _ends("Break", -1)),))
    yield call("Loop", ([FLAG],), ([FLAG],), regions=(([FLAG], _leaves),))
    yield call("Loop", (carried,), (carried,), regions=((carried, _ends("Continue", -2, -1)),))


SAMPLES: tuple[Call, ...] = tuple(
    use for make in (_numbers, _conversions, _shapes, _memory, _others) for use in make()
)
