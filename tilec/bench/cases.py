"""Measures one case of `tilec bench`: inputs, rivals, samples in turn, rates."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from tilec.bench.device import BenchDevice
from tilec.bench.measure import ClockReading, Measurement, MeasureOptions, measure_together
from tilec.bench.report import CaseBench, RivalResult
from tilec.bench.rivals import Rival, function_of, rivals_of
from tilec.bench.saved import Saved, compare_with_saved
from tilec.bench.statistics import ratio_of
from tilec.bench.timer import HOST_LAUNCHES, HostTimer, KernelTimer, RivalTimer
from tilec.bench.work import Ceilings, Work, amount_of, rates_of
from tilec.case.cases import BoundCase
from tilec.case.functions import Functions
from tilec.case.inputs import Value, environment, make_inputs
from tilec_runtime.errors import CaseError, ExpressionError, MissingError, TilecError
from tilec_runtime.model import expr
from tilec_runtime.model.digest import canonical_json, sha256

# Samples of the host's cost of a launch, and their limit in device time.
HOST_SAMPLES, HOST_SECONDS = 15, 0.5
# Measuring stops when intervals are narrower than this part of the median.
PRECISE = 0.01


class Bench:
    """Measures cases on one device.

    Args:
        device: the device.
        measure: number and duration of samples.
        root: the project's directory, for files of rivals.
        ceilings: ceilings of the device, or None.
        against: whether to measure rivals.
        saved: saved times to compare with, or None.
        limit: smallest change against `saved` that counts, as a fraction.
    """

    def __init__(
        self,
        device: BenchDevice,
        measure: MeasureOptions,
        *,
        root: str,
        ceilings: Ceilings | None,
        against: bool,
        saved: Saved | None,
        limit: float,
    ) -> None:
        self._device, self._measure, self._ceilings = device, measure, ceilings
        self._against, self._saved, self._limit = against, saved, limit
        self._functions = Functions(root)

    def case(self, case: BoundCase) -> CaseBench:
        """Measure a case; tilec's errors become its `error`."""
        reason = self._device.refusal(case)
        if reason:
            return CaseBench(name=case.name, kernel=case.kernel, status="skipped", reason=reason)
        try:
            inputs = make_inputs(case)
            result = self._measured(case, inputs)
            if self._saved is None:
                return result
            return compare_with_saved(
                result, self._saved, lambda: self._measured(case, inputs), self._limit
            )
        except TilecError as error:
            return CaseBench(name=case.name, kernel=case.kernel, status="error", error=error)

    def _measured(self, case: BoundCase, inputs: Mapping[str, Value]) -> CaseBench:
        work = planned_work(case, environment(case, inputs))
        against = rivals_of(case) if self._against else ()
        with contextlib.ExitStack() as stack:
            timed = self._device.timed(case, inputs)
            stack.callback(timed.close)
            rivals = [self._rival(case, rival, inputs, stack) for rival in against]
            running = [each for each in rivals if isinstance(each, _Running)]
            mine, *theirs = measure_together(
                [timed, *running], self._measure, clock=self._device.clock
            )
            host = host_cost(timed, median(mine.samples), self._device.clock)
            measured = iter(theirs)
            results = tuple(
                each.result(next(measured), mine) if isinstance(each, _Running) else each
                for each in rivals
            )
        return CaseBench(
            name=case.name,
            kernel=case.kernel,
            variant=timed.variant,
            code=timed.code,
            inputs=inputs_digest(case),
            cache=timed.cache,
            measurement=mine,
            host=host,
            work=work,
            rates=rates_of(work, median(mine.samples), self._ceilings),
            rivals=results,
        )

    def _rival(
        self,
        case: BoundCase,
        rival: Rival,
        inputs: Mapping[str, Value],
        stack: contextlib.ExitStack,
    ) -> RivalResult | _Running:
        """Return a rival that has run once, or the result with the reason why it cannot."""
        try:
            library = self._device.library(rival.library)
            call = function_of(case, rival, library.module, self._functions)
            contender = self._device.contender(library, call, case, inputs)
            stack.callback(contender.close)
            contender.seconds(2)
        except MissingError as error:
            return RivalResult(text=rival.text, reason=error.what)
        except TilecError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a library's error is no failure of the kernel
            return RivalResult(text=rival.text, reason=_raised(error))
        return _Running(case=case, rival=rival, title=library.title, contender=contender)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Running:
    """A rival that has run once.

    A later exception is an error of the case, which measures all contenders in turns.
    """

    case: BoundCase
    rival: Rival
    title: str
    contender: RivalTimer | HostTimer

    def seconds(self, launches: int) -> float:
        try:
            return self.contender.seconds(launches)
        except TilecError:
            raise
        except (Exception, SystemExit) as error:
            raise CaseError(
                f"{self.case.name}: against {self.rival.text!r}: {_raised(error)}",
                location=self.case.location_of(*self.rival.key),
                fix="measure without rivals: --no-against",
            ) from error

    def clocks(self) -> ClockReading | None:
        return self.contender.clocks()

    def result(self, measurement: Measurement, mine: Measurement) -> RivalResult:
        """Return the comparison with the kernel's own measurement."""
        ratio = ratio_of(measurement.samples, mine.samples)
        return RivalResult(
            text=self.rival.text,
            by=self.title,
            measurement=measurement,
            ratio=ratio.ratio,
            interval=ratio.interval,
            note=self.contender.note,
        )


