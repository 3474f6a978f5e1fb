"""Makes DLPack capsules through ctypes: memory of tilec's own for other libraries, which say when they need it no more."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
from typing import Any

from tilec.runtime.dlpack import READ_ONLY, RawDevice, RawDType, RawManaged, RawTensor, RawVersioned, View
from tilec.runtime.tensors.drops import COLLECTED

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_VERSION = (1, 0)

# What consumers hold, by the address of its description: the description itself, and whatever keeps the memory.
_EXPORTED: dict[int, tuple[Any, ...]] = {}
# Capsules that were given out. A consumer that refuses one lets go of it with its own error set, and then no function of Python can run: it
# would end in a SystemError in place of that error. So the last reference is here, and goes when somebody looks.
_OFFERED: list[Any] = []

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(("PyCapsule_New", ctypes.pythonapi))
# A capsule that is being destroyed must not be touched as an object any more: these take its address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def capsule(view: View, keep: Any, *, versioned: bool) -> Any:
    """A capsule that describes a tensor.

    Args:
        view: the tensor, with its strides.
        keep: what keeps the memory; let go when the consumer is done, on whatever thread. Where nobody takes the capsule, at the next
            one, or at the next collection of garbage.
        versioned: as of DLPack 1.0, which knows read-only tensors.
    """
    rank = len(view.shape)
    shape = (ctypes.c_int64 * rank)(*view.shape)
    stride = (ctypes.c_int64 * rank)(*(view.stride or ()))
    tensor = RawTensor(
        data=view.address or None,
        device=RawDevice(*view.device),
        ndim=rank,
        dtype=RawDType(*view.dtype, view.lanes),
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        strides=ctypes.cast(stride, ctypes.POINTER(ctypes.c_int64)),
        byte_offset=0,
    )
    deleter = _NO_DELETER if _ended else ctypes.cast(_DELETER, ctypes.c_void_p).value
    managed: RawManaged | RawVersioned
    if versioned:
        flags = READ_ONLY if view.readonly else 0
        managed = RawVersioned(major=_VERSION[0], minor=_VERSION[1], context=None, deleter=deleter, flags=flags, tensor=tensor)
    else:
        managed = RawManaged(tensor=tensor, context=None, deleter=deleter)
    address = ctypes.addressof(managed)
    held = _EXPORTED[address] = (managed, shape, stride, keep)
    if _ended:
        _leave(held)
    made = _new(address, _VERSIONED if versioned else _PLAIN, _DESTRUCTOR)
    _look_over()
    _OFFERED.append(made)
    return made


def _look_over() -> None:
    """Let go of the capsules that nobody else has; it is done at each collection too."""
    for _ in range(len(_OFFERED)):
        try:
            one = _OFFERED.pop(0)
        except IndexError:  # another thread looks too
            return
        if sys.getrefcount(one) > _OURS:
            _OFFERED.append(one)
        del one


def _end() -> None:
    """The process ends. Consumers (JAX) may let go after the interpreter is gone, when no function of Python can run: then nothing is to be
    done, and descriptions and memory stay where they are.
    """
    global _ended
    _ended = True
    _OFFERED.clear()
    for held in list(_EXPORTED.values()):
        held[0].deleter = _NO_DELETER
        _leave(held)


def _leave(held: tuple[Any, ...]) -> None:
    """Never let go of what a consumer holds."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(address: int) -> None:
    """A capsule goes. One that was consumed has another name by now: then its consumer calls the deleter."""
    with contextlib.suppress(Exception):  # nobody is there to catch it
        for name in (_PLAIN, _VERSIONED):
            if _is_valid(address, name):
                _delete(_pointer(address, name))


# References to a capsule that nobody else has: the variable, and the argument of who counts.
_OURS = 2
_DELETER = _Deleter(_delete)
_DESTRUCTOR = _Destructor(_destroy)
# What a consumer may call when there is no Python any more: a function of C that changes nothing. Null would do by DLPack's rules, if all
# consumers knew them.
_NO_DELETER = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
_ended = False
COLLECTED.append(_look_over)
atexit.register(_end)
