"""sample 1.0: Kernels for 'tests'.

Made by tilec 0.1.0. Do not edit: builds write this file, and refuse to where it was changed.
"""
# fmt: off

from typing import Literal, TypeVar, overload

from tilec_runtime import (
    DeviceLike,
    Launcher,
    LazyLaunch,
    OrOp,
    StreamLike,
    StructLike,
    TensorLike,
)
from tilec_runtime import Module as _Loaded
from tilec_runtime.launch.jit import Compiled
from tilec_runtime.package import Makers as _Makers
from tilec_runtime.package import Package as _Package

__all__ = ["Module", "Ops", "load", "ops"]

_tilec_package_: _Package
ops: Ops
"""The kernels as functions that give ops, which run on whatever device they are run on."""

_T1 = TypeVar("_T1", bound=TensorLike)
_T2 = TypeVar("_T2", bound=TensorLike)
_T3 = TypeVar("_T3", bound=TensorLike)

class _AddLaunch(LazyLaunch[tuple[_T1, _T2, _T3, float]]):
    """A launch of add that runs later."""

    def variant(self) -> _AddLaunch[_T1, _T2, _T3]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(self, *, max_divisibility: Literal[1, 16] = ...) -> _AddLaunch[_T1, _T2, _T3]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class _GemmLaunch(LazyLaunch[tuple[_T1, _T2, _T3]]):
    """A launch of gemm that runs later."""

    def variant(
        self,
        *,
        T: Literal["f16", "bf16"] | None = ...,
        BM: Literal[64, 128] | None = ...,
        BK: Literal[64] | None = ...,
    ) -> _GemmLaunch[_T1, _T2, _T3]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(self) -> _GemmLaunch[_T1, _T2, _T3]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class _EverythingLaunch(LazyLaunch[tuple[_T1, int, bool, int, StructLike, float]]):
    """A launch of everything that runs later."""

    def variant(
        self,
        *,
        T: Literal["f32", "f16"] | None = ...,
        ORDER: Literal["row", "column"] | None = ...,
        FAST: Literal[True, False] | None = ...,
        W: float | None = ...,
    ) -> _EverythingLaunch[_T1]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(
        self,
        *,
        num_ctas: Literal[2] = ...,
        occupancy: Literal[2, 4] = ...,
    ) -> _EverythingLaunch[_T1]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class _TiledLaunch(LazyLaunch[tuple[_T1]]):
    """A launch of tiled that runs later."""

    def variant(
        self,
        *,
        BM: Literal[32, 64] | None = ...,
        ORDER: Literal["row", "column"] | None = ...,
    ) -> _TiledLaunch[_T1]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(self) -> _TiledLaunch[_T1]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class _ScaleLaunch(LazyLaunch[tuple[_T1, _T2, float]]):
    """A launch of scale that runs later."""

    def variant(self, *, T: Literal["f32", "f16"] | None = ...) -> _ScaleLaunch[_T1, _T2]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(self) -> _ScaleLaunch[_T1, _T2]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class _ScaleBackwardLaunch(LazyLaunch[tuple[_T1, _T2, float]]):
    """A launch of scale_backward that runs later."""

    def variant(self, *, T: Literal["f32", "f16"] | None = ...) -> _ScaleBackwardLaunch[_T1, _T2]:
        """Launch the variant of these axis values; None leaves an axis open again."""

    def options(self) -> _ScaleBackwardLaunch[_T1, _T2]:
        """Launch a variant that was built with these compiler hints, or assumes no larger divisor."""


