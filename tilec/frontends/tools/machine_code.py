"""Make an image from the PTX of a kernel: assemble, read back, check."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilec.frontends.tools import abi, ptx, ptxas
from tilec.frontends.tools.search import Tool
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import CubinKernel, read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic
from tilec_runtime.model.arch import TargetKind, Version, dotted
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.driver import cuda_of_ptx_isa, driver_of_ptx_isa
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.signature import AbiSlot


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """A kernel as PTX, with metadata for its image.

    Attributes:
        text: the PTX; for an `lto_NN` target, the PTX that a linker makes from `ltoir`.
        symbol: name of the entry point.
        abi: the arguments that a launch packs.
        warnings: warnings of the compiler.
        ltoir: LTO-IR, for an `lto_NN` target only.
        ltoir_release: toolkit release that wrote the LTO-IR.
        linking: linker options for the LTO-IR.
        exact: whether the machine code runs on exactly this architecture.
        reproducible: whether another build gives the same bytes.
        block: block size that the compiler chose, in threads; may be empty.
        cluster: cluster size that the compiler chose, in blocks; may be empty.
        shared: dynamic shared memory in bytes.
    """

    text: str
    symbol: str
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...] = ()
    ltoir: bytes = b""
    ltoir_release: Version | None = None
    linking: tuple[str, ...] = ()
    exact: bool = False
    reproducible: bool = True
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    shared: int = 0


def image(
    job: Job,
    code: Code,
    tool: Tool,
    *,
    maker: str,
    arch: str,
    opt: int,
    lineinfo: bool,
    debug: bool = False,
    flags: Sequence[str] = (),
) -> Image:
    """Assemble a kernel with ptxas, and return its image.

    Args:
        job: the job.
        code: the kernel.
        tool: ptxas.
        maker: the compiler that made the PTX, for messages.
        arch: architecture for ptxas (`sm_90a`).
        opt: optimisation level, 0 to 3.
        lineinfo: keep source lines.
        debug: make code for a debugger.
        flags: further flags of ptxas.

    Raises:
        CompileError: ptxas refuses the code (with log and command), or the code takes other
            arguments than a launch passes.
        ToolchainError: ptxas does not start.
    """
    done = ptxas.assemble(
        tool.path,
        code.text,
        arch=arch,
        opt=opt,
        lineinfo=lineinfo,
        debug=debug,
        extra=flags,
        timeout=job.spec.timeout,
    )
    if done.timed_out:
        raise timeout_error("ptxas", job.spec.timeout, log=done.log, command=done.command)
    if not done.cubin:
        first = ptx.first_complaint(done.log)
        message = f"ptxas refuses the PTX that {maker} made: {first}"
        raise CompileError(message, log=done.log, command=done.command)
    try:
        entry = read_cubin(done.cubin).kernel(code.symbol)
    except BundleError as exc:
        message = f"the image that ptxas made cannot be read: {exc.what}"
        raise CompileError(message, log=done.log) from exc
    abi.check(code.abi, entry.params, job.spec.decl, stated=bool(job.spec.abi))
    return finished(job, code, entry, cubin=done.cubin, log=done.log, release=tool.release)


def finished(
    job: Job, code: Code, entry: CubinKernel, *, cubin: bytes, log: str, release: Version
) -> Image:
    """Return the image of a kernel that was assembled, read back and checked.

    Args:
        job: the job.
        code: the kernel.
        entry: its entry point in the machine code.
        cubin: the machine code; for PTX and LTO-IR targets only its resources are used.
        log: the log of ptxas.
        release: toolkit release of ptxas.
    """
    is_ptx = job.target.kind is TargetKind.PTX
    isa = ptx.isa(code.text) if is_ptx else None
    spills = ptxas.spills(log, code.symbol, ptx.calls(code.text, code.symbol))
    text = code.text.encode("utf-8", "surrogateescape")
    data = text if is_ptx else code.ltoir or cubin
    info = ImageInfo(
        target=job.target,
        digest=sha256(data),
        size=len(data),
        symbol=code.symbol,
        exact=code.exact,
        ptx_isa=code.ltoir_release or isa,
        cuda=cuda_of_ptx_isa(isa) if isa else oldest_cuda(job, release),
        resources=dataclasses.replace(entry.resources(spills), shared=entry.shared + code.shared),
        max_threads=entry.max_threads,
        required_block=entry.required_block,
        cluster=code.cluster or entry.cluster,
        block=code.block,
        dynamic_shared=code.shared,
        linking=code.linking,
        reproducible=code.reproducible,
    )
    return Image(info=info, data=data, abi=code.abi, warnings=code.warnings)


def oldest_cuda(job: Job, release: Version) -> Version:
    """Return the oldest CUDA release whose driver loads cubins of a toolkit's ptxas.

    Drivers load the cubins of every toolkit of their major version.
    """
    family = (12, 9) if job.target.suffix == "f" else (0, 0)
    return max(job.target.arch.toolkit, (release[0], 0), family)


def shipped_isa(job: Job, own: Version) -> Version:
    """Return the PTX ISA to ship: its own, or the newest that the oldest driver reads.

    Raises:
        CompileError: that driver reads no PTX for the target; the error has no location.
    """
    bound, need = job.spec.max_isa, job.target.ptx_isa
    if job.target.kind is not TargetKind.PTX or bound is None or own <= bound:
        return own
    if bound < need:
        message = (
            f"min-driver reads PTX up to ISA {dotted(bound)}, {job.target} needs ISA {dotted(need)}"
        )
        fix = f"raise min-driver to {driver_of_ptx_isa(need)}, or take {job.target} out of the targets"
        cause = f"{job.target} came with CUDA {dotted(cuda_of_ptx_isa(need))}"
        raise CompileError(
            message, diagnostics=(Diagnostic(message=message, hint=fix),), cause=cause, fix=fix
        )
    return bound


def check_cluster(stated: tuple[int, ...], entry: CubinKernel, owner: str) -> None:
    """Compare `launch.cluster` with the clusters that the code of `owner` fixes.

    Raises:
        CompileError: they differ.
    """
    wanted = (*stated, 1, 1, 1)[:3] if stated else ()
    if wanted and entry.cluster and wanted != entry.cluster:
        mine, theirs = ("x".join(map(str, dims)) for dims in (wanted, entry.cluster))
        raise CompileError(
            f"the manifest asks for clusters of {mine}, the {owner} fixes {theirs}",
            fix=f"make them agree, or leave launch.cluster out: the {owner}'s is used",
        )


def not_lowered(text: str, isa: Version, log: str, command: str) -> CompileError:
    """Return the error for PTX that needs a newer ISA than the driver of min-driver reads."""
    need, lines = ptx.needed_isa(log), text.split("\n")
    quoted = []
    for message, line in ptx.complaints(log):
        shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        quoted.append(f"{message}\n      {shown}" if shown else message)
    listing = "".join(f"\n    {q}" for q in dict.fromkeys(quoted))
    problem = (
        f"the PTX cannot be lowered to ISA {dotted(isa)}, which is what min-driver reads{listing}"
    )
    fix = "raise min-driver, or build this kernel for cubin targets only"
    if need is not None:
        fix = f"it needs ISA {dotted(need)}: raise min-driver to {driver_of_ptx_isa(need)}, or build this kernel for cubin targets only"
    return CompileError(problem, fix=fix, log=log, command=command)


def timeout_error(subject: str, limit: float, *, log: str = "", command: str = "") -> CompileError:
    """Return the error for a step that exceeded its time limit."""
    return CompileError(
        f"{subject} took longer than {limit:g} s and was ended",
        fix="raise timeout in [toolchain], or make the kernel smaller",
        log=log,
        command=command,
        overtime=True,
    )
