"""The frontend of SIMT Python: numba-cuda device code to cubins and PTX, with no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilec.frontends.base import ToolSearch
from tilec.frontends.simt.toolchain import toolchain
from tilec.frontends.tools.inputs import closure
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.job import InputFile, Job, Source
from tilec_runtime.model.kernel import KernelDecl, ToolInfo

if TYPE_CHECKING:
    from tilec.frontends.simt.compiler import Compiler


class SimtFrontend:
    """Reads SIMT Python. Modules are executed once per process and state of their files; numba's own cache is neither read nor written."""

    name = "simt"
    # Python files are those of tile kernels where the manifest does not say another language.
    suffixes: tuple[str, ...] = ()
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.PTX, TargetKind.LTOIR)
    simt: bool = True
    hints: tuple[str, ...] = ()

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools."""
        self._search = search
        self._made: Compiler | None = None

    def refuse(self, target: Target) -> str:
        """Why a target cannot be compiled for, with what would do; empty where it can."""
        if target.kind is TargetKind.TILEIR:
            return "SIMT Python makes no portable Tile IR: use compute_80 (PTX)"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """numba-cuda with what it stands on, Python, libNVVM, NVRTC and ptxas.

        Raises:
            ToolchainError: something is missing, half installed, or a numba-cuda that tilec was not written against.
        """
        return toolchain(self._search)

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """The source and every project module it may import, transitively; read from import statements, nothing is executed.

        Raises:
            CompileError: a file cannot be read or lies outside of the project.
        """
        from tilec.frontends.simt.linked import linked_inputs

        own = {file.name: file for file in (*closure(source), *linked_inputs(source))}
        return [own[name] for name in sorted(own)]

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The kernels among the module's attributes, in order of appearance; the module is executed.

        Raises:
            CompileError: it cannot be, or an annotation cannot be read; with the user's line.
            ToolchainError: numba-cuda is missing.
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
            from tilec.frontends.simt.compiler import Compiler

            self._made = Compiler(self._search)
        return self._made
