"""The time limit of each case of `tilec run`: a case that hangs is reported, and a new process goes
on with the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.compile.own import own_command
from tilec_runtime.errors import TilecError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.device import KernelCall, ModuleDevice
    from tilec.case.run import CaseResult
    from tilec.case.sanitize import CaseFindings

OPTION = "--continue-from"
# Seconds after which the case under way is named where no terminal shows it.
_LONG = 5.0


@dataclasses.dataclass(kw_only=True, slots=True)
class Ended:
    """What came of the cases that have ended on one device."""

    results: list[CaseResult] = dataclasses.field(default_factory=list)
    findings: list[CaseFindings] = dataclasses.field(default_factory=list)


class Limit:
    """Limits the time of each case of a run.

    Nothing can interrupt a kernel of a GPU but the end of its process. At the limit this process
    reports the case and becomes another one (`exec`), which gets the results so far and goes on
    behind that case. A run in which no case hangs pays for a sleeping thread.

    Args:
        app: this run.
        seconds: of each case; 0 for no limit.
        state: descriptor of the state that an earlier process of this run wrote; -1 for none.

    Attributes:
        ended: what has ended, device by device.
    """

    def __init__(self, app: App, seconds: float, state: int = -1) -> None:
        self.ended: list[Ended] = []
        self._app, self._seconds = app, seconds
        if state >= 0:
            with os.fdopen(state, "rb") as file:
                self.ended = pickle.load(file)  # noqa: S301 - an unnamed file that the process before wrote

    def on(self, place: int) -> Ended:
        """Return what has ended on the device of this number, in the order of the run's devices."""
        while place >= len(self.ended):
            self.ended.append(Ended())
        return self.ended[place]

    @contextlib.contextmanager
    def of(
        self, case: BoundCase, device: ModuleDevice, count: str, hung: Callable[[CaseResult], None]
    ) -> Iterator[None]:
        """Limit one case.

        Args:
            case: the case.
            device: what launches it.
            count: which case it is, such as `2 of 5`.
            hung: gets the result of a case that hangs, before the process is replaced.
        """
        over, lock = threading.Event(), threading.Lock()
        began = time.monotonic()

        def watch() -> None:
            first = min(_LONG, self._seconds) if self._seconds else _LONG
            if not over.wait(first) and not self._app.passing:
                limit = f", hung after {self._seconds:g} s" if self._seconds else ""
                self._app.note(f"running {case.name} ({count}) for {first:g} s{limit}")
            if not self._seconds or over.wait(max(0.0, began + self._seconds - time.monotonic())):
                return
            lock.acquire()  # for good: from here on the case does not end
            if over.is_set():
                lock.release()
                return
            self._replace(lambda: hung(_result(case, device, self._seconds)))

        threading.Thread(target=watch, name=f"tilec limit of {case.name}", daemon=True).start()
        try:
            yield
        finally:
            with lock:
                over.set()

    def _replace(self, report: Callable[[], None]) -> None:
        """Report, and become the process that goes on; without a place for the state, end here."""
        try:
            report()
            with tempfile.TemporaryFile() as file:
                pickle.dump(self.ended, file)
                file.seek(0)
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - a GPU's are closed too, so that its driver ends the kernel
                    with contextlib.suppress(OSError):
                        os.set_inheritable(int(name), int(name) <= 2)
                os.set_inheritable(file.fileno(), True)
                command = own_command("tilec.cli.main", *_words(self._app.words, file.fileno()))
                os.execv(command[0], command)  # noqa: S606 - this very program
        except BaseException as error:  # noqa: BLE001 - nobody else can end this process
            with contextlib.suppress(Exception):
                self._app.warn(f"the other cases are not run, for no process can go on: {error}")
            os._exit(1)


def _words(words: tuple[str, ...], state: int) -> list[str]:
    """The command line of the process that goes on."""
    kept = [word for word in words if not word.startswith(f"{OPTION}=")]
    end = kept.index("--") if "--" in kept else len(kept)
    return [*kept[:end], f"{OPTION}={state}", *kept[end:]]


def _result(case: BoundCase, device: ModuleDevice, seconds: float) -> CaseResult:
    """The result of a case that hangs."""
    from tilec.case.run import CaseResult

    launches = device.launching
    if launches:
        where = f"in {_step_text(case, device, launches)}"
        cause = "a loop of the kernel never ends, or blocks wait for each other"
        fix = "see which loop never ends; if the case needs longer, raise --timeout SECONDS (0 for no limit)"
    else:
        where = "outside of any launch"
        cause = "its inputs, its reference or the comparison take so long"
        fix = "take smaller inputs, or raise --timeout SECONDS (0 for no limit)"
    error = TilecError(
        f"{case.name} did not end within {seconds:g} s: it hangs {where}",
        cause=cause,
        fix=fix,
        kernel=case.kernel,
    )
    return CaseResult(case=case, status="hung", error=error)


def _step_text(case: BoundCase, device: ModuleDevice, launches: tuple[KernelCall, ...]) -> str:
    """The launch that does not end, with its place in a chain."""
    place = device.step_under_way()
    if place is None:
        return f"one of the {len(launches)} steps of the chain {case.kernel}"
    launch = _launch_text(launches[place])
    return (
        f"step {place + 1} of {len(launches)} of the chain {case.kernel}: {launch}"
        if case.steps
        else launch
    )


def _launch_text(call: KernelCall) -> str:
    """A launch with its grid and block."""
    kernel = call.launcher.info.name
    try:
        shape = call.explain().shape
    except TilecError:  # it is told where it is launched
        return f"kernel {kernel}"
    return f"kernel {kernel}, grid {_triple(shape.grid)}, block {_triple(shape.block)}"


def _triple(extents: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, extents))})"
