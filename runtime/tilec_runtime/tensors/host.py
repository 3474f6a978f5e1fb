"""NumPy arrays on the host's side of a transfer: dtypes and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import NOWHERE, ON_CPU, Shape, TensorFacts
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts
from tilec_runtime.tensors.shapes import checked_packing

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MAKE_ARRAY = "make a NumPy array of it first, with the dtype that the tensor is to have"


def as_array(source: Any) -> Array:
    """Return a host array as a NumPy array, without a copy.

    Args:
        source: a NumPy or ml_dtypes array, a tensor of another library in host memory, or a buffer
            (bytes, array.array, memoryview).

    Raises:
        TensorError: `source` is not an array, or is on a GPU.
    """
    import numpy as np

    if isinstance(source, np.ma.MaskedArray):
        raise TensorError(
            "a masked array cannot become a tensor, which has no masks",
            fix="pass its `data`, or `filled(...)`",
        )
    if isinstance(source, np.ndarray | np.generic):
        return np.asarray(source)
    if isinstance(source, list | tuple | str | bool | int | float | complex) or source is None:
        raise TensorError(
            f"a {type(source).__qualname__} has no dtype to make a tensor of", fix=_MAKE_ARRAY
        )
    if hasattr(type(source), "_tilec_facts_"):
        raise TensorError(
            f"a {type(source).__qualname__} is on a device already: from_host takes host memory",
            fix="copy it with dup()",
        )
    try:
        buffer = memoryview(source)
    except (TypeError, BufferError):
        return _foreign_array(source)
    try:
        return np.asarray(buffer)
    except ValueError as error:
        raise TensorError(
            f"a buffer of format {buffer.format!r} cannot become a tensor", fix=_MAKE_ARRAY
        ) from error


def dtype_of(array: Array) -> str:
    """Return tilec's name of an array's dtype.

    Raises:
        TensorError: tilec has no such dtype.
    """
    row = BY_NUMPY.get(array.dtype.name)
    if row is not None:
        return row.name
    fix = f"convert it, as in x.astype(np.float32); tensors have {', '.join(DTYPES)}"
    if array.dtype.kind == "c":
        fix = "pass its real and imaginary parts, as in x.view(np.float32), or convert it"
    raise TensorError(
        f"an array of {array.dtype} cannot become a tensor: there is no such dtype", fix=fix
    )


def memory_of(array: Array, name: str) -> Array:
    """Return an array's elements as dense bytes of a tensor.

    Elements of a packed dtype are packed. The result may share the array's memory.

    Raises:
        TensorError: the last dimension does not fill bytes.
    """
    import numpy as np

    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if not DTYPES[name].packed:
        return whole
    checked_packing(name, array.shape)
    return paired(whole & np.uint8(15))


def paired(codes: Array) -> Array:
    """Pack four-bit elements in pairs, the first in the low half of a byte."""
    pairs: Array = codes[0::2] | codes[1::2] << 4
    return pairs


def unpaired(pairs: Array) -> Array:
    """Unpack pairs of four-bit elements to one element per byte."""
    import numpy as np

    return np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)


def array_in(memory: Array, name: str, shape: Shape) -> Array:
    """Return bytes as an array of a dtype; elements of a packed dtype are copied."""
    if DTYPES[name].packed:
        return unpaired(memory.reshape(-1)).reshape(shape).view(numpy_dtype(name))
    return memory.view(numpy_dtype(name)).reshape(shape)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype for a name of tilec, or that of ml_dtypes."""
    import numpy as np

    word = DTYPES[name].numpy
    try:
        return np.dtype(word)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, word))
        return dtype


def empty_array(name: str, shape: Shape) -> Array:
    """Return a new, uninitialized array."""
    import numpy as np

    return np.empty(shape, numpy_dtype(name))


def checked_out(out: Any, name: str, shape: Shape) -> Array:
    """Check an array to which a tensor's contents are copied, and return it.

    Raises:
        TensorError: it is not a NumPy array, is read-only, or has another shape or dtype.
    """
    import numpy as np

    if not isinstance(out, np.ndarray):
        raise TensorError(
            f"out is a {type(out).__qualname__}, and contents go to a NumPy array",
            fix="pass one, or leave it out",
        )
    if out.shape != shape or out.dtype != numpy_dtype(name):
        message = f"out is an array of {out.dtype} and shape {out.shape}, and the tensor of {numpy_dtype(name)} and shape {shape}"
        raise TensorError(message, fix="pass an array of the tensor's dtype and shape")
    if not out.flags.writeable:
        raise TensorError("out cannot be written", fix="pass an array that is not read-only")
    return out


def host_memory(address: int, size: int, *, writable: bool = True, owner: object = None) -> Array:
    """Return host memory as an array of bytes that keeps its owner alive."""
    import numpy as np

    interface = {"data": (address, not writable), "shape": (size,), "typestr": "|u1"}
    return np.asarray(Keeping(owner, interface))


def shared_array(owner: object, facts: TensorFacts) -> Array:
    """Return an array that shares a tensor in host memory and keeps its owner.

    This works for dtypes that NumPy itself cannot import, too.
    """
    import numpy as np

    return np.asarray(Keeping(owner, interface_of(facts))).view(numpy_dtype(facts.dtype))


def interface_of(facts: TensorFacts) -> dict[str, Any]:
    """Return a tensor's description for the array interfaces."""
    row = DTYPES[facts.dtype]
    nowhere = NOWHERE if facts.device == ON_CPU else 0
    return {
        "shape": facts.shape,
        "typestr": row.typestr or f"|V{row.bytes}",
        "data": (facts.ptr or nowhere, facts.readonly),
        "version": 3,
        "strides": None if facts.contiguous else tuple(row.bytes * step for step in facts.stride),
    }


def _foreign_array(source: Any) -> Array:
    """Return an array that shares a tensor of another library in host memory."""
    try:
        facts = tensor_facts(source, lambda _: 0)
    except UnreadableError as error:
        raise TensorError(
            f"this is nothing that a tensor can be made of: {error}", fix=_MAKE_ARRAY
        ) from error
    if facts.device != ON_CPU:
        where = "on a GPU" if facts.size else "of no elements and not on the host"
        fix = "Tensor.from_foreign(x) takes it as it is, and api.dup of that copies it"
        raise TensorError(
            f"the {type(source).__qualname__} is {where}: from_host takes host memory", fix=fix
        )
    if facts.dtype not in DTYPES or DTYPES[facts.dtype].packed:
        raise TensorError(
            f"a tensor of {facts.dtype} cannot become one of tilec",
            fix=f"convert it; tensors have {', '.join(DTYPES)}",
        )
    if facts.size and not facts.ptr:
        raise TensorError(
            f"the {type(source).__qualname__} has elements and no memory",
            cause="it is a meta or fake tensor",
        )
    return shared_array(source, facts)


class Keeping:
    """An owner of memory with an array interface, so that an array keeps the owner."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {**interface, "version": 3}