class Ops:
    """The kernels of sample 1.0 as functions that give ops: work that is described now, and runs later, once.

    An argument may be an op that gives it. Tensors that are owned move in; an op's result is its arguments.
    """

    def __init__(self, makers: _Makers) -> None:
        """Use `ops` of this module or of a `Module`."""

    def add(
        self,
        z: OrOp[_T1],
        x: OrOp[_T2],
        y: OrOp[_T3],
        alpha: OrOp[float] = 1.0,
    ) -> _AddLaunch[_T1, _T2, _T3]:
        """Adds two vectors.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.add` says what it
        requires.

        Args:
            z: sum (f32 tensor, 1 dimension, C-contiguous, written)
            x: f32 tensor, 1 dimension, C-contiguous, read
            y: f32 tensor, 1 dimension, C-contiguous, read
            alpha: f32, 1.0 by default
        """

    def gemm(
        self,
        c: OrOp[_T1],
        a: OrOp[_T2],
        b: OrOp[_T3],
        *,
        BM: Literal[64, 128] | None = None,
    ) -> _GemmLaunch[_T1, _T2, _T3]:
        """Launch the kernel gemm.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.gemm` says what it
        requires.

        Args:
            c: T tensor, 2 dimensions, strides (any, 1), written
            a: T tensor, 2 dimensions, strides (any, 1), read
            b: T tensor, 2 dimensions, C-contiguous, read
            BM: 64 or 128; 128 by default
        """

    def everything(
        self,
        x: OrOp[_T1],
        lambda_: OrOp[int],
        stream_: OrOp[bool],
        raw: OrOp[int],
        config: OrOp[StructLike],
        scale: OrOp[float] = float("inf"),
        *,
        ORDER: Literal["row", "column"],
        FAST: Literal[True, False] | None = None,
        W: float | None = None,
    ) -> _EverythingLaunch[_T1]:
        """Shows everything that a signature can hold.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.everything` says
        what it requires.

        Args:
            x: any shape (T tensor, any number of dimensions, C-contiguous, extents divisible by
                (8,), aligned to 16 bytes, read)
            lambda_: i64, 3 by default
            stream_: bool
            raw: address in device memory
            config: packed settings (24 bytes, passed by value)
            scale: f32, inf by default
            ORDER: row or column
            FAST: True or False; True by default
            W: 0.5 or 1.5; 0.5 by default
        """

    def tiled(
        self,
        z: OrOp[_T1],
        *,
        BM: Literal[32, 64] | None = None,
        ORDER: Literal["row", "column"] | None = None,
    ) -> _TiledLaunch[_T1]:
        """Launch the kernel tiled.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.tiled` says what it
        requires.

        Args:
            z: f32 tensor, 2 dimensions, C-contiguous, written
            BM: 32 or 64; by the tiles of z
            ORDER: row or column; row by default
        """

    def scale(
        self,
        y: OrOp[_T1],
        x: OrOp[_T2],
        factor: OrOp[float] = 2.0,
    ) -> _ScaleLaunch[_T1, _T2]:
        """Launch the kernel scale.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.scale` says what it
        requires.

        Args:
            y: T tensor, 1 dimension, C-contiguous, written
            x: T tensor, 1 dimension, C-contiguous, read
            factor: f32, 2.0 by default
        """

    def scale_backward(
        self,
        y: OrOp[_T1],
        x: OrOp[_T2],
        factor: OrOp[float] = 2.0,
    ) -> _ScaleBackwardLaunch[_T1, _T2]:
        """Launch the kernel scale_backward.

        Nothing runs yet: this is an op, whose result is its arguments. `Module.scale_backward` says
        what it requires.

        Args:
            y: T tensor, 1 dimension, C-contiguous, written
            x: T tensor, 1 dimension, C-contiguous, read
            factor: f32, 2.0 by default
        """

