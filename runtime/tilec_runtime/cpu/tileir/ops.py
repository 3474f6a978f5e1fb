"""A table of the operations of Tile IR 13.1 to 13.4, with their encoding."""

from __future__ import annotations

import dataclasses
import enum

from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    MemoryOrder,
    MemoryScope,
    Ordering,
    Overflow,
    Predicate,
    Rounding,
    Signedness,
    Version,
)


class Kind(enum.Enum):
    """The encoding of an attribute that is not an enum."""

    INT = enum.auto()  # varint
    BOOL = enum.auto()  # one byte
    STRING = enum.auto()  # index into the string table
    ARRAY = enum.auto()  # count, then tagged attributes
    TAGGED = enum.auto()  # one tagged attribute
    CONSTANT = enum.auto()  # index into the constant table: the bytes of a tile
    INTS = enum.auto()  # count, then 32-bit integers
    BOOLS = enum.auto()  # count, then bytes
    HINTS = enum.auto()  # dictionary by architecture


class Arity(enum.Enum):
    """The number of an operand's values, and its encoding."""

    ONE = enum.auto()
    OPTIONAL = enum.auto()  # present if its bit in the flags is set
    MANY = enum.auto()  # preceded by a count
    REST = (
        enum.auto()
    )  # the remaining values of the operation, which starts with the count of all operands


