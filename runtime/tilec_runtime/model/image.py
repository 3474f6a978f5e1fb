"""Images, the output of jobs, and their entries in the bundle's index."""

from __future__ import annotations

from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.arch import Target, Version
from tilec_runtime.model.signature import AbiSlot
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class Resources:
    """Resources of one image, read without a GPU; None if unknown.

    They are unknown for portable code.

    Attributes:
        registers: registers per thread.
        spill_stores, spill_loads: bytes spilled to local memory per thread, counted statically.
        stack: stack frame in bytes per thread.
        shared: shared memory in bytes per block: static memory, plus dynamic memory chosen by the
            compiler (see `ImageInfo.block`).
        constant: constant bank 0 in bytes, parameters included.
        code: bytes of machine code of the entry point.
    """

    registers: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    stack: int | None = None
    shared: int | None = None
    constant: int | None = None
    code: int | None = None


@value_class(frozen=True, kw_only=True)
class ImageInfo:
    """An image without its bytes, as listed in the bundle's index.

    Attributes:
        target: target that it was compiled for.
        digest: SHA-256 of the bytes (hex).
        size: size in bytes.
        symbol: entry point to look up after loading.
        exact: whether it runs on exactly the target's compute capability, and not on later minor
            versions: cubins of tile kernels, and of Triton kernels from 9.0 on.
        ptx_isa: PTX ISA of PTX, bytecode version of Tile IR, or CUDA release of the format of
            LTO-IR; None for cubins.
        cuda: oldest CUDA release whose driver loads it.
        resources: resources per thread and block.
        max_threads: limit of threads per block, or 0 for no limit.
        required_block: block dimensions that it requires (`reqntid`); empty for any.
        cluster: cluster dimensions that it was compiled for; empty for none.
        block: block dimensions chosen by the compiler and unknown to the driver (Triton); empty if
            the kernel's launch description gives them. If set, launches also use this image's
            `dynamic_shared` and `cluster`, and their grid counts clusters.
        dynamic_shared: dynamic shared memory of such a launch in bytes.
        linking: options of nvJitLink for LTO-IR, without the architecture. The linker generates
            the code of LTO-IR.
        reproducible: whether another build of the same inputs gives the same bytes. False if a
            compiler's output varies between runs, or if unchecked flags may have read other files.
    """

    target: Target
    digest: str
    size: int
    symbol: str
    exact: bool = False
    ptx_isa: Version | None = None
    cuda: Version = (11, 0)
    resources: Resources = Resources()
    max_threads: int = 0
    required_block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    dynamic_shared: int = 0
    linking: tuple[str, ...] = ()
    reproducible: bool = True


@value_class(frozen=True, kw_only=True)
class Image:
    """The output of a job: index entry, bytes, the entry point's ABI, and warnings."""

    info: ImageInfo
    data: bytes
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...] = ()
