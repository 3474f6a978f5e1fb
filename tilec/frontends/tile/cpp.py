"""CUDA Tile C++: a source's `__tile_global__` functions through nvcc to Tile IR, and through
tileiras to cubins.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.strings import with_strings
from tilec.frontends.tools import given_abi, ptx
from tilec.frontends.tools.abi import check as check_arguments
from tilec.frontends.tools.abi import derive
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt
from tilec.frontends.tools.cpp import declare as declare_module
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.diagnostics import MARK_FILE, read_log
from tilec.frontends.tools.cpp.nvcc import beside, host_compiler, host_parts, temporary_folder
from tilec.frontends.tools.cpp.options import CudaOptions, of_tiles, read_options
from tilec.frontends.tools.cpp.parse import TILE, Found
from tilec.frontends.tools.cpp.symbol import bindings, name_expression, readable, symbol_advice
from tilec.frontends.tools.digests import DigestTable
from tilec.frontends.tools.kernels import naming
from tilec.frontends.tools.run import Completed, command_line, run_tool
from tilec.frontends.tools.search import Tool, require
from tilec.frontends.tools.tile_bytecode import TileEntry, read_tile
from tilec.frontends.tools.tileiras import bytecode_image, cubin_image
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image

SUFFIXES = (".cu", ".cuh")
_NVCC = ("nvcc", "cudafe++", "cicc", "fatbinary")
_OLDEST = "sm_80"
_HINTS = ("opt", "opt_level")


class CppCompiler:
    """Declares and compiles sources of CUDA Tile C++."""

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools."""
        self._search = search
        self._found: dict[bool, dict[str, Tool]] = {}

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """The source, the project's headers that it can include, and what nvcc is made of.

        Raises:
            CompileError: a file cannot be read, or leaves the project.
            ToolchainError: nvcc or its host compiler is missing.
            UsageError: an option is wrong.
        """
        options = _options(source)
        files = includes.closure(
            source.root, source.path, options.include, [value for _, value in options.define]
        )
        tools = self._tools(digest=True)
        parts = [
            InputFile(name=f"<toolkit>/{name}", digest=tools[name].digest)
            for name in (*_NVCC, "headers")
        ]
        return sorted(
            [*files, *parts, *host_parts(self._search.path, DigestTable(self._search.state_dir))],
            key=lambda file: file.name,
        )

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The tile kernels of a source and of the project's headers that it includes; no compiler
        is run.

        Raises:
            CompileError: a file cannot be read, or a kernel takes a reference.
            UsageError: an option is wrong.
        """
        return [dataclasses.replace(found.decl, simt=False) for found in _kernels(source)]

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: with located diagnostics, the compiler's log and its command.
            ToolchainError: a tool is missing.
            UsageError: an option is wrong.
        """
        with naming(job):
            candidates = _kernels(job.spec.source)
            found = declare_module.find(job, candidates)
            return _Maker(
                job, found, candidates, self._tools(digest=False), self._search.path
            ).image()

    def _tools(self, *, digest: bool) -> dict[str, Tool]:
        if digest not in self._found:
            self._found[digest] = require(
                (*_NVCC, "headers", "tileiras"), self._search, digest=digest
            )
        return self._found[digest]