class Module:
    """The kernels of sample 1.0, loaded on one device. Every method checks its arguments and enqueues at once."""

    def __init__(self, loaded: _Loaded) -> None:
        """Use `load`."""

    @property
    def ops(self) -> Ops:
        """The same kernels as functions that give ops, to be run on this device."""

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images that were no machine code of this device and were compiled so far."""

    def preload(self, *kernels: str) -> int:
        """Load all images that launches may take, or those of some kernels, so that no launch has to: before a graph is captured, or a
        first request comes. Variants of which no image runs here are left out.

        Returns:
            How many images are loaded.
        """

    def __getitem__(self, kernel: str) -> Launcher:
        """The launcher of a kernel, by name: it explains its choices and can be restricted to a variant."""

    def add(
        self,
        z: TensorLike,
        x: TensorLike,
        y: TensorLike,
        alpha: float = 1.0,
        *,
        stream: StreamLike | None = None,
    ) -> None:
        """Adds two vectors.

        Args:
            z: sum (f32 tensor, 1 dimension, C-contiguous, written)
            x: f32 tensor, 1 dimension, C-contiguous, read
            y: f32 tensor, 1 dimension, C-contiguous, read
            alpha: f32, 1.0 by default
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream

        Requires:
            x.shape[0] == z.shape[0]
            y.shape[0] == z.shape[0]

        Variants:
            add-a16: z, x, y: shape divisible by 16, base by 16
            add
        """

    def gemm(
        self,
        c: TensorLike,
        a: TensorLike,
        b: TensorLike,
        *,
        stream: StreamLike | None = None,
        BM: Literal[64, 128] | None = None,
    ) -> None:
        """Enqueue the kernel gemm.

        Args:
            c: T tensor, 2 dimensions, strides (any, 1), written
            a: T tensor, 2 dimensions, strides (any, 1), read
            b: T tensor, 2 dimensions, C-contiguous, read
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream
            BM: 64 or 128; 128 by default

        T is f16 or bf16, by the arguments.

        Built with BK = 64.

        Requires:
            a.shape[1] == b.shape[0]

        Variants:
            gemm-f16-BM64
            gemm-f16-BM128
            gemm-bf16-BM128
        """

    def everything(
        self,
        x: TensorLike,
        lambda_: int,
        stream_: bool,
        raw: int,
        config: StructLike,
        scale: float = float("inf"),
        *,
        stream: StreamLike | None = None,
        ORDER: Literal["row", "column"],
        FAST: Literal[True, False] | None = None,
        W: float | None = None,
    ) -> None:
        """Shows everything that a signature can hold.

        A second paragraph, which is so long that it has to be wrapped somewhere, for lines of a
        docstring end at the hundredth column at most.

            an indented 'example' with a / backslash and triple quotes '''

        Args:
            x: any shape (T tensor, any number of dimensions, C-contiguous, extents divisible by
                (8,), aligned to 16 bytes, read)
            lambda_: i64, 3 by default
            stream_: bool
            raw: address in device memory
            config: packed settings (24 bytes, passed by value)
            scale: f32, inf by default
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream
            ORDER: row or column
            FAST: True or False; True by default
            W: 0.5 or 1.5; 0.5 by default

        T is f32 or f16, by the arguments.

        Requires:
            x.size > 0

        Variants:
            everything-f32-row
            everything-f32-column
            everything-f16-row
            everything-f16-column
        """

    def tiled(
        self,
        z: TensorLike,
        *,
        stream: StreamLike | None = None,
        BM: Literal[32, 64] | None = None,
        ORDER: Literal["row", "column"] | None = None,
    ) -> None:
        """Enqueue the kernel tiled.

        Args:
            z: f32 tensor, 2 dimensions, C-contiguous, written
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream
            BM: 32 or 64; by the tiles of z
            ORDER: row or column; row by default

        Variants:
            tiled-BM32-row
            tiled-BM32-column
            tiled-BM64-row
            tiled-BM64-column
        """

    @overload
    def scale(
        self,
        y: TensorLike,
        x: TensorLike,
        factor: float = 2.0,
        *,
        stream: StreamLike | None = None,
    ) -> None:
        """Enqueue the kernel scale.

        Args:
            y: T tensor, 1 dimension, C-contiguous, written
            x: T tensor, 1 dimension, C-contiguous, read
            factor: f32, 2.0 by default
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream

        T is f32 or f16, by the arguments.

        Variants:
            scale-f32
            scale-f16
        """

    @overload
    def scale(self, x: _T1, *, factor: float = 2.0, stream: StreamLike | None = None) -> _T1:
        """Allocate the outputs with the library of the first array, launch, and return them."""

    @overload
    def scale_backward(
        self,
        y: TensorLike,
        x: TensorLike,
        factor: float = 2.0,
        *,
        stream: StreamLike | None = None,
    ) -> None:
        """Enqueue the kernel scale_backward.

        Args:
            y: T tensor, 1 dimension, C-contiguous, written
            x: T tensor, 1 dimension, C-contiguous, read
            factor: f32, 2.0 by default
            stream: where the kernel is enqueued; None is the current stream of the arrays' library,
                or the device's default stream

        T is f32 or f16, by the arguments.

        Variants:
            scale-f32
            scale-f16
        """

    @overload
    def scale_backward(
        self,
        x: _T1,
        *,
        factor: float = 2.0,
        stream: StreamLike | None = None,
    ) -> _T1:
        """Allocate the outputs with the library of the first array, launch, and return them."""

def load(device: DeviceLike | None = None, *, strict: bool = False) -> Module:
    """Load the package's bundle on a device.

    Args:
        device: a number, `"cuda:1"`, `"cpu"`, or a device object of torch, CuPy or cuda.core; None for the default device (`use_device`,
            else device 0).
        strict: see that every variant has machine code for the device, so that no launch lacks an image or compiles one.

    Returns:
        The kernels; images are loaded at the first launch that needs them.

    Raises:
        NoDeviceError: there is no driver or no such device.
        BundleError: the bundle is damaged.
        NoImageError: with `strict`, names the variants without machine code.
    """
