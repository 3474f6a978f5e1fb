"""Rules for numeric and shape operations: elements, shapes, rounding modes."""

from __future__ import annotations

from tilec_runtime.cpu.tileir.ir import (
    FloatAttr,
    IntegerAttr,
    Op,
    Overflow,
    Rounding,
    Scalar,
    Signedness,
    Tile,
    type_text,
)
from tilec_runtime.cpu.tileir.rules import (
    ANY,
    ANY_FLOAT,
    BITS,
    FLOATS,
    IEEE,
    INTS,
    NUMBERS,
    POINTERS,
    STORED,
    Elements,
    Rule,
    equal,
    flush,
    rounding,
    rule,
    shapes,
    size,
    tile,
    tiles,
    values,
)
from tilec_runtime.cpu.tileir.values import sizes

_ALL_ROUNDINGS = IEEE | {Rounding.NEAREST_AWAY}
_TO_INT = {Rounding.NEAREST_INT_TO_ZERO}
_NARROW = frozenset({Scalar.F8E4M3FN, Scalar.F8E5M2, Scalar.F8E5M3FNU, Scalar.F4E2M1FN})
_WIDE = frozenset({Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.TF32, Scalar.F64})
# Exact conversions, which allow any rounding mode.
_EXACT: dict[Scalar, frozenset[Scalar]] = {
    Scalar.F16: frozenset({Scalar.F32, Scalar.TF32, Scalar.F64}),
    Scalar.BF16: frozenset({Scalar.F32, Scalar.TF32, Scalar.F64}),
    Scalar.F32: frozenset({Scalar.F64}),
    Scalar.TF32: frozenset({Scalar.F32, Scalar.F64}),
    Scalar.F8E4M3FN: _WIDE,
    Scalar.F8E5M2: _WIDE,
    Scalar.F8E8M0FNU: frozenset({Scalar.F64}),
    Scalar.F8E5M3FNU: _WIDE - {Scalar.F16},
    Scalar.F4E2M1FN: _WIDE,
    Scalar.F64: frozenset(),
}
# Rounding modes of inexact conversions besides nearest even and zero.
_INEXACT: dict[tuple[Scalar, Scalar], frozenset[Rounding]] = {
    (Scalar.F64, Scalar.F32): IEEE,
    (Scalar.F32, Scalar.TF32): frozenset({Rounding.NEAREST_AWAY}),
}
_SAME_BITS: tuple[frozenset[Scalar], ...] = (
    frozenset({Scalar.I1}),
    frozenset({Scalar.I8, Scalar.F8E4M3FN, Scalar.F8E5M2, Scalar.F8E8M0FNU, Scalar.F8E5M3FNU}),
    frozenset({Scalar.I16, Scalar.F16, Scalar.BF16}),
    frozenset({Scalar.I32, Scalar.F32}),
    frozenset({Scalar.TF32}),
    frozenset({Scalar.I64, Scalar.F64}),
    frozenset({Scalar.F4E2M1FN}),
)
_PACKED: Elements = NUMBERS - _SAME_BITS[1]
# Element type of both factors: element types of the accumulator.
_SUMS: dict[Scalar, frozenset[Scalar]] = {
    Scalar.F16: frozenset({Scalar.F16, Scalar.F32}),
    Scalar.BF16: frozenset({Scalar.F32}),
    Scalar.F32: frozenset({Scalar.F32}),
    Scalar.TF32: frozenset({Scalar.F32}),
    Scalar.F64: frozenset({Scalar.F64}),
    Scalar.F8E4M3FN: frozenset({Scalar.F16, Scalar.F32}),
    Scalar.F8E5M2: frozenset({Scalar.F16, Scalar.F32}),
    Scalar.I8: frozenset({Scalar.I32}),
}
# Element types of factor and scale: numbers of elements that may share one scale.
_SCALES: dict[tuple[Scalar, Scalar], frozenset[int]] = {
    (Scalar.F8E4M3FN, Scalar.F8E8M0FNU): frozenset({32}),
    (Scalar.F8E5M2, Scalar.F8E8M0FNU): frozenset({32}),
    (Scalar.F4E2M1FN, Scalar.F8E8M0FNU): frozenset({16, 32}),
    (Scalar.F4E2M1FN, Scalar.F8E5M3FNU): frozenset({16, 32}),
    (Scalar.F4E2M1FN, Scalar.F8E4M3FN): frozenset({16}),
}
_INDEX: Elements = frozenset({Scalar.I32})


