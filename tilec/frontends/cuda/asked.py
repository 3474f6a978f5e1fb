"""A CUDA C++ job with what is needed to compile it, and what compilers gave for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp.options import CudaOptions
from tilec.frontends.tools.cpp.parse import Found
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.search import Tool
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import Cubin, CubinKernel
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind, Version


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A job with what is needed to compile it; every message can name it.

    Attributes:
        job: the variant and its target.
        options: checked options of the source.
        found: the kernel as the source has it.
        candidates: every kernel of the source.
        tools: by name; `nvcc` only where it is used.
        path: PATH for a host compiler.
    """

    job: Job
    options: CudaOptions
    found: Found
    candidates: Sequence[Found]
    tools: Mapping[str, Tool]
    path: str

    @property
    def toolkit(self) -> str:
        """The directory of the toolkit's headers."""
        return self.tools["headers"].path

    @property
    def ptx(self) -> bool:
        """Whether PTX is what is wanted."""
        return self.job.target.kind is TargetKind.PTX

    @property
    def lto(self) -> bool:
        """Whether LTO-IR is what is wanted."""
        return self.job.target.kind is TargetKind.LTOIR

    @property
    def lineinfo(self) -> bool:
        """Whether source lines are kept: LTO-IR would name their files by directories of this
        machine.
        """
        return (self.job.spec.lineinfo or self.job.spec.debug) and not self.lto

    def error(
        self,
        what: str,
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        cause: str = "",
        fix: str = "",
        log: str = "",
        command: str = "",
        overtime: bool = False,
    ) -> CompileError:
        """An error that names the job and the kernel's place."""
        return CompileError(
            what,
            diagnostics=diagnostics
            or (Diagnostic(message=what, location=self.found.decl.location, hint=fix),),
            cause=cause,
            fix=fix,
            log=log,
            command=command,
            kernel=self.job.variant.id,
            target=str(self.job.target),
            overtime=overtime,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What compilers gave for some entry points.

    Attributes:
        text: PTX.
        cubin: machine code; `kernels` is what was read from it.
        symbols: of the entry points, by C++ name.
        log: all words; `warnings` are those among them.
        command: what was run, as nvcc would be told.
        isa: of the PTX, where that is what was wanted.
        ltoir: instead of PTX, before it is linked; and where that is what is wanted, afterwards.
        libraries: what is linked to the PTX when it is assembled.
    """

    text: str
    cubin: bytes = b""
    kernels: Cubin | None = None
    symbols: Mapping[str, str]
    log: str
    warnings: tuple[Diagnostic, ...] = ()
    command: str
    isa: Version | None = None
    ltoir: bytes = b""
    libraries: tuple[Piece, ...] = ()

    def kernel(self, expression: str) -> CubinKernel:
        """What the machine code of an entry point needs.

        Raises:
            BundleError: it is not there.
        """
        assert self.kernels is not None
        return self.kernels.kernel(self.symbols.get(expression, ""))
