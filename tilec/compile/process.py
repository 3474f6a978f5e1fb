"""One worker process as the build sees it: start it, talk to it, end it with all its children, and
say how it died.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilec.compile import wire
from tilec.compile.child import own_command

_LOG_LIMIT = 64 << 10

# NumPy's BLAS would start a thread for every core in every worker, and compilers have no use for
# one.
_FRUGAL = {"OPENBLAS_NUM_THREADS": "1"}


class WorkerProcess:
    """A worker that leads a session, so that Ctrl-C reaches the build alone.

    All that it runs stays in its process group: one SIGKILL to the group ends it with its tools and
    their children. A worker whose build is gone reads the end of its standard input and kills the
    group itself, so that no death of the build leaves a process.

    Args:
        setup: its first message.
        log: file that gets everything it prints.
        environ: its environment.
        module: whose `main` it runs.

    Raises:
        OSError: no process could be started.
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
        self._frames = wire.Frames()
        # Compilers of Python read docstrings and assertions of kernels, and what is built does not
        # depend on the user's environment.
        inherited = {name: value for name, value in environ.items() if name != "PYTHONOPTIMIZE"}
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                own_command(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                cwd=log.parent,
                env={**_FRUGAL, **inherited, "TMPDIR": str(log.parent), "PYTHONHASHSEED": "0"},
                start_new_session=True,
                bufsize=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self.send(wire.pack(setup))

    @property
    def running(self) -> bool:
        """Whether it was not found dead yet; its id is its own as long as this is so."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Its process id, which is that of its group and session too."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor that its messages come from."""
        return self._stdout.fileno()

    def send(self, data: bytes) -> None:
        """Send a packed message; one to a dead worker is lost, and `receive` tells of the death."""
        with contextlib.suppress(BrokenPipeError):
            wire.write_all(self._stdin.fileno(), data)

    def clear_log(self) -> None:
        """Forget what it printed so far (the log is opened for appending, so the worker goes on at
        the start).
        """
        with contextlib.suppress(OSError):
            os.truncate(self.log, 0)

    def printed(self) -> str:
        """The end of what it printed since the log was cleared."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_LIMIT))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def receive(self) -> list[Any] | None:
        """The messages that have come; None when it closed its end, which means that it is dead or
        as good as dead.

        Raises:
            Exception: what unpickling a message raised.
        """
        try:
            data = os.read(self._stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._frames.feed(data)
        messages = []
        while (message := self._frames.next()) is not None:
            messages.append(pickle.loads(message))  # noqa: S301  (from the process that this one started)
        return messages

    def death(self) -> str:
        """Kill what is left of it, and say how it ended: `was killed by SIGSEGV`, `exited with
        status 3`.
        """
        deadline = time.monotonic() + 1.0
        # Without reaping it, so that its group's id cannot be given to anybody else before the
        # group is killed.
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() > deadline:
                    self.kill()
                    return "closed its connection"
                time.sleep(0.005)
        self.kill()
        code = self._process.returncode
        if code < 0:
            return f"was killed by {signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'}"
        return f"exited with status {code}"

    def reap(self) -> None:
        """Wait for its end, and close what it was talked to through."""
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    def kill(self) -> None:
        """End it and its children now."""
        kill_all([self])


def kill_all(workers: Sequence[WorkerProcess]) -> None:
    """End workers and all their children now."""
    for worker in workers:
        if worker.running:
            # No worker was reaped yet, so that the id of a dead one's group belongs to nobody else.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
    for worker in workers:
        worker.reap()