class _Maker:
    """Makes the image of one job."""

    def __init__(
        self, job: Job, found: Found, candidates: Sequence[Found], tools: dict[str, Tool], path: str
    ) -> None:
        self._job = job
        self._spec = job.spec
        self._found = found
        self._candidates = candidates
        self._tools = tools
        self._path = path
        self._options = _options(job.spec.source)

    def image(self) -> Image:
        job, spec, found = self._job, self._spec, self._found
        opt = self._opt()
        expression = name_expression(
            spec.symbol,
            dict(job.variant.axes),
            found.decl,
            required=found.required,
            variadic=found.variadic,
        )
        data, warnings = self._bytecode(expression)
        version, entries = read_tile(
            Prebuilt(path=spec.source.path, kind=FileKind.TILEIR, data=data, digest=sha256(data))
        )
        entry = self._instance(entries, expression)
        params = given_abi.laid_out([(param.size, param.size) for param in entry.params])
        bound = bindings(spec.symbol, dict(job.variant.axes), found.decl)
        compiled = [ptx.EntryParam(size=param.size, align=param.size) for param in entry.params]
        abi = spec.abi or derive(found.decl, bound, compiled)
        check_arguments(abi, params, found.decl, stated=bool(spec.abi))
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
            found.decl,
            symbol=entry.name,
            abi=abi,
            tileiras=self._tools["tileiras"].path,
            opt=opt,
            texts=self._texts(),
            warnings=warnings,
            reproducible=sure,
        )

    # --- steps
    # --------------------------------------------------------------------------------------------------------------------

    def _opt(self) -> int:
        hints = dict(self._job.hints)
        strange = [name for name in hints if name not in _HINTS]
        if strange:
            what = f"hint {strange[0]!r}: nvcc takes none of this name for CUDA Tile C++"
            raise self._error(
                what, fix=f"leave it out; hints of these kernels are {' and '.join(_HINTS)}"
            )
        return min([self._spec.opt, *hints.values()])

    def _bytecode(self, expression: str) -> tuple[bytes, tuple[Diagnostic, ...]]:
        """Tile IR of the source with this instance in it, its files named as the project does; and
        what nvcc warns of.
        """
        spec, root = self._spec, self._spec.source.root
        source = Path(root, spec.source.path)
        try:
            text = source.read_bytes()
        except OSError as exc:
            raise self._error(f"cannot read {spec.source.path}: {exc.strerror}") from exc
        host_compiler(self._path)
        arch = (
            _OLDEST
            if self._job.target.kind is TargetKind.TILEIR
            else f"sm_{self._job.target.number}"
        )
        flags = [
            "--tilebc",
            "--enable-tile",
            "--tile-only",
            f"-arch={arch}",
            *self._options.arguments(),
        ]
        flags.append(beside(spec.source.path))
        # A variable that holds the kernel's address makes the compiler instantiate it.
        mark = f'\n#line 1 "{MARK_FILE}"\n__attribute__((used)) static auto tilec_entry = &{expression};\n'
        # At the time limit, parts of nvcc may write there until their worker ends.
        with tempfile.TemporaryDirectory(
            prefix="tilec-tile-", dir=temporary_folder(), ignore_cleanup_errors=True
        ) as folder:
            entry, out = Path(folder, "tilec_entry.cu"), Path(folder, "entry.tilebc")
            entry.write_bytes(f'#line 1 "{spec.source.path}"\n'.encode() + text + mark.encode())
            argv = [self._tools["nvcc"].path, *flags, "-o", str(out), str(entry)]
            done = run_tool(
                argv, timeout=spec.timeout, cwd=root, env={"PATH": self._path, "TMPDIR": folder}
            )
            data = out.read_bytes() if done.rc == 0 and out.is_file() else b""
            log = (done.stderr + done.stdout).replace(str(entry), spec.source.path)
        command = command_line(["nvcc", *flags, spec.source.path])
        words = read_log(log, root, toolkit=self._toolkit, fallback=self._found.decl.location)
        if not data:
            raise self._refused(done, words.diagnostics, words.symbol, expression, log, command)
        places = ((root, ""), (self._toolkit, "<cuda>"), (folder, "<tilec>"))
        data = with_strings(
            data, lambda text: ptx.relative(text, places) if text.startswith("/") else text
        )
        return data, tuple(d for d in words.diagnostics if d.severity == "warning")

    def _instance(self, entries: Sequence[TileEntry], expression: str) -> TileEntry:
        decl = self._found.decl
        hits = [entry for entry in entries if readable(entry.name) == (decl.qualified or decl.name)]
        if len(hits) == 1:
            return hits[0]
        if not hits:
            names = ", ".join(readable(entry.name) for entry in entries)
            raise self._error(f"nvcc made no entry point of {expression}; there is {names}")
        what = f"the source makes {len(hits)} instances of {decl.name}, so that {expression} cannot be told from the others"
        raise self._error(
            what,
            fix="leave its explicit instantiations out of the source: the manifest says which are made",
        )

    # --- parts
    # --------------------------------------------------------------------------------------------------------------------

    @property
    def _toolkit(self) -> str:
        return self._tools["headers"].path

    def _texts(self) -> dict[str, str]:
        root, source = self._spec.source.root, self._spec.source
        names = [file.name for file in includes.closure(root, source.path, self._options.include)]
        return {
            name: Path(root, name).read_text(encoding="utf-8", errors="replace") for name in names
        }

    def _refused(
        self,
        done: Completed,
        found: tuple[Diagnostic, ...],
        symbol: tuple[str, ...],
        expression: str,
        log: str,
        command: str,
    ) -> CompileError:
        spec, target, decl = self._spec, self._job.target, self._found.decl
        if done.timed_out:
            what = f"nvcc took more than {spec.timeout:g} s for {target}, and was stopped"
            fix = "raise timeout in [toolchain], or make the kernel smaller"
            return self._error(what, fix=fix, log=log, command=command, overtime=True)
        errors = [d for d in found if d.severity == "error"]
        if symbol and not errors:
            shown = "; ".join(symbol)
            names = [c.decl.qualified or c.decl.name for c in self._candidates]
            advice = symbol_advice(shown, expression, decl, names)
            return self._error(
                f"the source has no instance {expression}: {shown}",
                fix=advice,
                log=log,
                command=command,
            )
        count = (
            f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
            if errors
            else "no message that could be read: see its log"
        )
        what = f"{spec.source.path} does not compile for {target}: {count}"
        return self._error(what, diagnostics=found, log=log, command=command)

    def _error(
        self,
        what: str,
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        fix: str = "",
        log: str = "",
        command: str = "",
        overtime: bool = False,
    ) -> CompileError:
        place = Diagnostic(message=what, location=self._found.decl.location, hint=fix)
        return CompileError(
            what,
            diagnostics=diagnostics or (place,),
            fix=fix,
            log=log,
            command=command,
            overtime=overtime,
        )


def _options(source: Source) -> CudaOptions:
    return read_options(of_tiles(source.options))


def _kernels(source: Source) -> list[Found]:
    options = _options(source)
    names = [source.path, *includes.kernel_files(source.root, source.path, options.include)]
    found = [
        kernel for name in names for kernel in declare_module.kernels_of(source.root, name, TILE)
    ]
    if not found:
        simt = [kernel for name in names for kernel in declare_module.kernels_of(source.root, name)]
        what = f"{source.path} has no __tile_global__ function"
        place = Location(file=source.path)
        hint = (
            'its __global__ functions are kernels of language = "cuda"'
            if simt
            else "tile kernels are functions marked __tile_global__"
        )
        raise CompileError(
            what, diagnostics=(Diagnostic(message=what, location=place, hint=hint),), fix=hint
        )
    return found
