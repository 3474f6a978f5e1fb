"""A device and its worker process, which is killed if it hangs and restarted if it dies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilec.compile.process import WorkerDiedError, WorkerProcess
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec_runtime.errors import NoDeviceError, TilecError, ToolchainError

# Seconds for a worker to import its modules and find its device.
_START_LIMIT = 120.0


class WorkerStoppedError(Exception):
    """The tuning was stopped while a worker was measuring."""


class Workplace:
    """A device and its worker, which starts with the first request.

    Args:
        name: of the device, such as `cuda:1`.
        log: file for what the worker prints.
        environ: of the worker.

    Attributes:
        ready: the worker's facts about the device; None before `start`.
    """

    def __init__(self, name: str, *, log: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self.ready: wire.Ready | None = None
        self._log, self._environ = log, environ
        self._worker: WorkerProcess | None = None
        self._stopped = False

    def start(self) -> wire.Ready:
        """Start the worker, unless it runs.

        Raises:
            NoDeviceError: the device cannot be used (any more).
            ToolchainError: no process can be started.
            WorkerStoppedError: see `stop`.
        """
        if self._worker is not None and self.ready is not None:
            return self.ready
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._worker = WorkerProcess(
                self.name, log=self._log, environ=self._environ, module="tilec.tune.worker"
            )
        except OSError as error:
            raise ToolchainError(
                f"a worker process cannot be started: {error.strerror or error}",
                fix="free processes or memory",
            ) from error
        message = self._receive(_START_LIMIT)
        if isinstance(message, wire.Ready):
            self.ready = message
            return message
        if isinstance(message, TilecError):
            self.close()
            raise message
        death = "did not start in time" if message is None else str(message)
        printed = self._printed()
        self.close()
        raise NoDeviceError(f"the worker of {self.name} {death}{printed}", fix="run `tilec doctor`")

    def ask(self, request: wire.Request, limit: float) -> wire.Measured:
        """Return the answer to a request; a worker that hangs or dies is a failed candidate.

        Raises:
            NoDeviceError: the device cannot be used any more.
            WorkerStoppedError: see `stop`.
        """
        self.start()
        assert self._worker is not None
        self._worker.clear_log()
        self._worker.send(request)
        message = self._receive(limit)
        if message is None:
            self.close()
            return wire.Measured(status=Status.HUNG, reason=f"it did not end within {limit:g} s")
        if isinstance(message, str):
            reason = f"its process {message}{self._printed()}"
            self.close()
            self.start()  # raises if the device is gone, which is not the candidate's fault
            return wire.Measured(status=Status.FAILED, reason=reason)
        answer: wire.Measured = message
        if answer.fatal:
            self.close()
            self.start()
        return answer

    def stop(self) -> None:
        """Let `ask` and `start` raise in the thread that is in them; for any thread."""
        self._stopped = True
        worker = self._worker
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """Kill the worker. May be called more than once, by the thread that asks."""
        worker, self._worker, self.ready = self._worker, None, None
        if worker is not None:
            worker.kill()

    def _receive(self, limit: float) -> Any:
        """Return the next message, a text on how the worker died, or None at the time limit."""
        assert self._worker is not None
        try:
            message = self._worker.receive(limit)
        except WorkerDiedError as error:
            message = str(error)
        if self._stopped:
            self.close()
            raise WorkerStoppedError
        return message

    def _printed(self) -> str:
        lines = self._worker.printed().strip().splitlines() if self._worker else []
        return f": {lines[-1].strip()}" if lines else ""
