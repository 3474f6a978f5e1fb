"""Compile Tile IR bytecode to a cubin with tileiras.

Each run has a private directory, a time limit, and an environment of TMPDIR alone.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping, Sequence

from tilec.frontends.tools import abi as arguments
from tilec.frontends.tools.python_errors import line_of
from tilec.frontends.tools.run import Completed, run_on_file
from tilec.frontends.tools.sass import resources
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import BundleError, CompileError, Diagnostic, Location
from tilec_runtime.model.arch import Version
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.signature import AbiSlot

# Major compute capabilities for which tileiras' output depends on the addresses it runs at.
# Measured with tileiras 13.4 under address-space randomization: an f32 matmul for sm_100 gave 5
# outputs in 8 runs, the f16 matmul of the examples for sm_107 gave 2 in 12; at fixed addresses,
# both gave 1. Other targets of these majors have the same kind of tensor cores, and are assumed to
# vary as well. The f16 matmul and a layer norm gave 1 output in 5 runs for each of sm_80 to sm_90,
# sm_120 and sm_121.
_VARYING_MAJORS = (10, 11)
# The oldest CUDA release whose driver launches tile cubins.
OLDEST_CUDA: Version = (13, 0)
_INPUT, _OUTPUT = "kernel.tileirbc", "kernel.cubin"
_TILEIRAS = re.compile(
    r'loc\((?:[^)]*?\[)?"([^"]+)"(?::(\d+):(\d+))?\]?\):\s*(error|warning|remark|note):\s*(.*)',
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"^\s*(?:tileiras:\s*)?(?:ptxas\s+)?(fatal|error|warning)\s*:\s*(.*)", re.IGNORECASE
)


def bytecode_image(
    job: Job,
    data: bytes,
    *,
    symbol: str,
    version: Version,
    abi: Sequence[AbiSlot],
    warnings: tuple[Diagnostic, ...] = (),
    reproducible: bool = True,
) -> Image:
    """Return the image of portable Tile IR bytecode; `version` is the bytecode's."""
    info = ImageInfo(
        target=job.target,
        digest=sha256(data),
        size=len(data),
        symbol=symbol,
        ptx_isa=version,
        cuda=version,
        reproducible=reproducible,
    )
    return Image(info=info, data=data, abi=tuple(abi), warnings=warnings)


def cubin_image(
    job: Job,
    bytecode: bytes,
    *,
    symbol: str,
    abi: Sequence[AbiSlot],
    tileiras: str,
    opt: int,
    texts: Mapping[str, str],
    warnings: tuple[Diagnostic, ...] = (),
    reproducible: bool = True,
) -> Image:
    """Assemble bytecode for the job's target, check its arguments, and return the image.

    Raises:
        CompileError: tileiras refuses the code, or the entry point takes other arguments than a
            launch passes.
        ToolchainError: it cannot be started.
    """
    spec = job.spec
    # tileiras finds ptxas and libnvvm next to itself.
    command = _command(job, tileiras, opt)
    done, cubin = run_on_file(command, _INPUT, bytecode, _OUTPUT, timeout=spec.timeout)
    if not cubin:
        raise _failure(job, done, tileiras, opt, texts)
    fixed = done.fixed or job.target.cc[0] not in _VARYING_MAJORS
    try:
        entry = read_cubin(cubin).kernel(symbol)
        used = resources(cubin, entry)  # tileiras does not report spills
    except BundleError as exc:
        raise CompileError(
            f"the image that tileiras made cannot be read: {exc.what}",
            cause="another tileiras than expected",
        ) from exc
    arguments.check(abi, entry.params, spec.decl, stated=bool(spec.abi))
    info = ImageInfo(
        target=job.target,
        digest=sha256(cubin),
        size=len(cubin),
        symbol=symbol,
        exact=True,
        cuda=max(job.target.arch.toolkit, OLDEST_CUDA),
        resources=used,
        # Informational: a launch passes a block of (1, 1, 1), and the driver takes block and
        # cluster from the image.
        max_threads=entry.max_threads,
        required_block=entry.required_block,
        cluster=entry.cluster,
        reproducible=reproducible and fixed,
    )
    told = tileiras_diagnostics(done.stderr, texts, severity="warning")
    return Image(info=info, data=cubin, abi=tuple(abi), warnings=warnings + told)


def _command(job: Job, tileiras: str, opt: int) -> list[str]:
    """Return the command that assembles bytecode for the job's target."""
    # With lines, tileiras keeps the PTX text too, which about doubles the size of the cubin.
    options = [f"-O{opt}", *(["--lineinfo"] if job.spec.lineinfo else [])]
    if job.spec.debug:  # only functions and lines are visible: Tile IR has no variables
        options = ["-O0", "--device-debug"]
    return [tileiras, _INPUT, "-o", _OUTPUT, "--gpu-name", str(job.target), *options]


def _failure(
    job: Job, done: Completed, tileiras: str, opt: int, texts: Mapping[str, str]
) -> CompileError:
    kernel, target = job.spec.name, job.target
    log = (done.stderr + done.stdout).strip()
    diagnostics = tileiras_diagnostics(done.stderr, texts)
    cause, fix = "", ""
    if done.timed_out:
        message = f"tileiras took more than {job.spec.timeout:g} s for kernel {kernel!r} on {target}, and was stopped"
        cause = "large tiles take long to compile, most of all for sm_80"
        fix = "use a smaller tile size, or raise [toolchain] timeout"
    elif done.rc < 0:
        message = f"tileiras crashed ({_signal_name(-done.rc)}) on kernel {kernel!r} for {target}"
        cause = "a bug of tileiras, or not enough memory for it"
        fix = "try a smaller tile size or another opt_level, and report the kernel to NVIDIA"
    elif done.rc == 0:
        message = f"tileiras wrote nothing for kernel {kernel!r} on {target}"
        cause = "the disk of the temporary directory is full, or the toolchain is half installed"
    else:
        first = (
            diagnostics[0].message
            if diagnostics
            else (log.splitlines() or [f"exit status {done.rc}"])[-1]
        )
        message = f"tileiras refuses kernel {kernel!r} for {target}: {first}"
    return CompileError(
        message,
        diagnostics=diagnostics,
        log=log,
        command=shlex.join(["tileiras", *_command(job, tileiras, opt)[1:]]),
        cause=cause,
        fix=fix,
        overtime=done.timed_out,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tileiras_diagnostics(
    stderr: str, texts: Mapping[str, str], *, severity: str = "error"
) -> tuple[Diagnostic, ...]:
    """Return the messages of tileiras of one severity as diagnostics.

    A diagnostic has a location if tileiras names a file of the project.
    """
    diagnostics: list[Diagnostic] = []
    for raw in stderr.splitlines():
        located, plain = _TILEIRAS.search(raw), _PLAIN.match(raw)
        if located:
            kind, message = located[4].lower(), located[5].strip()
            line = int(located[2] or 0)
            location = (
                Location(file=located[1], line=line, column=int(located[3] or 0))
                if located[1] in texts
                else None
            )
            excerpt = line_of(texts, located[1], line)
        elif plain:
            kind, message, location, excerpt = plain[1].lower(), plain[2].strip(), None, ""
        else:
            continue
        if kind.replace("fatal", "error") == severity and message:
            diagnostics.append(
                Diagnostic(message=message, location=location, severity=severity, excerpt=excerpt)
            )
    return tuple(dict.fromkeys(diagnostics))
