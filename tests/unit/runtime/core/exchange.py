"""Arrays with DLPack's exchange API, made with ctypes: the C structures are the real ones, and
tests lie in them.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tests.unit.runtime import fake_torch
from tilec_runtime.tensors.dlpack import RawTensor, RawVersioned

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = (
    ctypes.py_object,
    (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
)

CurrentStream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)
_FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(RawTensor))
_Managed = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(RawVersioned))
)


class RawHeader(ctypes.Structure):
    pass


RawHeader._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("before", ctypes.POINTER(RawHeader)),
]


class RawApi(ctypes.Structure):
    _fields_ = [
        ("header", RawHeader),
        ("allocate", ctypes.c_void_p),
        ("managed", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("tensor", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class Array:
    """Facts that the exchange API gives; `tensor` may be changed to lie."""

    def __init__(
        self,
        shape: tuple[int, ...] = (4, 8),
        stride: tuple[int, ...] | None = (8, 1),
        *,
        address: int = 0x10000,
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (2, 0),
        offset: int = 0,
        flags: int = 0,
        negated: Any = False,
        code: int = 0,
    ) -> None:
        self._numbers = (ctypes.c_int64 * (2 * len(shape) + 1))(*shape, *(stride or ()))
        self.tensor = RawTensor()
        self.tensor.data, self.tensor.byte_offset, self.tensor.ndim = address, offset, len(shape)
        self.tensor.dtype.code, self.tensor.dtype.bits, self.tensor.dtype.lanes = dtype
        self.tensor.device.type, self.tensor.device.id = device
        start = ctypes.addressof(self._numbers)
        self.tensor.shape = ctypes.cast(start, ctypes.POINTER(ctypes.c_int64))
        if stride is not None:
            self.tensor.strides = ctypes.cast(
                start + 8 * len(shape), ctypes.POINTER(ctypes.c_int64)
            )
        self.managed = RawVersioned(major=1, flags=flags, tensor=self.tensor)
        self.negated, self.code = negated, code

    def is_neg(self) -> Any:
        if isinstance(self.negated, BaseException):
            raise self.negated
        return self.negated


def _copy(array: Any, target: Any) -> int:
    ctypes.memmove(target, ctypes.addressof(array.tensor), ctypes.sizeof(RawTensor))
    return array.code


def _lend(array: Any, target: Any) -> int:
    array.managed.tensor = array.tensor
    target[0] = ctypes.pointer(array.managed)
    return array.code


FROM_OBJECT, MANAGED = _FromObject(_copy), _Managed(_lend)


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def api(
    *,
    major: int = 1,
    tensor: Any = FROM_OBJECT,
    managed: Any = MANAGED,
    stream: Any = None,
    before: RawApi | None = None,
) -> RawApi:
    """A table of functions; it lives as long as the process, as the protocol asks."""
    made = RawApi(
        RawHeader(major, 3),
        0,
        *(address_of(function) if function else 0 for function in (managed, None, tensor, stream)),
    )
    if before is not None:
        made.header.before = ctypes.cast(ctypes.pointer(before), ctypes.POINTER(RawHeader))
    _LIVING.extend((made, before, stream))
    return made


_LIVING: list[Any] = []


def capsule(table: RawApi, name: bytes = b"dlpack_exchange_api") -> Any:
    _LIVING.append(name)  # a capsule does not copy it
    return new_capsule(ctypes.addressof(table), name, None)


def array_type(table: RawApi | None, *, torch: bool = False, **names: Any) -> type[Array]:
    """A new type of arrays; those of torch are recognized by a class of its name."""
    if table is not None:
        names["__dlpack_c_exchange_api__"] = capsule(table)
    if torch:
        return type("Tensor", (Array,), {**names, "__module__": "torch"})
    return type("Library", (Array,), names)


_DTYPES = {
    "torch.float32": (2, 32, 1),
    "torch.float16": (2, 16, 1),
    "torch.bfloat16": (4, 16, 1),
    "torch.float64": (2, 64, 1),
    "torch.int32": (0, 32, 1),
    "torch.complex64": (5, 64, 1),
}


def _describe(tensor: Any, target: Any) -> int:
    """Say of a double of torch's tensors what its attributes say to Python."""
    tensor.numbers = (ctypes.c_int64 * (2 * len(tensor.shape) + 1))(*tensor.shape, *tensor.stride())
    raw, start = target[0], ctypes.addressof(tensor.numbers)
    raw.data, raw.byte_offset, raw.ndim = tensor.ptr, 0, len(tensor.shape)
    raw.dtype.code, raw.dtype.bits, raw.dtype.lanes = _DTYPES[tensor.dtype]
    raw.device.type, raw.device.id = (2, tensor.index) if tensor.index >= 0 else (1, 0)
    raw.shape = ctypes.cast(start, ctypes.POINTER(ctypes.c_int64))
    raw.strides = ctypes.cast(start + 8 * len(tensor.shape), ctypes.POINTER(ctypes.c_int64))
    return 0


_DESCRIBE = _FromObject(_describe)


class Torch(fake_torch.Tensor):
    """A double of torch's tensors that Python and C read."""

    __dlpack_c_exchange_api__ = capsule(api(tensor=_DESCRIBE))


Torch.__module__ = "torch"
TORCH = array_type(api(), torch=True)
LIBRARY = array_type(api())
