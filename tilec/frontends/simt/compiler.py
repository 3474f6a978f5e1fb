"""Compiles jobs of the simt frontend: bind, PTX by numba and libNVVM, machine code by ptxas, read back, check."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.base import ToolSearch
from tilec.frontends.simt import api as api
from tilec.frontends.simt import link
from tilec.frontends.simt.bind import Bound, bind
from tilec.frontends.simt.declare import Declared, declared
from tilec.frontends.simt.errors import kernel_error
from tilec.frontends.simt.function import capturing, with_constants
from tilec.frontends.simt.linked import LinkedSources, mismatch
from tilec.frontends.simt.text import external, functions, spliced, symbol_of
from tilec.frontends.simt.toolchain import LINKER, TOOLS
from tilec.frontends.tools import abi, ptx, ptxas
from tilec.frontends.tools import ltoir as ltoir_module
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.python_errors import line_of
from tilec.frontends.tools.search import Tool, require
from tilec_runtime.bundle.cubin import CubinKernel, read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind, dotted
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.driver import cuda_of_ptx_isa
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.job import Job, Source
from tilec_runtime.model.kernel import KernelDecl
from tilec_runtime.model.suggest import did_you_mean

# What the driver brings to every module.
_DRIVER_HAS = frozenset({"vprintf", "malloc", "free", "__assertfail"})


class Compiler:
    """Declares and compiles. Modules are executed once per process and state of their files."""

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools."""
        self._search = search
        self._tools: Mapping[str, Tool] | None = None
        self._sources = LinkedSources()
        self._declared: dict[tuple[str, str], tuple[LoadedModule, dict[str, Declared]]] = {}

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The kernels among the module's attributes, in order of appearance; the module is executed.

        Raises:
            CompileError: it cannot be, or an annotation cannot be read; with the user's line.
            ToolchainError: numba-cuda is missing.
        """
        return tuple(d.decl for d in self._kernels(source, again=True)[1].values())

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest do not fit together, or a compiler refuses the kernel.
            ToolchainError: a tool is missing.
        """
        module, kernels = self._kernels(job.spec.source, again=False)
        kernel = kernels.get(job.spec.decl.name)
        if kernel is None:
            raise _absent(job, module, kernels)
        wanted = (*TOOLS, LINKER) if job.target.kind is TargetKind.LTOIR else TOOLS
        if self._tools is None or wanted[-1] not in self._tools:
            self._tools = require(wanted, self._search, digest=False)
        return _Compile(job, module, kernel, self._tools, self._sources).run()

    def _kernels(self, source: Source, *, again: bool) -> tuple[LoadedModule, dict[str, Declared]]:
        module = _loaded(source, again=again)
        key = (source.root, source.path)
        known = self._declared.get(key)
        if known is None or known[0] is not module:
            known = self._declared[key] = (module, declared(module))
        return known


