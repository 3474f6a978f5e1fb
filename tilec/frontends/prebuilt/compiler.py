"""Make the image of a prebuilt job: choose its file, compile it if necessary, check it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilec.frontends.prebuilt.choose import Member, choose, members
from tilec.frontends.prebuilt.ptx import PtxModule, read_ptx
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools import abi as arguments
from tilec.frontends.tools import ltoir, ptx, ptxas, sass
from tilec.frontends.tools.compiled_files import FileKind, prebuilt_files
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.machine_code import (
    Code,
    check_cluster,
    finished,
    not_lowered,
    shipped_isa,
    timeout_error,
)
from tilec.frontends.tools.python_errors import located
from tilec.frontends.tools.tileiras import OLDEST_CUDA, bytecode_image, cubin_image
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import Cubin, CubinParam, read_cubin
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.signature import AbiSlot


def compile_job(job: Job, opener: Opener) -> Image:
    """Return the image of a job.

    Raises:
        CompileError: a file is damaged or has another digest than stated, no file fits the target,
            or the code takes other arguments than a launch passes.
        ToolchainError: a tool is missing.
    """
    files = prebuilt_files(job.spec.source)
    pieces = members(files, opener)
    return _Maker(job, choose(job.target, job.spec.symbol, pieces), opener).image()


class _Maker:
    """Makes the image of one job from one piece of code."""

    def __init__(self, job: Job, member: Member, opener: Opener) -> None:
        self._job = job
        self._member = member
        self._opener = opener
        self._path = member.file.path
        self._symbol = job.spec.symbol

    def image(self) -> Image:
        """Return the image."""
        if self._member.form is FileKind.CUBIN:
            return self._of_cubin()
        if self._member.form is FileKind.TILEIR:
            return self._of_bytecode()
        return self._of_ptx()

    # --- machine code

    def _of_cubin(self) -> Image:
        data, cubin, tile = self._member.file.data, self._member.code, self._member.tile
        assert isinstance(cubin, Cubin)
        kernel = cubin.kernel(self._symbol)
        abi = self._checked(kernel.params)
        info = ImageInfo(
            target=self._job.target,
            digest=sha256(data),
            size=len(data),
            symbol=self._symbol,
            exact=tile,
            # Drivers load the cubins of every toolkit of their major version.
            cuda=max(
                self._job.target.arch.toolkit,
                (cubin.toolkit[0], 0),
                OLDEST_CUDA if tile else (0, 0),
            ),
            resources=sass.resources(data, kernel),
            max_threads=kernel.max_threads,
            required_block=kernel.required_block,
            cluster=kernel.cluster,
        )
        check_cluster(self._job.spec.cluster, kernel, "code")
        return Image(info=info, data=data, abi=abi)

    # --- PTX

    def _of_ptx(self) -> Image:
        target = self._job.target
        text, module = self._text(), self._member.code
        if not isinstance(module, PtxModule):
            module = read_ptx(text, self._path)
        entry = next((entry for entry in module.entries if entry.name == self._symbol), None)
        if entry is None:
            names = ", ".join(entry.name for entry in module.entries)
            raise fault(
                self._path,
                f"there is no kernel {self._symbol!r}; there is {names}",
                fix="name one of these in `symbol`",
            )
        isa = shipped_isa(self._job, module.isa)
        lowered = ptx.with_isa(text, isa) if isa != module.isa else text
        done = self._ptxas(lowered)
        if not done.cubin:
            raise self._refused(done, text, lowered)
        kernel = read_cubin(done.cubin).kernel(self._symbol)
        check_cluster(self._job.spec.cluster, kernel, "code")
        lto = target.kind is TargetKind.LTOIR
        code = Code(
            text=lowered,
            symbol=self._symbol,
            abi=self._checked(kernel.params),
            ltoir=self._ltoir() if lto else b"",
            # The file does not record the release that wrote it. This toolkit's linker read it, so
            # its release is new enough.
            ltoir_release=self._opener.tool("libnvJitLink").release if lto else None,
            linking=ltoir.linking(opt=self._job.spec.opt) if lto else (),
        )
        release = self._opener.tool("ptxas").release
        return finished(self._job, code, kernel, cubin=done.cubin, log=done.log, release=release)

    def _ltoir(self) -> bytes:
        return self._opener.ltoir(self._member.file, self._job.target, opt=self._job.spec.opt)

    def _text(self) -> str:
        if self._member.form is FileKind.PTX:
            return self._member.file.text
        spec = self._job.spec
        if self._member.form is FileKind.NVVM and self._job.target.kind is TargetKind.LTOIR:
            return self._text_of_ltoir()
        return self._opener.ptx(
            self._member.file, self._job.target, opt=spec.opt, lineinfo=spec.lineinfo or spec.debug
        )

    def _text_of_ltoir(self) -> str:
        """Return the PTX that a linker makes of libNVVM's LTO-IR.

        Raises:
            CompileError: the IR does not mark the kernel as used, so that the link dropped it.
        """
        ltoir = dataclasses.replace(
            self._member.file,
            kind=FileKind.LTOIR,
            data=self._ltoir(),
            digest=f"{self._member.file.digest}/ltoir",
        )
        text = self._opener.ptx(ltoir, self._job.target, opt=self._job.spec.opt)
        if ptx.entry_params(text, self._symbol) is None:
            message = f"the LTO-IR of this NVVM IR has no kernel {self._symbol!r} any more"
            named = f"[ptr @{self._symbol}]"
            fix = f'mark it as used in the IR: @llvm.used = appending global [1 x ptr] {named}, section "llvm.metadata"'
            raise fault(
                self._path,
                message,
                cause="the linker drops functions that the IR does not mark as used",
                fix=fix,
            )
        return text

    def _ptxas(self, text: str) -> ptxas.Assembled:
        spec = self._job.spec
        done = ptxas.assemble(
            self._opener.tool("ptxas").path,
            text,
            arch=f"sm_{self._job.target.number}",
            opt=spec.opt,
            lineinfo=spec.lineinfo,
            debug=spec.debug,
            extra=(),
            timeout=spec.timeout,
        )
        if done.timed_out:
            message = f"ptxas for {self._job.target}"
            raise timeout_error(message, spec.timeout, log=done.log, command=done.command)
        return done

    def _refused(self, done: ptxas.Assembled, text: str, lowered: str) -> CompileError:
        if text != lowered and self._ptxas(text).cubin:
            error = not_lowered(lowered, ptx.isa(lowered), done.log, done.command)
        else:
            first = ptx.first_complaint(done.log)
            problem = f"ptxas refuses this PTX for {self._job.target}: {first}"
            error = fault(self._path, problem, log=done.log, command=done.command)
        # PTX made from another file has no lines in that file.
        if self._member.form is FileKind.PTX and "(" not in self._path:
            diagnostics = [
                located({self._path: lowered}, Location(file=self._path, line=line), message)
                for message, line in ptx.complaints(done.log)
            ]
            error.diagnostics = tuple(diagnostics) or error.diagnostics
        return error

    # --- Tile IR

    def _of_bytecode(self) -> Image:
        job, data, code = self._job, self._member.file.data, self._member.code
        assert isinstance(code, tuple)
        version, entries = code
        entry = next(entry for entry in entries if entry.name == self._symbol)
        abi = self._checked(arguments.laid_out([(p.size, p.size) for p in entry.params]))
        if job.target.kind is TargetKind.TILEIR:
            return bytecode_image(job, data, symbol=self._symbol, version=version, abi=abi)
        return cubin_image(
            job,
            data,
            symbol=self._symbol,
            abi=abi,
            tileiras=self._opener.tool("tileiras").path,
            opt=job.spec.opt,
            texts={},
        )

    # --- checks

    def _checked(self, params: Sequence[CubinParam]) -> tuple[AbiSlot, ...]:
        abi = arguments.from_code(self._job, params)
        arguments.check(abi, params, self._job.spec.decl, stated=bool(self._job.spec.abi))
        return abi
