"""Compiles jobs of the triton frontend: bind, PTX by Triton, machine code by ptxas, read back, check."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools import abi as abi_module
from tilec.frontends.tools import ptx
from tilec.frontends.tools import ptxas as ptxas_module
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.python_errors import line_of
from tilec.frontends.tools.search import Tool, require
from tilec.frontends.triton import api as api
from tilec.frontends.triton.bind import Bound, bind, mapped
from tilec.frontends.triton.declare import Declared, declared
from tilec.frontends.triton.errors import kernel_error, native_diagnostics
from tilec_runtime.bundle.cubin import CubinKernel, read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.driver import cuda_of_ptx_isa, ptx_isa_of_cuda
from tilec_runtime.model.expr import DESCRIPTOR
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.job import Job, Source
from tilec_runtime.model.kernel import KernelDecl
from tilec_runtime.model.signature import SCRATCH
from tilec_runtime.model.suggest import did_you_mean

# From here on, Triton makes code of exactly one compute capability: it uses what only an `a` target has.
EXACT: Version = (9, 0)
_OPTIONS = {"fp_fusion": "enable_fp_fusion"}


class Compiler:
    """Declares and compiles. Modules are executed once per process and state of their files."""

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools."""
        self._search = search
        self._ptxas: Tool | None = None
        self._declared: dict[tuple[str, str], tuple[LoadedModule, dict[str, Declared]]] = {}

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The kernels among the module's attributes, in order of appearance; the module is executed.

        Raises:
            CompileError: it cannot be; with the user's line.
            ToolchainError: Triton is missing.
        """
        return tuple(d.decl for d in self._kernels(source, again=True)[1].values())

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest do not fit together, or a compiler refuses the kernel.
            ToolchainError: a tool is missing.
        """
        module, kernels = self._kernels(job.spec.source, again=False)
        kernel = _pick(job, module, kernels)
        return _Compile(job, module, kernel, self._tool()).run()

    def _kernels(self, source: Source, *, again: bool) -> tuple[LoadedModule, dict[str, Declared]]:
        api.load()
        with api.environment():
            module = load(source, again=again)
        key = (source.root, source.path)
        known = self._declared.get(key)
        if known is None or known[0] is not module:
            known = self._declared[key] = (module, declared(module))
        return known

    def _tool(self) -> Tool:
        if self._ptxas is None:
            self._ptxas = require(("ptxas",), self._search, digest=False)["ptxas"]
        return self._ptxas