def _element(op: Op, ref: str) -> Scalar:
    kind = tile(op, ref).element
    assert isinstance(kind, Scalar)
    return kind


def _pair(op: Op, first: str, second: str) -> str:
    return f"{first} {type_text(tile(op, first).element)} and {second.lstrip('>')} {type_text(tile(op, second).element)} do not go together"


def _ftof(op: Op) -> str:
    source, result, mode = (
        _element(op, "source"),
        _element(op, ">result"),
        op.attributes["rounding"],
    )
    if source is result:
        return _pair(op, "source", ">result")
    if result is Scalar.F8E8M0FNU:
        allowed = frozenset({Rounding.ZERO, Rounding.POSITIVE_INF})
    elif result in _NARROW:
        allowed = frozenset({Rounding.NEAREST_EVEN})
    elif result in _EXACT[source]:
        allowed = _ALL_ROUNDINGS
    else:
        allowed = frozenset({Rounding.NEAREST_EVEN, Rounding.ZERO}) | _INEXACT.get(
            (source, result), frozenset()
        )
    return (
        "" if mode in allowed else f"rounding {mode.name.lower()} is not for {source} to {result}"
    )


def _longer(op: Op) -> str:
    return (
        ""
        if _element(op, "source").bits < _element(op, ">result").bits
        else _pair(op, "source", ">result")
    )


def _shorter(op: Op) -> str:
    return (
        ""
        if _element(op, "source").bits > _element(op, ">result").bits
        else _pair(op, "source", ">result")
    )


def _same_bits(op: Op) -> str:
    source, result = _element(op, "source"), _element(op, ">result")
    return (
        ""
        if any(source in group and result in group for group in _SAME_BITS)
        else _pair(op, "source", ">result")
    )


@rule
def _same_element(op: Op, first: str, second: str) -> str:
    return "" if tile(op, first).element == tile(op, second).element else _pair(op, first, second)


def _divi(op: Op) -> str:
    mode = op.attributes["rounding"]
    signed = {Rounding.NEGATIVE_INF} if op.attributes["signedness"] is Signedness.SIGNED else set()
    return (
        ""
        if mode in {Rounding.ZERO, Rounding.POSITIVE_INF} | signed
        else f"rounding {mode.name.lower()} is not for this division"
    )


def _signed_promise(op: Op) -> str:
    return (
        "it cannot promise no_unsigned_wrap alone"
        if op.attributes["overflow"] is Overflow.NUW
        else ""
    )


def _constant(op: Op) -> str:
    kind, data = tile(op, ">result"), op.attributes["value"]
    return "" if len(data) in sizes(kind) else f"{len(data)} bytes are no {type_text(kind)}"


def _iota(op: Op) -> str:
    kind = tile(op, ">result")
    return (
        ""
        if kind.shape[0] <= 1 << _element(op, ">result").bits
        else f"{type_text(kind)} cannot hold its indices"
    )


def _broadcast(op: Op) -> str:
    source, result = tile(op, "source"), tile(op, ">result")
    fits = len(source.shape) == len(result.shape) and all(
        a in (1, b) for a, b in zip(source.shape, result.shape, strict=True)
    )
    return "" if fits else f"{type_text(source)} cannot be spread over {type_text(result)}"


def _reshape(op: Op) -> str:
    source, result = tile(op, "source"), tile(op, ">result")
    return (
        ""
        if size(source) == size(result)
        else f"{type_text(source)} and {type_text(result)} differ in size"
    )


