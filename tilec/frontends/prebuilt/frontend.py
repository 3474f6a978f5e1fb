"""The `prebuilt` frontend: kernels from compiled files.

Files are PTX, cubins, fatbins, LTO-IR, NVVM IR or Tile IR; the manifest states their digests.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.prebuilt.compiler import compile_job
from tilec.frontends.prebuilt.declare import declarations
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools import compiled_files
from tilec.frontends.tools.kernels import placing
from tilec.frontends.tools.search import locate, require
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

_TOOLS = ("ptxas", "libnvJitLink", "libnvvm", "cuobjdump", "tileiras")


class PrebuiltFrontend:
    """Reads compiled code; compiles intermediate code such as PTX for each target."""

    name = "prebuilt"
    suffixes: tuple[str, ...] = SUFFIXES["prebuilt"]
    kinds: tuple[TargetKind, ...] = (
        TargetKind.CUBIN,
        TargetKind.PTX,
        TargetKind.LTOIR,
        TargetKind.TILEIR,
    )
    simt: bool = True
    hints: tuple[str, ...] = ()

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings."""
        self._search = search
        self._opener = Opener(search)

    def refuse(self, target: Target) -> str:
        """Refuse nothing: the targets depend on the files, which `compile` reads."""
        del target
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return the installed tools; a tool that a file needs is required only by `compile`.

        Raises:
            ToolchainError: they are of several releases, or outside of the manifest's range.
        """
        names = tuple(name for name in _TOOLS if locate(name, self._search)[0] is not None)
        return [tool.info for tool in require(names, self._search).values()] if names else []

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source and the kernel's other files.

        Raises:
            CompileError: a file cannot be read, or lies outside of the project.
        """
        return compiled_files.input_files(source)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Return the entry points of the source.

        Raises:
            CompileError: a file is damaged, has another digest than stated, or has no entry point.
            ToolchainError: a tool is missing.
        """
        return declarations(source, self._opener)

    def compile(self, job: Job) -> Image:
        """Return the image of a job: machine code of a file, or code compiled from it.

        Raises:
            CompileError: a file is damaged or has another digest than stated, no file fits the
                target, or the code takes other arguments than a launch passes.
            ToolchainError: a tool is missing.
        """
        with placing(job, {}):
            return compile_job(job, self._opener)