def _raised(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0]
    return f"it raised {type(error).__name__}: {line}"


def host_cost(timed: KernelTimer, each: float, clock: Callable[[], float]) -> float | None:
    """Return the host's seconds for a launch of `each` device seconds, or None if unknown."""
    launches = max(1, min(HOST_LAUNCHES, int(HOST_SECONDS / HOST_SAMPLES / each)))
    samples = max(1, min(HOST_SAMPLES, int(HOST_SECONDS / (launches * each))))
    costs = [timed.host_seconds(launches, clock) for _ in range(samples)]
    known = [cost for cost in costs if cost is not None]
    return median(known) if known else None


def planned_work(case: BoundCase, env: Mapping[str, Any]) -> Work:
    """Return the work of one launch; `env` is what expressions see.

    Raises:
        CaseError: an expression has no value with these inputs.
    """
    amounts: dict[str, float | None] = {"flops": None, "bytes": None}
    for key in amounts:
        text = getattr(case.bench, key, "")
        if not text:
            continue
        problem = "is no amount"
        try:
            amounts[key] = amount_of(expr.parse(text).evaluate(env))
        except ExpressionError as error:
            problem = error.what
        if amounts[key] is None:
            colon = "" if problem == "is no amount" else ":"
            message = f"{case.name}: bench.{key} = {text!r}{colon} {problem}"
            raise CaseError(message, location=case.location_of("bench", key))
    return Work(flops=amounts["flops"], bytes=amounts["bytes"], dtype=_product_dtype(case, env))


def _product_dtype(case: BoundCase, env: Mapping[str, Any]) -> str:
    """Return the dtype of the largest input: a matrix product's ceiling is that of its dtype."""
    tensors = [
        (env[param.name].nbytes, param.dtype)
        for param in case.params
        if not param.out and hasattr(env.get(param.name), "nbytes")
    ]
    return max(tensors, key=lambda pair: pair[0])[1] if tensors else ""


def inputs_digest(case: BoundCase) -> str:
    """Return a digest of sizes, dtypes and contents of inputs: others are other measurements."""
    rows = [dataclasses.asdict(dataclasses.replace(item, small=None)) for item in case.inputs]
    steps = [[[name, one.name, one.value] for name, one in s.arguments] for s in case.steps]
    chosen = [list(pair) for pair in case.choose]
    with contextlib.suppress(ValueError):  # NaN among the values
        return sha256(canonical_json([rows, chosen, *steps]))[:16]
    return ""
