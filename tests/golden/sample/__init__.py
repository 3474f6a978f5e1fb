"""sample 1.0: Kernels for 'tests'.

Made by tilec 0.1.0. Do not edit: the next build writes this file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tilec.runtime import DeviceLike, Launcher, StreamLike, StructLike, TensorLike, load_packaged

__all__ = ["Module", "load"]


class Module:
    """The kernels of sample 1.0, loaded on one device. Every method checks its arguments and enqueues at once."""

    def __init__(self, launchers: Mapping[str, Launcher]) -> None:
        """Use `load`."""
        self._launchers = launchers
        self._add = launchers["add"]
        self._gemm = launchers["gemm"]
        self._everything = launchers["everything"]

    def __getitem__(self, kernel: str) -> Launcher:
        """The launcher of a kernel, by name: it explains its choices and can be restricted to a variant."""
        return self._launchers[kernel]

    def __repr__(self) -> str:
        """Package, version, device."""
        return repr(self._launchers)

    def add(
        self,
        stream: StreamLike,
        z: TensorLike,
        x: TensorLike,
        y: TensorLike,
        alpha: float = 1.0,
    ) -> None:
        """Adds two vectors.

        Args:
            stream: where the kernel is enqueued
            z: sum (f32 tensor, 1 dimension, C-contiguous, written)
            x: f32 tensor, 1 dimension, C-contiguous, read
            y: f32 tensor, 1 dimension, C-contiguous, read
            alpha: f32, 1.0 by default

        Requires:
            x.shape[0] == z.shape[0]
            y.shape[0] == z.shape[0]

        Variants:
            add-a16: z, x, y extents divisible by (16,); z, x, y aligned to 16 bytes
                sm_90
            add
                sm_90, sm_80
        """
        self._add.launch(stream, (z, x, y, alpha))

    def gemm(
        self,
        stream: StreamLike,
        c: TensorLike,
        a: TensorLike,
        b: TensorLike,
        *,
        BM: Literal[64, 128] = 128,
    ) -> None:
        """Enqueue the kernel gemm.

        Args:
            stream: where the kernel is enqueued
            c: T tensor, 2 dimensions, strides (any, 1), written
            a: T tensor, 2 dimensions, strides (any, 1), read
            b: T tensor, 2 dimensions, C-contiguous, read
            BM: 64 or 128; 128 by default

        T is f16 or bf16, by the arguments.

        Built with BK = 64.

        Requires:
            a.shape[1] == b.shape[0]

        Variants:
            gemm-f16-BM64
                sm_90
            gemm-f16-BM128
                sm_90
            gemm-bf16-BM128
                sm_90
        """
        self._gemm.launch(stream, (c, a, b), (BM,))

    def everything(
        self,
        stream_: StreamLike,
        x: TensorLike,
        lambda_: int,
        stream: bool,
        raw: int,
        config: StructLike,
        scale: float = float("inf"),
        *,
        ORDER: Literal["row", "column"],
        FAST: Literal[True, False] = True,
        W: float = 0.5,
    ) -> None:
        """Shows everything that a signature can hold.

        A second paragraph, which is so long that it has to be wrapped somewhere, for lines of a
        docstring end at the hundredth column at most.

            an indented 'example' with a / backslash and triple quotes '''

        Args:
            stream_: where the kernel is enqueued
            x: any shape (T tensor, any number of dimensions, C-contiguous, extents divisible by
                (8,), aligned to 16 bytes, read)
            lambda_: i64, 3 by default
            stream: bool
            raw: address in device memory
            config: packed settings (24 bytes, passed by value)
            scale: f32, inf by default
            ORDER: row or column
            FAST: True or False; True by default
            W: 0.5 or 1.5; 0.5 by default

        T is f32 or f16, by the arguments.

        Requires:
            x.size > 0

        Variants:
            everything-f32-row
                sm_90: 40 registers, no spills, 1024 bytes of shared memory
                sm_80: 40 registers, 20 bytes spilled, 16 bytes of stack
                compute_80
            everything-f32-column
                sm_90: 40 registers, no spills, 1024 bytes of shared memory
                sm_80: 40 registers, 20 bytes spilled, 16 bytes of stack
                compute_80
            everything-f16-row
                sm_90: 40 registers, no spills, 1024 bytes of shared memory
                sm_80: 40 registers, 20 bytes spilled, 16 bytes of stack
                compute_80
            everything-f16-column
                sm_90: 40 registers, no spills, 1024 bytes of shared memory
                sm_80: 40 registers, 20 bytes spilled, 16 bytes of stack
                compute_80
        """
        self._everything.launch(stream_, (x, lambda_, stream, raw, config, scale), (ORDER, FAST, W))


def load(device: DeviceLike = 0) -> Module:
    """Load the package's bundle on a device.

    Args:
        device: a number, `"cuda:1"`, `"cpu"`, or a device object of torch, CuPy or cuda.core.

    Returns:
        The kernels; images are loaded at the first launch that needs them.

    Raises:
        NoDeviceError: there is no driver or no such device.
        BundleError: the bundle is damaged.
    """
    return Module(load_packaged(__name__, "sample-1.0.tilec", device).kernels)
