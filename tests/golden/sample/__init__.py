"""sample 1.0: Kernels for 'tests'.

Made by tilec 0.1.0. Do not edit: builds write this file, and refuse to where it was changed.
Types and the full documentation are in `__init__.pyi`.
"""
# fmt: off

from tilec_runtime.package import Package as _Package
from tilec_runtime.package import PackageKernels as _Kernels
from tilec_runtime.package import PackageOps as _Ops

__all__ = ["Module", "Ops", "load", "ops"]

# The bundle beside this file, and the SHA-256 of its index, which has those of its images.
_tilec_package_ = _Package(
    __name__,
    "sample-1.0.tilec",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
)


class Ops(_Ops):
    """The kernels of sample 1.0 as functions that give ops."""

    def add(self, z, x, y, alpha=1.0):
        """Adds two vectors."""
        return self._launch["add"]((z, x, y, alpha))

    def gemm(self, c, a, b, *, BM=None):
        """Launch the kernel gemm."""
        return self._launch["gemm"]((c, a, b), () if BM is None else (BM,))

    def everything(self, x, lambda_, stream_, raw, config, scale=float("inf"), *, ORDER, FAST=None, W=None):
        """Shows everything that a signature can hold."""
        return self._launch["everything"]((x, lambda_, stream_, raw, config, scale), (ORDER, FAST, W))

    def tiled(self, z, *, BM=None, ORDER=None):
        """Launch the kernel tiled."""
        return self._launch["tiled"]((z,), () if BM is None and ORDER is None else (BM, ORDER))

    def scale(self, y, x, factor=2.0):
        """Launch the kernel scale."""
        return self._launch["scale"]((y, x, factor))

    def scale_backward(self, y, x, factor=2.0):
        """Launch the kernel scale_backward."""
        return self._launch["scale_backward"]((y, x, factor))


class Module(_Kernels):
    """The kernels of sample 1.0, loaded on one device."""

    _ops = Ops

    def add(self, z, x, y, alpha=1.0, *, stream=None):
        """Adds two vectors."""
        self._launchers["add"].launch(stream, (z, x, y, alpha))

    def gemm(self, c, a, b, *, stream=None, BM=None):
        """Launch the kernel gemm."""
        self._launchers["gemm"].launch(stream, (c, a, b), () if BM is None else (BM,))

    def everything(self, x, lambda_, stream_, raw, config, scale=float("inf"), *, stream=None, ORDER, FAST=None, W=None):
        """Shows everything that a signature can hold."""
        self._launchers["everything"].launch(stream, (x, lambda_, stream_, raw, config, scale), (ORDER, FAST, W))

    def tiled(self, z, *, stream=None, BM=None, ORDER=None):
        """Launch the kernel tiled."""
        self._launchers["tiled"].launch(stream, (z,), () if BM is None and ORDER is None else (BM, ORDER))

    def scale(self, *args, stream=None, **named):
        """Launch the kernel scale."""
        if len(args) == 3 and not named:
            return self._launchers["scale"].launch(stream, args)
        return self._launchers["scale"](*args, stream=stream, **named)

    def scale_backward(self, *args, stream=None, **named):
        """Launch the kernel scale_backward."""
        if len(args) == 3 and not named:
            return self._launchers["scale_backward"].launch(stream, args)
        return self._launchers["scale_backward"](*args, stream=stream, **named)


def load(device=None, *, strict=False):
    """Load the package's bundle on a device."""
    return Module(_tilec_package_.load(device, strict=strict))


ops = Ops(_tilec_package_.makers)
__getattr__ = _tilec_package_.missing
