"""The worker process of a tuning: checks and measures candidates on one device."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilec.bench.clocks import Clocks, driver_text, uuid_of
from tilec.bench.measure import measure_together
from tilec.bench.timer import KernelTimer
from tilec.case.cases import BoundCase, small_case
from tilec.case.device import KernelCall, ModuleDevice, calls_of
from tilec.case.files import storable
from tilec.case.inputs import Array, Value, make_inputs
from tilec.case.run import arguments_on, compared
from tilec.compile.process import connect
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.errors import (
    CaseError,
    DriverError,
    KernelCacheError,
    OutOfMemoryError,
    TilecError,
)
from tilec_runtime.launch.load import Module, load
from tilec_runtime.tensors.host import numpy_dtype

_UNALIKE = "it was checked with the extents of small, which take another variant"


def main() -> None:
    """Serve requests until the process that started this one is gone."""
    channel, inbox = connect()
    try:
        worker = Worker(pickle.loads(inbox.get()))  # noqa: S301 - from the process that started this one
    except TilecError as error:
        channel.send(error)
        return
    channel.send(worker.ready)
    while True:
        answer = worker.answer(pickle.loads(inbox.get()))  # noqa: S301
        sys.stderr.flush()
        channel.send(answer)


class Worker:
    """Measures candidates; it keeps the device, and inputs and results of the current case.

    Args:
        device: its name, such as `cuda:1`.

    Raises:
        NoDeviceError: the device cannot be used.
    """

    def __init__(self, device: str) -> None:
        self._driver = driver_of(device)
        self._device = find_device(device, self._driver)
        self._clocks = None if self._device.interprets else Clocks(uuid_of(self._device.ordinal))
        self.ready = wire.Ready(
            device=self._device,
            driver=driver_text(self._device, self._clocks),
            clocks_missing=self._clocks.missing if self._clocks else "",
        )
        self._at: tuple[str, str] = ("", "")
        self._inputs: dict[str, Value] = {}
        self._small: dict[str, Value] = {}  # inputs for the comparison
        self._expected: dict[str, Array] = {}
        # Copies of the arguments for timing; the candidates of a case share them.
        self._sets: list[Mapping[str, Any]] = []

    def answer(self, request: wire.Request) -> wire.Measured:
        """Carry out a request; every failure of a candidate is a result."""
        try:
            return self._measure(request)
        except TilecError as error:
            recovers = isinstance(error, KernelCacheError | OutOfMemoryError)
            fatal = isinstance(error, DriverError) and not recovers
            return wire.Measured(status=Status.FAILED, reason=error.what, fatal=fatal)
        except Exception as error:  # noqa: BLE001 - any failure costs one candidate
            traceback.print_exc()
            return wire.Measured(
                status=Status.FAILED, reason=f"{type(error).__name__}: {error}", fatal=True
            )

    def _measure(self, request: wire.Request) -> wire.Measured:
        self._take(request.subjects[0])
        timers: list[KernelTimer] = []
        checked = ""
        with contextlib.ExitStack() as stack:
            for subject in request.subjects:
                module = load(Bundle.open(Path(subject.bundle)), self._device, driver=self._driver)
                if len(request.subjects) == 1:
                    wrong, checked = self._check(module, subject.case)
                    if wrong:
                        return wire.Measured(status=Status.WRONG, reason=wrong)
                timer = contextlib.closing(self._timed(module, subject.case))
                timers.append(stack.enter_context(timer))
            variant = timers[0].variant
            if checked and variant != checked:
                reason = f"{_UNALIKE}: {checked}, and with shape {variant}"
                return wire.Measured(status=Status.FAILED, reason=reason)
            return wire.Measured(
                status=Status.MEASURED,
                measurements=measure_together(timers, request.options, clock=time.perf_counter),
                variant=variant,
                cache=timers[0].cache,
            )

    def _take(self, subject: wire.Subject) -> None:
        """Make the inputs of the subject's case, unless it is the last one's."""
        at = (subject.case.name, subject.expected)
        if at == self._at:
            return
        self._sets.clear()
        self._inputs = make_inputs(subject.case)
        small = small_case(subject.case)
        self._small = self._inputs if small is subject.case else make_inputs(small)
        self._expected = (
            read_expected(Path(subject.expected), subject.case) if subject.expected else {}
        )
        self._at = at

    def _check(self, module: Module, case: BoundCase) -> tuple[str, str]:
        """Launch once and compare; return the error (empty for none) and the variant."""
        device = ModuleDevice(module, self._driver)
        refusal = device.refusal(case)
        if refusal:
            raise CaseError(refusal)
        arguments = arguments_on(case, device, self._small)
        device.launch(case, arguments)
        (call,) = calls_of(case, module, arguments)
        variant = call.explain().variant.id
        for name, expected in self._expected.items():
            output = compared(case, name, device.from_device(arguments[name]), expected)
            if not output.comparison.ok:
                return output.difference, variant
        return "", variant

    def _timed(self, module: Module, case: BoundCase) -> KernelTimer:
        counter = itertools.count()

        def make() -> Sequence[KernelCall]:
            index = next(counter)
            if index == len(self._sets):
                self._sets.append(
                    arguments_on(case, ModuleDevice(module, self._driver), self._inputs)
                )
            return calls_of(case, module, self._sets[index])

        return KernelTimer(self._device, self._driver, make, clocks=self._clocks)


def read_expected(path: Path, case: BoundCase) -> dict[str, Array]:
    """Return the reference's results by name of output.

    Raises:
        CaseError: the file cannot be read, or has other contents.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [name for name in case.outs if f"out.{name}" in archive]
            return {
                name: archive[f"out.{name}"].view(numpy_dtype(case.dtype_of(name)))
                for name in names
            }
    except Exception as error:
        fix = "prepare the kit or start the tuning again"
        raise CaseError(
            f"{case.name}: the reference's results cannot be read from {path}: {error}", fix=fix
        ) from error


def write_expected(path: Path, case: BoundCase, results: Mapping[str, Array]) -> None:
    """Write a reference's results, rounded to the kernel's dtypes: they are large."""
    rows = {
        f"out.{name}": storable(array.astype(numpy_dtype(case.dtype_of(name))))
        for name, array in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **rows)  # type: ignore[arg-type]
