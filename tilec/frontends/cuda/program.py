"""Compile a CUDA C++ program of one or more entry points: source, PTX, machine code."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path

from tilec.frontends.cuda import link as link_module
from tilec.frontends.cuda.job import CudaJob, DeviceCompile
from tilec.frontends.tools import ptx as ptx_text
from tilec.frontends.tools import ptxas
from tilec.frontends.tools.cpp import includes, nvrtc
from tilec.frontends.tools.cpp.diagnostics import read_log, refusal
from tilec.frontends.tools.cpp.nvcc import compile_ptx
from tilec.frontends.tools.cpp.symbol import readable
from tilec.frontends.tools.machine_code import not_lowered, shipped_isa, timeout_error
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic
from tilec_runtime.model.arch import Version


class Programs:
    """Caches the last program: jobs of a group, and PTX of one architecture, share it.

    Attributes:
        failed: key of the last group that did not compile as one, to try it only once.
    """

    def __init__(self) -> None:
        self.failed: Hashable = None
        self._state: Hashable = None
        self._compiled: dict[bool, DeviceCompile] = {}
        self._finished: dict[Hashable, DeviceCompile] = {}

    def get(self, compiler: ProgramCompiler) -> DeviceCompile:
        """Return the cached program, or compile it.

        Raises:
            CompileError: it does not compile.
            ToolchainError: a tool does not start.
        """
        now = compiler.state()
        if self._state != now:
            self._state, self._compiled, self._finished = None, {}, {}
        program = self._finished.get(compiler.target)
        if program is None:
            compiled = self._compiled.get(compiler.lto) or compiler.compile()
            program = compiler.finish(compiled)
            if compiler.state() == now:  # else a source was edited during the compile
                self._state, self._compiled[compiler.lto] = now, compiled
                self._finished[compiler.target] = program
        return program


class ProgramCompiler:
    """Compiles entry points of a job's source, for its target and with its options.

    Attributes:
        lto: whether LTO-IR is shipped; it needs a compile of its own.
        target: target and ISA bound; the finished program depends on them and on `state`.
    """

    def __init__(self, job: CudaJob, expressions: tuple[str, ...]) -> None:
        """Store the C++ names of the entry points; each adds the job's time limit to the whole."""
        self._job, self._expressions = job, expressions
        # A mangled symbol (`_Z…`) is no C++ expression, and needs no lowering.
        self._compiled = {each: each for each in expressions if each.startswith("_Z")}
        self._names = [each for each in expressions if each not in self._compiled]
        self._spec = job.job.spec
        self._limit = self._spec.timeout * len(expressions)
        self.lto = job.lto
        self.target = (job.job.target, self._spec.max_isa)
        self._to_ltoir = bool(job.options.link) or job.lto
        # Linked code is optimized as one program: it keeps source lines, but no variables.
        self._debug = self._spec.debug and not self._to_ltoir

    def state(self) -> Hashable:
        """Return everything that the compiled program depends on, except the kind of target."""
        spec, options = self._spec, self._job.options
        root, define = spec.source.root, [value for _, value in options.define]
        return (
            spec.source,
            self._job.job.target.number,
            spec.opt,
            spec.lineinfo,
            spec.debug,
            self._expressions,
            tuple(includes.closure(root, spec.source.path, options.include, define)),
            tuple(link_module.inputs(root, options)),
        )

    def compile(self) -> DeviceCompile:
        """Compile the source to PTX, and to LTO-IR if it is linked or shipped.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        done, command = self._nvcc() if self._job.options.compiler == "nvcc" else self._nvrtc()
        if done.timed_out:
            raise self._timeout(done.log, command)
        if not done.ok:
            raise self._refused(done.log or done.result, command)
        program = DeviceCompile(
            text=done.ptx,
            ltoir=done.ltoir,
            symbols={**done.lowered, **self._compiled},
            log=done.log,
            command=command,
        )
        if program.ltoir:
            program = link_module.link(self._job, program)
        entries = ptx_text.entries(program.text)
        for symbol in self._compiled:
            if symbol not in entries:
                raise CompileError(
                    f"{self._spec.source.path} compiles to no kernel {symbol}",
                    fix=f"name one that it has: {', '.join(entries) or 'none'}",
                    log=program.log,
                    command=program.command,
                )
        if self._debug:  # a debugger's sections name every function
            return program
        symbols = list(program.symbols.values())
        text = ptx_text.only(program.text, symbols)
        warnings = tuple(self._copies(ptx_text.apart(program.text, symbols)))
        return dataclasses.replace(program, text=text, warnings=warnings)

    def finish(self, compiled: DeviceCompile) -> DeviceCompile:
        """Return the program with its machine code, read back, and its warnings.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        job = self._job
        program = self._assembled(compiled)
        try:
            cubin = read_cubin(program.cubin)
            kernels = {name: cubin.kernel(symbol) for name, symbol in program.symbols.items()}
        except BundleError as exc:
            message = f"the compiled image cannot be read: {exc.what}"
            raise CompileError(message, log=program.log, command=program.command) from exc
        at = job.kernel.location
        words = read_log(program.log, self._spec.source.root, toolkit=job.toolkit, fallback=at)
        warnings = tuple(d for d in words.diagnostics if d.severity == "warning")
        warnings = (*compiled.warnings, *warnings)
        return dataclasses.replace(program, kernels=kernels, warnings=warnings)

    def _copies(self, apart: Mapping[str, Sequence[str]]) -> Iterator[Diagnostic]:
        """Yield a warning for each variable that other images have a copy of."""
        for name, users in apart.items():
            others = ", ".join(map(readable, users[:3])) + (", …" if users[3:] else "")
            yield Diagnostic(
                message=f"the variable {readable(name)} is not shared with {others}: images have their own variables",
                location=self._job.kernel.location,
                severity="warning",
                hint="pass its address as a parameter, or compile all of them with NVRTC in one group",
            )

    # --- compilers

    def _arguments(self, *, include: bool = True) -> list[str]:
        lines = ["-G"] if self._debug else ["-lineinfo"] if self._job.lineinfo else []
        return [*self._job.options.arguments(include=include), *lines]

    def _nvrtc(self) -> tuple[nvrtc.Program, str]:
        job, source, link = self._job, self._spec.source, self._to_ltoir
        arch = f"compute_{job.job.target.number}"
        how = ["-dc", "-dlto"] if link else ["-ptx"]
        shown = shlex.join(["nvcc", *how, f"-arch={arch}", *self._arguments(), source.path])
        # Without a fixed seed, NVRTC puts its process id into the names of file-local symbols.
        own = ["-frandom-seed=tilec", *(["-dlto", "-rdc=true"] if link else [])]
        done = nvrtc.compile_source(
            job.tools,
            includes.source_bytes(source.root, source.path),
            source.path,
            [f"--gpu-architecture={arch}", *self._arguments(include=False), *own],
            root=source.root,
            include=job.options.include,
            names=self._names,
            timeout=self._limit,
            lto=link,
            portable=job.lto,
            unnamed=self._debug,
        )
        return done, shown

    def _nvcc(self) -> tuple[nvrtc.Program, str]:
        (expression,) = self._expressions
        return compile_ptx(
            self._job.tools["nvcc"].path,
            includes.source_bytes(self._spec.source.root, self._spec.source.path),
            self._spec.source.path,
            "" if expression in self._compiled else expression,
            root=self._spec.source.root,
            arch=f"compute_{self._job.job.target.number}",
            arguments=self._arguments(),
            path=self._job.path,
            timeout=self._limit,
        )

    # --- machine code

    def _assembled(self, program: DeviceCompile) -> DeviceCompile:
        """Lower PTX to the shipped ISA, make its file names relative, and assemble it."""
        job, toolkit = self._job, self._job.toolkit
        roots = (
            (self._spec.source.root, ""),
            (nvrtc.HERE, ""),
            (toolkit, "<cuda>"),
            (str(Path(toolkit).parent), "<cuda>"),
        )
        text = ptx_text.relative_files(program.text, roots)
        own = ptx_text.isa(text)
        text = ptx_text.with_isa(text, shipped_isa(job.job, own))
        program = dataclasses.replace(program, text=text)
        done = self._ptxas(program.text)
        log = "\n".join(part for part in (program.log, done.log) if part)
        command = f"{program.command} && {done.command}"
        if done.timed_out:
            raise self._timeout(log, command)
        if job.options.link or not done.cubin:
            missing = link_module.undefined(job, program.text, done.log, command)
            if missing:
                raise missing
        if not done.cubin:
            raise self._not_assembled(program, own, done.log, command)
        return dataclasses.replace(program, cubin=done.cubin, log=log, command=command)

    def _ptxas(self, text: str) -> ptxas.Assembled:
        return ptxas.assemble(
            self._job.tools["ptxas"].path,
            text,
            arch=f"sm_{self._job.job.target.number}",
            opt=self._spec.opt,
            lineinfo=self._job.lineinfo,
            debug=self._debug,
            extra=self._job.options.ptxas,
            timeout=self._limit,
        )

    # --- errors

    def _not_assembled(
        self, program: DeviceCompile, own: Version, log: str, command: str
    ) -> CompileError:
        isa = ptx_text.isa(program.text)
        # If ptxas refuses the text with its own ISA too, a newer driver would not help.
        if isa < own and (
            ptx_text.needed_isa(log) or self._ptxas(ptx_text.with_isa(program.text, own)).cubin
        ):
            return not_lowered(program.text, isa, log, command)
        return self._refused(log, command)

    def _refused(self, log: str, command: str) -> CompileError:
        job = self._job
        return refusal(
            log,
            command,
            root=self._spec.source.root,
            source=self._spec.source.path,
            toolkit=job.toolkit,
            target=str(job.job.target),
            decl=job.kernel,
            expression=self._expressions[0],
            candidates=job.candidates,
        )

    def _timeout(self, log: str, command: str) -> CompileError:
        return timeout_error(
            f"compiling for {self._job.job.target}", self._limit, log=log, command=command
        )
