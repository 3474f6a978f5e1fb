"""The `simt` frontend: numba-cuda device code to cubins, PTX and LTO-IR."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.simt import api
from tilec.frontends.simt.compiler import JobCompiler
from tilec.frontends.simt.declare import read
from tilec.frontends.simt.link import LINKER, linked_inputs
from tilec.frontends.tools import packages
from tilec.frontends.tools.inputs import closure
from tilec.frontends.tools.kernels import Kernels, placing
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.search import Tool, require
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

TOOLS = ("libnvvm", "libnvrtc", "libnvrtc-builtins", "ptxas", "headers", LINKER)
# Top-level modules, by the distributions that install them.
PACKAGES = {"numba-cuda": "numba_cuda", "numba": "numba", "llvmlite": "llvmlite"}


class SimtFrontend:
    """Reads SIMT Python.

    A module is executed once per process and state of its files. numba's own cache is neither read
    nor written.
    """

    name = "simt"
    suffixes: tuple[str, ...] = SUFFIXES["simt"]
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.PTX, TargetKind.LTOIR)
    simt: bool = True
    hints: tuple[str, ...] = ()

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings."""
        self._search = search
        self._kernels = Kernels("SIMT kernel", "@simt.kernel or @cuda.jit", _loaded, read)
        self._tools: Mapping[str, Tool] = {}

    def refuse(self, target: Target) -> str:
        """Return why a target is not supported, with a target to use instead, or ""."""
        if target.kind is TargetKind.TILEIR:
            return "SIMT Python makes no portable Tile IR: use compute_80 (PTX)"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return numba-cuda, numba, llvmlite, Python and tools of the toolkit.

        Python counts because it executes the module and numba compiles its bytecode.

        Raises:
            ToolchainError: a tool is missing or half installed, or numba-cuda has an untested
                version.
        """
        infos = [
            packages.package(
                name,
                f"{module}/__init__.py",
                whose="SIMT Python",
                fix=api.FIX,
                verify=self._search.verify,
            )
            for name, module in PACKAGES.items()
        ]
        packages.require_minor("numba-cuda", infos[0].version, api.TESTED, api.FIX)
        tools = require(TOOLS, self._search).values()
        return [*infos, packages.interpreter(), *(tool.info for tool in tools)]

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source, project modules it may import, and the files of `link`.

        Nothing is executed: import statements are read.

        Raises:
            CompileError: a file cannot be read or lies outside of the project.
        """
        own = {file.name: file for file in (*closure(source), *linked_inputs(source))}
        return [own[name] for name in sorted(own)]

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Execute a module, and return the kernels among its attributes, in order of appearance.

        Raises:
            CompileError: it cannot be executed, or all of its kernels are refused; with the user's
                line.
            ToolchainError: numba-cuda is missing.
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
        self._tools = self._tools or require(TOOLS, self._search, digest=False)
        with placing(job, module.texts):
            return JobCompiler(job, module, kernel, self._tools).run()


def _loaded(source: Source, *, again: bool) -> LoadedModule:
    api.load()
    try:
        with api.environment(), api.noting_signatures():
            return load(source, again=again)
    except CompileError as exc:
        raise _without_driver(exc, source) from exc


def _without_driver(exc: CompileError, source: Source) -> CompileError:
    """Explain the error of a module that needs a GPU on import; pass on others."""
    if "CudaSupportError" not in exc.what:
        return exc
    message = "the module asks for a GPU when it is imported: a call of numba.cuda outside of kernels does, or @cuda.jit(signature, device=True)"
    hint = 'move such calls under `if __name__ == "__main__"`, and take signatures of device functions out'
    unplaced = Diagnostic(message=message, location=Location(file=source.path))
    diagnostic = next((d for d in exc.diagnostics if d.location), unplaced)
    explained = dataclasses.replace(diagnostic, message=message, hint=hint)
    return CompileError(message, diagnostics=(explained,), fix=hint, log=exc.log)
