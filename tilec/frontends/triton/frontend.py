"""The `triton` frontend: unmodified `@triton.jit` functions to cubins and PTX."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.tools import packages
from tilec.frontends.tools.inputs import closure
from tilec.frontends.tools.kernels import Kernels, placing
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.search import require
from tilec.frontends.triton import api
from tilec.frontends.triton.compiler import EXACT, JobCompiler
from tilec.frontends.triton.declare import read
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

_OLDEST = (8, 0)


class TritonFrontend:
    """Reads Triton.

    A module is executed once per process and state of its files. Triton's own cache is neither read
    nor written.
    """

    name = "triton"
    suffixes: tuple[str, ...] = SUFFIXES["triton"]
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.PTX)
    simt: bool = False
    hints: tuple[str, ...] = api.HINTS

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings."""
        self._search = search
        self._kernels = Kernels("Triton kernel", "@triton.jit", _loaded, read)

    def refuse(self, target: Target) -> str:
        """Return why a target is not supported, with a target to use instead, or ""."""
        if target.kind is TargetKind.TILEIR:
            return "Triton kernels become cubins or PTX, not Tile IR: use sm_80, sm_90, … or compute_80"
        if target.cc < _OLDEST:
            return (
                f"Triton kernels cannot be compiled for {target}: the oldest architecture is sm_80"
            )
        if target.suffix == "f":
            return f"Triton makes code for one architecture, not for a family: use {Target(TargetKind.CUBIN, target.cc)}"
        if target.kind is TargetKind.PTX and target.cc >= EXACT and not target.suffix:
            return f"Triton's PTX for {target} runs on that architecture alone: use {target}a, or compute_80 for PTX that later ones take"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return Triton, Python (which executes the module and parses its source) and ptxas.

        Raises:
            ToolchainError: a tool is missing or half installed, or Triton has an untested version.
        """
        package = packages.package(
            "triton",
            "triton/__init__.py",
            whose="Triton",
            fix=api.FIX,
            verify=self._search.verify,
        )
        packages.require_minor("triton", package.version, api.TESTED, api.FIX)
        return [package, packages.interpreter(), require(("ptxas",), self._search)["ptxas"].info]

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source and every project module it may import, at any depth.

        Nothing is executed: import statements are read.

        Raises:
            CompileError: a file cannot be read or lies outside of the project.
        """
        return closure(source)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Execute a module, and return the `@triton.jit` functions among its attributes.

        They are in order of appearance.

        Raises:
            CompileError: it cannot be executed, or all of its kernels are refused; with the user's
                line.
            ToolchainError: Triton is missing.
        """
        return self._kernels.declare(source)

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest contradict each other, or a compiler refuses the
                kernel.
            ToolchainError: a tool is missing.
        """
        module, kernel = self._kernels.find(job)
        ptxas = require(("ptxas",), self._search, digest=False)["ptxas"]
        with placing(job, module.texts):
            return JobCompiler(job, module, kernel, ptxas).run()


def _loaded(source: Source, *, again: bool) -> LoadedModule:
    api.load()
    with api.environment():
        return load(source, again=again)
