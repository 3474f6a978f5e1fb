"""Compile CUDA Tile C++: `__tile_global__` functions through nvcc to Tile IR, then to cubins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.strings import with_strings
from tilec.frontends.tools import ptx
from tilec.frontends.tools.abi import check as check_arguments
from tilec.frontends.tools.abi import derive, laid_out
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt
from tilec.frontends.tools.cpp import declare as declare_module
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.diagnostics import read_log, refusal
from tilec.frontends.tools.cpp.nvcc import host_parts, run_nvcc
from tilec.frontends.tools.cpp.options import CudaOptions, of_tiles, read_options
from tilec.frontends.tools.cpp.parse import TILE
from tilec.frontends.tools.cpp.symbol import compiled_params, name_expression, readable
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.kernels import placing
from tilec.frontends.tools.machine_code import timeout_error
from tilec.frontends.tools.search import Tool, require
from tilec.frontends.tools.tile_bytecode import read_tile
from tilec.frontends.tools.tileiras import bytecode_image, cubin_image
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image

_NVCC = ("nvcc", "cudafe++", "cicc", "fatbinary")
_OLDEST = "sm_80"


class CppCompiler:
    """Declares and compiles sources of CUDA Tile C++."""

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._found: dict[bool, dict[str, Tool]] = {}

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source, the project headers that it can include, and the parts of nvcc.

        Raises:
            CompileError: a file cannot be read, or leaves the project.
            ToolchainError: nvcc or its host compiler is missing.
            UsageError: an option is wrong.
        """
        options = _options(source)
        define = [value for _, value in options.define]
        files = includes.closure(source.root, source.path, options.include, define)
        tools = self._tools(digest=True)
        files += [
            InputFile(name=f"<toolkit>/{name}", digest=tools[name].digest)
            for name in (*_NVCC, "headers")
        ]
        files += host_parts(self._search.path, self._search.state_dir)
        return sorted(files, key=lambda file: file.name)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Return the tile kernels of a source and of the project headers that it includes.

        Raises:
            CompileError: a file cannot be read, or a kernel takes a reference.
            UsageError: an option is wrong.
        """
        return [dataclasses.replace(found, simt=False) for found in _kernels(source)]

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: with located diagnostics, the compiler's log and its command.
            ToolchainError: a tool is missing.
            UsageError: an option is wrong.
        """
        with placing(job, {}):
            return _JobCompiler(job, self._tools(digest=False), self._search.path).image()

    def _tools(self, *, digest: bool) -> dict[str, Tool]:
        if digest not in self._found:
            names = (*_NVCC, "headers", "tileiras")
            self._found[digest] = require(names, self._search, digest=digest)
        return self._found[digest]


class _JobCompiler:
    def __init__(self, job: Job, tools: dict[str, Tool], path: str) -> None:
        self._job, self._spec, self._tools, self._path = job, job.spec, tools, path
        self._toolkit = tools["headers"].path
        self._candidates = _kernels(job.spec.source)
        self._found = declare_module.find(job, self._candidates)
        self._options = _options(job.spec.source)

    def image(self) -> Image:
        job, spec, decl = self._job, self._spec, self._found
        opt = self._opt()
        expression = name_expression(spec.symbol, dict(job.variant.constants), decl)
        data, warnings = self._bytecode(expression)
        file = Prebuilt(path=spec.source.path, kind=FileKind.TILEIR, data=data, digest=sha256(data))
        version, entries = read_tile(file)
        entry = self._instance(entries, expression)
        sizes = [(param.size, param.size) for param in entry.params]
        abi = spec.abi or derive(compiled_params(decl, entry.name), sizes)
        check_arguments(abi, laid_out(sizes), decl, stated=bool(spec.abi))
        sure = not self._options.unchecked
        if job.target.kind is TargetKind.TILEIR:
            return bytecode_image(
                job,
                data,
                symbol=entry.name,
                version=version,
                abi=abi,
                warnings=warnings,
                reproducible=sure,
            )
        return cubin_image(
            job,
            data,
            symbol=entry.name,
            abi=abi,
            tileiras=self._tools["tileiras"].path,
            opt=opt,
            texts=self._texts(),
            warnings=warnings,
            reproducible=sure,
        )

    def _opt(self) -> int:
        for name, _ in self._job.hints:
            if name != "opt_level":
                raise CompileError(
                    f"hint {name!r}: nvcc takes none of this name for CUDA Tile C++",
                    fix="leave it out; the hint of these kernels is opt_level",
                )
        return min([self._spec.opt, *dict(self._job.hints).values()])

    def _bytecode(self, expression: str) -> tuple[bytes, tuple[Diagnostic, ...]]:
        """Return the source's Tile IR with project-relative file names, and nvcc's warnings."""
        spec, root, target = self._spec, self._spec.source.root, self._job.target
        text = includes.source_bytes(root, spec.source.path)
        arch = _OLDEST if target.kind is TargetKind.TILEIR else f"sm_{target.number}"
        flags = ["--tilebc", "--enable-tile", "--tile-only", f"-arch={arch}"]
        done = run_nvcc(
            self._tools["nvcc"].path,
            text,
            spec.source.path,
            # The variable makes nvcc instantiate the kernel.
            f"__attribute__((used)) static auto tilec_entry = &{expression};",
            [*flags, *self._options.arguments()],
            root=root,
            path=self._path,
            timeout=spec.timeout,
        )
        if done.timed_out:
            what = f"nvcc for {target}"
            raise timeout_error(what, spec.timeout, log=done.log, command=done.command)
        if not done.data:
            raise refusal(
                done.log,
                done.command,
                root=root,
                source=spec.source.path,
                toolkit=self._toolkit,
                target=str(target),
                decl=self._found,
                expression=expression,
                candidates=self._candidates,
            )
        at = self._found.location
        words = read_log(done.log, root, toolkit=self._toolkit, fallback=at)
        places = ((root, ""), (self._toolkit, "<cuda>"), (done.folder, "<tilec>"))
        data = with_strings(
            done.data, lambda text: ptx.relative(text, places) if text.startswith("/") else text
        )
        return data, tuple(d for d in words.diagnostics if d.severity == "warning")

    def _instance(self, entries: Sequence[KernelDecl], expression: str) -> KernelDecl:
        name = self._found.qualified or self._found.name
        hits = [entry for entry in entries if readable(entry.name) == name]
        if len(hits) > 1:
            raise CompileError(
                f"the source makes {len(hits)} instances of {self._found.name}, so that {expression} cannot be told from the others",
                fix="leave explicit instantiations out of the source: the manifest says which are made",
            )
        if not hits:
            names = ", ".join(readable(entry.name) for entry in entries)
            raise CompileError(f"nvcc made no entry point of {expression}; there is {names}")
        return hits[0]

    def _texts(self) -> dict[str, str]:
        root, path = self._spec.source.root, self._spec.source.path
        names = [file.name for file in includes.closure(root, path, self._options.include)]
        return {
            name: Path(root, name).read_text(encoding="utf-8", errors="replace") for name in names
        }


def _options(source: Source) -> CudaOptions:
    return read_options(of_tiles(source.options))


def _kernels(source: Source) -> list[KernelDecl]:
    found = declare_module.kernels(source, _options(source).include, TILE)
    if not found:
        fix = 'tile kernels are marked __tile_global__; __global__ ones are of language = "cuda"'
        raise fault(source.path, "there is no __tile_global__ function", line=0, fix=fix)
    return found
