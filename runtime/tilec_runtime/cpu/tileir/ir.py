"""Tile IR as values: types, attributes, operations, blocks, functions and modules."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from tilec_runtime.errors import Location

Version = tuple[int, int]


class Scalar(enum.Enum):
    """Element types: (name in Tile IR's text form, bits, `int` or `float`).

    Integers have no sign; operations interpret them.
    """

    I1 = ("i1", 1, "int")
    I4 = ("i4", 4, "int")
    I8 = ("i8", 8, "int")
    I16 = ("i16", 16, "int")
    I32 = ("i32", 32, "int")
    I64 = ("i64", 64, "int")
    F16 = ("f16", 16, "float")
    BF16 = ("bf16", 16, "float")
    F32 = ("f32", 32, "float")
    TF32 = ("tf32", 32, "float")
    F64 = ("f64", 64, "float")
    F8E4M3FN = ("f8E4M3FN", 8, "float")
    F8E5M2 = ("f8E5M2", 8, "float")
    F8E8M0FNU = ("f8E8M0FNU", 8, "float")
    F8E5M3FNU = ("fnv8E5M3FNU", 8, "float")
    F4E2M1FN = ("f4E2M1FN", 4, "float")

    def __init__(self, text: str, bits: int, kind: str) -> None:
        """Set the properties; `bits` is the width, for tf32 the 32 bits of its storage."""
        self.text = text
        self.bits = bits
        self.is_float = kind == "float"

    def __str__(self) -> str:
        """Format as in Tile IR's text form."""
        return self.text


class Padding(enum.Enum):
    """The value that a view's load gives for elements outside of the tensor."""

    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer to elements of one type.

    `attribute` is the pointer attribute of version 13.4, of which only 0 exists; None for none.
    """

    pointee: Scalar
    attribute: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """An array of elements of a block; rank 0 is a scalar."""

    element: Scalar | Pointer
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor in memory: extents and strides in elements, None if not fixed."""

    element: Scalar
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    attribute: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Tiles of a tensor, by their index along each dimension of the tile.

    Attributes:
        name: `partition_view`, `strided_view` or `gather_scatter_view`.
        tile: extents of a tile.
        tensor: the tensor.
        steps: elements between the starts of consecutive tiles, per dimension of the tile. Those of
            a partition are the extents of the tile; other tiles may overlap or leave gaps.
        dims: the tensor's dimension of each dimension of the tile.
        sparse: tile dimension whose index is a tile of positions; None for none.
        padding: value of loads outside of the tensor; None for undetermined values.
    """

    name: str
    tile: tuple[int, ...]
    tensor: TensorView
    steps: tuple[int, ...]
    dims: tuple[int, ...]
    sparse: int | None = None
    padding: Padding | None = None

    @property
    def overlaps(self) -> bool:
        """Whether tiles of different indices can share elements."""
        return any(step < extent for step, extent in zip(self.steps, self.tile, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """Orders memory operations of one block."""


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """Types of a function's parameters and results."""

    params: tuple[Type, ...]
    results: tuple[Type, ...]


Type: TypeAlias = "Scalar | Pointer | Tile | TensorView | View | Token | Signature"


class Overflow(enum.Enum):
    """The overflow promise of an integer operation: no signed or unsigned overflow."""

    NONE = 0
    NSW = 1
    NUW = 2
    NW = 3


class Rounding(enum.Enum):
    """The rounding mode of a floating point operation.

    `APPROX` and `FULL` are the fast and the accurate form of a function.
    """

    NEAREST_EVEN = 0
    ZERO = 1
    NEGATIVE_INF = 2
    POSITIVE_INF = 3
    APPROX = 4
    FULL = 5
    NEAREST_INT_TO_ZERO = 6
    NEAREST_AWAY = 7


class Signedness(enum.Enum):
    """The interpretation of an integer's bits by an operation."""

    UNSIGNED = 0
    SIGNED = 1


class Predicate(enum.Enum):
    """The predicate of a comparison."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS_THAN = 2
    LESS_THAN_OR_EQUAL = 3
    GREATER_THAN = 4
    GREATER_THAN_OR_EQUAL = 5


class Ordering(enum.Enum):
    """The result of a comparison with a NaN: true (unordered) or false (ordered)."""

    UNORDERED = 0
    ORDERED = 1


class MemoryOrder(enum.Enum):
    """The memory order of an operation."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQ_REL = 4


class MemoryScope(enum.Enum):
    """The memory scope of an operation: its block, the device, or the system."""

    TILE_BLOCK = 0
    DEVICE = 1
    SYSTEM = 2


class AtomicMode(enum.Enum):
    """The operation of an atomic read-modify-write."""

    AND = 0
    OR = 1
    XOR = 2
    ADD = 3
    ADDF = 4
    MAX = 5
    MIN = 6
    UMAX = 7
    UMIN = 8
    XCHG = 9


@dataclasses.dataclass(frozen=True, slots=True)
class DivBy:
    """The assumption that values are divisible.

    With `every` and `along`, it covers only the first of every `every` values along a dimension.
    """

    divisor: int
    every: int | None = None
    along: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SameElements:
    """The assumption that values are equal within groups of these extents."""

    values: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Bounded:
    """The assumption lower <= value <= upper, signed; None for no bound."""

    lower: int | None
    upper: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class NumberAttr:
    """A number by its type and bits, which for integers are unsigned."""

    type: Scalar
    bits: int


@dataclasses.dataclass(frozen=True, slots=True)
class HintsAttr:
    """Optimization hints by architecture, without effect on results."""

    by_arch: Mapping[str, Attribute]


Attribute: TypeAlias = (
    "bool | int | str | bytes | enum.Enum | Type | DivBy | SameElements | Bounded | NumberAttr | HintsAttr "
    "| tuple[Attribute, ...] | Mapping[str, Attribute]"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Loc:
    """A location in the kernel's source; lines and columns count from 1.

    `caller` is the call site of an inlined function.
    """

    file: str
    line: int
    column: int
    caller: Loc | None = None

    @property
    def location(self) -> Location:
        """The location for errors, without its callers."""
        return Location(file=self.file, line=self.line, column=self.column)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A result or an argument; `index` is unique within its function."""

    index: int
    type: Type


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Operations with arguments: a function's body, or a region of an operation."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]

    def walk(self) -> Iterator[Op]:
        """Yield all operations in the order of the text, nested ones after their parent."""
        stack = list(reversed(self.ops))
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                stack.extend(reversed(region.ops))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Op:
    """One operation.

    Attributes:
        name: name in Tile IR's text form, such as `addf`; `ops.OPS` describes it.
        results: values that it defines.
        operands: values by the names of `ops.OPS`; empty for an absent optional operand.
        attributes: attributes by the names of `ops.OPS`, without absent optional ones.
        regions: nested blocks.
        loc: source location, or None if the module has no debug information.
        number: number in the function, counted from 0 in the order of the text.
    """

    name: str
    results: tuple[Value, ...]
    operands: Mapping[str, tuple[Value, ...]]
    attributes: Mapping[str, Any]  # of the types that `ops.OPS` names
    regions: tuple[Block, ...]
    loc: Loc | None
    number: int

    @property
    def location(self) -> Location | None:
        """The source location for errors."""
        return self.loc.location if self.loc else None

    def operand(self, name: str) -> Value:
        """Return the value of a required single operand."""
        return self.operands[name][0]

    def optional(self, name: str) -> Value | None:
        """Return the value of an optional operand, or None."""
        operands = self.operands.get(name)
        return operands[0] if operands else None


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Function:
    """A kernel or a function."""

    name: str
    signature: Signature
    entry: bool
    hints: HintsAttr | None
    body: Block
    loc: Loc | None

    def walk(self) -> Iterator[Op]:
        """Yield all operations in the order of the text, nested ones after their parent."""
        return self.body.walk()


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Global:
    """A variable of the module.

    `data` has the initial bytes in the element type's layout. `alignment` is in bytes, 0 for the
    natural alignment.
    """

    name: str
    type: Tile
    data: bytes
    alignment: int
    constant: bool = False
    private: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Module:
    """The content of a bytecode file; `producer` names its compiler, empty if unknown."""

    version: Version
    functions: tuple[Function, ...]
    globals: tuple[Global, ...]
    producer: str = ""


def type_text(kind: Type) -> str:
    """Format a type."""
    match kind:
        case Scalar():
            return kind.text
        case Pointer(pointee, mark):
            return f"ptr<{pointee.text}{_mark(mark, ', <none>')}>"
        case Tile(element, shape):
            return f"tile<{''.join(f'{extent}x' for extent in shape)}{type_text(element)}>"
        case TensorView(element, shape, strides, mark):
            steps = f", strides=[{','.join(map(_extent, strides))}]" if strides else ""
            extents = "".join(f"{_extent(extent)}x" for extent in shape)
            return f"tensor_view<{extents}{element.text}{steps}{_mark(mark, ', #cuda_tile.ptr_attr<none>')}>"
        case View(name=name, tile=tile, tensor=tensor, dims=dims, padding=padding):
            steps = f"traversal_strides=[{_listed(kind.steps)}], " if name == "strided_view" else ""
            shown = "" if padding is None else f"padding_value = {padding.value}, "
            order = "" if dims == tuple(range(len(dims))) else f", dim_map=[{_listed(dims, ', ')}]"
            sparse = "" if kind.sparse is None else f", sparse_dim={kind.sparse}"
            return f"{name}<tile=({_listed(tile, 'x')}), {steps}{shown}{type_text(tensor)}{order}{sparse}>"
        case Token():
            return "token"
        case Signature(params, results):
            return (
                f"({', '.join(map(type_text, params))}) -> ({', '.join(map(type_text, results))})"
            )


def _extent(extent: int | None) -> str:
    return "?" if extent is None else str(extent)


def _mark(mark: int | None, text: str) -> str:
    return "" if mark is None else text


def _listed(numbers: Iterable[int], separator: str = ",") -> str:
    return separator.join(map(str, numbers))