class _Compile:
    """One job."""

    def __init__(self, job: Job, module: LoadedModule, kernel: Declared, tools: Mapping[str, Tool], sources: LinkedSources) -> None:
        self._job, self._module, self._kernel, self._tools, self._sources = job, module, kernel, tools, sources
        self._is_ptx = job.target.kind is TargetKind.PTX
        self._is_lto = job.target.kind is TargetKind.LTOIR
        # LTO-IR would name files by directories of this machine.
        self._lineinfo, self._debug = job.spec.lineinfo and not self._is_lto, job.spec.debug and not self._is_lto
        self._symbol = symbol_of(kernel.decl.name)

    def run(self) -> Image:
        """The image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        self._check_asked()
        bound = bind(self._job, self._kernel)
        made = self._made(bound)
        text, ltoir = self._finished(made), b""
        if self._is_lto:
            text, ltoir = self._linked(made)
        assembled = self._assemble(text)
        try:
            entry = read_cubin(assembled.cubin).kernel(self._symbol)
        except BundleError as exc:
            raise self._error(f"the image that ptxas made cannot be read: {exc.what}", log=assembled.log) from exc
        try:
            abi.check(bound.abi, entry.params, self._kernel.decl, stated=bool(self._job.spec.abi))
        except CompileError as exc:
            raise self._error(exc.what, fix=exc.fix) from exc
        self._check_shared(entry)
        warned = tuple(Diagnostic(message=line, severity="warning") for line in made.log.splitlines() if line.strip())
        data = text.encode() if self._is_ptx else ltoir or assembled.cubin
        return self._image(text, data, assembled.log, entry, bound, (*warned, *self._unmet(made)))

    def _image(self, text: str, data: bytes, log: str, entry: CubinKernel, bound: Bound, warned: tuple[Diagnostic, ...]) -> Image:
        target = self._job.target
        isa = ptx.isa(text) if self._is_ptx else None
        spills = ptxas.spills(log, self._symbol, ptx.calls(text, self._symbol))
        family = (12, 9) if target.suffix == "f" else (0, 0)
        info = ImageInfo(
            target=target,
            digest=sha256(data),
            size=len(data),
            symbol=self._symbol,
            ptx_isa=self._tools["libnvvm"].release if self._is_lto else isa,
            cuda=cuda_of_ptx_isa(isa) if isa else max(target.arch.toolkit, (self._tools["ptxas"].release[0], 0), family),
            resources=entry.resources(spills),
            max_threads=entry.max_threads or self._kernel.decl.max_threads,
            required_block=entry.required_block,
            cluster=entry.cluster,
            linking=self._linking() if self._is_lto else (),
        )
        return Image(info=info, data=data, abi=bound.abi, warnings=warned)

    # --- compilers ----------------------------------------------------------------------------------------------------------------

    def _made(self, bound: Bound) -> api.Made:
        job, kernel = self._job, self._kernel
        options = kernel.kernel.options
        function = kernel.kernel.function
        axes = dict(job.variant.axes)
        held = {name: api.value(axes[axis.name]) for name, axis in kernel.captured if axis.name in axes}
        if held:
            function = capturing(function, held)
        if bound.constants:
            if kernel.node is None:
                raise self._error("its source is in no file of the project, which is what constants are bound in")
            function = with_constants(function, kernel.node, bound.constants)
        scopes = [
            (vars(self._module.modules[module]), name, axes[axis.name]) for module, name, axis in kernel.variables if axis.name in axes
        ]
        asked = api.Asked(
            function=function,
            symbol=self._symbol,
            arguments=bound.arguments,
            line=kernel.decl.location.line,
            arch=f"compute_{job.target.number}",
            capability=job.target.cc,
            optimize=job.spec.opt > 0 and not self._debug,
            lineinfo=self._lineinfo,
            debug=self._debug,
            bounds=job.spec.bounds if options.bounds is None else options.bounds,
            options=options,
            values=[(scope, name, api.value(held)) for scope, name, held in scopes],
        )
        what = f"{job.spec.source.path}: kernel {kernel.decl.name!r} does not compile for {job.target}"
        try:
            with self._module.active():
                return api.compile_ptx(asked)
        except Exception as exc:
            error = kernel_error(exc, module=self._module, kernel=kernel, what=what)
            error.kernel, error.target = job.variant.id, str(job.target)
            raise error from exc

    def _finished(self, made: api.Made) -> str:
        """PTX with all that it calls, of an ISA that the oldest driver reads, and no directory of this machine."""
        job = self._job
        if made.needs:
            raise self._error(
                f"numba links {', '.join(made.needs)} into it when it is launched, which an image cannot hold",
                fix="do without the function that needs it (reshape, memory that the kernel allocates, @cuda.jit(link=…))",
            )
        text = link.complete(made.ptx, made.sources, arch=f"compute_{job.target.number}", tools=self._tools, timeout=job.spec.timeout)
        text = self._with_linked(text)
        missing = sorted(external(text) - _DRIVER_HAS)
        if missing:
            raise self._error(
                f"it calls {', '.join(missing)}, which is defined nowhere",
                fix=f'define it in CUDA C++, extern "C" __device__, and link that: [kernel.{job.spec.name}] link = ["act.cu"]',
            )
        text = ptx.relative_files(text, ((job.spec.source.root, ""),))
        bound, own = job.spec.max_isa, ptx.isa(text)
        if not self._is_ptx or bound is None or own <= bound:
            return text
        if bound < job.target.ptx_isa:
            raise self._error(
                f"min-driver reads PTX up to ISA {dotted(bound)}, {job.target} needs ISA {dotted(job.target.ptx_isa)}",
                fix=f"raise min-driver, or take {job.target} out of the targets",
            )
        return ptx.with_isa(text, bound)

    def _linked(self, made: api.Made) -> tuple[str, bytes]:
        """(PTX, LTO-IR) of the kernel and all that it calls, as one module."""
        job, arch = self._job, f"compute_{self._job.target.number}"
        code = api.ltoir(link.own_names(made.modules), arch, optimize=job.spec.opt > 0)
        pieces = [Piece(name=job.spec.source.path, kind="LTOIR", data=code)]
        pieces += link.pieces(made.ptx, made.sources, arch=arch, tools=self._tools, timeout=job.spec.timeout)
        pieces += self._sources.pieces(job, self._tools)
        done = ltoir_module.as_one(self._tools[LINKER], pieces, f"sm_{job.target.number}", self._linking())
        if not done.ltoir:
            raise self._error(f"nvJitLink does not link it for {job.target}: {next(iter(done.log.splitlines()), '')}", log=done.log)
        return done.text, done.ltoir

    def _linking(self) -> tuple[str, ...]:
        """What a link of the LTO-IR has to be told: what libNVVM was, of arithmetic, and what ptxas would be."""
        options = self._kernel.kernel.options
        fast = ("--use_fast_math",) if options.fastmath else ()
        return ltoir_module.linking(opt=self._job.spec.opt, flags=fast, registers=options.max_registers)

    def _with_linked(self, text: str) -> str:
        """The PTX with those functions of linked sources that it calls."""
        taken: dict[str, str] = {}
        for path, library in self._sources.texts(self._job, self._tools):
            names = sorted((external(text) | taken.keys()) & functions(library))
            for name in names:
                if name in taken:
                    raise self._error(f"{name} is defined in {taken[name]} and in {path}", fix="take one of the two out")
                differs = mismatch(text, library, name)
                if differs:
                    raise self._error(
                        f"{name} of {path} {differs}",
                        fix=f'declare it as it is: cuda.declare_device("{name}", "float32(float32)", abi="c") is float {name}(float)',
                    )
            taken.update(dict.fromkeys(names, path))
            text = spliced(text, library, {name: name for name in names}) if names else text
        return text

    def _assemble(self, text: str) -> ptxas.Assembled:
        job, most = self._job, self._kernel.kernel.options.max_registers
        done = ptxas.assemble(
            self._tools["ptxas"].path,
            text,
            arch=f"sm_{job.target.number}",
            opt=job.spec.opt,
            lineinfo=self._lineinfo,
            debug=self._debug,
            extra=[f"--maxrregcount={most}"] if most else [],
            timeout=job.spec.timeout,
        )
        if done.timed_out:
            raise self._error(
                f"ptxas took longer than {job.spec.timeout:g} s and was ended", fix="raise timeout in [toolchain]", overtime=True
            )
        if not done.cubin:
            first = ptx.first_complaint(done.log)
            raise self._error(f"ptxas refuses the PTX that numba made: {first}", log=done.log, command=done.command)
        return done

    # --- checks -------------------------------------------------------------------------------------------------------------------

    def _check_asked(self) -> None:
        kernel = self._kernel
        if kernel.linked:
            raise self._error(
                f"@cuda.jit(link=…) names {', '.join(kernel.linked)}, which a build does not link", fix="call functions of Python only"
            )

    def _check_shared(self, entry: CubinKernel) -> None:
        most = self._job.target.arch.shared_block
        if entry.shared > most and not self._is_ptx:
            raise self._error(
                f"a block needs {entry.shared} bytes of shared memory, and {self._job.target} has {most}",
                fix="make cuda.shared.array smaller, or take its size from launch.shared: cuda.shared.array(0, dtype)",
            )

    def _unmet(self, made: api.Made) -> tuple[Diagnostic, ...]:
        """A warning where the grid waits for itself in launches that do not promise that all of it is there."""
        if not made.cooperative or self._job.spec.cooperative:
            return ()
        at = self._kernel.decl.location
        what = "the kernel waits for its whole grid, and its launches are not cooperative: they stop with an error"
        excerpt, hint = line_of(self._module.texts, at.file, at.line), "say launch.cooperative = true"
        return (Diagnostic(message=what, location=at, severity="warning", excerpt=excerpt, hint=hint),)

    def _error(self, what: str, *, fix: str = "", log: str = "", command: str = "", overtime: bool = False) -> CompileError:
        job, at = self._job, self._kernel.decl.location
        excerpt = line_of(self._module.texts, at.file, at.line)
        return CompileError(
            f"kernel {job.spec.decl.name!r}: {what}",
            diagnostics=(Diagnostic(message=what, location=at, excerpt=excerpt, hint=fix),),
            fix=fix,
            log=log,
            command=command,
            kernel=job.variant.id,
            target=str(job.target),
            overtime=overtime,
        )


def _loaded(source: Source, *, again: bool) -> LoadedModule:
    api.load()
    try:
        with api.environment():
            return load(source, again=again)
    except CompileError as exc:
        raise _without_driver(exc) from exc


def _without_driver(exc: CompileError) -> CompileError:
    """The error of a module that compiles a kernel when it is imported, as `@cuda.jit` with a signature does; others as they are."""
    if "CudaSupportError" not in exc.what:
        return exc
    what = "the module asks for a GPU when it is imported: @cuda.jit with a signature does, or a call of numba.cuda outside of kernels"
    hint = "take the signature out, and annotate the parameters or say in the manifest what they are"
    place = next((d for d in exc.diagnostics if d.location), Diagnostic(message=what))
    told = dataclasses.replace(place, message=what, hint=hint)
    return CompileError(what, diagnostics=(told,), fix=hint, log=exc.log)


def _absent(job: Job, module: LoadedModule, kernels: Mapping[str, Declared]) -> CompileError:
    name = job.spec.decl.name
    what = f"{module.source.path} has no SIMT kernel {name!r}; it has {', '.join(kernels) or 'none'}"
    hint = did_you_mean(name, kernels).removeprefix("; ") or "kernels are functions with the decorator @simt.kernel or @cuda.jit"
    return CompileError(what, diagnostics=(Diagnostic(message=what, location=job.spec.decl.location, hint=hint),))
