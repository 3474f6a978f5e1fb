"""Images: what a job gives, and the row that the bundle's index keeps of it."""

from __future__ import annotations

from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.arch import Target, Version
from tilec_runtime.model.signature import AbiSlot
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class Resources:
    """What one image needs per thread or block, read without a GPU; None where it cannot be known
    (portable code).

    Attributes:
        registers: registers per thread.
        spill_stores, spill_loads: bytes spilled to local memory per thread (static count of the
            code).
        stack: stack frame in bytes per thread.
        shared: shared memory in bytes per block: static, and the dynamic memory that the compiler
            chose (see `ImageInfo.block`).
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
    """An image without its bytes: one row of the bundle's index.

    Attributes:
        target: what it was made for; its kind says what the bytes are.
        digest: SHA-256 of the bytes (hex).
        size: their length.
        symbol: entry point to look up after loading.
        exact: runs on exactly the target's compute capability (tile cubins), not on later minor
            ones.
        ptx_isa: PTX ISA of PTX text, bytecode version of Tile IR, or the CUDA release whose form
            LTO-IR has; None for cubins.
        cuda: oldest CUDA release whose driver loads it.
        resources: what it needs.
        max_threads: threads per block it was bounded to, 0 for none.
        required_block: block it was compiled for (`reqntid`), empty for any.
        cluster: cluster it was compiled for, empty for none.
        block: block that it is launched with, where its compiler chose it and the driver does not
            know it (Triton); empty where the kernel's launch says. Its launches then take
            `dynamic_shared` and `cluster` from here too, and their grid counts clusters.
        dynamic_shared: dynamic shared memory of such a launch in bytes.
        linking: of LTO-IR, what nvJitLink is told beside the architecture: it is the linker that
            generates the code.
        reproducible: another build of the same inputs gives the same bytes; False where a
            compiler's output varies from run to run, or where flags that are not checked may have
            read anything.
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
    """What a job gives: the index row, the bytes, the entry point's ABI, and any warnings of the
    compiler.
    """

    info: ImageInfo
    data: bytes
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...] = ()
