"""A CUDA C++ job with its kernel and tools, and the program that compilers make for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp.options import CudaOptions
from tilec.frontends.tools.search import Tool
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import CubinKernel
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.arch import TargetKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CudaJob:
    """A job with its kernel, options and tools.

    Attributes:
        job: the variant and its target.
        options: checked options of the source.
        kernel: the kernel in the source.
        candidates: all kernels of the source.
        tools: tools by name; nvcc only if the options select it.
        path: PATH for a host compiler.
    """

    job: Job
    options: CudaOptions
    kernel: KernelDecl
    candidates: Sequence[KernelDecl]
    tools: Mapping[str, Tool]
    path: str

    @property
    def toolkit(self) -> str:
        """The directory of the toolkit's headers."""
        return self.tools["headers"].path

    @property
    def lto(self) -> bool:
        """Whether the target is LTO-IR."""
        return self.job.target.kind is TargetKind.LTOIR

    @property
    def lineinfo(self) -> bool:
        """Whether to keep source lines; in LTO-IR they would name directories of this machine."""
        return (self.job.spec.lineinfo or self.job.spec.debug) and not self.lto


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCompile:
    """One or more compiled entry points.

    Attributes:
        text: PTX.
        cubin: machine code.
        kernels: entry points of the machine code, by C++ name.
        symbols: symbols of the entry points, by C++ name.
        log: output of all tools.
        warnings: warnings in the log, and those of tilec.
        command: the equivalent nvcc command.
        ltoir: LTO-IR: before the link of the source alone, after it of everything.
    """

    text: str
    cubin: bytes = b""
    kernels: Mapping[str, CubinKernel] = dataclasses.field(default_factory=dict)
    symbols: Mapping[str, str]
    log: str
    warnings: tuple[Diagnostic, ...] = ()
    command: str
    ltoir: bytes = b""
