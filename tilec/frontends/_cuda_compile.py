"""One CUDA C++ job from source to image: compile, find the entry, lower, assemble, read, check."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tilec.bundle.cubin import CubinKernel, read_cubin
from tilec.errors import BundleError, CompileError, Diagnostic, Location
from tilec.frontends import _cuda_abi, _cuda_includes, _cuda_ptxas, _cuda_symbol, _ptx
from tilec.frontends._cuda_diagnostics import read_log
from tilec.frontends._cuda_nvcc import compile_ptx
from tilec.frontends._cuda_nvrtc import Program, load
from tilec.frontends._cuda_options import CudaOptions
from tilec.frontends._cuda_parse import Found
from tilec.frontends._cuda_pch import HEADERS
from tilec.frontends._run import command_line
from tilec.frontends._tools import Tool
from tilec.model.arch import TargetKind, Version
from tilec.model.digest import sha256
from tilec.model.driver import BRANCHES, cuda_of_ptx_isa
from tilec.model.image import Image, ImageInfo, Resources
from tilec.model.job import Job

_CWD = threading.Lock()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Made:
    """What a compiler gave: PTX text, perhaps a cubin already, the entry's symbol, all words so far, and the command."""

    text: str
    cubin: bytes = b""
    symbol: str
    log: str
    command: str