@dataclasses.dataclass(frozen=True, slots=True)
class AttributeSpec:
    """An attribute: encoding, first version, and its value in earlier versions.

    `before` is None if the attribute is absent in earlier versions.
    """

    name: str
    kind: Kind | type[enum.Enum]
    optional: bool = False
    since: Version = (13, 1)
    before: enum.Enum | tuple[bool, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class OperandSpec:
    """An operand and its number of values."""

    name: str
    arity: Arity = Arity.ONE


@dataclasses.dataclass(frozen=True, slots=True)
class OpSpec:
    """The encoding of an operation.

    Attributes:
        code: number in the bytecode.
        name: name in the text form.
        results: names of its results; None if the bytecode stores their number.
        counted_results: whether the bytecode stores the number of results although it is fixed.
        flags: names of the bits of the flags field, lowest first: boolean attributes, and presence
            of optional attributes and operands.
        flags_since: first version with a flags field.
        attributes: attributes in order.
        operands: operands in order.
        regions: number of nested blocks.
    """

    code: int
    name: str
    results: tuple[str, ...] | None = ("result",)
    counted_results: bool = False
    flags: tuple[str, ...] = ()
    flags_since: Version = (13, 1)
    attributes: tuple[AttributeSpec, ...] = ()
    operands: tuple[OperandSpec, ...] = ()
    regions: int = 0


def _operands(text: str) -> tuple[OperandSpec, ...]:
    suffixes = {"?": Arity.OPTIONAL, "*": Arity.MANY, "+": Arity.REST}
    return tuple(
        OperandSpec(word.rstrip("?*+"), suffixes.get(word[-1], Arity.ONE)) for word in text.split()
    )


def _op(
    code: int, name: str, operands: str = "", *attributes: AttributeSpec, **more: object
) -> OpSpec:
    return OpSpec(code, name, operands=_operands(operands), attributes=attributes, **more)  # type: ignore[arg-type]


_A = AttributeSpec
_ROUND = _A("rounding", Rounding)
_FULL_SINCE_13_2 = _A("rounding", Rounding, since=(13, 2), before=Rounding.FULL)
_FULL_SINCE_13_3 = _A("rounding", Rounding, since=(13, 3), before=Rounding.FULL)
_OVERFLOW = _A("overflow", Overflow)
_SIGN = _A("signedness", Signedness)
_ORDER = _A("order", MemoryOrder)
_SCOPE = _A("scope", MemoryScope)
_MAYBE_SCOPE = _A("scope", MemoryScope, optional=True)
_MODE = _A("mode", AtomicMode)
_HINTS = _A("hints", Kind.HINTS, optional=True)
_INBOUNDS = _A("inbounds", Kind.BOOLS, since=(13, 4), before=())
_NONE: tuple[str, ...] = ()
_FTZ = ("flush_to_zero",)
_NAN_FTZ = ("propagate_nan", "flush_to_zero")
_TOKEN = ("token",)
_LOADED = ("result", "token")

_TABLE = (
    _op(0, "absf", "source"),
    _op(1, "absi", "source"),
    _op(2, "addf", "lhs rhs", _ROUND, flags=_FTZ),
    _op(3, "addi", "lhs rhs", _OVERFLOW),
    _op(4, "andi", "lhs rhs"),
    _op(5, "assert", "condition", _A("message", Kind.STRING), results=_NONE),
    _op(6, "assume", "value", _A("predicate", Kind.TAGGED)),
    _op(
        7,
        "atomic_cas_tko",
        "pointers compare value mask? token?",
        _ORDER,
        _SCOPE,
        results=_LOADED,
        flags=("mask", "token"),
    ),
    _op(
        8,
        "atomic_rmw_tko",
        "pointers value mask? token?",
        _ORDER,
        _SCOPE,
        _MODE,
        results=_LOADED,
        flags=("mask", "token"),
    ),
    _op(9, "bitcast", "source"),
    _op(10, "break", "values+", results=_NONE, counted_results=True),
    _op(11, "broadcast", "source"),
    _op(12, "cat", "lhs rhs", _A("dim", Kind.INT)),
    _op(13, "ceil", "source"),
    _op(14, "cmpf", "lhs rhs", _A("predicate", Predicate), _A("ordering", Ordering)),
    _op(15, "cmpi", "lhs rhs", _A("predicate", Predicate), _SIGN),
    _op(16, "constant", "", _A("value", Kind.CONSTANT)),
    _op(17, "continue", "values+", results=_NONE, counted_results=True),
    _op(18, "cos", "source"),
    _op(19, "cosh", "source"),
    _op(20, "divf", "lhs rhs", _ROUND, flags=_FTZ),
    _op(21, "divi", "lhs rhs", _SIGN, _ROUND),
    _op(23, "exp", "source", _FULL_SINCE_13_3),
    _op(24, "exp2", "source", flags=_FTZ),
    _op(37, "exti", "source", _SIGN),
    _op(38, "extract", "source indices+", counted_results=True),
    _op(39, "floor", "source"),
    _op(40, "fma", "lhs rhs acc", _ROUND, flags=_FTZ),
    _op(
        41,
        "for",
        "lower upper step init+",
        results=None,
        flags=("unsigned_cmp",),
        flags_since=(13, 2),
        regions=1,
    ),
    _op(42, "ftof", "source", _ROUND),
    _op(43, "ftoi", "source", _SIGN, _ROUND, flags=("saturating",), flags_since=(13, 4)),
    _op(44, "get_global", "", _A("name", Kind.STRING)),
    _op(45, "get_index_space_shape", "source", results=None),
    _op(46, "get_num_tile_blocks", results=("x", "y", "z")),
    _op(47, "get_tensor_shape", "source", results=None),
    _op(48, "get_tile_block_id", results=("x", "y", "z")),
    _op(50, "if", "condition", results=None, regions=2),
    _op(51, "int_to_ptr", "source"),
    _op(58, "iota"),
    _op(59, "itof", "source", _SIGN, _ROUND),
    _op(60, "join_tokens", "tokens+", counted_results=True),
    _op(
        61,
        "load_ptr_tko",
        "source mask? padding? token?",
        _ORDER,
        _MAYBE_SCOPE,
        _HINTS,
        results=_LOADED,
        flags=("scope", "hints", "mask", "padding", "token"),
    ),
    _op(
        62,
        "load_view_tko",
        "view index* token?",
        _ORDER,
        _MAYBE_SCOPE,
        _HINTS,
        _INBOUNDS,
        results=_LOADED,
        counted_results=True,
        flags=("scope", "hints", "token"),
    ),
    _op(63, "log", "source"),
    _op(64, "log2", "source"),
    _op(65, "loop", "init+", results=None, regions=1),
    _op(66, "make_partition_view", "tensor"),
    _op(67, "make_tensor_view", "base shape* strides*", counted_results=True),
    _op(68, "make_token"),
    _op(69, "maxf", "lhs rhs", flags=_NAN_FTZ),
    _op(70, "maxi", "lhs rhs", _SIGN),
    _op(71, "minf", "lhs rhs", flags=_NAN_FTZ),
    _op(72, "mini", "lhs rhs", _SIGN),
    _op(73, "mmaf", "lhs rhs acc", flags=("fast_acc",), flags_since=(13, 3)),
    _op(
        74,
        "mmai",
        "lhs rhs acc",
        _A("signedness_lhs", Signedness),
        _A("signedness_rhs", Signedness),
    ),
    _op(76, "mulf", "lhs rhs", _ROUND, flags=_FTZ),
    _op(77, "mulhii", "lhs rhs"),
    _op(78, "muli", "lhs rhs", _OVERFLOW),
    _op(79, "negf", "source"),
    _op(80, "negi", "source", _A("overflow", Overflow, since=(13, 2), before=Overflow.NONE)),
    _op(81, "offset", "pointer offset"),
    _op(82, "ori", "lhs rhs"),
    _op(83, "permute", "source", _A("permutation", Kind.INTS)),
    _op(84, "fpowf", "source exponent"),
    _op(
        85,
        "print_tko",
        "args* token?",
        _A("text", Kind.STRING),
        results=None,
        flags=_TOKEN,
        flags_since=(13, 2),
    ),
    _op(86, "ptr_to_int", "source"),
    _op(87, "ptr_to_ptr", "source"),
    _op(
        88,
        "reduce",
        "operands+",
        _A("dim", Kind.INT),
        _A("identities", Kind.ARRAY),
        results=None,
        regions=1,
    ),
    _op(89, "remf", "lhs rhs"),
    _op(90, "remi", "lhs rhs", _SIGN),
    _op(91, "reshape", "source"),
    _op(92, "return", "values+", results=_NONE, counted_results=True),
    _op(93, "rsqrt", "source", flags=_FTZ),
    _op(
        94,
        "scan",
        "operands+",
        _A("dim", Kind.INT),
        _A("reverse", Kind.BOOL),
        _A("identities", Kind.ARRAY),
        results=None,
        regions=1,
    ),
    _op(95, "select", "condition if_true if_false"),
    _op(96, "shli", "lhs rhs", _OVERFLOW),
    _op(97, "shri", "lhs rhs", _SIGN),
    _op(98, "sin", "source"),
    _op(99, "sinh", "source"),
    _op(100, "sqrt", "source", _ROUND, flags=_FTZ),
    _op(
        101,
        "store_ptr_tko",
        "destination value mask? token?",
        _ORDER,
        _MAYBE_SCOPE,
        _HINTS,
        results=("token",),
        flags=("scope", "hints", "mask", "token"),
    ),
    _op(
        102,
        "store_view_tko",
        "value view index* token?",
        _ORDER,
        _MAYBE_SCOPE,
        _HINTS,
        _INBOUNDS,
        results=("token",),
        counted_results=True,
        flags=("scope", "hints", "token"),
    ),
    _op(103, "subf", "lhs rhs", _ROUND, flags=_FTZ),
    _op(104, "subi", "lhs rhs", _OVERFLOW),
    _op(105, "tan", "source"),
    _op(106, "tanh", "source", _FULL_SINCE_13_2),
    _op(107, "trunci", "source", _OVERFLOW),
    _op(108, "xori", "lhs rhs"),
    _op(109, "yield", "values+", results=_NONE, counted_results=True),
    _op(110, "atan2", "x y"),
    _op(111, "pack", "source"),
    _op(112, "unpack", "source"),
    _op(
        113,
        "alloca",
        "",
        _A("count", Kind.INT),
        _A("alignment", Kind.INT),
        flags=("global",),
    ),
    _op(114, "mmaf_scaled", "lhs rhs acc lhs_scale rhs_scale"),
    _op(115, "make_gather_scatter_view", "tensor"),
    _op(116, "make_strided_view", "tensor"),
    _op(
        117,
        "atomic_red_view_tko",
        "view index* value token?",
        _ORDER,
        _SCOPE,
        _MODE,
        results=("token",),
        counted_results=True,
        flags=_TOKEN,
    ),
    _op(118, "insert", "source destination indices+", counted_results=True),
    _op(119, "gdc_launch_dependents_tko", "token+", results=("token",)),
    _op(120, "gdc_wait_tko", "token+", results=("token",)),
    _op(121, "fpowi", "source exponent"),
    _op(122, "memory_fence_alias_tko", "token", results=("token",)),
)

BY_CODE: dict[int, OpSpec] = {spec.code: spec for spec in _TABLE}
OPS: dict[str, OpSpec] = {spec.name: spec for spec in _TABLE}
