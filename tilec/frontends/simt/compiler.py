"""Compile jobs of the simt frontend to PTX with numba, and link called functions.

`machine_code` makes the image of the PTX.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from types import FunctionType

from tilec.frontends.simt import api
from tilec.frontends.simt.bind import Binder, bind
from tilec.frontends.simt.declare import SimtKernel
from tilec.frontends.simt.errors import kernel_error
from tilec.frontends.simt.function import with_constants
from tilec.frontends.simt.link import LINKER, linked, misdeclared, pieces, undefined
from tilec.frontends.tools import ltoir, ptx
from tilec.frontends.tools.isolated import isolated
from tilec.frontends.tools.machine_code import Code, image, shipped_isa
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.python_errors import located
from tilec.frontends.tools.search import Tool
from tilec.model.job import Job
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import Image


class JobCompiler:
    """Compiles one job."""

    def __init__(
        self,
        job: Job,
        module: LoadedModule,
        kernel: SimtKernel,
        tools: Mapping[str, Tool],
    ) -> None:
        self._job, self._module, self._kernel, self._tools = job, module, kernel, tools
        self._is_lto = job.target.kind is TargetKind.LTOIR
        # Source lines would put directories of this machine into LTO-IR.
        self._lineinfo = (job.spec.lineinfo or job.spec.debug) and not self._is_lto
        self._opt = 0 if job.spec.debug else job.spec.opt
        self._symbol = symbol_of(kernel.decl.name)

    def run(self) -> Image:
        """Return the image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        bound = bind(self._job, self._kernel)
        api.warm()
        compiled = isolated(functools.partial(self._ptx, bound))
        text, module = self._linked(compiled)
        job, options = self._job, self._kernel.kernel.options
        # numba makes file names absolute with the working directory, NVRTC with the project's.
        folders = sorted({os.getcwd(), job.spec.source.root}, key=len, reverse=True)  # noqa: PTH109 - text, not a path
        text = ptx.relative_files(text, [(folder, "") for folder in folders])
        code = Code(
            text=ptx.with_isa(text, shipped_isa(job, ptx.isa(text))),
            symbol=self._symbol,
            abi=tuple(bound.abi),
            warnings=self._warnings(compiled),
            ltoir=module,
            ltoir_release=self._tools["libnvvm"].release if self._is_lto else None,
            linking=self._linking() if self._is_lto else (),
        )
        return image(
            job,
            code,
            self._tools["ptxas"],
            maker="numba",
            arch=f"sm_{job.target.number}",
            opt=self._opt,
            lineinfo=self._lineinfo,
            flags=[f"--maxrregcount={options.max_registers}"] if options.max_registers else [],
        )

    def _function(self, bound: Binder) -> FunctionType:
        """Return the kernel's function with constants bound and captured numbers as parameters."""
        kernel, axes = self._kernel, dict(self._job.variant.constants)
        held = {
            name: api.value(axes[axis.name]) for name, axis in kernel.captured if axis.name in axes
        }
        constants = {**held, **bound.constants}
        if not constants and not bound.captured:
            return kernel.kernel.function
        if kernel.node is None:
            raise CompileError(
                "its source is in no file of the project, which is what constants are bound in"
            )
        try:
            return with_constants(kernel.kernel.function, kernel.node, constants, bound.captured)
        except SyntaxError as exc:
            # Python refuses `global alpha` if alpha is a parameter.
            raise CompileError(
                f"{exc.msg}: take the global statement out, a kernel assigns to no globals"
            ) from exc

    def _ptx(self, bound: Binder) -> api.Compiled:
        job, kernel = self._job, self._kernel
        axes = dict(job.variant.constants)
        values = [
            (vars(self._module.modules[module]), name, api.value(axes[axis.name]))
            for module, name, axis in kernel.variables
            if axis.name in axes
        ]
        options = kernel.kernel.options
        request = api.CompileRequest(
            function=self._function(bound),
            symbol=self._symbol,
            arguments=tuple(bound.arguments),
            line=kernel.decl.location.line,
            arch=f"compute_{job.target.number}",
            capability=job.target.cc,
            optimize=self._opt > 0,
            lineinfo=self._lineinfo,
            bounds=job.spec.bounds if options.bounds is None else options.bounds,
            options=options,
            values=values,
        )
        message = (
            f"{job.spec.source.path}: kernel {kernel.decl.name!r} does not compile for {job.target}"
        )
        try:
            with self._module.active():
                return api.compile_ptx(request)
        except Exception as exc:
            raise kernel_error(exc, module=self._module, kernel=kernel, summary=message) from exc

    def _linked(self, compiled: api.Compiled) -> tuple[str, bytes]:
        """Return PTX with all called functions, and for an LTO-IR target one LTO-IR module."""
        job, called = self._job, undefined(compiled.ptx)
        if compiled.needs:
            message = f"numba links {', '.join(compiled.needs)} into it when it is launched, which an image cannot hold"
            fix = "do without the function that needs it (reshape, memory that the kernel allocates, @cuda.jit(link=…))"
            raise CompileError(message, fix=fix)
        if not called and not self._is_lto:
            return compiled.ptx, b""
        arch = f"compute_{job.target.number}"
        parts = [
            Piece(
                name=job.spec.source.path,
                kind="LTOIR",
                data=api.ltoir(compiled.modules, arch, optimize=self._opt > 0),
            )
        ]
        if called:
            parts += pieces(job, called, compiled.sources, self._tools, portable=self._is_lto)
        options = (*self._linking(), *(["-lineinfo"] if self._lineinfo else []))
        done = ltoir.as_one(
            self._tools[LINKER], parts, f"sm_{job.target.number}", options, whole=self._is_lto
        )
        if missing := sorted(undefined(done.text)):
            message = f"it calls {', '.join(missing)}, which is defined nowhere"
            fix = f'define it in CUDA C++, extern "C" __device__, and link that: [kernel.{job.spec.name}] link = ["act.cu"]'
            raise CompileError(message, fix=fix)
        if not done.text:
            message = f"nvJitLink does not link it for {job.target}: {next(iter(done.log.splitlines()), '')}"
            raise CompileError(message, log=done.log)
        # Without optimization, calls of functions that numba itself declares stay indirect too.
        if self._opt and linked(job.spec.source) and (names := misdeclared(done.text, called)):
            message = (
                f"{names[0]} takes or gives back parameters of other sizes than Python declares"
            )
            fix = f'declare it as it is: cuda.declare_device("{names[0]}", "float32(float32)", abi="c") is float {names[0]}(float)'
            raise CompileError(message, fix=fix)
        return done.text, done.ltoir

    def _linking(self) -> tuple[str, ...]:
        """Return the linker options beside the architecture."""
        options = self._kernel.kernel.options
        fast = ("--use_fast_math",) if options.fastmath else ()
        return ltoir.linking(opt=self._opt, flags=fast, registers=options.max_registers)

    def _warnings(self, compiled: api.Compiled) -> tuple[Diagnostic, ...]:
        """Return libNVVM's warnings, and one for grid synchronization in ordinary launches."""
        words = tuple(
            Diagnostic(message=line, severity="warning")
            for line in compiled.log.splitlines()
            if line.strip()
        )
        if not compiled.cooperative or self._job.spec.cooperative:
            return words
        at = self._kernel.decl.location
        message = "the kernel waits for its whole grid, and its launches are not cooperative: they stop with an error"
        hint = "say launch.cooperative = true"
        return (*words, located(self._module.texts, at, message, hint=hint, severity="warning"))


def symbol_of(name: str) -> str:
    """Return a Python name as a C identifier; other characters become their code points."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"_u{ord(c):x}_" for c in name
    )
