"""The shipped half: loads bundles and launches their kernels."""

from __future__ import annotations

from tilec.runtime.devices import devices
from tilec.runtime.events import Event
from tilec.runtime.launch import Launcher
from tilec.runtime.load import Module, load, load_packaged
from tilec.runtime.memory import DeviceBuffer
from tilec.runtime.prepare import Explanation
from tilec.runtime.protocols import DeviceLike, StreamLike, StructLike, TensorLike
from tilec.runtime.seam import DeviceInfo
from tilec.runtime.streams import Stream

__all__ = [
    "DeviceBuffer",
    "DeviceInfo",
    "DeviceLike",
    "Event",
    "Explanation",
    "Launcher",
    "Module",
    "Stream",
    "StreamLike",
    "StructLike",
    "TensorLike",
    "devices",
    "load",
    "load_packaged",
]
