"""The calls of libcuda through ctypes: their signatures, numbers and structs are those of cuda.h, which
cuda.bindings was generated from.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
from cuda import bindings
from cuda.bindings import driver as real

from tilec_runtime.device import driver as module
from tilec_runtime.device import driver_memory
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.libcuda import (
    CALLS,
    SYMBOLS,
    Copy3D,
    LaunchConfig,
    Libcuda,
    PoolProperties,
)
from tilec_runtime.device.seam import LaunchShape
from tilec_runtime.errors import DriverError, NoDeviceError

HEADER = Path(bindings.__path__[0]) / "cydriver.pxd"
# Bytes of the types that arguments of calls have; enumerations have 4.
SIZES = {"char": 1, "int": 4, "float": 4, "size_t": 8, "CUdeviceptr": 8, "long": 8}


class Library:
    """libcuda's symbols as Python functions. Each notes its plain arguments, and gives what `gives`
    says of its call.
    """

    def __init__(self, **results: int) -> None:
        self.results, self.calls = results, list[tuple[Any, ...]]()
        self.gives: dict[str, Any] = {"cuGetErrorName": b"CUDA_ERROR_INVALID_VALUE"}
        self.gives["cuGetErrorString"] = b"words"
        self.facts: dict[int, int] = {}  # attributes of the device, by their numbers

    def __getattr__(self, symbol: str) -> Any:
        names = {symbol: name for name, symbol in SYMBOLS.items()}
        name = names.get(symbol, symbol)
        if name not in CALLS:
            raise AttributeError(symbol)

        def call(*arguments: Any) -> int:
            values = [getattr(value, "_obj", value) for value in arguments]
            self.calls.append((name, *map(plain, values)))
            given = self.gives.get(name)
            if name == "cuDeviceGetAttribute":
                given = self.facts.get(values[1], given)
            for value, kind in zip(values, CALLS[name], strict=True):
                if isinstance(kind, list) and given is not None:
                    value.value = given
            return self.results.get(name, 0)

        self.__dict__[symbol] = call
        return call


def plain(value: Any) -> Any:
    if isinstance(value, ctypes.Structure):
        return bytes(value)
    return getattr(value, "value", value)


def size_of(declared: str) -> int:
    """Bytes of a parameter of a declaration in Cython."""
    if "*" in declared:
        return 8
    kind = declared.removeprefix("const ").removeprefix("unsigned ").split()[0]
    is_enumeration = hasattr(getattr(real, kind, None), "__members__")
    return SIZES.get(kind, 4 if is_enumeration or kind in ("CUdevice", "cuuint32_t") else 8)


@pytest.mark.parametrize("name", CALLS)
def test_signatures_are_those_of_cuda_h(name: str) -> None:
    declared = re.search(
        rf"^cdef CUresult {name}\((.*?)\) except", HEADER.read_text(), re.MULTILINE
    )
    assert declared is not None
    parameters = [part.strip() for part in declared[1].split(",") if part.strip()]
    sizes = [8 if isinstance(kind, list) else ctypes.sizeof(kind) for kind in CALLS[name]]
    assert sizes == [size_of(parameter) for parameter in parameters], parameters


def test_numbers_are_those_of_cuda_h() -> None:
    def numbers(kind: str, *names: str) -> tuple[int, ...]:
        values = {member.name: int(member) for member in getattr(real, kind)}
        return tuple(
            next(value for name, value in values.items() if name.endswith(f"_{end}"))
            for end in names
        )

    assert tuple(module._DEVICE_FACTS.values()) == numbers(
        "CUdevice_attribute",
        *("MAX_THREADS_PER_BLOCK", "MAX_SHARED_MEMORY_PER_BLOCK", "MULTIPROCESSOR_COUNT"),
        *("L2_CACHE_SIZE", "COOPERATIVE_LAUNCH", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        "CLUSTER_LAUNCH",
    )
    assert (*module._BLOCK, *module._GRID, *module._CAPABILITY) == numbers(
        "CUdevice_attribute",
        *(f"MAX_{what}_DIM_{axis}" for what in ("BLOCK", "GRID") for axis in "XYZ"),
        *("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"),
    )
    assert (
        *module._FUNCTION_FACTS.values(),
        module._DYNAMIC_SHARED,
        *module._REQUIRED_CLUSTER,
        module._WIDE_CLUSTERS,
    ) == numbers(
        "CUfunction_attribute",
        *("MAX_THREADS_PER_BLOCK", "SHARED_SIZE_BYTES", "NUM_REGS"),
        "MAX_DYNAMIC_SHARED_SIZE_BYTES",
        *(f"REQUIRED_CLUSTER_{axis}" for axis in ("WIDTH", "HEIGHT", "DEPTH")),
        "NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
    )
    memory = driver_memory
    assert numbers("CUpointer_attribute", "DEVICE_ORDINAL", "RANGE_START_ADDR", "RANGE_SIZE") == (
        memory._ORDINAL,
        memory._START,
        memory._SIZE,
    )
    pools = (memory._THRESHOLD, memory._RESERVED, memory._RESERVED_HIGH, memory._USED)
    assert (*pools, memory._USED_HIGH) == numbers(
        "CUmemPool_attribute",
        *("RELEASE_THRESHOLD", "RESERVED_MEM_CURRENT", "RESERVED_MEM_HIGH"),
        *("USED_MEM_CURRENT", "USED_MEM_HIGH"),
    )
    assert numbers("CUevent_flags", "BLOCKING_SYNC", "DISABLE_TIMING") == (
        memory._BLOCKING_SYNC,
        memory._NO_TIMING,
    )
    assert numbers("CUstream_flags", "NON_BLOCKING") == (memory._NON_BLOCKING,)
    assert numbers("CUstreamCaptureMode", "RELAXED") == (module._RELAXED,)
    assert memory._PORTABLE == real.CU_MEMHOSTALLOC_PORTABLE


SHAPES = [
    LaunchShape(grid=(3, 4, 5), block=(128, 2, 1), shared=4096),
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(2, 4)),
    # One block is no cluster: devices without clusters take the launch.
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(1, 1, 1), cooperative=True),
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(2,), programmatic=True),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_launch_has_the_bytes_that_the_bindings_give(shape: LaunchShape) -> None:
    own = module._config(shape, 0x55)._obj
    other = real.CUlaunchConfig()
    other.gridDimX, other.gridDimY, other.gridDimZ = shape.grid
    other.blockDimX, other.blockDimY, other.blockDimZ = shape.block
    other.sharedMemBytes, other.hStream = shape.shared, real.CUstream(0x55)
    kinds, wanted = real.CUlaunchAttributeID, []
    for kind, field, value in (
        ("CLUSTER_DIMENSION", "clusterDim", shape.cluster_dim),
        ("COOPERATIVE", "cooperative", int(shape.cooperative)),
        (
            "PROGRAMMATIC_STREAM_SERIALIZATION",
            "programmaticStreamSerializationAllowed",
            int(shape.programmatic),
        ),
    ):
        if value:
            attribute = real.CUlaunchAttribute()
            attribute.id = getattr(kinds, f"CU_LAUNCH_ATTRIBUTE_{kind}")
            if isinstance(value, tuple):
                dims = attribute.value.clusterDim
                dims.x, dims.y, dims.z = value
            else:
                setattr(attribute.value, field, value)
            wanted.append(attribute)
    other.attrs, other.numAttrs = wanted, len(wanted)
    place = LaunchConfig.attributes.offset
    size = ctypes.sizeof(LaunchConfig)
    theirs = ctypes.string_at(other.getPtr(), size)
    assert (bytes(own)[:place], own.count) == (theirs[:place], len(wanted))
    assert int.from_bytes(theirs[place + 8 : place + 12], "little") == len(wanted)
    for number, attribute in enumerate(wanted):
        mine = bytes(own.attributes[number])
        given = ctypes.string_at(attribute.getPtr(), len(mine))
        assert (mine[:4], mine[8:20]) == (given[:4], given[8:20])


def test_copies_and_pools_have_the_bytes_that_the_bindings_give() -> None:
    copy = real.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = real.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    copy.srcDevice, copy.srcPitch, copy.srcHeight = 0x100, 3, 4
    copy.dstDevice, copy.dstPitch, copy.dstHeight = 0x200, 5, 6
    copy.WidthInBytes, copy.Height, copy.Depth = 7, 8, 9
    own = Copy3D(width=7, height=8, depth=9)
    for end, values in ((own.source, (0x100, 3, 4)), (own.target, (0x200, 5, 6))):
        end.kind, (end.device, end.pitch, end.height) = driver_memory._UNIFIED, values
    assert bytes(own) == ctypes.string_at(copy.getPtr(), ctypes.sizeof(own))
    pool = real.CUmemPoolProps()
    pool.allocType = real.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    pool.handleTypes = real.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
    pool.location.type = real.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    pool.location.id, pool.maxSize = 3, 1 << 30
    mine = PoolProperties(
        allocation=driver_memory._PINNED, location=driver_memory._ON_DEVICE, ordinal=3, most=1 << 30
    )
    assert bytes(mine) == ctypes.string_at(pool.getPtr(), ctypes.sizeof(mine))
    assert ctypes.sizeof(mine) == 88


def test_a_call_gives_its_result_and_its_values_in_order() -> None:
    library = Library(cuStreamDestroy=400)
    library.gives |= {"cuMemGetInfo": 7, "cuDeviceGetName": b"GPU"}
    api = Libcuda(library)
    assert api.cuMemGetInfo() == (0, 7, 7)
    assert api.cuDeviceGetName(256, 3) == (0, b"GPU")
    assert api.cuCtxGetCurrent() == (0, 0), "a null handle"
    assert api.cuStreamDestroy(5) == (400,)
    with pytest.raises(AttributeError, match="cuNothing"):
        api.cuNothing()


def test_calls_that_an_older_driver_lacks_are_not_supported() -> None:
    library = Library()
    library.gives |= {"cuDeviceGetCount": 1, "cuGetErrorName": b"CUDA_ERROR_NOT_SUPPORTED"}
    library.cuGraphUpload = None
    with pytest.raises(DriverError, match="cuGraphUpload failed: CUDA_ERROR_NOT_SUPPORTED"):
        Driver(Libcuda(library)).upload_graph(0, 1, 2)


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"no {name}")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NoDeviceError, match=r"\(libcuda\) cannot be loaded: no libcuda") as caught:
        module.driver.__wrapped__()
    assert "building and inspecting need no driver" in caught.value.fix
    assert 'the cpu device, which runs tile kernels: load("cpu")' in caught.value.fix
