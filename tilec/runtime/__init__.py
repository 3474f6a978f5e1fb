"""The shipped half: loads bundles and launches their kernels."""

from __future__ import annotations

from tilec.runtime.device import Device
from tilec.runtime.devices import devices
from tilec.runtime.events import Event
from tilec.runtime.launch import Launcher
from tilec.runtime.load import Module, load, load_packaged
from tilec.runtime.memory import DeviceBuffer
from tilec.runtime.ops.combinators import as_op, empty, value, with_context, zip_ops
from tilec.runtime.ops.context import ExecutionContext
from tilec.runtime.ops.future import DeviceFuture
from tilec.runtime.ops.launch_ops import AsyncKernelLaunch, LaunchConfig
from tilec.runtime.ops.lazy import LazyLaunch, LazyLauncher
from tilec.runtime.ops.modules import KernelFunction, KernelModule, load_module_from_bytes, load_module_from_file, load_module_from_ptx
from tilec.runtime.ops.op import DeviceOp
from tilec.runtime.ops.policy import (
    SchedulingPolicy,
    SingleStream,
    StreamPoolRoundRobin,
    current_device,
    current_policy,
    set_default_device,
    use_device,
    use_policy,
)
from tilec.runtime.ops.sharing import SharedOp, shared
from tilec.runtime.prepare import Explanation
from tilec.runtime.protocols import DeviceLike, StreamLike, StructLike, TensorLike
from tilec.runtime.seam import DeviceInfo
from tilec.runtime.streams import Stream
from tilec.runtime.tensors.partition import MappedPartition, Partition
from tilec.runtime.tensors.pool import MemPool
from tilec.runtime.tensors.shared import SharedTensor
from tilec.runtime.tensors.tensor import Tensor, TensorMut
from tilec.runtime.tensors.view import TensorView

__all__ = [
    "AsyncKernelLaunch",
    "Device",
    "DeviceBuffer",
    "DeviceFuture",
    "DeviceInfo",
    "DeviceLike",
    "DeviceOp",
    "Event",
    "ExecutionContext",
    "Explanation",
    "KernelFunction",
    "KernelModule",
    "LaunchConfig",
    "Launcher",
    "LazyLaunch",
    "LazyLauncher",
    "MappedPartition",
    "MemPool",
    "Module",
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
    "as_op",
    "current_device",
    "current_policy",
    "devices",
    "empty",
    "load",
    "load_module_from_bytes",
    "load_module_from_file",
    "load_module_from_ptx",
    "load_packaged",
    "set_default_device",
    "shared",
    "use_device",
    "use_policy",
    "value",
    "with_context",
    "zip_ops",
]
