"""Signatures: parameters of a launcher, and arguments of the kernel's entry point."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from tilec_runtime.values import value_class

SCRATCH = "scratch"


class ParamKind(enum.Enum):
    """The kind of a launcher's parameter."""

    # An object with DLPack or __cuda_array_interface__. The ABI may use its pointer, extents and
    # strides.
    TENSOR = "tensor"
    SCALAR = "scalar"
    PTR = "ptr"  # a raw device address (int)
    STRUCT = "struct"  # bytes passed by value


@value_class(frozen=True, kw_only=True)
class Param:
    """One parameter of a launcher.

    Attributes:
        name: keyword name in the launcher.
        kind: kind of the parameter.
        dtype: name of a dtype, or of the matrix axis that holds it (`T`); empty for structs.
        rank: number of dimensions of a tensor; -1 accepts any rank.
        out: whether the kernel writes it.
        stride: required stride per dimension in elements, None for a free one. None instead of a
            tuple requires a C-contiguous tensor.
        shape_divisible: required divisors of the extents (elements); empty for none.
        stride_divisible: required divisors of the strides (elements); empty for none.
        align: required alignment of the base address in bytes.
        default: default of a scalar, or None.
        size: size of a struct in bytes.
        optional: whether a tensor may be None. Each variant serves calls with the tensor or calls
            without it.
        doc: one line for the launcher's docstring.
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
    """A list of arrays in calls; the kernel has a parameter for each array.

    Attributes:
        name: keyword name in the launcher.
        first: index of its first array among the kernel's parameters.
        most: largest number of arrays.
        axis: axis that its length determines; empty if every list has `most` arrays. Arrays beyond
            the axis's smallest value are optional.
    """

    name: str
    first: int
    most: int
    axis: str = ""


@value_class(frozen=True, kw_only=True)
class AbiSlot:
    """One argument of the kernel's entry point, in order.

    Attributes:
        type: `ptr`, the name of a dtype, or `struct`; or a `TensorMap` as text, for the tensor at
            the address `expr`; or `scratch:N`, the address of scratch memory, N bytes per block,
            which the launch allocates.
        expr: its value as an expression over the launcher's parameters, such as `x.ptr`,
            `x.shape[1]` or `eps`.
        size: size in bytes. A slot is aligned to its size, a struct to `align`.
        align: alignment in bytes within the parameter block.
    """

    type: str
    expr: str
    size: int
    align: int

    @property
    def scratch(self) -> int:
        """Scratch memory per block in bytes; 0 for other types."""
        kind, _, size = self.type.partition(":")
        return int(size) if kind == SCRATCH and size.isdecimal() else 0


@value_class(frozen=True, kw_only=True)
class Assumption:
    """Facts about a tensor that the compiler may use, and the launcher verifies.

    Attributes:
        param: name of the parameter.
        shape: divisors of the extents (elements), one per dimension; empty for no fact.
        stride: divisors of the strides (elements), one per dimension; empty for no fact.
        align: alignment of the base address in bytes.
        extent: exact extents, one per dimension, None for a free one; empty for no fact.
        contiguous: whether the tensor is C-contiguous.
        absent: whether an optional tensor is None. Such an assumption has no other facts.
    """

    param: str
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    align: int = 1
    extent: tuple[int | None, ...] = ()
    contiguous: bool = False
    absent: bool = False

    def extents(self, rank: int) -> tuple[int | None, ...]:
        """Return the known extents, one per dimension, None for a free one."""
        return self.extent or (None,) * rank

    def strides(self, known: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the known strides, one per dimension, None for a free one.

        These are the strides in `known`. For a contiguous tensor, other strides follow from the
        known extents of later dimensions.
        """
        if not self.contiguous:
            return tuple(known)
        result: list[int | None] = []
        extents = self.extents(len(known))
        for dim, stride in enumerate(known):
            behind = extents[dim + 1 :]
            product = (
                None
                if None in behind
                else math.prod(max(extent, 1) for extent in behind if extent is not None)
            )
            result.append(product if stride is None else stride)
        return tuple(result)
