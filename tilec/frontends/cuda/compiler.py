"""Compile a CUDA C++ job: pick its program, check its entry point, make its image."""

from __future__ import annotations

from tilec.frontends.cuda import mangled
from tilec.frontends.cuda.job import CudaJob, DeviceCompile
from tilec.frontends.cuda.program import ProgramCompiler, Programs
from tilec.frontends.tools import ltoir, ptx
from tilec.frontends.tools.abi import check as check_arguments
from tilec.frontends.tools.abi import derive
from tilec.frontends.tools.cpp import declare
from tilec.frontends.tools.cpp.symbol import compiled_params, expand, name_expression
from tilec.frontends.tools.machine_code import Code, check_cluster, finished
from tilec.model.cpp import cut
from tilec.model.job import Member
from tilec_runtime.errors import CompileError
from tilec_runtime.model.image import Image


class Compiler:
    """Compiles one job."""

    def __init__(self, job: CudaJob, programs: Programs) -> None:
        """Store the job; `programs` may have cached its program."""
        self._cuda, self._job = job, job.job
        self._programs = programs

    def run(self) -> Image:
        """Return the image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        expression = name_expression(
            self._job.spec.symbol, dict(self._job.variant.constants), self._cuda.kernel
        )
        linking = self._linking() if self._cuda.lto else ()
        program = self._group_program(expression)
        if program is None:
            program = self._programs.get(ProgramCompiler(self._cuda, (expression,)))
        return self._image(program, expression, linking)

    def _group_program(self, own: str) -> DeviceCompile | None:
        """Return the program of the job's group, or None if the group does not compile as one."""
        if not self._job.group or self._cuda.options.compiler == "nvcc":
            return None
        expressions = tuple(dict.fromkeys(map(self._expression, self._job.group)))
        compiler = ProgramCompiler(self._cuda, expressions)
        attempt = (compiler.target, compiler.state())
        if own not in expressions or self._programs.failed == attempt:
            return None
        try:
            return self._programs.get(compiler)
        except CompileError as error:
            if error.overtime:
                raise
            self._programs.failed = attempt
            return None

    def _expression(self, member: Member) -> str:
        base, _ = cut(member.symbol)
        kernel = declare.named(base, self._cuda.candidates)
        if kernel is None:  # the parser does not see it (a macro): use the manifest's symbol
            return expand(member.symbol, dict(member.axes))
        return name_expression(member.symbol, dict(member.axes), kernel)

    def _image(self, program: DeviceCompile, expression: str, linking: tuple[str, ...]) -> Image:
        cuda, spec = self._cuda, self._job.spec
        symbol, kernel, decl = program.symbols[expression], program.kernels[expression], cuda.kernel
        axes = dict(self._job.variant.constants)
        try:
            sizes = ptx.entry_params(program.text, symbol) or ()
            abi = spec.abi or derive(compiled_params(decl, symbol), sizes)
            check_arguments(abi, kernel.params, decl, stated=bool(spec.abi))
            mangled.check(abi, symbol, spec.params, axes, decl)
            check_cluster(spec.cluster, kernel, "source")
        except CompileError as exc:
            exc.log, exc.command = program.log, program.command
            raise
        nvcc = cuda.options.compiler == "nvcc"
        code = Code(
            text=program.text,
            symbol=symbol,
            abi=abi,
            warnings=program.warnings,
            ltoir=program.ltoir if cuda.lto else b"",
            ltoir_release=cuda.tools["libnvrtc"].release if cuda.lto else None,
            linking=linking,
            # nvcc writes the path of its temporary source into debug information.
            reproducible=not cuda.options.unchecked and not (spec.debug and nvcc),
        )
        release = cuda.tools["ptxas"].release
        return finished(
            self._job, code, kernel, cubin=program.cubin, log=program.log, release=release
        )

    def _linking(self) -> tuple[str, ...]:
        """Return the linker options that an LTO-IR image records.

        Raises:
            CompileError: a flag has no linker option, or nvcc is the compiler.
        """
        options, target = self._cuda.options, self._job.target
        if options.compiler == "nvcc":
            raise CompileError(
                f'compiler = "nvcc" makes no {target}: its LTO-IR holds paths of this machine',
                fix='take compiler = "nvrtc", or compute_NN (PTX), which is put right',
            )
        registers, other = ltoir.registers_of(options.ptxas)
        if other:
            raise CompileError(
                f"{other} is a flag of ptxas, which does not run when {target} is loaded",
                fix="take the flag out, or leave lto_NN to other kernels in [[override]]",
            )
        return ltoir.linking(opt=self._job.spec.opt, flags=options.flags, registers=registers)
