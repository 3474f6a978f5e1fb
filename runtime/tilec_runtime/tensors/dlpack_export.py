"""Makes DLPack capsules through ctypes: other libraries read tilec's memory.

They call a deleter when they are done.
"""

from __future__ import annotations

import atexit
import ctypes
import weakref
from typing import Any

from tilec_runtime.device.layout import contiguous_stride
from tilec_runtime.tensors.dlpack import (
    READ_ONLY,
    RawDevice,
    RawDType,
    RawManaged,
    RawTensor,
    RawVersioned,
    View,
)

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_VERSION = (1, 0)

# The owners of exported memory, by the address of its description, until the deleter is called.
_EXPORTED: dict[int, tuple[RawManaged | RawVersioned, Any]] = {}
# The last capsule of each exporter. A consumer that refuses a capsule drops it with its own error
# set. If that were the last reference, the destructor below would run with the error set, and
# Python would raise a SystemError instead.
_OFFERED: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Callback)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# A capsule that is being destroyed must not become a Python object again: these functions take its
# address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(
    ("PyMem_RawCalloc", ctypes.pythonapi)
)
_free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyMem_RawFree", ctypes.pythonapi))


def capsule(exporter: Any, view: View, owner: Any, *, versioned: bool) -> Any:
    """Return a capsule that describes a tensor.

    Args:
        exporter: the exported object. Its last capsule is kept, in case the consumer refuses it.
        view: the tensor, with its strides.
        owner: keeps the memory alive. It is released when the consumer is done, on any thread, or
            with a capsule that no consumer took.
        versioned: whether to use DLPack 1.0, which has read-only tensors.
    """
    kind = RawVersioned if versioned else RawManaged
    rank, head = len(view.shape), ctypes.sizeof(kind)
    # One block of C memory holds description, shape and strides: consumers may free it after the
    # interpreter is gone.
    address = _allocate(1, head + 2 * rank * ctypes.sizeof(ctypes.c_int64))
    if not address:
        raise MemoryError("no memory for the description of a DLPack tensor")
    extents = (ctypes.c_int64 * (2 * rank)).from_address(address + head)
    extents[:] = [
        *view.shape,
        *(contiguous_stride(view.shape) if view.stride is None else view.stride),
    ]
    managed: RawManaged | RawVersioned = kind.from_address(address)
    managed.deleter = _FREE if _ended else ctypes.cast(_DELETER, ctypes.c_void_p).value
    managed.tensor = RawTensor(
        data=view.address or None,
        device=RawDevice(*view.device),
        ndim=rank,
        dtype=RawDType(*view.dtype, view.lanes),
        shape=ctypes.cast(address + head, ctypes.POINTER(ctypes.c_int64)),
        strides=ctypes.cast(
            address + head + rank * ctypes.sizeof(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64)
        ),
    )
    if isinstance(managed, RawVersioned):
        managed.major, managed.minor = _VERSION
        managed.flags = READ_ONLY if view.readonly else 0
    _EXPORTED[address] = (managed, owner)
    exported = _new(address, _VERSIONED if versioned else _PLAIN, _DESTRUCTOR)
    _OFFERED[exporter] = exported
    return exported


def _delete(address: int) -> None:
    """The deleter, which the consumer calls when it is done."""
    if _EXPORTED.pop(address, None) is not None:
        _free(address)


def _destroy(address: int) -> None:
    """The destructor of a capsule.

    A consumer that takes a capsule renames it, and calls the deleter itself.
    """
    for name in (_PLAIN, _VERSIONED):
        if _is_valid(address, name):
            _delete(_pointer(address, name))


def _end() -> None:
    """Set a C function as the deleter of all descriptions, at interpreter exit.

    Consumers (JAX) may free descriptions afterwards, when no Python function can run.
    """
    global _ended
    _OFFERED.clear()
    _ended = True
    for managed, _ in list(_EXPORTED.values()):
        managed.deleter = _FREE


_DELETER = _Callback(_delete)
_DESTRUCTOR = _Callback(_destroy)
_FREE = ctypes.cast(ctypes.pythonapi.PyMem_RawFree, ctypes.c_void_p).value
_ended = False
atexit.register(_end)