def _permute(op: Op) -> str:
    source, result, order = tile(op, "source"), tile(op, ">result"), op.attributes["permutation"]
    if len(source.shape) < 2 or sorted(order) != list(range(len(source.shape))):
        return f"permutation {list(order)} is none of the dimensions of {type_text(source)}"
    fits = result.shape == tuple(source.shape[i] for i in order)
    return "" if fits else f"result is {type_text(result)}, source {type_text(source)}"


def _cat(op: Op) -> str:
    lhs, rhs, result, dim = (
        tile(op, "lhs"),
        tile(op, "rhs"),
        tile(op, ">result"),
        op.attributes["dim"],
    )
    if not len(lhs.shape) == len(rhs.shape) == len(result.shape) or dim >= len(lhs.shape):
        return f"dimension {dim} of {type_text(lhs)}, {type_text(rhs)} and {type_text(result)} cannot be joined"
    expected = [
        a + b if i == dim else a for i, (a, b) in enumerate(zip(lhs.shape, rhs.shape, strict=True))
    ]
    rest = all(
        a == b for i, (a, b) in enumerate(zip(lhs.shape, rhs.shape, strict=True)) if i != dim
    )
    return (
        ""
        if rest and list(result.shape) == expected
        else f"{type_text(lhs)} and {type_text(rhs)} do not make {type_text(result)}"
    )


@rule
def _within(op: Op, part: str, whole: str) -> str:
    inner, outer = tile(op, part), tile(op, whole)
    if len(inner.shape) != len(outer.shape) or any(
        b % a for a, b in zip(inner.shape, outer.shape, strict=True)
    ):
        return f"{type_text(outer)} is not made of {type_text(inner)}"
    count = len(op.operands["indices"])
    return "" if count == len(outer.shape) else f"{count} indices are given for {type_text(outer)}"


@rule
def _repacked(op: Op, small: str, bytes_: str) -> str:
    inner, outer = tile(op, small), tile(op, bytes_)
    return (
        ""
        if size(inner) * _element(op, small).bits == size(outer) * 8
        else f"{type_text(inner)} does not take {size(outer)} bytes"
    )


def _mma_shapes(op: Op) -> str:
    lhs, rhs, acc = (tile(op, name).shape for name in ("lhs", "rhs", "acc"))
    if not len(lhs) == len(rhs) == len(acc) or len(lhs) not in (2, 3):
        return "lhs, rhs and acc are not all matrices, or all stacks of matrices"
    if (
        lhs[:-2] != rhs[:-2]
        or lhs[:-2] != acc[:-2]
        or lhs[-1] != rhs[-2]
        or acc[-2:] != (lhs[-2], rhs[-1])
    ):
        return f"{type_text(tile(op, 'lhs'))} times {type_text(tile(op, 'rhs'))} is no {type_text(tile(op, 'acc'))}"
    return ""


def _mma_elements(op: Op) -> str:
    lhs, acc = _element(op, "lhs"), _element(op, "acc")
    return "" if acc in _SUMS.get(lhs, frozenset()) else _pair(op, "lhs", "acc")


def _scales(op: Op) -> str:
    factor, scale = _element(op, "lhs"), _element(op, "lhs_scale")
    lhs, rhs, left, right = (
        tile(op, name).shape for name in ("lhs", "rhs", "lhs_scale", "rhs_scale")
    )
    if (
        len(left) != len(lhs)
        or len(right) != len(rhs)
        or lhs[:-1] != left[:-1]
        or (*rhs[:-2], rhs[-1]) != (*right[:-2], right[-1])
    ):
        return f"scales {type_text(tile(op, 'lhs_scale'))} and {type_text(tile(op, 'rhs_scale'))} do not fit the factors"
    allowed = _SCALES.get((factor, scale), frozenset())
    if left[-1] != right[-2] or lhs[-1] % left[-1] or lhs[-1] // left[-1] not in allowed:
        return f"{type_text(tile(op, 'lhs_scale'))} cannot scale {type_text(tile(op, 'lhs'))}"
    return ""


