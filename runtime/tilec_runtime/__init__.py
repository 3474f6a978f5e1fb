"""The shipped half: loads bundles and launches their kernels.

Every name is imported at its first use, because loading a package and launching its kernels needs
few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilec_runtime import api
    from tilec_runtime.device.device import Device
    from tilec_runtime.device.devices import devices
    from tilec_runtime.device.events import Event
    from tilec_runtime.device.seam import DeviceInfo
    from tilec_runtime.device.streams import Stream
    from tilec_runtime.launch.config import LaunchConfig
    from tilec_runtime.launch.launcher import Launcher
    from tilec_runtime.launch.load import Module, load
    from tilec_runtime.launch.prepare import Explanation
    from tilec_runtime.ops.combinators import as_op, shared, with_context, zip_ops
    from tilec_runtime.ops.context import ExecutionContext
    from tilec_runtime.ops.future import DeviceFuture
    from tilec_runtime.ops.graph import GraphNode
    from tilec_runtime.ops.launch_ops import AsyncKernelLaunch
    from tilec_runtime.ops.lazy import LazyLaunch, LazyLauncher, OrOp
    from tilec_runtime.ops.modules import (
        KernelFunction,
        KernelModule,
        load_module_from_bytes,
        load_module_from_file,
        load_module_from_ptx,
    )
    from tilec_runtime.ops.op import CudaGraph, DeviceOp, GraphScope, SharedOp
    from tilec_runtime.ops.policy import (
        SingleStream,
        StreamPoolRoundRobin,
        current_device,
        current_policy,
        set_default_device,
        use_device,
        use_policy,
    )
    from tilec_runtime.protocols import (
        DeviceLike,
        SchedulingPolicy,
        StreamLike,
        StructLike,
        TensorLike,
    )
    from tilec_runtime.tensors.buffer import DeviceBuffer
    from tilec_runtime.tensors.partition import MappedPartition, Partition
    from tilec_runtime.tensors.pool import MemPool, use_pool
    from tilec_runtime.tensors.tensor import SharedTensor, Tensor, TensorMut, TensorView

__all__ = [
    "AsyncKernelLaunch",
    "CudaGraph",
    "Device",
    "DeviceBuffer",
    "DeviceFuture",
    "DeviceInfo",
    "DeviceLike",
    "DeviceOp",
    "Event",
    "ExecutionContext",
    "Explanation",
    "GraphNode",
    "GraphScope",
    "KernelFunction",
    "KernelModule",
    "LaunchConfig",
    "Launcher",
    "LazyLaunch",
    "LazyLauncher",
    "MappedPartition",
    "MemPool",
    "Module",
    "OrOp",
    "Partition",
    "SchedulingPolicy",
    "SharedOp",
    "SharedTensor",
    "SingleStream",
    "Stream",
    "StreamLike",
    "StreamPoolRoundRobin",
    "StructLike",
    "Tensor",
    "TensorLike",
    "TensorMut",
    "TensorView",
    "api",
    "as_op",
    "current_device",
    "current_policy",
    "devices",
    "load",
    "load_module_from_bytes",
    "load_module_from_file",
    "load_module_from_ptx",
    "set_default_device",
    "shared",
    "use_device",
    "use_policy",
    "use_pool",
    "with_context",
    "zip_ops",
]

# The public names of each module; a test compares them with the imports above.
_NAMES = {
    "device.device": "Device",
    "device.devices": "devices",
    "device.events": "Event",
    "tensors.buffer": "DeviceBuffer",
    "device.seam": "DeviceInfo",
    "device.streams": "Stream",
    "launch.config": "LaunchConfig",
    "launch.launcher": "Launcher",
    "launch.load": "Module load",
    "launch.prepare": "Explanation",
    "ops.combinators": "as_op shared with_context zip_ops",
    "ops.context": "ExecutionContext",
    "ops.future": "DeviceFuture",
    "ops.graph": "GraphNode",
    "ops.launch_ops": "AsyncKernelLaunch",
    "ops.lazy": "LazyLaunch LazyLauncher OrOp",
    "ops.modules": "KernelFunction KernelModule load_module_from_bytes load_module_from_file load_module_from_ptx",
    "ops.op": "CudaGraph DeviceOp GraphScope SharedOp",
    "ops.policy": "SingleStream StreamPoolRoundRobin current_device current_policy set_default_device use_device use_policy",
    "protocols": "DeviceLike SchedulingPolicy StreamLike StructLike TensorLike",
    "tensors.partition": "MappedPartition Partition",
    "tensors.pool": "MemPool use_pool",
    "tensors.tensor": "SharedTensor Tensor TensorMut TensorView",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Return a name of `__all__` from its module; `api` is a module itself."""
    if name == "api":
        return importlib.import_module(f"{__name__}.api")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
