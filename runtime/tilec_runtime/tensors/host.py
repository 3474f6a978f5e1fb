"""NumPy arrays on the host's side of a transfer: what their elements are called here, and how they
lie in a device's memory.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import ON_CPU, Shape, TensorFacts
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts
from tilec_runtime.tensors.shapes import checked_packing

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MAKE_ARRAY = "make a NumPy array of it first, with the dtype that the tensor is to have"


def as_array(source: Any) -> Array:
    """A host array as one of NumPy, without a copy.

    Args:
        source: a NumPy or ml_dtypes array, a tensor of another library in host memory, or a buffer
            (bytes, array.array, memoryview).

    Raises:
        TensorError: it is none, or is on a GPU.
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
    """tilec's name of an array's dtype.

    Raises:
        TensorError: it has none.
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
    """The bytes of a tensor with the contents of an array: its elements one after another, packed
    where the dtype is. May share its memory.

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
    codes = whole & np.uint8(15)
    pairs: Array = codes[0::2] | codes[1::2] << np.uint8(4)
    return pairs


def array_in(memory: Array, name: str, shape: Shape) -> Array:
    """An array of a dtype over bytes that hold it. Those of packed dtypes are spread out: that is a
    copy.
    """
    import numpy as np

    row = DTYPES[name]
    if row.packed:
        pairs = memory.reshape(-1)
        apart = np.empty((pairs.size, 2), np.uint8)
        np.bitwise_and(pairs, 15, out=apart[:, 0])
        np.right_shift(pairs, 4, out=apart[:, 1])
        return apart.reshape(shape).view(numpy_dtype(name))
    return memory.view(numpy_dtype(name)).reshape(shape)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for one of tilec; ml_dtypes' where NumPy has none.

    Raises:
        TensorError: this ml_dtypes has none either.
    """
    import numpy as np

    word = DTYPES[name].numpy
    try:
        return np.dtype(word)
    except TypeError:
        pass
    try:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, word))
    except (ImportError, AttributeError) as error:
        what = f"a NumPy array of {name} needs ml_dtypes.{word}, and there is none here"
        raise TensorError(
            what, fix='install "ml_dtypes>=0.5", or take the bytes: reinterpret("u8")'
        ) from error
    return found


def empty_array(name: str, shape: Shape) -> Array:
    """A new array, with whatever was there."""
    import numpy as np

    return np.empty(shape, numpy_dtype(name))


def checked_out(out: Any, name: str, shape: Shape) -> Array:
    """An array that a tensor's contents go to.

    Raises:
        TensorError: it is no NumPy array, cannot be written, or is of another shape or dtype.
    """
    import numpy as np

    if not isinstance(out, np.ndarray):
        raise TensorError(
            f"out is a {type(out).__qualname__}, and contents go to a NumPy array",
            fix="pass one, or leave it out",
        )
    if out.shape != shape or out.dtype != numpy_dtype(name):
        what = f"out is an array of {out.dtype} and shape {out.shape}, and the tensor of {numpy_dtype(name)} and shape {shape}"
        raise TensorError(what, fix="pass an array of the tensor's dtype and shape")
    if not out.flags.writeable:
        raise TensorError("out cannot be written", fix="pass an array that is not read-only")
    return out


def host_memory(address: int, size: int) -> Array:
    """Bytes of the host that another object owns."""
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _foreign_array(source: Any) -> Array:
    """A view of a tensor of another library in host memory; also of dtypes that NumPy cannot take
    over by itself.
    """
    import numpy as np

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
    return (
        _strided(source, facts) if math.prod(facts.shape) else np.empty(facts.shape, _dtype(facts))
    )


def _strided(source: Any, facts: TensorFacts) -> Array:
    import numpy as np

    if not facts.ptr:
        raise TensorError(
            f"the {type(source).__qualname__} has elements and no memory",
            cause="it is a meta or fake tensor",
        )
    dtype = _dtype(facts)
    strides = tuple(step * dtype.itemsize for step in facts.stride)
    view = Keeping(
        source,
        {
            "data": (facts.ptr, True),
            "shape": facts.shape,
            "typestr": f"|V{dtype.itemsize}",
            "strides": strides,
        },
    )
    return np.asarray(view).view(dtype)


def _dtype(facts: TensorFacts) -> np.dtype[Any]:
    if facts.dtype not in DTYPES or DTYPES[facts.dtype].packed:
        raise TensorError(
            f"a tensor of {facts.dtype} cannot become one of tilec",
            fix=f"convert it; tensors have {', '.join(DTYPES)}",
        )
    return numpy_dtype(facts.dtype)


class Keeping:
    """Lets NumPy see memory of an object, which it keeps."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {**interface, "version": 3}