class _Compile:
    """One job."""

    def __init__(self, job: Job, module: LoadedModule, kernel: Declared, ptxas: Tool) -> None:
        self._job, self._module, self._kernel, self._tool = job, module, kernel, ptxas
        self._is_ptx = job.target.kind is TargetKind.PTX

    def run(self) -> Image:
        """The image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: ptxas does not start.
        """
        job = self._job
        bound = bind(job, self._kernel)
        made = self._ptx(bound)
        self._check_scratch(made)
        abi = mapped(bound.abi, made.maps)
        if abi is None:
            wanted = sum(slot.type == DESCRIPTOR for slot in bound.abi)
            raise self._error(f"Triton made {len(made.maps)} tensor maps for {wanted} descriptors", fix="report it, with the kernel")
        if made.scratch:  # the first of the two hidden addresses
            place = len(abi) - api.HIDDEN
            abi = (*abi[:place], dataclasses.replace(abi[place], type=f"{SCRATCH}:{made.scratch}"), *abi[place + 1 :])
        bound = dataclasses.replace(bound, abi=abi)
        places = ((job.spec.source.root, ""),)
        text = ptx.relative_files(made.ptx, places)
        assembled = self._assemble(text, made)
        try:
            entry = read_cubin(assembled.cubin).kernel(made.symbol)
        except BundleError as exc:
            raise self._error(f"the image that ptxas made cannot be read: {exc.what}", log=assembled.log) from exc
        self._check_abi(bound, entry)
        self._check_shared(made.shared + entry.shared)
        warned = native_diagnostics(made.log, self._module.texts, severity="warning")
        return self._image(text, assembled, made, entry, bound, warned)

    def _image(
        self,
        text: str,
        assembled: ptxas_module.Assembled,
        made: api.Made,
        entry: CubinKernel,
        bound: Bound,
        warned: tuple[Diagnostic, ...],
    ) -> Image:
        target = self._job.target
        data = text.encode() if self._is_ptx else assembled.cubin
        isa = ptx.isa(text) if self._is_ptx else None
        spills = ptxas_module.spills(assembled.log, made.symbol, ptx.calls(text, made.symbol))
        info = ImageInfo(
            target=target,
            digest=sha256(data),
            size=len(data),
            symbol=made.symbol,
            exact=not self._is_ptx and not target.suffix and target.cc >= EXACT,
            ptx_isa=isa,
            cuda=cuda_of_ptx_isa(isa) if isa else max(target.arch.toolkit, (self._tool.release[0], 0)),
            resources=dataclasses.replace(entry.resources(spills), shared=entry.shared + made.shared),
            max_threads=entry.max_threads,
            required_block=entry.required_block,
            cluster=(made.clusters, 1, 1) if made.clusters > 1 else (),
            block=(made.threads, 1, 1),
            dynamic_shared=made.shared,
        )
        return Image(info=info, data=data, abi=bound.abi, warnings=warned)

    # --- compilers ----------------------------------------------------------------------------------------------------------------

    def _ptx(self, bound: Bound) -> api.Made:
        job = self._job
        asked = api.Asked(
            kernel=self._kernel.kernel,
            types=bound.types,
            constants=bound.constants,
            divisible=bound.divisible,
            options=self._options(),
            capability=job.target.cc[0] * 10 + job.target.cc[1],
            ptx_isa=self._isa(),
            lineinfo=job.spec.lineinfo,
            debug=job.spec.debug,
        )
        what = f"{job.spec.source.path}: kernel {job.spec.decl.name!r} does not compile for {job.target}"
        try:
            with self._module.active():
                return api.compile_ptx(asked)
        except CompileError:
            raise
        except Exception as exc:
            error = kernel_error(exc, module=self._module, kernel=self._kernel, what=what)
            error.kernel, error.target = job.variant.id, str(job.target)
            absent = ", ".join(fact.param for fact in job.variant.assume if fact.absent)
            if absent and "NoneType" in error.what and error.diagnostics:
                hint = f"{absent} may be None, and is in this variant: use it under `if … is not None`, or take optional out of params"
                error.diagnostics = (dataclasses.replace(error.diagnostics[0], hint=hint), *error.diagnostics[1:])
            raise error from exc

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {}
        for name, value in self._job.hints:
            if name not in api.HINTS:
                known = did_you_mean(name, api.HINTS).removeprefix("; ") or f"the hints of Triton kernels are {', '.join(api.HINTS)}"
                raise self._error(f"unknown hint {name!r} for {self._job.target}", fix=known)
            fits = value in (0, 1) if name == "fp_fusion" else value > 0
            if not fits or (name in ("num_warps", "num_ctas") and value & (value - 1)):
                rule = "0 or 1" if name == "fp_fusion" else "a power of two" if name in ("num_warps", "num_ctas") else "at least 1"
                raise self._error(f"the hint {name} is {value}, and must be {rule}", fix=f"change [kernel.{self._job.spec.name}.hints]")
            options[_OPTIONS.get(name, name)] = bool(value) if name == "fp_fusion" else value
        return options

    def _isa(self) -> Version:
        """The PTX ISA to write: the assembler's own, or for PTX that is shipped the newest that the oldest driver reads."""
        job, release = self._job, self._tool.release
        own = ptx_isa_of_cuda(release) if release != (0, 0) else job.target.ptx_isa
        bound = job.spec.max_isa
        if not self._is_ptx or bound is None or own <= bound:
            return own
        if bound < job.target.ptx_isa:
            need = ".".join(map(str, job.target.ptx_isa))
            raise self._error(
                f"min-driver reads PTX up to ISA {bound[0]}.{bound[1]}, {job.target} needs ISA {need}",
                fix=f"raise min-driver, or take {job.target} out of the targets",
            )
        return bound

    def _assemble(self, text: str, made: api.Made) -> ptxas_module.Assembled:
        job = self._job
        number = f"{job.target.cc[0]}{job.target.cc[1]}{'a' if job.target.cc >= EXACT else ''}"
        # As Triton itself calls it: --regAllocOptLevel works around a fault of its allocator.
        extra = [*([] if made.fusion else ["--fmad=false"]), "--regAllocOptLevel=2"]
        done = ptxas_module.assemble(
            self._tool.path,
            text,
            arch=f"sm_{number}",
            opt=job.spec.opt,
            lineinfo=job.spec.lineinfo,
            debug=job.spec.debug,
            extra=extra,
            timeout=job.spec.timeout,
        )
        if done.timed_out:
            raise self._error(
                f"ptxas took longer than {job.spec.timeout:g} s and was ended", fix="raise timeout in [toolchain]", overtime=True
            )
        if not done.cubin:
            first = ptx.first_complaint(done.log)
            raise self._error(f"ptxas refuses the PTX that Triton made: {first}", log=done.log, command=done.command)
        return done

    # --- checks -------------------------------------------------------------------------------------------------------------------

    def _check_scratch(self, made: api.Made) -> None:
        if made.profile:
            raise self._error(
                f"each program of the kernel needs {made.profile} bytes of the profiler's memory, which launches do not bring along",
                fix="take what Triton's profiler records out of the kernel",
            )

    def _check_abi(self, bound: Bound, entry: CubinKernel) -> None:
        job = self._job
        try:
            abi_module.check(bound.abi, entry.params, job.spec.decl, stated=bool(job.spec.abi))
        except CompileError as exc:
            raise self._error(exc.what, fix=exc.fix) from exc

    def _check_shared(self, needed: int) -> None:
        most = self._job.target.arch.shared_block
        if needed > most and not self._is_ptx:
            raise self._error(
                f"a block needs {needed} bytes of shared memory, and {self._job.target} has {most}",
                cause="the tiles of all stages of the pipeline are in shared memory at once",
                fix="take smaller tiles or fewer num_stages, for this target in hints, or exclude the variant in [[override]]",
            )

    def _error(
        self, what: str, *, cause: str = "", fix: str = "", log: str = "", command: str = "", overtime: bool = False
    ) -> CompileError:
        job, at = self._job, self._kernel.decl.location
        excerpt = line_of(self._module.texts, at.file, at.line)
        return CompileError(
            f"kernel {job.spec.decl.name!r}: {what}",
            diagnostics=(Diagnostic(message=what, location=at, excerpt=excerpt, hint=fix),),
            cause=cause,
            fix=fix,
            log=log,
            command=command,
            kernel=job.variant.id,
            target=str(job.target),
            overtime=overtime,
        )


def _pick(job: Job, module: LoadedModule, kernels: Mapping[str, Declared]) -> Declared:
    name = job.spec.decl.name
    found = kernels.get(name)
    if found is None:
        what = f"{module.source.path} has no Triton kernel {name!r}; it has {', '.join(kernels) or 'none'}"
        hint = did_you_mean(name, kernels).removeprefix("; ") or "kernels are functions with the decorator @triton.jit"
        at = job.spec.decl.location
        raise CompileError(what, diagnostics=(Diagnostic(message=what, location=at, hint=hint),))
    return found