def _reduction(op: Op) -> str:
    operands, identities = op.operands["operands"], op.attributes["identities"]
    first, dim = tile(op, "operands").shape, op.attributes["dim"]
    if dim >= len(first):
        return f"there is no dimension {dim} in {type_text(operands[0].type)}"
    if not len(operands) == len(identities) == len(op.results):
        return f"there are {len(operands)} operands, {len(identities)} identities and {len(op.results)} results"
    shape = first[:dim] + first[dim + 1 :] if op.name == "reduce" else first
    for value, identity, result in zip(operands, identities, op.results, strict=True):
        assert isinstance(value.type, Tile)
        if result.type != Tile(value.type.element, shape):
            return f"the result of {type_text(value.type)} is {type_text(result.type)}"
        if (
            not isinstance(identity, IntegerAttr | FloatAttr)
            or identity.type is not value.type.element
        ):
            return f"an identity of {type_text(value.type)} is of another type"
    expected = [
        Tile(v.type.element, ()) for v in operands for _ in range(2) if isinstance(v.type, Tile)
    ]
    return (
        ""
        if [arg.type for arg in op.regions[0].args] == expected
        else "the arguments of its block are not two scalars for each operand"
    )


@rule
def _some(op: Op, ref: str) -> str:
    return "" if values(op, ref) else f"there are no {ref}"


def _unary(elements: Elements, *more: Rule) -> tuple[Rule, ...]:
    return (tiles(elements, "source"), equal("source", ">result"), *more)


def _binary(
    elements: Elements, *more: Rule, first: str = "lhs", second: str = "rhs"
) -> tuple[Rule, ...]:
    return (tiles(elements, first), equal(first, second, ">result"), *more)


def _convert(source: Elements, result: Elements, *more: Rule) -> tuple[Rule, ...]:
    return (tiles(source, "source"), tiles(result, ">result"), shapes("source", ">result"), *more)


_FLOAT, _INT = _unary(FLOATS), _binary(INTS)
_ROUNDED = (rounding(IEEE), flush)
_WHOLE_INTS: Elements = INTS | {Scalar.I4}
_COMPARED = (equal("lhs", "rhs"), tiles(BITS, ">result"), shapes("lhs", ">result"))
_FULL_OR_APPROX = rounding({Rounding.FULL}, f32={Rounding.APPROX})
_REDUCED = (
    _some("operands"),
    tiles(NUMBERS, "operands", ">result"),
    shapes("operands"),
    _reduction,
)

RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(
        ("absf", "ceil", "floor", "cos", "cosh", "sin", "sinh", "tan", "log", "log2", "negf"),
        _FLOAT,
    ),
    **dict.fromkeys(("addf", "subf", "mulf"), _binary(FLOATS, *_ROUNDED)),
    **dict.fromkeys(("maxf", "minf"), _binary(FLOATS, flush)),
    **dict.fromkeys(("exp", "tanh"), _unary(FLOATS, _FULL_OR_APPROX)),
    **dict.fromkeys(("exp2", "rsqrt"), _unary(FLOATS, flush)),
    "absi": _unary(INTS),
    "negi": _unary(INTS, _signed_promise),
    **dict.fromkeys(
        (
            "addi",
            "subi",
            "muli",
            "mulhii",
            "remi",
            "maxi",
            "mini",
            "andi",
            "ori",
            "xori",
            "shli",
            "shri",
        ),
        _INT,
    ),
    "sqrt": _unary(FLOATS, rounding(IEEE, f32={Rounding.APPROX}), flush),
    "divf": _binary(FLOATS, rounding(IEEE, f32={Rounding.APPROX, Rounding.FULL}), flush),
    "fma": (tiles(FLOATS, "lhs"), equal("lhs", "rhs", "acc", ">result"), *_ROUNDED),
    "remf": _binary(FLOATS),
    "fpowf": _binary(FLOATS, first="source", second="exponent"),
    "fpowi": (*_FLOAT, tiles(INTS - {Scalar.I64}, "exponent"), shapes("source", "exponent")),
    "atan2": _binary(FLOATS, first="x", second="y"),
    "divi": (*_INT, _divi),
    "cmpf": (tiles(FLOATS, "lhs"), *_COMPARED),
    "cmpi": (tiles(INTS, "lhs"), *_COMPARED),
    "select": (
        tiles(BITS, "condition"),
        tiles(ANY - {Scalar.F4E2M1FN}, "if_true"),
        equal("if_true", "if_false", ">result"),
        shapes("condition", "if_true"),
    ),
    "exti": _convert(_WHOLE_INTS, _WHOLE_INTS, _longer),
    "trunci": _convert(_WHOLE_INTS, _WHOLE_INTS, _shorter),
    "ftof": _convert(ANY_FLOAT, ANY_FLOAT, _ftof),
    "ftoi": _convert(ANY_FLOAT, INTS, rounding(_TO_INT)),
    "itof": _convert(INTS, ANY_FLOAT - {Scalar.F8E8M0FNU}, rounding({Rounding.NEAREST_EVEN})),
    "bitcast": _convert(STORED, STORED, _same_bits),
    "ptr_to_int": _convert(POINTERS, frozenset({Scalar.I64})),
    "int_to_ptr": _convert(frozenset({Scalar.I64}), POINTERS),
    "ptr_to_ptr": _convert(POINTERS, POINTERS),
    "offset": (
        tiles(POINTERS, "pointer"),
        tiles(INTS, "offset"),
        equal("pointer", ">result"),
        shapes("pointer", "offset"),
    ),
    "constant": (tiles(STORED, ">result"), _constant),
    "iota": (tiles(INTS - BITS, ">result", rank=1), _iota),
    "broadcast": (tiles(ANY, "source", ">result"), _same_element("source", ">result"), _broadcast),
    "reshape": (tiles(ANY, "source", ">result"), _same_element("source", ">result"), _reshape),
    "permute": (tiles(ANY, "source", ">result"), _same_element("source", ">result"), _permute),
    "cat": (
        tiles(ANY, "lhs", "rhs", ">result"),
        _same_element("lhs", "rhs"),
        _same_element("lhs", ">result"),
        _cat,
    ),
    "extract": (
        tiles(ANY, "source", ">result"),
        tiles(_INDEX, "indices", rank=0),
        _same_element("source", ">result"),
        _within(">result", "source"),
    ),
    "insert": (
        tiles(ANY, "source", "destination"),
        tiles(_INDEX, "indices", rank=0),
        equal("destination", ">result"),
        _same_element("source", "destination"),
        _within("source", "destination"),
    ),
    "pack": (
        tiles(_PACKED, "source", rank=1),
        tiles(frozenset({Scalar.I8}), ">result", rank=1),
        _repacked("source", ">result"),
    ),
    "unpack": (
        tiles(frozenset({Scalar.I8}), "source", rank=1),
        tiles(_PACKED, ">result", rank=1),
        _repacked(">result", "source"),
    ),
    "mmaf": (
        tiles(ANY_FLOAT, "lhs", "rhs", "acc"),
        _same_element("lhs", "rhs"),
        equal("acc", ">result"),
        _mma_shapes,
        _mma_elements,
    ),
    "mmai": (
        tiles(frozenset({Scalar.I8}), "lhs", "rhs"),
        tiles(_INDEX, "acc"),
        equal("acc", ">result"),
        _mma_shapes,
        _mma_elements,
    ),
    "mmaf_scaled": (
        tiles(ANY_FLOAT, "lhs", "rhs", "lhs_scale", "rhs_scale"),
        tiles(frozenset({Scalar.F32}), "acc"),
        _same_element("lhs", "rhs"),
        _same_element("lhs_scale", "rhs_scale"),
        equal("acc", ">result"),
        _mma_shapes,
        _scales,
    ),
    "reduce": _REDUCED,
    "scan": _REDUCED,
}
