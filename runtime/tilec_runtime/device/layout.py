"""Facts of one tensor, and the arithmetic of layouts: contiguity, extents in memory, overlap."""

from __future__ import annotations

import functools
import itertools
import math

from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.values import replace, value_class

Shape = tuple[int, ...]
# Device numbers of tensors that live on no GPU, on all of them (managed memory, and tensors of no
# elements), where only the driver can tell, or on some accelerator that is not said.
ON_CPU = -1
ON_ANY = -2
ON_OTHER = -3
ON_GPU = -4
# Where the array interface says that memory of no bytes is: NumPy before 2.3 takes an address of 0
# for "none given", and copies elements.
NOWHERE = 16


def device_words(ordinal: int) -> str:
    """A device in messages, by its number: `device 0`, `the cpu device`."""
    return "the cpu device" if ordinal == ON_CPU else f"device {ordinal}"


@value_class(frozen=True, kw_only=True)
class TensorFacts:
    """The facts of one tensor that launches and expressions read.

    Attributes:
        ptr: address of its first element.
        shape, stride: extents and strides in elements; the stride of a dimension of one element is
            what a contiguous tensor has.
        dtype: a dtype's name, or the foreign name of one that tilec has not.
        device: ordinal, or `ON_CPU`, `ON_ANY`, `ON_OTHER`, `ON_GPU`.
        readonly: must not be written.
    """

    ptr: int
    shape: Shape
    stride: Shape
    dtype: str
    device: int
    readonly: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element, or of those that share a byte; 0 for a dtype that tilec has not."""
        return DTYPES[self.dtype].bytes if self.dtype in DTYPES else 0

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return DTYPES[self.dtype].size_of(self.size) if self.dtype in DTYPES else 0

    @property
    def contiguous(self) -> bool:
        """Whether the strides are those of a C-contiguous tensor."""
        return self.stride == contiguous_stride(self.shape)

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    @property
    def sound(self) -> bool:
        """Whether it is aligned to its elements, and has memory if it has any."""
        size = self.itemsize
        return size > 0 and self.ptr % size == 0 and (self.ptr != 0 or self.empty)

    @property
    def ahead(self) -> bool:
        """Whether no stride is negative."""
        return min(self.stride, default=0) >= 0

    @property
    def span(self) -> tuple[int, int]:
        """Addresses of its first byte, and of the one behind its last."""
        low, high = byte_range(self)
        return self.ptr + low, self.ptr + high

    @property
    def order(self) -> list[int]:
        """Its dimensions, those with the smallest steps first."""
        return sorted(range(len(self.shape)), key=lambda dim: (self.stride[dim], self.shape[dim]))

    @property
    def pinned(self) -> TensorFacts:
        """Itself, for what needs plain extents and strides (`keys.TracedTensor`)."""
        return self


@functools.lru_cache(maxsize=1024)
def contiguous_stride(shape: Shape) -> Shape:
    """Strides in elements of a C-contiguous tensor."""
    stride = []
    step = 1
    for extent in reversed(shape):
        stride.append(step)
        step *= max(extent, 1)
    return tuple(reversed(stride))


def settled_stride(shape: Shape, stride: Shape | None) -> Shape:
    """Strides with those of dimensions of one element or none (which no access uses) as in a
    contiguous tensor.
    """
    if stride is None or 0 in shape:
        return contiguous_stride(shape)
    settled = list(stride)
    step = 1
    for index in range(len(shape) - 1, -1, -1):
        if shape[index] == 1:
            settled[index] = step
        step = abs(settled[index]) * shape[index]
    return tuple(settled)


def as_bytes(facts: TensorFacts) -> TensorFacts:
    """A tensor whose elements share bytes as one of these bytes; its last dimension is dense. Any
    other as it is.
    """
    each = DTYPES[facts.dtype].per_byte if facts.dtype in DTYPES else 1
    if each == 1:
        return facts
    shape = (*facts.shape[:-1], facts.shape[-1] // each)
    stride = (*(step // each for step in facts.stride[:-1]), 1)
    return replace(facts, shape=shape, stride=settled_stride(shape, stride), dtype="u8")


def byte_range(facts: TensorFacts) -> tuple[int, int]:
    """(first, past the last) byte of a tensor relative to its address; (0, 0) for one of no
    elements.
    """
    if 0 in facts.shape:
        return 0, 0
    facts = as_bytes(facts)
    low = high = 0
    for extent, stride in zip(facts.shape, facts.stride, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low * facts.itemsize, (high + 1) * facts.itemsize


def _is_nested(facts: TensorFacts) -> bool:
    """Whether steps of each dimension pass all elements of the smaller ones, as in rows or columns
    of a larger matrix: then no two indices name one element.
    """
    reach = 1
    for dim in facts.order:
        if facts.stride[dim] < reach:
            return False
        reach = facts.shape[dim] * facts.stride[dim]
    return True


def overlaps_itself(facts: TensorFacts) -> bool:
    """Whether several indices certainly name one element, as in an expanded tensor or in
    overlapping windows: for this, two dimensions are looked at at a time.
    """
    if facts.empty or facts.contiguous or _is_nested(facts):
        return False
    facts = facts.pinned
    dims = [
        (extent, abs(stride))
        for extent, stride in zip(facts.shape, facts.stride, strict=True)
        if extent > 1
    ]
    if any(stride == 0 for _, stride in dims):
        return True
    for (extent, stride), (other_extent, other_stride) in itertools.combinations(dims, 2):
        common = math.gcd(stride, other_stride)
        if other_stride // common < extent and stride // common < other_extent:
            return True
    return False


def may_overlap(a: TensorFacts, b: TensorFacts) -> bool:
    """Whether two tensors can share a byte. Side by side columns of one matrix are told apart;
    stranger interleavings are not.
    """
    if a.empty or b.empty:
        return False
    (a_start, a_end), (b_start, b_end) = a.span, b.span
    if (a_end <= b_start) | (b_end <= a_start):  # one decision: which of them comes first is none
        return False
    a, b = as_bytes(a.pinned), as_bytes(b.pinned)
    pitch = math.gcd(*_outer(a), *_outer(b))
    if pitch == 0:
        return True
    # Outer steps are multiples of the pitch: what is left of each tensor is a window that repeats
    # with it.
    a_start, a_width = _window(a, pitch)
    b_start, b_width = _window(b, pitch)
    apart = (b_start - a_start) % pitch
    return not (a_width <= apart and apart + b_width <= pitch)


def _outer(facts: TensorFacts) -> list[int]:
    """Steps in bytes that are no part of the tensor's innermost dense run."""
    run = facts.itemsize
    outer = []
    for extent, stride in sorted(
        zip(facts.shape, facts.stride, strict=True), key=lambda pair: abs(pair[1])
    ):
        step = abs(stride) * facts.itemsize
        if extent > 1 and step == run:
            run = step * extent
        elif extent > 1:
            outer.append(step)
    return outer


def _window(facts: TensorFacts, pitch: int) -> tuple[int, int]:
    """(first byte, width) of a tensor without the steps that are multiples of `pitch`."""
    low = high = 0
    for extent, stride in zip(facts.shape, facts.stride, strict=True):
        if (stride * facts.itemsize) % pitch:
            reach = (extent - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
    return facts.ptr + low * facts.itemsize, (high - low + 1) * facts.itemsize


def is_of_jax(kind: type) -> bool:
    """Whether a type of arrays is JAX's: those never change, although no protocol of theirs says
    so.
    """
    return kind.__module__.partition(".")[0] in ("jax", "jaxlib")
