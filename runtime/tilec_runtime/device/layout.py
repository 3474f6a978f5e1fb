"""Facts of one tensor, and the arithmetic of layouts: contiguity and overlap."""

from __future__ import annotations

import functools
import itertools
import math

from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.values import replace, value_class

Shape = tuple[int, ...]
# Device numbers of tensors in host memory; on every device (managed memory, empty tensors); on a
# device that only the driver knows; on an accelerator that the array does not name.
ON_CPU = -1
ON_ANY = -2
ON_OTHER = -3
ON_GPU = -4
# The address of empty memory in the array interface. NumPy before 2.3 takes 0 for a missing address
# and copies elements.
NOWHERE = 16


def device_words(ordinal: int) -> str:
    """Return a device's name for messages: `device 0`, `the cpu device`."""
    return "the cpu device" if ordinal == ON_CPU else f"device {ordinal}"


@value_class(frozen=True, kw_only=True)
class TensorFacts:
    """The facts of one tensor that launches and expressions read.

    Attributes:
        ptr: address of its first element.
        shape, stride: extents and strides in elements; a dimension of extent 1 has the stride of a
            contiguous tensor.
        dtype: a dtype's name, or the foreign name of a dtype that tilec does not have.
        device: ordinal, or `ON_CPU`, `ON_ANY`, `ON_OTHER`, `ON_GPU`.
        readonly: whether it must not be written.
    """

    ptr: int
    shape: Shape
    stride: Shape
    dtype: str
    device: int
    readonly: bool = False

    @property
    def native(self) -> tuple[int, Shape, Shape, str, int, bool]:
        """What the launch core copies of the facts (`array_copy` in _core/array.c)."""
        return self.ptr, self.shape, self.stride, self.dtype, self.device, self.readonly

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element, or of those in one byte; 0 for an unknown dtype."""
        return DTYPES[self.dtype].bytes if self.dtype in DTYPES else 0

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; 0 for an unknown dtype."""
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
        """Whether it is aligned to its elements, and has memory if it has elements."""
        size = self.itemsize
        return size > 0 and self.ptr % size == 0 and (self.ptr != 0 or self.empty)

    @property
    def ahead(self) -> bool:
        """Whether no stride is negative."""
        return min(self.stride, default=0) >= 0

    @property
    def span(self) -> tuple[int, int]:
        """Address of the first byte, and the address behind the last byte."""
        low, high = byte_range(self)
        return self.ptr + low, self.ptr + high

    @property
    def order(self) -> list[int]:
        """The dimensions by stride, the smallest first."""
        return sorted(range(len(self.shape)), key=lambda dim: (self.stride[dim], self.shape[dim]))

    @property
    def pinned(self) -> TensorFacts:
        """Itself, with plain extents and strides; `keys.TracedTensor` pins its own."""
        return self


@functools.lru_cache(maxsize=1024)
def contiguous_stride(shape: Shape) -> Shape:
    """Return the strides in elements of a C-contiguous tensor."""
    stride = []
    step = 1
    for extent in reversed(shape):
        stride.append(step)
        step *= max(extent, 1)
    return tuple(reversed(stride))


def settled_stride(shape: Shape, stride: Shape | None) -> Shape:
    """Return strides in which unused ones are those of a contiguous tensor.

    No access uses the stride of a dimension with one element or none.
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
    """Return a packed tensor as a tensor of bytes, any other unchanged.

    The last dimension of such a tensor is dense.
    """
    each = DTYPES[facts.dtype].per_byte if facts.dtype in DTYPES else 1
    if each == 1:
        return facts
    shape = (*facts.shape[:-1], facts.shape[-1] // each)
    stride = (*(step // each for step in facts.stride[:-1]), 1)
    return replace(facts, shape=shape, stride=settled_stride(shape, stride), dtype="u8")


def byte_range(facts: TensorFacts) -> tuple[int, int]:
    """Return a tensor's first byte and the byte behind its last.

    They are relative to its address. An empty tensor gives (0, 0).
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
    """Whether each stride passes all elements of the smaller dimensions.

    If so, no two indices share an element.
    """
    reach = 1
    for dim in facts.order:
        if facts.stride[dim] < reach:
            return False
        reach = facts.shape[dim] * facts.stride[dim]
    return True


def overlaps_itself(facts: TensorFacts) -> bool:
    """Whether several indices certainly share an element.

    This is so in an expanded tensor and in overlapping windows. The check compares two dimensions
    at a time.
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
    """Whether two tensors may share a byte.

    Columns of one matrix side by side are recognized as separate, more complex interleavings are
    not.
    """
    if a.empty or b.empty:
        return False
    (a_start, a_end), (b_start, b_end) = a.span, b.span
    if (a_end <= b_start) | (b_end <= a_start):  # one guard, which does not depend on their order
        return False
    a, b = as_bytes(a.pinned), as_bytes(b.pinned)
    pitch = math.gcd(*_outer(a), *_outer(b))
    if pitch == 0:
        return True
    # Outer steps are multiples of the pitch, so each tensor is a window that repeats at the pitch.
    a_start, a_width = _window(a, pitch)
    b_start, b_width = _window(b, pitch)
    apart = (b_start - a_start) % pitch
    return not (a_width <= apart and apart + b_width <= pitch)


def _outer(facts: TensorFacts) -> list[int]:
    """Return the steps in bytes outside of the tensor's innermost dense run."""
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
    """Return (first byte, width) without the steps that are multiples of `pitch`."""
    low = high = 0
    for extent, stride in zip(facts.shape, facts.stride, strict=True):
        if (stride * facts.itemsize) % pitch:
            reach = (extent - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
    return facts.ptr + low * facts.itemsize, (high - low + 1) * facts.itemsize


def is_of_jax(kind: type) -> bool:
    """Whether a type is JAX's arrays'.

    They are read-only, but no protocol declares it.
    """
    return kind.__module__.partition(".")[0] in ("jax", "jaxlib")
