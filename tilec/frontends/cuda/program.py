"""One CUDA C++ program, of one entry point or of many, from source to machine code: compile, lower,
assemble.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tilec.frontends.cuda import link as link_module
from tilec.frontends.cuda import link_errors
from tilec.frontends.cuda.asked import Asked, Made
from tilec.frontends.cuda.linked import LinkedFiles
from tilec.frontends.tools import ptx as ptx_text
from tilec.frontends.tools import ptxas
from tilec.frontends.tools.cpp import includes, symbol
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.nvcc import compile_ltoir, compile_ptx
from tilec.frontends.tools.cpp.nvrtc import HERE, Folders, Program, compile_nowhere, inside, load
from tilec.frontends.tools.machine_code import shipped_isa
from tilec.frontends.tools.run import command_line
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic
from tilec_runtime.model.arch import Version, dotted
from tilec_runtime.model.driver import driver_of_ptx_isa


class ProgramCompiler:
    """Compiles some entry points of a job's source, for its target and with its options, as one
    program.
    """

    def __init__(self, asked: Asked, files: LinkedFiles, expressions: tuple[str, ...]) -> None:
        """Take C++ names of entry points; each may take as long as the job's time limit says."""
        self._asked, self._files = asked, files
        self._spec = asked.job.spec
        self._expressions = expressions
        self._limit = asked.job.spec.timeout * len(expressions)
        self._separate = bool(asked.options.link) or asked.lto  # compiled to LTO-IR
        # Code that is linked is optimized as one program by then, and keeps its lines.
        self._debug = asked.job.spec.debug and not self._separate
        # Line information holds absolute paths: through PTX they can be made relative, a cubin's
        # cannot.
        self._virtual = (
            asked.ptx or asked.lineinfo or asked.options.compiler == "nvcc" or self._separate
        )

    def compile(self) -> Made:
        """What the compiler makes of the source: PTX, with machine code where that is made in one
        go.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        made = self._nvcc() if self._asked.options.compiler == "nvcc" else self._nvrtc()
        if not made.ltoir:
            return made
        linked = link_module.link(self._asked, self._files, made.ltoir, made.symbols)
        command = f"{made.command} && {linked.command}"
        made = dataclasses.replace(
            made, text=linked.text, ltoir=linked.ltoir, symbols=linked.symbols, command=command
        )
        return dataclasses.replace(made, libraries=linked.libraries)

    def will_do(self, compiled: Made) -> bool:
        """Whether what was compiled for a job of the same architecture will do for this one: PTX
        for `sm_80` is that for `compute_80`.
        """
        # What was linked for LTO-IR's sake has gone through another compiler than PTX that was not.
        return bool(compiled.ltoir) == self._asked.lto and (self._virtual or bool(compiled.cubin))

    def finish(self, compiled: Made) -> Made:
        """The program as this job wants it, with machine code, and what that needs.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        asked = self._asked
        made = self._assembled(compiled) if self._virtual else compiled
        try:
            kernels = read_cubin(made.cubin)
        except BundleError as exc:
            raise asked.error(
                f"the compiled image cannot be read: {exc.what}", log=made.log, command=made.command
            ) from exc
        words = read_log(
            made.log,
            self._spec.source.root,
            toolkit=asked.toolkit,
            fallback=asked.found.decl.location,
        )
        return dataclasses.replace(
            made,
            kernels=kernels,
            warnings=tuple(d for d in words.diagnostics if d.severity == "warning"),
        )

    def _assembled(self, made: Made) -> Made:
        """PTX with machine code of its own, its ISA as old as the manifest asks and its file names
        relative.
        """
        # What was said of machine code that came with it is said again of this.
        log = "\n".join(line for line in made.log.split("\n") if not line.startswith("ptxas "))
        made = dataclasses.replace(made, cubin=b"", log=log)
        asked = self._asked
        toolkit = asked.toolkit
        places = (
            (self._spec.source.root, ""),
            (HERE, ""),
            (toolkit, "<cuda>"),
            (str(Path(toolkit).parent), "<cuda>"),
        )
        text = ptx_text.relative_files(made.text, places)
        own = ptx_text.isa(text)
        isa = shipped_isa(asked.job, own) if asked.ptx else None
        return self._assemble(
            dataclasses.replace(made, text=ptx_text.with_isa(text, isa) if isa else text, isa=isa),
            own,
        )

    # --- compilers
    # ----------------------------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        told = ["-G"] if self._debug else ["-lineinfo"] if self._asked.lineinfo else []
        return [*self._asked.options.arguments(), *told]

    def _nvrtc(self) -> Made:
        spec, target, toolkit = self._spec, self._asked.job.target, self._asked.toolkit
        ptx, link = self._virtual, self._separate
        arch = f"compute_{target.number}" if ptx else f"sm_{target.number}"
        assembler = ["-v", *ptxas.flags(opt=spec.opt, extra=self._asked.options.ptxas)]
        arguments = [
            f"--gpu-architecture={arch}",
            *self._arguments(),
            *([] if ptx else [f"--ptxas-options={flag}" for flag in assembler]),
        ]
        how = ["-dc", "-dlto"] if link else ["-ptx" if ptx else "-cubin"]
        shown = command_line(["nvcc", *how, f"-arch={arch}", *self._arguments(), spec.source.path])
        # A fixed seed: NVRTC would put its process id into the names of what is local to a file.
        arguments += ["-frandom-seed=tilec", f"-I{toolkit}", f"-I{toolkit}/cccl"]
        arguments += ["-dlto", "-rdc=true"] if link else []
        program = self._compiled(self._read(shown), arguments, ptx)
        if program.timed_out:
            raise self._timeout(program.log, shown)
        if not program.ok and not ptx and link_errors.undefined_in(program.log):
            self._virtual = True  # PTX shows who calls it
            return self._nvrtc()
        if not program.ok:
            raise self._refused(program.log or program.result, shown)
        return Made(
            text=program.ptx,
            cubin=program.cubin,
            ltoir=program.ltoir,
            symbols=program.lowered,
            log=program.log,
            command=shown,
        )

    def _compiled(self, source: bytes, arguments: list[str], ptx: bool) -> Program:
        """Compile without the headers that NVRTC includes by itself, where none is needed; where
        that fails, once more with them.
        """
        asked = self._asked
        place = (self._spec.source.root, self._spec.source.path, asked.options.include)
        library = load(asked.tools["libnvrtc"].path, asked.tools["libnvrtc-builtins"].path)
        if asked.lto:
            own = [argument for argument in arguments if not argument.startswith("-I")]
            folders = Folders(root=place[0], toolkit=asked.toolkit, include=place[2])
            return compile_nowhere(
                library,
                source,
                place[1],
                own,
                folders,
                names=self._expressions,
                timeout=self._limit,
            )

        def compile_with(*extra: str) -> Program:
            told, names = [*arguments, *extra], self._expressions
            with inside(place[0], unnamed=self._debug):
                return library.compile(
                    source,
                    place[1],
                    told,
                    names=names,
                    ptx=ptx,
                    timeout=self._limit,
                    lto=self._separate,
                )

        minimal = ["--minimal"] if includes.is_small(*place) else []
        program = compile_with(*minimal)
        return program if program.ok or program.timed_out or not minimal else compile_with()

    def _nvcc(self) -> Made:
        spec, asked = self._spec, self._asked
        (expression,) = self._expressions
        compile_with = compile_ltoir if asked.options.link else compile_ptx
        done = compile_with(
            asked.tools["nvcc"].path,
            self._read(""),
            spec.source.path,
            expression,
            root=spec.source.root,
            arch=f"compute_{asked.job.target.number}",
            arguments=self._arguments(),
            path=asked.path,
            timeout=self._limit,
        )
        if done.timed_out:
            raise self._timeout(done.log, done.command)
        if not (done.text or done.ltoir):
            raise self._refused(done.log, done.command)
        return Made(
            text=done.text,
            ltoir=done.ltoir,
            symbols={expression: done.symbol},
            log=done.log,
            command=done.command,
        )

    def _read(self, command: str) -> bytes:
        path = Path(self._spec.source.root, self._spec.source.path)
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise self._asked.error(
                f"cannot read {self._spec.source.path}: {exc.strerror}", command=command
            ) from exc
        if b"\0" in data:
            raise self._asked.error(
                f"{self._spec.source.path} holds a zero byte: it is no C++ text", command=command
            )
        return data

    def _assemble(self, made: Made, own: Version) -> Made:
        """Make (or for PTX targets: verify and measure with) the machine code of a PTX text; `own`
        is its ISA before it was lowered.
        """
        isa = made.isa
        done = (
            link_module.assemble(self._asked, made.text, made.libraries)
            if made.libraries
            else self._ptxas(made.text)
        )
        log = "\n".join(part for part in (made.log, done.log) if part)
        command = f"{made.command} && {done.command}"
        if done.timed_out:
            raise self._timeout(log, command)
        if self._asked.options.link or not done.cubin:
            missing = link_errors.undefined(self._asked, made, done.log, command)
            if missing:
                raise missing
        if not done.cubin:
            if made.libraries:
                raise link_errors.refused(self._asked, made.libraries, done.log, command)
            # What its own ISA does not allow either is not for want of a newer driver.
            if (
                isa
                and isa < own
                and (
                    ptx_text.needed_isa(done.log)
                    or self._ptxas(ptx_text.with_isa(made.text, own)).cubin
                )
            ):
                raise self._not_lowered(made.text, isa, done.log, command)
            raise self._refused(done.log, command)
        return dataclasses.replace(made, cubin=done.cubin, log=log, command=command)

    def _ptxas(self, text: str) -> ptxas.Assembled:
        spec = self._spec
        return ptxas.assemble(
            self._asked.tools["ptxas"].path,
            text,
            arch=f"sm_{self._asked.job.target.number}",
            opt=spec.opt,
            lineinfo=self._asked.lineinfo,
            debug=self._debug,
            extra=self._asked.options.ptxas,
            timeout=self._limit,
        )

    # --- lowering
    # -----------------------------------------------------------------------------------------------------------------

    def _not_lowered(self, text: str, isa: Version, log: str, command: str) -> CompileError:
        need = ptx_text.needed_isa(log)
        lines = text.split("\n")
        quoted = []
        for message, line in ptx_text.complaints(log):
            shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
            quoted.append(f"{message}\n      {shown}" if shown else message)
        listing = "".join(f"\n    {q}" for q in dict.fromkeys(quoted))
        what = f"the PTX cannot be lowered to ISA {dotted(isa)}, which is what min-driver reads{listing}"
        if need is not None:
            fix = f"it needs ISA {dotted(need)}: raise min-driver to {driver_of_ptx_isa(need)}, or build this kernel for cubin targets only"
        else:
            fix = "raise min-driver, or build this kernel for cubin targets only"
        return self._asked.error(what, fix=fix, log=log, command=command)

    # --- errors
    # -------------------------------------------------------------------------------------------------------------------

    def _refused(self, log: str, command: str) -> CompileError:
        asked = self._asked
        words = read_log(
            log, self._spec.source.root, toolkit=asked.toolkit, fallback=asked.found.decl.location
        )
        errors = [d for d in words.diagnostics if d.severity == "error"]
        if words.symbol and not errors:
            return self._symbol_error(words.symbol, log, command)
        count = (
            f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
            if errors
            else "no message that could be read: see its log"
        )
        return asked.error(
            f"{self._spec.source.path} does not compile for {asked.job.target}: {count}",
            diagnostics=words.diagnostics,
            log=log,
            command=command,
        )

    def _symbol_error(self, words: tuple[str, ...], log: str, command: str) -> CompileError:
        decl, expression = self._asked.found.decl, self._expressions[0]
        shown = "; ".join(w for w in words if "name expression" not in w)
        names = [found.decl.qualified or found.decl.name for found in self._asked.candidates]
        advice = symbol.symbol_advice(shown, expression, decl, names)
        what = f"the source has no instance {expression}: {shown}"
        diagnostic = Diagnostic(message=what, location=decl.location, hint=advice)
        return self._asked.error(
            what, diagnostics=(diagnostic,), fix=advice, log=log, command=command
        )

    def _timeout(self, log: str, command: str) -> CompileError:
        return self._asked.error(
            f"compiling for {self._asked.job.target} took longer than {self._limit:g} s and was ended",
            cause="heavy templates or full unrolling of long loops",
            fix="raise timeout in [toolchain], or make the kernel smaller",
            log=log,
            command=command,
            overtime=True,
        )
