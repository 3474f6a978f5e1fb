"""Execution of the cases of `tilec run` in order, each within its time limit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tilec.case.cases import BoundCase, small_case
from tilec.case.device import KernelCall, ModuleDevice
from tilec.case.files import storable
from tilec.case.functions import Functions
from tilec.case.inputs import Array, planned_inputs
from tilec.case.run import CaseResult, Save, run_case
from tilec.cli.app import App
from tilec.cli.cases import Opened, package_json
from tilec.cli.devices import NEEDS_GPU
from tilec.cli.run_show import Results, document, summary
from tilec.inspection.why import taken
from tilec.manifest.types import Manifest
from tilec.model.atomic import atomic_write
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import TilecError


class CaseRunner:
    """Runs cases in order and prints each as it ends.

    Args:
        app: run of the command.
        opened: the bundle.
        manifest: manifest of the project, or None.
        device: the device.
        place: the bundle loaded on the device, or None without a bundle.
        cases: cases to run.
        kernels: kernels named on the command line.
        repeat: number of runs of each case with a comparison of bits; None for one run without it.
        timeout: time limit of a case in seconds; 0 for no limit.
        save: directory for outputs, or None.
    """

    def __init__(
        self,
        app: App,
        opened: Opened,
        manifest: Manifest | None,
        device: DeviceInfo,
        place: ModuleDevice | None,
        cases: tuple[BoundCase, ...],
        *,
        kernels: Sequence[str],
        repeat: int | None,
        timeout: float,
        save: Path | None,
    ) -> None:
        self._app, self._opened, self._manifest = app, opened, manifest
        self._device, self._place, self._cases = device, place, cases
        self._kernels, self._repeat, self._timeout = kernels, repeat, timeout
        self._functions = Functions(manifest.root if manifest else str(app.base))
        self._save = _saver(app, save) if save else None
        self._results: list[CaseResult] = []
        self._shown = Results(app, cases)

    def all(self) -> int:
        """Run all cases, print the summary and return the exit code."""
        self._shown.print_head()
        for case in self._cases:
            lacking = self._opened.absence(case)
            if lacking or self._place is None:
                self._end(CaseResult(case=case, status="skipped", reason=lacking))
            else:
                self._end(self._one(case, self._place))
        return self._finish()

    def _one(self, case: BoundCase, device: ModuleDevice) -> CaseResult:
        self._app.status(f"running {case.name} ({len(self._results) + 1} of {len(self._cases)})")
        with self._limit(case, device):
            result = run_case(
                case,
                device,
                self._functions,
                clock=time.perf_counter,
                times=self._repeat,
                save=self._save,
            )
        assert self._opened.bundle is not None
        return _with_variant_note(result, case, self._opened.bundle, self._device)

    def _end(self, result: CaseResult) -> None:
        self._results.append(result)
        self._shown.print(result)

    def _finish(self) -> int:
        code = _exit_code(self._results, self._kernels)
        compiled = self._place.compiled if self._place else ()
        for image in compiled:
            self._app.note(str(image))
        if self._app.json:
            head = package_json(self._opened, self._manifest)
            body = document(self._device, self._results, compiled)
            self._app.document("run", {**head, **body, "ok": code == 0})
        elif code or len(self._results) > 1 or self._results[0].status == "ran":
            self._app.say(summary(self._results, self._device))
        return code

    @contextlib.contextmanager
    def _limit(self, case: BoundCase, device: ModuleDevice) -> Iterator[None]:
        """End the run if a case takes longer than its limit."""
        timer = threading.Timer(self._timeout, self._hang, (case, device))
        timer.daemon = True
        if self._timeout:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _hang(self, case: BoundCase, device: ModuleDevice) -> None:
        """Report a case that hangs and end the process.

        Only the end of the process interrupts a kernel on a GPU, or the thread that waits for it.
        """
        code = 1
        try:
            error = hang_error(case, device, self._timeout)
            self._end(CaseResult(case=case, status="hung", error=error))
            for left in self._cases[len(self._results) :]:
                reason = f"{case.name} hangs"
                self._end(CaseResult(case=left, status="skipped", reason=reason))
            code = self._finish()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _exit_code(results: Sequence[CaseResult], named_kernels: Sequence[str]) -> int:
    """Return the exit code: 1 for a failure, 3 if GPU work was skipped.

    The code is 3 if nothing ran, or a named kernel was skipped for lack of a GPU.
    """
    if any(result.status in ("failed", "error", "hung") for result in results):
        return 1
    skipped = {result.case.kernel for result in results if result.status == "skipped"}
    idle = all(result.status == "skipped" for result in results)
    return NEEDS_GPU if idle or skipped.intersection(named_kernels) else 0


def hang_error(case: BoundCase, device: ModuleDevice, seconds: float) -> TilecError:
    """Return the error of a hanging case, with the launch that does not end."""
    launches = device.launching
    where, cause = "outside of a launch", "its inputs, reference or comparison take that long"
    fix = "take smaller inputs, or raise --timeout SECONDS (0 for no limit)"
    if launches:
        where = f"in {_launch_text(case, device, launches)}"
        cause = "a loop of the kernel never ends, or blocks wait for each other"
        fix = "check the loops of the kernel; if the case needs longer, raise --timeout SECONDS (0 for no limit)"
    message = f"{case.name} did not end within {seconds:g} s: it hangs {where}"
    return TilecError(message, cause=cause, fix=fix, kernel=case.kernel)


def _launch_text(case: BoundCase, device: ModuleDevice, launches: tuple[KernelCall, ...]) -> str:
    """Format as `kernel add, grid (1, 1, 1), block (1, 1, 1)`.

    A chain adds the step.
    """
    index = device.step_under_way()
    if index is None:
        return f"one of the {len(launches)} steps of the chain {case.kernel}"
    call = launches[index]
    text = f"kernel {call.launcher.info.name}"
    with contextlib.suppress(TilecError):  # the launch itself reports it
        shape = call.explain().shape
        text += f", grid {tuple(shape.grid)}, block {tuple(shape.block)}"
    step = f"step {index + 1} of {len(launches)} of the chain {case.kernel}: "
    return f"{step}{text}" if case.steps else text


def _saver(app: App, folder: Path) -> Save:
    """Return a function that writes an output atomically."""

    def save(case: BoundCase, name: str, array: Array) -> None:
        path = folder / f"{case.name.replace('/', '.')}.{name}.npy"
        with atomic_write(path) as file:
            np.save(file, storable(array))
        app.detail(f"wrote {app.show(path)}")

    return save


def _with_variant_note(
    result: CaseResult, case: BoundCase, bundle: Bundle, device: DeviceInfo
) -> CaseResult:
    """Add a note if a case's `small` uses another variant than its `shape`.

    `tilec bench` measures `shape`, so its variant would be measured but never compared.
    """
    if not result.outputs or case.steps or not any(item.small for item in case.inputs):
        return result
    try:
        sizes = [planned_inputs(one) for one in (small_case(case), case)]
    except TilecError:  # the launch of `shape` would fail
        return result
    names = [param.name for param in case.params]
    compared, measured = (
        taken(
            bundle,
            bundle.kernel(case.kernel),
            {name: env[name] for name in names if name in env},
            dict(case.choose),
            device,
        )
        for env in sizes
    )
    if compared is None or measured is None or compared.id == measured.id:
        return result
    note = f"small takes the variant {compared.id}, but shape takes {measured.id}, which was not compared"
    outputs = [dataclasses.replace(one, notes=(*one.notes, note)) for one in result.outputs]
    return dataclasses.replace(result, outputs=tuple(outputs))
