"""The `prebuilt` frontend: kernels that come compiled, as PTX, cubin, fatbin, LTO-IR, NVVM IR or
Tile IR, each file with its digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.prebuilt.compiler import compile_job
from tilec.frontends.prebuilt.declare import declarations
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools import compiled_files
from tilec.frontends.tools.kernels import naming
from tilec.frontends.tools.search import locate, require
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

_TOOLS = ("ptxas", "libnvJitLink", "libnvvm", "cuobjdump", "tileiras")


class PrebuiltFrontend:
    """Takes compiled code as it is, and compiles what is not machine code yet for the targets that
    are asked for.
    """

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
        """Keep where to look for tools."""
        self._search = search
        self._opener = Opener(search)

    def refuse(self, target: Target) -> str:
        """Nothing is refused before the files are known: what serves a target is theirs to say."""
        del target
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """The tools that are installed: a cubin needs none of them, and what a file does need is
        asked for when it is compiled.

        Raises:
            ToolchainError: they are of several releases, or outside of the manifest's range.
        """
        names = tuple(name for name in _TOOLS if locate(name, self._search)[0] is not None)
        return [tool.info for tool in require(names, self._search).values()] if names else []

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """The source and the kernel's other files.

        Raises:
            CompileError: one cannot be read, or leaves the project.
        """
        return compiled_files.input_files(source)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The entry points of the source.

        Raises:
            CompileError: a file is damaged, has another digest than stated, or no entry point.
            ToolchainError: a tool is missing.
        """
        return declarations(source, self._opener)

    def compile(self, job: Job) -> Image:
        """Compile one job, or take the code that is there.

        Raises:
            CompileError: a file is damaged, has another digest than stated, does not serve the
                target, or takes other arguments.
            ToolchainError: a tool is missing.
        """
        with naming(job):
            return compile_job(job, self._opener)
