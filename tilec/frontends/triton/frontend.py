"""The frontend of Triton: unmodified `@triton.jit` functions to cubins and PTX, with no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.inputs import closure
from tilec.frontends.triton.toolchain import toolchain
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.job import InputFile, Job, Source
from tilec_runtime.model.kernel import KernelDecl, ToolInfo

if TYPE_CHECKING:
    from tilec.frontends.triton.compiler import Compiler

_OLDEST = (8, 0)
# From here on, Triton writes code for exactly one compute capability, as PTX too.
_EXACT = (9, 0)


class TritonFrontend:
    """Reads Triton. Modules are executed once per process and state of their files; Triton's own cache is neither read nor written."""

    name = "triton"
    # Python files are those of tile kernels where the manifest does not say another language.
    suffixes: tuple[str, ...] = ()
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.PTX)
    simt: bool = False
    hints: tuple[str, ...] = ("num_warps", "num_stages", "num_ctas", "maxnreg", "fp_fusion")

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools."""
        self._search = search
        self._made: Compiler | None = None

    def refuse(self, target: Target) -> str:
        """Why a target cannot be compiled for, with what would do; empty where it can."""
        if target.kind is TargetKind.TILEIR:
            return "Triton kernels become cubins or PTX, not Tile IR: use sm_80, sm_90, … or compute_80"
        if target.cc < _OLDEST:
            return f"Triton kernels cannot be compiled for {target}: the oldest architecture is sm_80"
        if target.suffix == "f":
            return f"Triton makes code for one architecture, not for a family: use {Target(TargetKind.CUBIN, target.cc)}"
        if target.kind is TargetKind.PTX and target.cc >= _EXACT and not target.suffix:
            return f"Triton's PTX for {target} runs on that architecture alone: use {target}a, or compute_80 for PTX that later ones take"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Triton, Python and ptxas.

        Raises:
            ToolchainError: something is missing, half installed, or a Triton that tilec was not written against.
        """
        return toolchain(self._search)

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """The source and every project module it may import, transitively; read from import statements, nothing is executed.

        Raises:
            CompileError: a file cannot be read or lies outside of the project.
        """
        return closure(source)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The `@triton.jit` functions among the module's attributes, in order of appearance; the module is executed.

        Raises:
            CompileError: it cannot be, or a kernel takes what launches cannot pass; with the user's line.
            ToolchainError: Triton is missing.
        """
        return self._compiler().declare(source)

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest do not fit together, or a compiler refuses the kernel.
            ToolchainError: a tool is missing.
        """
        refused = self.refuse(job.target)
        if refused:
            raise CompileError(refused)
        return self._compiler().compile(job)

    def _compiler(self) -> Compiler:
        # What is up to date is never compiled: a build without work does not pay for this import.
        if self._made is None:
            from tilec.frontends.triton.compiler import Compiler

            self._made = Compiler(self._search)
        return self._made
