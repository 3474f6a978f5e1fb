"""The frontend of tile kernels, cuTile Python and CUDA Tile C++: to cubins and portable Tile IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.tile import api
from tilec.frontends.tile.compiler import JobCompiler
from tilec.frontends.tile.cpp import CppCompiler
from tilec.frontends.tile.declare import read
from tilec.frontends.tile.patches import TESTED
from tilec.frontends.tile.toolchain import find
from tilec.frontends.tools import packages
from tilec.frontends.tools.inputs import closure, language
from tilec.frontends.tools.kernels import Kernels, placing
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.search import Tool
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo


class TileFrontend:
    """The frontend of cuTile Python, and of CUDA Tile C++ (`.cu` sources with `language = "tile"`).

    Python modules are executed once per process and state of their files; nothing is written next
    to them.
    """

    name = "tile"
    suffixes: tuple[str, ...] = SUFFIXES["tile"]
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.TILEIR)
    simt: bool = False
    hints: tuple[str, ...] = ("num_ctas", "occupancy", "num_worker_warps", "opt_level")

    def __init__(self, search: ToolSearch) -> None:
        """Remember the search paths of tools."""
        self._search, self._cpp = search, CppCompiler(search)
        self._kernels = Kernels("kernel", "@tl.kernel, or @ct.kernel", _loaded, read)
        self._tools: Mapping[str, Tool] = {}

    def refuse(self, target: Target) -> str:
        """Return why a target cannot be compiled for, with an alternative; empty if it can."""
        if target.kind is TargetKind.TILEIR:
            return ""
        if target.kind is TargetKind.PTX:
            return f"tile kernels become cubins or Tile IR, not PTX: use {str(target).replace('compute', 'sm')} or tileir"
        plain = Target(TargetKind.CUBIN, target.cc)
        if not target.arch.tile:
            return f"tile kernels cannot be compiled for {plain}: the oldest architecture of Tile IR is sm_80"
        if target.suffix:
            same = " (tileiras makes an sm_90a image of it)" if target.cc == (9, 0) else ""
            return f"tile targets take plain names: use {plain}{same}"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return cuda-tile, Python (which executes and parses modules), and tileiras with its tools.

        Raises:
            ToolchainError: something is missing, half installed, or of an untested version.
        """
        package = packages.package("cuda-tile", "cuda/tile/__init__.py", verify=self._search.verify)
        packages.require_minor("cuda-tile", package.version, TESTED, packages.FIX)
        tools = (tool.info for tool in find(self._search).values())
        return [package, packages.interpreter(), *tools]

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source, every project module or header it may import, transitively, and the safe
        tile language if one of them imports it.

        Raises:
            CompileError: a file cannot be read or lies outside of the project.
        """
        if _is_cpp(source):
            return self._cpp.inputs(source)
        files = closure(source)
        return (*language(source.root, files), *files)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Return the kernels of a source in order of appearance; executes a Python module.

        Raises:
            CompileError: it cannot be read; with the user's line.
            ToolchainError: cuda-tile is missing.
            UsageError: an option is wrong.
        """
        return self._cpp.declare(source) if _is_cpp(source) else self._kernels.declare(source)

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest contradict each other, or a compiler rejects it.
            ToolchainError: a tool is missing.
        """
        if _is_cpp(job.spec.source):
            return self._cpp.compile(job)
        module, kernel = self._kernels.find(job)
        with placing(job, module.texts):
            if job.target.kind is not TargetKind.TILEIR:
                self._tools = self._tools or find(self._search, digest=False)
            return JobCompiler(job, module, kernel, self._tools).run()


def _loaded(source: Source, *, again: bool) -> LoadedModule:
    api.cuda_tile()
    return load(source, again=again)


def _is_cpp(source: Source) -> bool:
    return source.path.endswith((".cu", ".cuh"))
