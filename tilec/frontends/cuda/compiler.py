"""One CUDA C++ job to its image: which program it is in, what its entry point needs, and whether
that is what a launch will pass.
"""

from __future__ import annotations

from tilec.frontends.cuda import mangled
from tilec.frontends.cuda.asked import Asked, Made
from tilec.frontends.cuda.groups import Programs
from tilec.frontends.cuda.linked import LinkedFiles
from tilec.frontends.cuda.program import ProgramCompiler
from tilec.frontends.tools import ltoir, ptx, ptxas, sass
from tilec.frontends.tools.abi import check as check_arguments
from tilec.frontends.tools.abi import derive
from tilec.frontends.tools.cpp import declare, includes
from tilec.frontends.tools.cpp.symbol import bindings, name_expression
from tilec.frontends.tools.machine_code import oldest_cuda
from tilec.model.cpp import cut
from tilec.model.job import Member
from tilec_runtime.bundle.cubin import CubinKernel
from tilec_runtime.errors import BundleError, CompileError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.driver import cuda_of_ptx_isa
from tilec_runtime.model.image import Image, ImageInfo, Resources


class Compiler:
    """Compiles one job; made anew for each."""

    def __init__(self, asked: Asked, files: LinkedFiles, programs: Programs) -> None:
        """Keep the job; `programs` may have the one that it is in."""
        self._asked, self._files = asked, files
        self._job = asked.job
        self._programs = programs

    def run(self) -> Image:
        """The image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: a tool does not start.
        """
        spec, found = self._job.spec, self._asked.found
        expression = name_expression(
            spec.symbol,
            dict(self._job.variant.axes),
            found.decl,
            required=found.required,
            variadic=found.variadic,
        )
        linking = self._linking() if self._asked.lto else ()
        return self._image(
            self._together(expression) or self._program((expression,)), expression, linking
        )

    def _together(self, own: str) -> Made | None:
        """The program of the job's whole group; None where it has none, or where the group does not
        compile as one.
        """
        if not self._job.group or self._asked.options.compiler == "nvcc":
            return None
        try:
            expressions = tuple(dict.fromkeys(map(self._expression, self._job.group)))
        except CompileError:
            return None  # of another kernel, whose job will say it
        attempt = (self._job.target, self._job.spec.max_isa, self._state(expressions))
        if own not in expressions or self._programs.failed == attempt:
            return None
        try:
            return self._program(expressions)
        except CompileError as error:
            if error.overtime:
                raise
            self._programs.failed = attempt
            return None

    def _program(self, expressions: tuple[str, ...]) -> Made:
        wanted = (self._job.target, self._job.spec.max_isa)
        return self._programs.get(
            lambda: self._state(expressions),
            wanted,
            ProgramCompiler(self._asked, self._files, expressions),
        )

    def _state(self, expressions: tuple[str, ...]) -> tuple[object, ...]:
        """Everything that what is compiled depends on, as it is now; the kind of target is not part
        of it.
        """
        job, spec = self._job, self._job.spec
        options = self._asked.options
        files = includes.closure(
            spec.source.root,
            spec.source.path,
            options.include,
            [value for _, value in options.define],
        )
        files += self._files.inputs(spec.source.root, options)
        return (
            spec.source,
            job.target.number,
            spec.opt,
            spec.lineinfo,
            spec.debug,
            expressions,
            tuple(files),
        )

    def _expression(self, member: Member) -> str:
        base, _ = cut(member.symbol)
        found = declare.named(base, self._asked.candidates) or self._asked.found
        return name_expression(
            member.symbol,
            dict(member.axes),
            found.decl,
            required=found.required,
            variadic=found.variadic,
        )

    # --- results
    # ------------------------------------------------------------------------------------------------------------------

    def _image(self, made: Made, expression: str, linking: tuple[str, ...]) -> Image:
        asked, target = self._asked, self._job.target
        symbol = made.symbols.get(expression, "")
        try:
            kernel = made.kernel(expression)
        except BundleError as exc:
            raise asked.error(
                f"the compiled image cannot be read: {exc.what}", log=made.log, command=made.command
            ) from exc
        decl, spec = asked.found.decl, self._job.spec
        bound = bindings(spec.symbol, dict(self._job.variant.axes), decl)
        abi = spec.abi or derive(decl, bound, ptx.entry_params(made.text, symbol) or ())
        try:
            check_arguments(abi, kernel.params, decl, stated=bool(spec.abi))
            mangled.check(abi, symbol, spec.params, dict(self._job.variant.axes), decl)
        except CompileError as exc:
            raise asked.error(
                exc.what,
                diagnostics=exc.diagnostics,
                fix=exc.fix,
                log=made.log,
                command=made.command,
            ) from exc
        data = (
            made.text.encode("utf-8", "surrogateescape")
            if asked.ptx
            else made.ltoir
            if asked.lto
            else made.cubin
        )
        isa = made.isa
        info = ImageInfo(
            target=target,
            digest=sha256(data),
            size=len(data),
            symbol=symbol,
            ptx_isa=asked.tools["libnvrtc"].release if asked.lto else isa,
            cuda=cuda_of_ptx_isa(isa)
            if isa
            else oldest_cuda(self._job, asked.tools["ptxas"].release),
            resources=_resources(kernel, made, symbol),
            max_threads=kernel.max_threads or decl.max_threads,
            required_block=kernel.required_block,
            cluster=self._cluster(kernel, made),
            linking=linking,
            reproducible=not asked.options.unchecked,
        )
        return Image(info=info, data=data, abi=abi, warnings=made.warnings)

    def _linking(self) -> tuple[str, ...]:
        """What a link of the LTO-IR has to be told, which whoever loads it does.

        Raises:
            CompileError: it cannot be said to a linker, or the compiler's LTO-IR is not to be
                shipped.
        """
        options, target = self._asked.options, self._job.target
        if options.compiler == "nvcc":
            what = f'compiler = "nvcc" makes no {target}: its LTO-IR holds paths of this machine, which no build of another one repeats'
            raise self._asked.error(
                what, fix='take compiler = "nvrtc", or compute_NN (PTX), which is put right'
            )
        registers, other = ltoir.registers_of(options.ptxas)
        if other:
            what = f"{other} is a flag of ptxas, and {target} is made into machine code by whoever loads it, without ptxas"
            raise self._asked.error(
                what, fix="take the flag out, or leave lto_NN to other kernels in [[override]]"
            )
        return ltoir.linking(opt=self._job.spec.opt, flags=options.flags, registers=registers)

    def _cluster(self, kernel: CubinKernel, made: Made) -> tuple[int, ...]:
        cluster = self._job.spec.cluster
        asked = (*cluster, 1, 1, 1)[:3] if cluster else ()
        if asked and kernel.cluster and asked != kernel.cluster:
            raise self._asked.error(
                f"the manifest asks for clusters of {_by(asked)}, the source fixes {_by(kernel.cluster)} (__cluster_dims__)",
                fix="make them agree, or leave launch.cluster out: the source's is used",
                log=made.log,
                command=made.command,
            )
        return kernel.cluster


def _resources(kernel: CubinKernel, made: Made, symbol: str) -> Resources:
    if made.libraries:  # assembled by the linker, which does not say
        return sass.resources(made.cubin, kernel)
    return kernel.resources(ptxas.spills(made.log, symbol, ptx.calls(made.text, symbol)))


def _by(dims: tuple[int, ...]) -> str:
    return "x".join(str(d) for d in dims)
