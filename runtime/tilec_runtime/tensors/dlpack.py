"""Reads DLPack capsules through ctypes, without taking over the tensor."""

from __future__ import annotations

import ctypes
from typing import Any

from tilec_runtime.device.layout import is_of_jax
from tilec_runtime.values import value_class

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1
# The array standard's value for "do not synchronize": the caller orders the launch's stream.
NO_SYNC = -1


class RawDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class RawDType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class RawTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", RawDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", RawDType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class RawManaged(ctypes.Structure):
    _fields_ = (("tensor", RawTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class RawVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", RawTensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


@value_class(frozen=True, kw_only=True)
class View:
    """The contents of a DLPack capsule.

    Attributes:
        stride: in elements; None for C-contiguous.
        dtype: (type code, bits).
        device: (type, number).
    """

    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: tuple[int, int]
    lanes: int
    device: tuple[int, int]
    readonly: bool


def view(exporter: Any, *, stream: int | None = NO_SYNC) -> View:
    """Read a tensor through its `__dlpack__`.

    The capsule is not consumed: its own destructor runs when this returns, and the exporter stays
    the owner.

    Args:
        exporter: the tensor.
        stream: the stream that the exporter synchronizes with; None for host memory, which has no
            streams. JAX has no way not to synchronize, and waits on the host instead.

    Raises:
        ValueError: `__dlpack__` returned no DLPack capsule of a known version.
        Exception: an error of the exporter itself.
    """
    if stream == NO_SYNC and is_of_jax(
        type(exporter)
    ):  # JAX takes NO_SYNC for a handle; without a stream, it waits on the host
        stream = None
    try:
        capsule = exporter.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0
        capsule = exporter.__dlpack__(stream=stream)
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = RawVersioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ValueError(
                f"its DLPack version is {versioned.major}.{versioned.minor}, and 1.x is known"
            )
        return _read(versioned.tensor, readonly=bool(versioned.flags & READ_ONLY))
    if _is_valid(capsule, b"dltensor"):
        return _read(
            RawManaged.from_address(_get_pointer(capsule, b"dltensor")).tensor, readonly=False
        )
    raise ValueError("its __dlpack__ gave no DLPack capsule")


def _read(tensor: RawTensor, *, readonly: bool) -> View:
    rank = tensor.ndim
    return View(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=tuple(tensor.shape[:rank]) if rank else (),
        stride=(tuple(tensor.strides[:rank]) if rank else ()) if tensor.strides else None,
        dtype=(tensor.dtype.code, tensor.dtype.bits),
        lanes=tensor.dtype.lanes,
        device=(tensor.device.type, tensor.device.id),
        readonly=readonly,
    )
