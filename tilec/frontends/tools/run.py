"""Run a compiler as a subprocess, at fixed addresses and with a time limit."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tilec_runtime.errors import ToolchainError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """The result of a tool.

    Attributes:
        stdout, stderr: its output as text.
        rc: its exit status; negative if a signal killed it.
        timed_out: whether it exceeded the time limit.
        fixed: whether it ran without address-space randomization.
    """

    stdout: str
    stderr: str
    rc: int
    timed_out: bool = False
    fixed: bool = True


def run_tool(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run a tool to its end, or until `timeout` seconds have passed.

    A compiler stays in the process group of its worker, so that one signal to the group ends the
    worker, its tools and their children. At the time limit only the tool is killed; processes that
    it started end with the worker, which is not used again (`CompileError.overtime`). If the system
    allows it, the tool runs without address-space randomization, because the output of some
    compilers depends on the order of their pointers.

    Args:
        argv: the command.
        timeout: seconds.
        cwd: directory to run in.
        env: the whole environment (empty by default), so that variables such as NVCC_APPEND_FLAGS
            never change a build.

    Raises:
        ToolchainError: the tool cannot be started.
    """
    try:
        with _fixed_addresses() as fixed:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env or {}),
            )
    except (OSError, ValueError) as exc:
        raise ToolchainError(
            f"cannot start {argv[0]}: {exc}",
            fix="check that the tool is executable, or reinstall it",
        ) from exc
    timed_out = False
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as expired:
        timed_out = True
        _kill(process)
        # Children of the tool may hold the pipes open, so do not wait for more output.
        stdout, stderr = expired.stdout or b"", expired.stderr or b""
    except BaseException:
        _kill(process)
        raise
    return Completed(
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        rc=process.returncode,
        timed_out=timed_out,
        fixed=fixed,
    )


def run_on_file(
    argv: Sequence[str], name: str, data: bytes, output: str, *, timeout: float
) -> tuple[Completed, bytes]:
    """Run a tool in a new directory with one file, and return the bytes of its output file.

    They are empty if it fails. The directory is also the one for temporary files. After a timeout,
    programs that the tool started may write there until their worker ends.

    Raises:
        ToolchainError: the tool cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="tilec-", ignore_cleanup_errors=True) as folder:
        Path(folder, name).write_bytes(data)
        done = run_tool(argv, timeout=timeout, cwd=folder, env={"TMPDIR": folder})
        file = Path(folder, output)
        return done, file.read_bytes() if done.rc == 0 and file.is_file() else b""


_ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF


@contextlib.contextmanager
def _fixed_addresses() -> Iterator[bool]:
    """Start processes of this thread without address-space randomization, in a `with`.

    Yields whether the system allows it. On Linux each thread has a personality; it takes effect at
    the next exec, and a child inherits it from the thread that starts it. Two system calls around
    the start (1 us) thus replace a wrapper such as `setarch -R`, and the rest of this process is
    unaffected.
    """
    personality = _personality()
    before = personality(_ASK)
    # Docker's default seccomp profile refuses the change, by EPERM or by ignoring it: read the
    # value back.
    personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield before >= 0 and bool(personality(_ASK) & _ADDR_NO_RANDOMIZE)
    finally:
        personality(before)


@functools.cache
def _personality() -> Callable[[int], int]:
    function = ctypes.CDLL(None).personality
    function.argtypes, function.restype = [ctypes.c_ulong], ctypes.c_int
    return function


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool and reap it."""
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
