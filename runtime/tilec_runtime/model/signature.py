"""Signatures: what a launcher takes, and what is packed for the kernel's entry point."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from tilec_runtime.values import value_class

SCRATCH = "scratch"


class ParamKind(enum.Enum):
    """How a launcher parameter reaches the kernel."""

    TENSOR = "tensor"  # anything with DLPack or __cuda_array_interface__: pointer, extents and strides are available to the ABI
    SCALAR = "scalar"
    PTR = "ptr"  # a raw device address (int)
    STRUCT = "struct"  # bytes passed by value


@value_class(frozen=True, kw_only=True)
class Param:
    """One parameter of a launcher.

    Attributes:
        name: keyword name in the launcher.
        kind: how it is passed.
        dtype: a dtype's name, or the name of the matrix axis that holds it (`T`); empty for
            structs.
        rank: number of dimensions of a tensor; -1 takes any rank.
        out: the kernel writes it.
        stride: per dimension the required stride in elements, None where it is free; None as a
            whole means C-contiguous.
        shape_divisible: extents divisible by these (elements); empty for no fact.
        stride_divisible: strides divisible by these (elements); empty for no fact.
        align: base address divisible by this (bytes).
        default: default of a scalar, None for none.
        size: bytes of a struct.
        optional: of a tensor: it may be None. Each variant is for a call that gives it, or for one
            that does not.
        doc: one line for the docstring.
    """

    name: str
    kind: ParamKind
    dtype: str = ""
    rank: int = 0
    out: bool = False
    stride: tuple[int | None, ...] | None = None
    shape_divisible: tuple[int, ...] = ()
    stride_divisible: tuple[int, ...] = ()
    align: int = 1
    default: int | float | bool | None = None
    size: int = 0
    optional: bool = False
    doc: str = ""


@value_class(frozen=True, kw_only=True)
class ListParam:
    """A parameter of calls that is a list of arrays; the kernel has a parameter for each array.

    Attributes:
        name: keyword name in the launcher.
        first: place of its first array among the kernel's parameters.
        most: how many there are.
        axis: the axis that its length chooses; empty where every list has `most` arrays. Arrays
            beyond the axis' least value are optional.
    """

    name: str
    first: int
    most: int
    axis: str = ""


@value_class(frozen=True, kw_only=True)
class AbiSlot:
    """One argument of the kernel's entry point, in order.

    Attributes:
        type: `ptr`, a dtype's name, `struct`; a `TensorMap` as text, of the tensor whose address
            `expr` is; or `scratch:N`, the address of N bytes for each block, which a launch brings
            along.
        expr: expression over the launcher's parameters that gives its value, such as `x.ptr`,
            `x.shape[1]`, `eps`.
        size: size in bytes; a slot is aligned to its size (a struct to `align`).
        align: alignment in bytes within the parameter block.
    """

    type: str
    expr: str
    size: int
    align: int

    @property
    def scratch(self) -> int:
        """Bytes that each block needs at this address; 0 for any other argument."""
        kind, _, size = self.type.partition(":")
        return int(size) if kind == SCRATCH and size.isdecimal() else 0


def joined_abi(one: Sequence[AbiSlot], other: Sequence[AbiSlot]) -> tuple[AbiSlot, ...] | None:
    """The argument list that serves two images of one variant; None where they take different ones.

    They may differ in scratch memory, of which an image may need more than another, or none: then
    its address is a null that it ignores.
    """
    if len(one) != len(other):
        return None
    joined = []
    for a, b in zip(one, other, strict=True):
        unused = all(slot.scratch or (slot.type, slot.expr) == ("u64", "0") for slot in (a, b))
        if a != b and not unused:
            return None
        joined.append(max(a, b, key=lambda slot: slot.scratch))
    return tuple(joined)


@value_class(frozen=True, kw_only=True)
class Assumption:
    """Facts about one tensor parameter that the compiler may use, and that the launcher therefore
    verifies.

    Attributes:
        param: the parameter's name.
        shape: extents divisible by these (elements), one per dimension; empty for no fact.
        stride: strides divisible by these (elements), one per dimension; empty for no fact.
        align: base address divisible by this (bytes).
        extent: extents that are exactly these, one per dimension, None where it is free; empty for
            no fact.
        contiguous: strides are those of a C-contiguous tensor.
        absent: there is no tensor: an optional one that is None. Then there are no other facts.
    """

    param: str
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    align: int = 1
    extent: tuple[int | None, ...] = ()
    contiguous: bool = False
    absent: bool = False

    def extents(self, rank: int) -> tuple[int | None, ...]:
        """The extents that are known, one per dimension."""
        return self.extent or (None,) * rank

    def strides(self, known: Sequence[int | None]) -> tuple[int | None, ...]:
        """Strides that are known: those given, and where it is contiguous those that follow from
        the extents behind them.
        """
        if not self.contiguous:
            return tuple(known)
        found: list[int | None] = []
        extents = self.extents(len(known))
        for dim, stride in enumerate(known):
            behind = extents[dim + 1 :]
            product = (
                None
                if None in behind
                else math.prod(max(extent, 1) for extent in behind if extent is not None)
            )
            found.append(product if stride is None else stride)
        return tuple(found)
