"""Compile jobs of the triton frontend to PTX; `machine_code` makes the image of the PTX."""

from __future__ import annotations

import dataclasses

from tilec.frontends.tools import ptx
from tilec.frontends.tools.machine_code import Code, image, shipped_isa
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.search import Tool
from tilec.frontends.triton import api
from tilec.frontends.triton.bind import Binder, bind
from tilec.frontends.triton.declare import TritonKernel
from tilec.frontends.triton.errors import kernel_error, native_diagnostics
from tilec.model.argument import DESCRIPTOR
from tilec.model.job import Job
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.driver import ptx_isa_of_cuda
from tilec_runtime.model.image import Image
from tilec_runtime.model.signature import SCRATCH, AbiSlot

# From this compute capability on, Triton uses instructions of `a` targets: the code runs on exactly
# one architecture.
EXACT: Version = (9, 0)
_OPTIONS = {"fp_fusion": "enable_fp_fusion"}


class JobCompiler:
    """Compiles one job."""

    def __init__(self, job: Job, module: LoadedModule, kernel: TritonKernel, ptxas: Tool) -> None:
        self._job, self._module, self._kernel, self._tool = job, module, kernel, ptxas

    def run(self) -> Image:
        """Return the image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: ptxas does not start.
        """
        job, target = self._job, self._job.target
        bound = bind(job, self._kernel)
        compiled = self._ptx(bound)
        most = target.arch.shared_block
        if target.kind is not TargetKind.PTX and compiled.shared > most:
            raise CompileError(
                f"a block needs {compiled.shared} bytes of shared memory, and {target} has {most}",
                cause="the tiles of all stages of the pipeline are in shared memory at once",
                fix="take smaller tiles or fewer num_stages, for this target in hints, or exclude the variant in [[override]]",
            )
        code = Code(
            text=ptx.relative_files(compiled.ptx, ((job.spec.source.root, ""),)),
            symbol=compiled.symbol,
            abi=self._abi(bound, compiled),
            warnings=native_diagnostics(compiled.log, self._module.texts, severity="warning"),
            exact=target.kind is not TargetKind.PTX and not target.suffix and target.cc >= EXACT,
            block=(compiled.threads, 1, 1),
            cluster=(compiled.clusters, 1, 1) if compiled.clusters > 1 else (),
            shared=compiled.shared,
        )
        return image(
            job,
            code,
            self._tool,
            maker="Triton",
            arch=f"sm_{target.cc[0]}{target.cc[1]}{'a' if target.cc >= EXACT else ''}",
            opt=job.spec.opt,
            lineinfo=job.spec.lineinfo,
            debug=job.spec.debug,
            # Triton's own flags: --regAllocOptLevel works around a bug of ptxas' allocator.
            flags=[*([] if compiled.fusion else ["--fmad=false"]), "--regAllocOptLevel=2"],
        )

    def _abi(self, bound: Binder, compiled: api.Compiled) -> tuple[AbiSlot, ...]:
        """Return the arguments with the compiler's tensor maps and scratch memory filled in."""
        if compiled.profile:
            message = f"each program of the kernel needs {compiled.profile} bytes of the profiler's memory, which launches do not bring along"
            raise CompileError(message, fix="take what Triton's profiler records out of the kernel")
        maps = [str(tensor_map) for tensor_map in compiled.maps]
        wanted = sum(slot.type == DESCRIPTOR for slot in bound.abi)
        if len(maps) != wanted:
            message = f"Triton made {len(maps)} tensor maps for {wanted} descriptors"
            raise CompileError(message, fix="report it, with the kernel")
        abi = [
            dataclasses.replace(slot, type=maps.pop(0)) if slot.type == DESCRIPTOR else slot
            for slot in bound.abi
        ]
        if compiled.scratch:
            slot = abi[-api.HIDDEN]  # the first of the hidden addresses
            abi[-api.HIDDEN] = dataclasses.replace(slot, type=f"{SCRATCH}:{compiled.scratch}")
        return tuple(abi)

    def _ptx(self, bound: Binder) -> api.Compiled:
        job = self._job
        message = f"{job.spec.source.path}: kernel {job.spec.decl.name!r} does not compile for {job.target}"
        try:
            with self._module.active():
                return api.compile_ptx(
                    self._kernel.kernel,
                    types=bound.types,
                    constants=bound.constants,
                    divisible=bound.divisible,
                    options=self._options(),
                    capability=job.target.cc[0] * 10 + job.target.cc[1],
                    ptx_isa=shipped_isa(job, self._own_isa()),
                    lineinfo=job.spec.lineinfo,
                    debug=job.spec.debug,
                )
        except CompileError:
            raise
        except Exception as exc:
            error = kernel_error(exc, module=self._module, kernel=self._kernel, summary=message)
            absent = ", ".join(fact.param for fact in job.variant.assume if fact.absent)
            if absent and "NoneType" in error.what and error.diagnostics:
                hint = f"{absent} may be None, and is in this variant: use it under `if … is not None`, or take optional out of params"
                error.diagnostics = (
                    dataclasses.replace(error.diagnostics[0], hint=hint),
                    *error.diagnostics[1:],
                )
            raise error from exc

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {}
        for name, value in self._job.hints:
            fits = value in (0, 1) if name == "fp_fusion" else value > 0
            if not fits or (name in ("num_warps", "num_ctas") and value & (value - 1)):
                rule = (
                    "0 or 1"
                    if name == "fp_fusion"
                    else "a power of two"
                    if name in ("num_warps", "num_ctas")
                    else "at least 1"
                )
                raise CompileError(
                    f"the hint {name} is {value}, and must be {rule}",
                    fix=f"change [kernel.{self._job.spec.name}.hints]",
                )
            options[_OPTIONS.get(name, name)] = bool(value) if name == "fp_fusion" else value
        return options

    def _own_isa(self) -> Version:
        release = self._tool.release
        return ptx_isa_of_cuda(release) if release != (0, 0) else self._job.target.ptx_isa
