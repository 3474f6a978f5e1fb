"""The `cuda` frontend: CUDA C++ through NVRTC in this process, or through nvcc."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.base import SUFFIXES, ToolSearch
from tilec.frontends.cuda.compiler import Compiler
from tilec.frontends.cuda.job import CudaJob
from tilec.frontends.cuda.link import inputs as linked_inputs
from tilec.frontends.cuda.program import Programs
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.declare import find, kernels, together
from tilec.frontends.tools.cpp.host import note, with_compiler
from tilec.frontends.tools.cpp.nvcc import host_parts
from tilec.frontends.tools.cpp.options import CudaOptions, read_options
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.kernels import placing
from tilec.frontends.tools.search import Tool, locate, require
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

_ALWAYS = ("libnvrtc", "libnvrtc-builtins", "ptxas", "headers")
_LINKER = "libnvJitLink"
_NVCC = ("nvcc", "cudafe++", "cicc", "fatbinary", *_ALWAYS)


class CudaFrontend:
    """Reads CUDA C++: a source's `__global__` functions are its kernels."""

    name = "cuda"
    suffixes: tuple[str, ...] = SUFFIXES["cuda"]
    kinds: tuple[TargetKind, ...] = (TargetKind.CUBIN, TargetKind.PTX, TargetKind.LTOIR)
    simt: bool = True
    hints: tuple[str, ...] = ()

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings."""
        self._search = search
        self._toolsets: dict[tuple[str, ...], dict[str, Tool]] = {}
        self._programs = Programs()

    def refuse(self, target: Target) -> str:
        """Refuse portable Tile IR; all other targets are supported."""
        if target.kind is TargetKind.TILEIR:
            return "CUDA C++ makes no portable Tile IR: use compute_80 (PTX)"
        return ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return NVRTC, ptxas, the headers, and nvcc and the linker if installed.

        Raises:
            ToolchainError: a tool is missing, of another release than the others, or outside of the
                manifest's range.
        """
        tools = list(self._require(_ALWAYS).values())
        infos = [tool.info for tool in tools]
        for optional in ("nvcc", _LINKER):
            tool, _ = locate(optional, self._search)
            if tool is not None and tool.release == tools[0].release:
                infos.append(self._require((optional,))[optional].info)
        return infos

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source, linked files, project headers they can include, and parts of nvcc.

        Raises:
            CompileError: a file cannot be read, or lies outside of the project.
            UsageError: an option is wrong.
        """
        options = read_options(with_compiler(source).options)
        files = includes.closure(
            source.root, source.path, options.include, [value for _, value in options.define]
        )
        files += linked_inputs(source.root, options)
        if options.compiler == "nvcc":
            files += self._nvcc_parts()
        return sorted(dict.fromkeys(files), key=lambda f: f.name)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Return the `__global__` functions of a source and of project headers that it includes.

        Raises:
            CompileError: a file cannot be read, or a kernel takes a reference.
            UsageError: an option is wrong.
        """
        most, notes = together(with_compiler(source)), note(source)
        include = read_options(source.options).include
        return [
            dataclasses.replace(kernel, together=most, note=notes)
            for kernel in kernels(source, include)
        ]

    def compile(self, job: Job) -> Image:
        """Compile one job.

        Raises:
            CompileError: with located diagnostics, the compiler's log and its command.
            ToolchainError: a tool is missing.
            UsageError: an option is wrong.
        """
        options = read_options(with_compiler(job.spec.source).options)
        with placing(job, {}):
            self._check_include(job, options)
            linked = options.link or job.target.kind is TargetKind.LTOIR
            names = (
                *(_NVCC if options.compiler == "nvcc" else _ALWAYS),
                *((_LINKER,) if linked else ()),
            )
            tools = self._require(names, digest=False)
            candidates = kernels(job.spec.source, options.include)
            kernel = find(job, candidates)
            cuda_job = CudaJob(
                job=job,
                options=options,
                kernel=kernel,
                candidates=candidates,
                tools=tools,
                path=self._search.path,
            )
            return Compiler(cuda_job, self._programs).run()

    # --- parts
    # --------------------------------------------------------------------------------------------------------------------

    def _require(self, names: tuple[str, ...], *, digest: bool = True) -> dict[str, Tool]:
        key = (*names, str(digest))
        if key not in self._toolsets:
            self._toolsets[key] = require(names, self._search, digest=digest)
        return self._toolsets[key]

    def _nvcc_parts(self) -> list[InputFile]:
        tools = self._require(_NVCC)
        parts = [
            InputFile(name=f"<toolkit>/{name}", digest=tools[name].digest)
            for name in ("nvcc", "cudafe++", "cicc", "fatbinary")
        ]
        return [*parts, *host_parts(self._search.path, self._search.state_dir)]

    @staticmethod
    def _check_include(job: Job, options: CudaOptions) -> None:
        for folder in options.include:
            if not Path(job.spec.source.root, folder).is_dir():
                raise fault(
                    job.spec.source.path,
                    f"include directory {folder} is not there",
                    line=0,
                    fix="correct `include` in [frontend.cuda]; it is relative to tilec.toml",
                )
