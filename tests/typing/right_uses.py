"""Uses of a generated package that every type checker accepts; read by test_types.py, never run."""

from __future__ import annotations

from typing import Any

import numpy as np
import sample
from typing_extensions import assert_type

from tilec_runtime import DeviceBuffer, Explanation, Launcher, Stream


class Foreign:
    """A tensor with DLPack, as the array standard has it."""

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None
    ) -> Any:
        return (stream, max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


class Old:
    """A tensor with DLPack as it was, and with the array interface."""

    def __dlpack__(self, stream: Any = None) -> object:
        return stream

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}


class TorchStream:
    """A stream as torch has it."""

    @property
    def cuda_stream(self) -> int:
        return 0


def uses(foreign: Foreign, old: Old, stream: TorchStream, size: int) -> None:
    kernels = sample.load()
    assert_type(kernels, sample.Module)
    assert_type(sample.load("cuda:1"), sample.Module)
    buffer = DeviceBuffer((size,), "f32")
    kernels.add(foreign, old, buffer)
    kernels.add(z=foreign, x=old, y=buffer, alpha=2, stream=stream)
    with Stream() as own:
        assert_type(own, Stream)
        assert_type(kernels.add(foreign, old, buffer, 0.5, stream=own), None)
    kernels.gemm(foreign, foreign, foreign, stream=stream)
    kernels.gemm(foreign, foreign, foreign, BM=64, stream=stream)
    kernels.everything(foreign, 3, True, 0x1000, b"bytes", ORDER="row", stream=stream)
    kernels.everything(
        foreign,
        3,
        True,
        0x1000,
        bytearray(24),
        2.0,
        ORDER="column",
        FAST=False,
        W=1.5,
        stream=stream,
    )
    launcher = kernels["gemm"]
    assert_type(launcher, Launcher)
    assert_type(launcher.variant(BM=64), Launcher)
    assert_type(launcher.explain(foreign, foreign, foreign), Explanation)


def on_the_cpu_device(size: int) -> None:
    kernels = sample.load("cpu")
    z, x = np.zeros(size, np.float32), np.ones(size, np.float32)
    with Stream("cpu") as stream:
        kernels.add(z, x, DeviceBuffer.from_host(x, "cpu"), stream=stream)
        stream.sync()