class Compiler:
    """Compiles one job; made anew for each, so that every message can name it."""

    def __init__(
        self, job: Job, options: CudaOptions, found: Found, candidates: Sequence[str], tools: Mapping[str, Tool], path: str
    ) -> None:
        """Keep what the job needs.

        Args:
            job: the variant and its target.
            options: checked options of the source.
            found: the kernel as the source has it.
            candidates: names of all kernels of the source, for messages.
            tools: by name; `nvcc` only where it is used.
            path: PATH for a host compiler.
        """
        self._job = job
        self._spec = job.spec
        self._options = options
        self._found = found
        self._candidates = candidates
        self._tools = tools
        self._path = path
        self._toolkit = tools["headers"].path
        self._ptx_wanted = job.target.kind is TargetKind.PTX

    def run(self) -> Image:
        """The image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        axes = dict(self._job.variant.axes)
        decl = self._found.decl
        expression = _cuda_symbol.name_expression(
            self._spec.symbol, axes, decl, required=self._found.required, variadic=self._found.variadic
        )
        self._check_cluster_target()
        made = self._nvcc(expression) if self._options.compiler == "nvcc" else self._nvrtc(expression)
        isa: Version | None = None
        if not made.cubin:
            places = ((self._spec.source.root, ""), (self._toolkit, "<cuda>"), (str(Path(self._toolkit).parent), "<cuda>"))
            made = dataclasses.replace(made, text=_ptx.relative_files(made.text, places))
            own = _ptx.isa(made.text)
            if self._ptx_wanted:
                isa = self._isa(made.text)
                made = dataclasses.replace(made, text=_ptx.with_isa(made.text, isa))
            made = self._assemble(made, isa, own)
        return self._image(made, isa)

    # --- compilers ----------------------------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        return [*self._options.arguments(), *(["-lineinfo"] if self._spec.lineinfo else [])]

    def _nvrtc(self, expression: str) -> _Made:
        spec, target = self._spec, self._job.target
        # Line information holds absolute paths: through PTX they can be made relative, a cubin's cannot.
        ptx = self._ptx_wanted or spec.lineinfo
        arch = f"compute_{target.number}" if ptx else f"sm_{target.number}"
        assembler = ["-v", *_cuda_ptxas.flags(opt=spec.opt, extra=self._options.ptxas)]
        arguments = [f"--gpu-architecture={arch}", *self._arguments(), *([] if ptx else [f"--ptxas-options={flag}" for flag in assembler])]
        shown = command_line(["nvcc", "-ptx" if ptx else "-cubin", f"-arch={arch}", *self._arguments(), spec.source.path])
        # A fixed seed: NVRTC would put its process id into the names of what is local to a file.
        arguments += ["-frandom-seed=tilec", f"-I{self._toolkit}", f"-I{self._toolkit}/cccl"]
        program = self._quickest(self._read(shown), arguments, expression, ptx)
        if program.timed_out:
            raise self._timeout(program.log, shown)
        if not program.ok:
            raise self._refused(program.log or program.result, shown, expression)
        symbol = program.lowered.get(expression, "")
        return _Made(text=program.ptx, cubin=program.cubin, symbol=symbol, log=program.log, command=shown)

    def _quickest(self, source: bytes, arguments: list[str], expression: str, ptx: bool) -> Program:
        """Compile with what saves time for this source; where that fails, once more without: its words are the ones to show."""
        place = (self._spec.source.root, self._spec.source.path, self._options.include)
        library = load(self._tools["libnvrtc"].path, self._tools["libnvrtc-builtins"].path)

        def compile_with(*extra: str) -> Program:
            with _inside(place[0]):
                return library.compile(source, place[1], [*arguments, *extra], names=(expression,), ptx=ptx, timeout=self._spec.timeout)

        minimal = ["--minimal"] if _cuda_includes.is_small(*place) else []
        if self._found.decl.template and self._job.variant.axes:
            # One of several instances: the others have the same headers.
            key = (place, tuple(_cuda_includes.closure(*place)), tuple(arguments))
            used = HEADERS.use(key)
            with contextlib.nullcontext(used) if used else HEADERS.create(key) as precompiled:
                program = compile_with(*minimal, *precompiled)
            if not program.ok or " warning" in program.log:
                HEADERS.forget(key)
        else:
            precompiled = []
            program = compile_with(*minimal)
        if program.ok or program.timed_out or not (minimal or precompiled):
            return program
        return compile_with()

    def _nvcc(self, expression: str) -> _Made:
        spec = self._spec
        done = compile_ptx(
            self._tools["nvcc"].path,
            self._read(""),
            spec.source.path,
            expression,
            root=spec.source.root,
            arch=f"compute_{self._job.target.number}",
            arguments=self._arguments(),
            path=self._path,
            timeout=spec.timeout,
        )
        if done.timed_out:
            raise self._timeout(done.log, done.command)
        if not done.text:
            raise self._refused(done.log, done.command, expression)
        return _Made(text=done.text, symbol=done.symbol, log=done.log, command=done.command)

    def _read(self, command: str) -> bytes:
        path = Path(self._spec.source.root, self._spec.source.path)
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise self._error(f"cannot read {self._spec.source.path}: {exc.strerror}", command=command) from exc
        if b"\0" in data:
            raise self._error(f"{self._spec.source.path} holds a zero byte: it is no C++ text", command=command)
        return data

    def _assemble(self, made: _Made, isa: Version | None, own: Version | None) -> _Made:
        """Make (or for PTX targets: verify and measure with) the machine code of a PTX text; `own` is its ISA before it was lowered."""
        done = self._ptxas(made.text)
        log = "\n".join(part for part in (made.log, done.log) if part)
        command = f"{made.command} && {done.command}"
        if done.timed_out:
            raise self._timeout(log, command)
        if not done.cubin:
            # What its own ISA does not allow either is not for want of a newer driver.
            if isa and own and isa < own and (_ptx.needed_isa(done.log) or self._ptxas(_ptx.with_isa(made.text, own)).cubin):
                raise self._not_lowered(made.text, isa, done.log, command)
            raise self._refused(done.log, command, made.symbol)
        return dataclasses.replace(made, cubin=done.cubin, log=log, command=command)

    def _ptxas(self, text: str) -> _cuda_ptxas.Assembled:
        spec = self._spec
        return _cuda_ptxas.assemble(
            self._tools["ptxas"].path,
            text,
            arch=f"sm_{self._job.target.number}",
            opt=spec.opt,
            lineinfo=spec.lineinfo,
            extra=self._options.ptxas,
            timeout=spec.timeout,
        )

    # --- lowering -----------------------------------------------------------------------------------------------------------------

    def _isa(self, text: str) -> Version:
        """The ISA that the text is to state: its own, or an older one that the oldest driver reads."""
        target, bound = self._job.target, self._spec.max_isa
        own = _ptx.isa(text)
        if bound is None or own <= bound:
            return own
        if bound < target.ptx_isa:
            need = target.ptx_isa
            raise self._error(
                f"min-driver reads PTX up to ISA {_dotted(bound)}, {target} needs ISA {_dotted(need)}",
                cause=f"{target} came with CUDA {_dotted(cuda_of_ptx_isa(need))}",
                fix=f"raise min-driver to {_driver(need)}, or take {target} out of the targets",
            )
        return bound

    def _not_lowered(self, text: str, isa: Version, log: str, command: str) -> CompileError:
        need = _ptx.needed_isa(log)
        lines = text.split("\n")
        quoted = []
        for message, line in _ptx.complaints(log):
            shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
            quoted.append(f"{message}\n      {shown}" if shown else message)
        listing = "".join(f"\n    {q}" for q in dict.fromkeys(quoted))
        what = f"the PTX cannot be lowered to ISA {_dotted(isa)}, which is what min-driver reads{listing}"
        if need is not None:
            fix = f"it needs ISA {_dotted(need)}: raise min-driver to {_driver(need)}, or build this kernel for cubin targets only"
        else:
            fix = "raise min-driver, or build this kernel for cubin targets only"
        return self._error(what, fix=fix, log=log, command=command)

    # --- results ------------------------------------------------------------------------------------------------------------------

    def _image(self, made: _Made, isa: Version | None) -> Image:
        target = self._job.target
        try:
            kernel = read_cubin(made.cubin).kernel(made.symbol)
        except BundleError as exc:
            raise self._error(f"the compiled image cannot be read: {exc.what}", log=made.log, command=made.command) from exc
        decl = self._found.decl
        bound = _cuda_symbol.bindings(self._spec.symbol, dict(self._job.variant.axes), decl)
        abi = self._spec.abi or _cuda_abi.derive(decl, bound, _ptx.entry_params(made.text, made.symbol) or ())
        try:
            _cuda_abi.check(abi, kernel.params, decl, stated=bool(self._spec.abi))
        except CompileError as exc:
            raise self._error(exc.what, diagnostics=exc.diagnostics, fix=exc.fix, log=made.log, command=made.command) from exc
        data = made.text.encode("utf-8", "surrogateescape") if self._ptx_wanted else made.cubin
        info = ImageInfo(
            target=target,
            digest=sha256(data),
            size=len(data),
            symbol=made.symbol,
            ptx_isa=isa,
            cuda=cuda_of_ptx_isa(isa) if isa else self._oldest_cuda(),
            resources=_resources(kernel, made),
            max_threads=kernel.max_threads or decl.max_threads,
            required_block=kernel.required_block,
            cluster=self._cluster(kernel, made),
        )
        words = read_log(made.log, self._spec.source.root, toolkit=self._toolkit, fallback=decl.location)
        return Image(info=info, data=data, abi=abi, warnings=tuple(d for d in words.diagnostics if d.severity == "warning"))

    def _oldest_cuda(self) -> Version:
        target = self._job.target
        release = (self._tools["ptxas"].release[0], 0)
        family = (12, 9) if target.suffix == "f" else (0, 0)
        return max(target.arch.toolkit, release, family)

    def _check_cluster_target(self) -> None:
        if self._spec.cluster and self._job.target.cc < (9, 0):
            raise self._error(
                f"launch.cluster needs compute capability 9.0, {self._job.target} is older",
                fix="limit the kernel to newer targets in [[override]], or take the cluster out",
            )

    def _cluster(self, kernel: CubinKernel, made: _Made) -> tuple[int, ...]:
        asked = (*self._spec.cluster, 1, 1, 1)[:3] if self._spec.cluster else ()
        if asked and kernel.cluster and asked != kernel.cluster:
            raise self._error(
                f"the manifest asks for clusters of {_by(asked)}, the source fixes {_by(kernel.cluster)} (__cluster_dims__)",
                fix="make them agree, or leave launch.cluster out: the source's is used",
                log=made.log,
                command=made.command,
            )
        return kernel.cluster

    # --- errors -------------------------------------------------------------------------------------------------------------------

    def _refused(self, log: str, command: str, expression: str) -> CompileError:
        decl = self._found.decl
        words = read_log(log, self._spec.source.root, toolkit=self._toolkit, fallback=decl.location)
        errors = [d for d in words.diagnostics if d.severity == "error"]
        if words.symbol and not errors:
            return self._symbol_error(words.symbol, expression, log, command)
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}" if errors else "no message that could be read: see its log"
        return self._error(
            f"{self._spec.source.path} does not compile for {self._job.target}: {count}",
            diagnostics=words.diagnostics,
            log=log,
            command=command,
        )

    def _symbol_error(self, words: tuple[str, ...], expression: str, log: str, command: str) -> CompileError:
        decl = self._found.decl
        shown = "; ".join(w for w in words if "name expression" not in w)
        advice = _cuda_symbol.symbol_advice(shown, expression, decl, self._candidates)
        what = f"the source has no instance {expression}: {shown}"
        diagnostic = Diagnostic(message=what, location=decl.location, hint=advice)
        return self._error(what, diagnostics=(diagnostic,), fix=advice, log=log, command=command)

    def _timeout(self, log: str, command: str) -> CompileError:
        return self._error(
            f"compiling for {self._job.target} took longer than {self._spec.timeout:g} s and was ended",
            cause="heavy templates or full unrolling of long loops",
            fix="raise timeout in [toolchain], or make the kernel smaller",
            log=log,
            command=command,
        )

    def _error(
        self,
        what: str,
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        cause: str = "",
        fix: str = "",
        log: str = "",
        command: str = "",
    ) -> CompileError:
        place: Location = self._found.decl.location
        return CompileError(
            what,
            diagnostics=diagnostics or (Diagnostic(message=what, location=place, hint=fix),),
            cause=cause,
            fix=fix,
            log=log,
            command=command,
            kernel=self._job.variant.id,
            target=str(self._job.target),
        )


def _resources(kernel: CubinKernel, made: _Made) -> Resources:
    spills = _cuda_ptxas.spills(made.log, made.symbol)
    return Resources(
        registers=kernel.registers,
        spill_stores=spills[0] if spills else None,
        spill_loads=spills[1] if spills else None,
        stack=kernel.stack,
        shared=kernel.shared,
        constant=kernel.constant,
        code=kernel.code,
    )


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Work in a directory, so that names given to a compiler in this process are relative to it."""
    with _CWD:
        try:
            before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            before = -1
        os.chdir(folder)
        try:
            yield
        finally:
            if before >= 0:
                os.fchdir(before)
                os.close(before)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _driver(isa: Version) -> str:
    """The oldest driver that reads an ISA, in words."""
    cuda = cuda_of_ptx_isa(isa)
    branch = BRANCHES.get(cuda)
    return f"{branch} (CUDA {_dotted(cuda)})" if branch else f"the driver of CUDA {_dotted(cuda)}"


def _by(dims: tuple[int, ...]) -> str:
    return "x".join(str(d) for d in dims)
