"""Rules for operations on memory, views, tokens, assumptions and block indices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Bounded,
    DivBy,
    GatherScatterView,
    MemoryOrder,
    MemoryScope,
    Op,
    PartitionView,
    Pointer,
    SameElements,
    Scalar,
    StridedView,
    TensorView,
    Tile,
    Type,
    type_text,
)
from tilec_runtime.cpu.tileir.rules import (
    ANY,
    BITS,
    INTS,
    POINTERS,
    STORED,
    Elements,
    Rule,
    equal,
    rule,
    shapes,
    tile,
    tiles,
    tokens,
    values,
    widest,
)

# A conversion of printf: flags, width, precision, length, letter. `%%` is a literal percent sign,
# and another `%` is an error.
CONVERSION = re.compile(r"%[-+ #0*]*\d*(?:\.\d+)?(?:hh|h|ll|l|j|z|t|L)?[diouxXeEfFgGaAcsp]|%%|%")
_WORDS = frozenset({Scalar.I32, Scalar.I64})
_SUMMED = frozenset({Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64})
_SWAPPED: Elements = frozenset({Scalar.I32, Scalar.I64, Scalar.F32, Scalar.F64})
_INDEX: Elements = frozenset({Scalar.I32})
_MAX_ALIGNMENT = 1 << 20


@rule
def _points_to(op: Op, pointers: str, ref: str) -> str:
    kind, pointer = tile(op, ref), tile(op, pointers)
    assert isinstance(pointer.element, Pointer)
    fits = pointer.element.pointee is kind.element and pointer.shape == kind.shape
    return "" if fits else f"{type_text(pointer)} does not point to {type_text(kind)}"


@rule
def _orders(op: Op, *allowed: MemoryOrder, weak: bool = True, system: bool = True) -> str:
    """Check the memory order: weak has no scope, every other order has one."""
    order, scope = op.attributes["order"], op.attributes.get("scope")
    name = order.name.lower()
    if order not in allowed and not (weak and order is MemoryOrder.WEAK):
        return f"it cannot be {name}"
    if (scope is None) != (order is MemoryOrder.WEAK):
        return f"{name} is {'without' if scope is None else 'with'} a scope"
    return (
        "it cannot have the scope of the system"
        if scope is MemoryScope.SYSTEM and not system
        else ""
    )


def _atomic(op: Op) -> str:
    mode, kind = op.attributes["mode"], tile(op, "value")
    match mode:
        case AtomicMode.ADDF:
            allowed: Elements = _SUMMED
        case AtomicMode.XCHG:
            allowed = _SWAPPED if op.name == "atomic_rmw_tko" else frozenset()
        case _:
            allowed = _WORDS
    return "" if kind.element in allowed else f"{mode.name.lower()} is not for {type_text(kind)}"


def _view(op: Op) -> str:
    """Check the types of a view, its indices, and the loaded or stored tile."""
    view, index = op.operands["view"][0].type, op.operands["index"]
    if not isinstance(view, PartitionView | StridedView | GatherScatterView):
        return f"view is {type_text(view)}, not a view"
    if op.name == "atomic_red_view_tko" and isinstance(view, GatherScatterView):
        return "a gather_scatter_view cannot be reduced into"
    if len(index) != len(view.tile):
        return f"{len(index)} indices are given for {type_text(view)}"
    moved = values(op, ">result" if op.name == "load_view_tko" else "value")[0].type
    if moved != Tile(view.tensor.element, view.tile):
        return f"{type_text(moved)} does not belong to {type_text(view)}"
    promised = op.attributes.get("inbounds", ())
    if promised and len(promised) != len(index):
        return f"inbounds has {len(promised)} entries for {len(index)} dimensions"
    return _index(view, [value.type for value in index])


def _index(view: PartitionView | StridedView | GatherScatterView, index: list[Type]) -> str:
    sparse = view.sparse_dim if isinstance(view, GatherScatterView) else -1
    for position, kind in enumerate(index):
        shape = (view.tile[position],) if position == sparse else ()
        if not isinstance(kind, Tile) or kind.element not in INTS or kind.shape != shape:
            return f"index {position} is {type_text(kind)}, not {'a row of integers' if shape else 'an integer'}"
        if sparse < 0 and kind != index[0]:
            return f"index {position} is {type_text(kind)}, but index 0 is {type_text(index[0])}"
    return ""


@rule
def _makes(op: Op, kind: type[PartitionView | StridedView | GatherScatterView]) -> str:
    view, tensor = op.results[0].type, op.operands["tensor"][0].type
    if not isinstance(view, kind) or view.tensor != tensor:
        return f"{type_text(view)} is not made of {type_text(tensor)}"
    return ""


def _tensor_view(op: Op) -> str:
    view, base = op.results[0].type, tile(op, "base").element
    if not isinstance(view, TensorView):
        return f"it makes {type_text(view)}, not a tensor_view"
    assert isinstance(base, Pointer)
    if (view.element, view.attribute) != (base.pointee, base.attribute):
        return f"{type_text(base)} is not the base of {type_text(view)}"
    for name, extents in (("shape", view.shape), ("strides", view.strides)):
        unknown, given = extents.count(None), op.operands[name]
        if len(given) != unknown:
            return f"{len(given)} values are given for the {unknown} unknown {name} of {type_text(view)}"
    return ""


@rule
def _ranked(op: Op, kinds: type | tuple[type, ...]) -> str:
    source = op.operands["source"][0].type
    if not isinstance(source, kinds):
        return f"source is {type_text(source)}"
    rank = len(source.shape) if isinstance(source, TensorView) else len(getattr(source, "tile", ()))
    return "" if len(op.results) == rank else f"it has {len(op.results)} results for rank {rank}"


def _assumed(op: Op) -> str:
    kind, predicate = op.operands["value"][0].type, op.attributes["predicate"]
    match predicate:
        case DivBy():
            return _divisible(kind, predicate)
        case Bounded(lower, upper):
            if (
                not isinstance(kind, Tile)
                or not isinstance(kind.element, Scalar)
                or kind.element.is_float
            ):
                return f"{type_text(kind)} cannot be bounded"
            least, most = widest(kind.element)
            low, high = least if lower is None else lower, most if upper is None else upper
            return (
                ""
                if least <= low <= high <= most
                else f"bounds {low} to {high} are none of {type_text(kind)}"
            )
        case SameElements(groups):
            if (
                not isinstance(kind, Tile)
                or len(groups) != len(kind.shape)
                or any(group < 1 for group in groups)
            ):
                return f"groups {list(groups)} are none of {type_text(kind)}"
            return ""
    return "what it assumes is not known to this version of tilec"


def _divisible(kind: Type, predicate: DivBy) -> str:
    divisor, every, along = predicate.divisor, predicate.every, predicate.along
    whole = isinstance(kind, TensorView) or (
        isinstance(kind, Tile) and (isinstance(kind.element, Pointer) or not kind.element.is_float)
    )
    if not whole or divisor < 1 or divisor & (divisor - 1) or divisor > 1 << 62:
        return f"{type_text(kind)} cannot be divisible by {divisor}"
    if every is None and along is None:
        return ""
    if (
        every is None
        or along is None
        or not isinstance(kind, Tile)
        or not 0 <= along < len(kind.shape)
    ):
        return "every and along do not name a dimension"
    return (
        ""
        if 0 < every <= kind.shape[along]
        else f"every {every} along {along} is not within {type_text(kind)}"
    )


def _printed(op: Op) -> str:
    text, given = op.attributes["text"], op.operands["args"]
    conversions = CONVERSION.findall(text)
    if "%" in conversions:
        return "its text has a % that begins no conversion"
    wanted = sum(conversion != "%%" for conversion in conversions)
    if wanted != len(given):
        return f"its text has {wanted} conversions for {len(given)} values"
    return "" if len(op.results) <= 1 else f"it has {len(op.results)} results"


def _alloca(op: Op) -> str:
    alignment, pointer = op.attributes["alignment"], tile(op, ">result").element
    assert isinstance(pointer, Pointer)
    least = -(-pointer.pointee.bits // 8)
    sound = least <= alignment <= _MAX_ALIGNMENT and not alignment & (alignment - 1)
    return "" if sound else f"an alignment of {alignment} is not for {pointer.pointee}"


def _several(op: Op) -> str:
    return "" if len(op.operands["tokens"]) > 1 else "one token cannot be joined"


def _at_most_one(op: Op) -> str:
    return "" if len(op.operands["token"]) <= 1 else "it waits for one token at most"


def _tokens_only(*more: Rule) -> tuple[Rule, ...]:
    return (tokens("token", ">token"), *more)


def _fields(kinds: Elements, refs: Iterable[str]) -> tuple[Rule, ...]:
    return (tiles(kinds, *refs, rank=0),)


_ATOMIC_ORDERS = _orders(
    MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, weak=False
)
_READ, _WRITTEN = (
    _orders(MemoryOrder.RELAXED, MemoryOrder.ACQUIRE),
    _orders(MemoryOrder.RELAXED, MemoryOrder.RELEASE),
)
_XYZ = (">x", ">y", ">z")
_VIEWS = (PartitionView, StridedView, GatherScatterView)
_SHAPE = (tiles(INTS, ">", rank=0),)

RULES: dict[str, tuple[Rule, ...]] = {
    "load_ptr_tko": (
        tiles(STORED, ">result"),
        tiles(POINTERS, "source"),
        _points_to("source", ">result"),
        tiles(BITS, "mask"),
        shapes("source", "mask"),
        equal("padding", ">result"),
        *_tokens_only(_READ),
    ),
    "store_ptr_tko": (
        tiles(STORED, "value"),
        tiles(POINTERS, "destination"),
        _points_to("destination", "value"),
        tiles(BITS, "mask"),
        shapes("destination", "mask"),
        *_tokens_only(_WRITTEN),
    ),
    "atomic_rmw_tko": (
        tiles(POINTERS, "pointers"),
        tiles(_SWAPPED | _SUMMED, "value"),
        equal("value", ">result"),
        _points_to("pointers", "value"),
        tiles(BITS, "mask"),
        shapes("pointers", "mask"),
        _atomic,
        *_tokens_only(_ATOMIC_ORDERS),
    ),
    "atomic_cas_tko": (
        tiles(POINTERS, "pointers"),
        tiles(_SWAPPED, "value"),
        equal("value", "compare", ">result"),
        _points_to("pointers", "value"),
        tiles(BITS, "mask"),
        shapes("pointers", "mask"),
        *_tokens_only(_ATOMIC_ORDERS),
    ),
    "load_view_tko": (_view, *_tokens_only(_READ)),
    "store_view_tko": (_view, *_tokens_only(_WRITTEN)),
    "atomic_red_view_tko": (
        _view,
        _atomic,
        *_tokens_only(_orders(MemoryOrder.RELAXED, weak=False, system=False)),
    ),
    "make_tensor_view": (
        tiles(POINTERS, "base", rank=0),
        tiles(INTS, "shape", "strides", rank=0),
        equal("shape", "strides"),
        _tensor_view,
    ),
    "make_partition_view": (_makes(PartitionView),),
    "make_strided_view": (_makes(StridedView),),
    "make_gather_scatter_view": (_makes(GatherScatterView),),
    "get_index_space_shape": (*_SHAPE, _ranked(_VIEWS)),
    "get_tensor_shape": (*_SHAPE, _ranked(TensorView)),
    "get_tile_block_id": _fields(_INDEX, _XYZ),
    "get_num_tile_blocks": _fields(_INDEX, _XYZ),
    "get_global": _fields(POINTERS, (">result",)),
    "alloca": (*_fields(POINTERS, (">result",)), _alloca),
    "make_token": (tokens(">result"),),
    "join_tokens": (tokens("tokens", ">result"), _several),
    "gdc_launch_dependents_tko": _tokens_only(_at_most_one),
    "gdc_wait_tko": _tokens_only(_at_most_one),
    "memory_fence_alias_tko": _tokens_only(),
    "print_tko": (tiles(ANY, "args"), tokens("token", ">"), _printed),
    "assert": (tiles(BITS, "condition"),),
    "assume": (equal("value", ">result"), _assumed),
}
