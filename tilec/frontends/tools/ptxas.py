"""Assemble PTX with ptxas, and read its report."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Sequence

from tilec.frontends.tools.run import run_on_file

_PROPERTIES = re.compile(
    r"Function properties for (\S+)[^\n]*\n[^\n]*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Assembled:
    """A cubin (empty if ptxas failed), the log and the command."""

    cubin: bytes
    log: str
    command: str
    timed_out: bool = False


def assemble(
    ptxas: str,
    text: str,
    *,
    arch: str,
    opt: int,
    lineinfo: bool,
    debug: bool = False,
    extra: Sequence[str],
    timeout: float,
) -> Assembled:
    """Assemble PTX with ptxas.

    Args:
        ptxas: path of ptxas.
        text: the PTX.
        arch: architecture, such as `sm_90a`.
        opt: optimisation level, 0 to 3.
        lineinfo: keep source lines.
        debug: make code for a debugger; `opt` is ignored, since ptxas refuses it with `-g`.
        extra: further flags.
        timeout: seconds.

    Raises:
        ToolchainError: ptxas cannot be started.
    """
    options = ["-lineinfo"] if lineinfo else []
    options += [] if opt >= 3 else [f"-O{opt}"]
    options = ["-g"] if debug else options
    # ptxas writes its command line into the cubin: fixed file names keep it reproducible.
    arguments = [f"-arch={arch}", "-v", *options, *extra, "k.ptx", "-o", "k.cubin"]
    data = text.encode("utf-8", "surrogateescape")
    done, cubin = run_on_file([ptxas, *arguments], "k.ptx", data, "k.cubin", timeout=timeout)
    return Assembled(
        cubin=cubin,
        log=done.stderr + done.stdout,
        command=shlex.join(["ptxas", *arguments]),
        timed_out=done.timed_out,
    )


def spills(log: str, symbol: str, calls: Collection[str] | None = None) -> tuple[int, int] | None:
    """Return the bytes (stored, loaded) that a kernel and the functions it calls spill.

    Args:
        log: the log of ptxas; the result is None if the kernel is not in it.
        symbol: the kernel.
        calls: functions that it may call; None for any.
    """
    # ptxas reports a function after each entry that calls it, with its spills there, or once for
    # all entries.
    parts = _ENTRY.split(log)
    spilled: dict[str, dict[str, tuple[int, int]]] = {}
    anywhere: dict[str, tuple[int, int]] = {}
    for entry, words in zip(["", *parts[1::2]], parts[::2], strict=True):
        spilled[entry] = {m[1]: (int(m[3]), int(m[4])) for m in _PROPERTIES.finditer(words)}
        for name, row in spilled[entry].items():
            anywhere[name] = max(row, anywhere.get(name, row))
    own = spilled.get(symbol, {})
    if symbol not in own:
        return None
    functions = (anywhere.keys() - spilled.keys()) & (
        anywhere.keys() if calls is None else set(calls)
    )
    rows = [own[symbol], *(own.get(name, anywhere[name]) for name in functions)]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)
