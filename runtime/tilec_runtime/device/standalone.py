"""The CUDA driver through ctypes alone: all that launches need of it, without cuda-bindings.

For packages that may depend on torch and nothing else. A launch costs more than with the bindings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, Union, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any, ClassVar

from tilec_runtime.device.driver import Driver
from tilec_runtime.device.driver_calls import no_driver
from tilec_runtime.device.libcuda import Call, Libcuda
from tilec_runtime.device.seam_types import LaunchShape, PoolHandle
from tilec_runtime.forks import Once
from tilec_runtime.model.tensormap import SIZE, TensorMap

_L2_128_BYTES = 2
_MAP_ALIGN = 64
_CLUSTER, _COOPERATIVE, _PROGRAMMATIC = 4, 2, 6


class _Cluster(Structure):
    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))


class _Value(Union):
    _fields_ = (("number", c_int), ("cluster", _Cluster), ("room", c_uint64 * 8))


class _Attribute(Structure):
    _fields_ = (("id", c_int), ("value", _Value))


class _Config(Structure):
    """A launch as cuLaunchKernelEx takes it."""

    _fields_ = (
        *((f"grid{axis}", c_uint) for axis in "XYZ"),
        *((f"block{axis}", c_uint) for axis in "XYZ"),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", c_uint),
    )


class Result(int):
    """A result of the driver that is no success, with its name and words."""

    name: str
    words: bytes


class StandaloneLibcuda(Libcuda):
    """Stands for `cuda.bindings.driver` without it; has the calls that launches make."""

    calls: ClassVar[dict[str, Call]] = {
        **Libcuda.calls,
        "cuCtxGetDevice": ((), c_int),
        "cuMemAllocAsync": ((c_size_t, c_void_p), c_uint64),
        "cuMemFreeAsync": ((c_uint64, c_void_p), None),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": ((c_void_p, c_int, c_size_t), c_int),
    }
    CUpointer_attribute = SimpleNamespace(
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR=11,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE=12,
    )

    def __getattr__(self, name: str) -> Any:
        """Refuse a call that launches do not make."""
        raise AttributeError(f"{name} is not among the driver calls of launches")

    def CUresult(self, code: int) -> Any:  # noqa: N802 - the driver's name
        """A result by its number."""
        return self._result(code)

    def cuGetErrorString(self, result: Result) -> tuple[int, bytes]:  # noqa: N802
        """The driver's words for a result."""
        return 0, result.words

    def cuPointerGetAttribute(self, attribute: int, address: int) -> tuple[Any, int]:  # noqa: N802
        """A fact about an address."""
        ordinal = self.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        value = c_int() if attribute == ordinal else c_uint64()
        call = self.library.cuPointerGetAttribute
        code = call(ctypes.byref(value), c_int(attribute), c_uint64(address))
        return self._result(code), value.value

    def cuStreamGetCtx(self, stream: int) -> tuple[Any, int]:  # noqa: N802
        """The context of a stream."""
        value = c_void_p()
        code = self.library.cuStreamGetCtx(c_void_p(stream), ctypes.byref(value))
        return self._result(code), value.value or 0

    def cuDevicePrimaryCtxGetState(self, device: int) -> tuple[Any, int, int]:  # noqa: N802
        """Flags of a primary context, and whether it is there."""
        flags, active = c_uint(), c_int()
        call = self.library.cuDevicePrimaryCtxGetState
        code = call(c_int(device), ctypes.byref(flags), ctypes.byref(active))
        return self._result(code), flags.value, active.value

    def cuLaunchKernelEx(  # noqa: N802
        self, config: _Config, function: int, parameters: int, extra: int
    ) -> tuple[Any]:
        """Enqueue a launch; `parameters` is the address of the array of addresses."""
        code = self.library.cuLaunchKernelEx(
            ctypes.byref(config), c_void_p(function), c_void_p(parameters), c_void_p(extra or 0)
        )
        return (self._result(code),)

    def cuOccupancyMaxActiveClusters(self, function: int, config: _Config) -> tuple[Any, int]:  # noqa: N802
        """Clusters of a launch that the device holds at a time."""
        return self._counted(self.library.cuOccupancyMaxActiveClusters, function, config)

    def cuOccupancyMaxPotentialClusterSize(  # noqa: N802
        self, function: int, config: _Config
    ) -> tuple[Any, int]:
        """The most blocks of a cluster of a launch."""
        return self._counted(self.library.cuOccupancyMaxPotentialClusterSize, function, config)

    def _counted(self, call: Any, function: int, config: _Config) -> tuple[Any, int]:
        value = c_int()
        code = call(ctypes.byref(value), c_void_p(function), ctypes.byref(config))
        return self._result(code), value.value

    def encode_tiled(
        self, wanted: TensorMap, address: int, shape: Sequence[int], strides: Sequence[int]
    ) -> tuple[Any, bytes]:
        """A tensor map; `shape` and `strides` in the driver's order, innermost first."""
        rank, room = len(shape), (ctypes.c_char * (SIZE + _MAP_ALIGN))()
        place = -(-ctypes.addressof(room) // _MAP_ALIGN) * _MAP_ALIGN
        code = self.library.cuTensorMapEncodeTiled(
            c_void_p(place),
            c_int(wanted.element),
            c_uint32(rank),
            c_void_p(address),
            (c_uint64 * rank)(*shape),
            (c_uint64 * max(rank - 1, 1))(*strides),
            (c_uint32 * rank)(*reversed(wanted.box)),
            (c_uint32 * rank)(*[1] * rank),
            c_int(0),
            c_int(wanted.swizzle),
            c_int(_L2_128_BYTES),
            c_int(0),
        )
        return self._result(code), ctypes.string_at(place, SIZE)

    def _result(self, result: int) -> Any:
        if not result:
            return 0
        failure = Result(result)
        failure.name = self._text(self.library.cuGetErrorName, result).decode("utf-8", "replace")
        failure.words = self._text(self.library.cuGetErrorString, result)
        return failure

    def _text(self, call: Any, code: int) -> bytes:
        text = c_char_p()
        call(c_int(code), ctypes.byref(text))
        return text.value or b""


class StandaloneDriver(Driver):
    """`DeviceDriver` for launches, on ctypes alone."""

    _api: StandaloneLibcuda

    def allocate(
        self,
        ordinal: int,
        size: int,
        stream: int | None,
        pool: PoolHandle | None = None,  # noqa: ARG002 - the device's pool
    ) -> int:
        """Device memory in stream order."""
        with self.current(ordinal):
            return int(self._ask("cuMemAllocAsync", size, stream or 0))

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, in stream order."""
        with self.current(ordinal):
            self._ask("cuMemFreeAsync", address, stream or 0)

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """The bytes of a tensor map of these extents, with strides in bytes."""
        inner = [*reversed(strides[:-1])]
        with self.current(ordinal):
            made: bytes = self._ask("encode_tiled", wanted, address, [*reversed(shape)], inner)
            return made

    def _ordinal_of(self, address: int) -> Any:
        attribute = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return self._api.cuPointerGetAttribute(attribute, address)

    def _config(self, shape: LaunchShape, stream: int) -> Any:
        attributes = list(_attributes(shape))
        array = (_Attribute * max(len(attributes), 1))(*attributes)
        config = _Config(*shape.grid, *shape.block, shape.shared, stream, array, len(attributes))
        config.held = array  # the pointer alone keeps nothing
        return config


def _attributes(shape: LaunchShape) -> list[_Attribute]:
    attributes = []
    if extents := shape.cluster_dim:
        attributes.append(_Attribute(_CLUSTER, _Value(cluster=_Cluster(*extents))))
    for wanted, number in ((shape.cooperative, _COOPERATIVE), (shape.programmatic, _PROGRAMMATIC)):
        if wanted:
            attributes.append(_Attribute(number, _Value(number=1)))
    return attributes


@Once
def driver() -> StandaloneDriver:
    """The process's driver of standalone packages, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no GPU.
    """
    try:
        api = StandaloneLibcuda()
    except OSError as error:
        raise no_driver(error) from error
    return StandaloneDriver(api)
