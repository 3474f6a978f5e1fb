"""A worker process and its channel: the owner's side and the worker's side.

A worker has a session of its own, so that Ctrl-C reaches the build only. Its tools and their
children stay in its process group: one SIGKILL to the group ends all of them.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from tilec.compile.own import own_command

_LOG_LIMIT = 64 << 10
_LONGEST_WAIT = 1e6  # seconds; poll(2) counts milliseconds in 32 bits
_EXIT_LIMIT = 1.0  # seconds between the end of a worker's messages and its exit

# Otherwise NumPy's BLAS starts a thread per core in every worker, which compilers do not need.
_DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}
# With PYTHONOPTIMIZE, images would depend on the user's environment, since compilers read
# docstrings and assertions of kernels. The others are credentials of a remote cache, whose URL may
# have a password: a worker executes kernel modules, which may print them into logs.
_LEFT_OUT = frozenset(
    (
        "PYTHONOPTIMIZE",
        "TILEC_REMOTE_CACHE",
        "TILEC_REMOTE_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_SAS_TOKEN",
    )
)
# Proxies may have a password too, and no compiler opens a connection.
_PROXIES = frozenset(("http_proxy", "https_proxy", "all_proxy", "ftp_proxy"))


class WorkerDiedError(Exception):
    """The worker ended; the message is such as `was killed by SIGSEGV`."""


class WorkerProcess:
    """The owner's side of a worker.

    Any thread may call `kill`; one thread calls the other methods.

    Args:
        setup: first message to the worker.
        log: file for the worker's output.
        environ: environment of the worker.
        module: module whose `main` the worker runs.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(
        self,
        setup: object,
        *,
        log: Path,
        environ: Mapping[str, str],
        module: str = "tilec.compile.worker",
    ) -> None:
        self.log = log
        self._killing = threading.Lock()
        inherited = {
            name: value
            for name, value in environ.items()
            if name not in _LEFT_OUT and name.lower() not in _PROXIES
        }
        self._channel, theirs = Pipe()
        with theirs, log.open("ab") as stream:
            self._process = subprocess.Popen(
                own_command(module, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                cwd=log.parent,
                env={**_DEFAULTS, **inherited, "TMPDIR": str(log.parent), "PYTHONHASHSEED": "0"},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self.send(setup)

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the group and the session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process runs; a dead one is not reaped, since `kill` does that."""
        return self._process.returncode is None and not self._exited()

    def send(self, message: object) -> None:
        """Send a message. Do nothing if the worker is dead; `receive` reports its death."""
        with contextlib.suppress(OSError):
            self._channel.send(message)

    def receive(self, timeout: float) -> Any:
        """Return the next message, or None after `timeout` seconds.

        Raises:
            WorkerDiedError: the worker ended, or sent an invalid message.
        """
        try:
            if not self._channel.poll(min(max(0.0, timeout), _LONGEST_WAIT)):
                return None
            return self._channel.recv()
        except (EOFError, OSError) as exc:
            raise WorkerDiedError(self._wait_for_exit()) from exc
        except Exception as exc:  # unpickling may run code of other packages
            message = f"sent what cannot be read ({type(exc).__name__}: {exc})"
            raise WorkerDiedError(message) from exc

    def clear_log(self) -> None:
        """Clear the log."""
        with contextlib.suppress(OSError):
            os.truncate(self.log, 0)

    def printed(self) -> str:
        """Return the end of the log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_LIMIT))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def kill(self) -> None:
        """Kill the worker and its children; a second call does nothing."""
        with self._killing:
            if self._process.returncode is None:
                # The process is not reaped yet, so its group id cannot belong to another process.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
                self._process.wait()

    def _wait_for_exit(self) -> str:
        """Wait for the worker's exit, kill its children, and return how it ended."""
        deadline = time.monotonic() + _EXIT_LIMIT
        while not self._exited():
            if time.monotonic() > deadline:
                self.kill()
                return "closed its connection"
            time.sleep(0.005)
        self.kill()
        code = self._process.returncode
        if code >= 0:
            return f"exited with status {code}"
        known = {number.value: number.name for number in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"

    def _exited(self) -> bool:
        try:
            return bool(os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        except ChildProcessError:  # another thread has reaped it
            return True


def connect() -> tuple[Connection, queue.SimpleQueue[bytes]]:
    """Set up this worker process; return its channel and its queue of messages.

    The messages are pickled.
    """
    channel = Connection(int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faulthandler.enable()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, inbox), daemon=True).start()
    return channel, inbox


def _listen(channel: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Queue messages until the owner closes its end; then kill this process and tools."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            inbox.put(channel.recv_bytes())
    if os.getpgrp() == os.getpid():  # a worker started by hand is in the shell's group
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
