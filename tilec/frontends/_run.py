"""Runs a compiler as a subprocess, with a time limit that ends its whole process group."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tilec.errors import ToolchainError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """What a tool left behind: its output as text, its exit status (negative: killed by that signal), and whether it ran out of time."""

    stdout: str
    stderr: str
    rc: int
    timed_out: bool = False


def run_tool(argv: Sequence[str], *, timeout: float, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Completed:
    """Run a tool to its end, or until `timeout` seconds have passed.

    The tool gets a process group of its own, and all of it is killed at the time limit or when this process is interrupted. `env` is the
    whole environment (none by default), so that variables such as NVCC_APPEND_FLAGS never change what is built.

    Raises:
        ToolchainError: the tool cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env or {}),
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise ToolchainError(f"cannot start {argv[0]}: {exc}", fix="check that the tool is executable, or reinstall it") from exc
    timed_out = False
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill_group(process.pid)
        stdout, stderr = process.communicate()
    except BaseException:
        _kill_group(process.pid)
        process.communicate()
        raise
    return Completed(
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        rc=process.returncode,
        timed_out=timed_out,
    )


def command_line(argv: Sequence[str]) -> str:
    """`argv` as a line that a shell takes."""
    return shlex.join(argv)


def _kill_group(pid: int) -> None:
    # The tool leads its own group; its children may outlive it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
