"""What `tilec bench` does for one case: inputs, rivals, samples in turn, rates; and again, where it
looks slower than what was saved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from tilec.bench.device import HOST_LAUNCHES
from tilec.bench.gate import LIMIT
from tilec.bench.libraries import Call, Contender
from tilec.bench.measure import ClockReading, MeasureOptions, measure_together
from tilec.bench.place import Place, Timed
from tilec.bench.report import CaseBench, RivalResult, ratio_of
from tilec.bench.rivals import Rival, function_of, read_rival
from tilec.bench.saved import Saved, held_against
from tilec.bench.work import Ceilings, Work, amount_of, rates_of
from tilec.case.cases import BoundCase
from tilec.case.counting import require_countable
from tilec.case.inputs import Value, environment, make_inputs
from tilec.case.reference import References
from tilec_runtime.errors import CaseError, ExpressionError, Location, MissingError, TilecError
from tilec_runtime.model import expr
from tilec_runtime.model.digest import canonical_json, sha256

# What a launch costs the host: so many samples, as long as the device does not take longer than
# this for all of them.
HOST_SAMPLES, HOST_SECONDS = 15, 0.5
# Measuring stops when intervals are this part of the median wide.
PRECISE = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BenchOptions:
    """How cases are measured.

    Attributes:
        measure: how many samples, and how long.
        against: whether rivals are measured too.
        saved: what to hold cases against; None for nothing.
        limit: part by which a case has to be slower than saved.
    """

    measure: MeasureOptions
    against: bool = True
    saved: Saved | None = None
    limit: float = LIMIT


class Bench:
    """Measures cases at one place.

    Args:
        place: where.
        options: how.
        root: the project's directory, where rivals' files are.
        ceilings: of the device; None where it has none.
    """

    def __init__(
        self, place: Place, options: BenchOptions, *, root: str, ceilings: Ceilings | None
    ) -> None:
        self._place, self._options, self._ceilings = place, options, ceilings
        self._functions = References(root, role="rival")

    def case(self, case: BoundCase) -> CaseBench:
        """What comes of a case; errors of tilec end up in it."""
        reason = self._place.refusal(case)
        if reason:
            return CaseBench(name=case.name, kernel=case.kernel, status="skipped", reason=reason)
        try:
            require_countable(case)
            inputs = make_inputs(case)
            found = self._measured(case, inputs)
            if self._options.saved is not None:
                found = held_against(
                    found,
                    self._options.saved,
                    lambda: self._measured(case, inputs),
                    self._options.limit,
                )
        except TilecError as error:
            return CaseBench(name=case.name, kernel=case.kernel, status="error", error=error)
        return found

    def _measured(self, case: BoundCase, inputs: Mapping[str, Value]) -> CaseBench:
        work = work_of(case, inputs)
        against = case.bench.against if case.bench and self._options.against else ()
        with self._place.timed(case, inputs) as timed:
            rivals = [self._rival(case, text, inputs) for text in against]
            running = [rival for rival in rivals if not isinstance(rival, RivalResult)]
            mine, *theirs = measure_together(
                [timed, *(contender for _, _, contender in running)],
                self._options.measure,
                clock=self._place.clock,
            )
            host = host_cost(timed, median(mine.samples), self._place.clock)
        measured = {id(entry): found for entry, found in zip(running, theirs, strict=True)}
        results = []
        for rival in rivals:
            if isinstance(rival, RivalResult):
                results.append(rival)
                continue
            text, by, contender = rival
            found = measured[id(rival)]
            ratio, interval = ratio_of(found.samples, mine.samples)
            results.append(
                RivalResult(
                    text=text,
                    by=by,
                    measurement=found,
                    ratio=ratio,
                    interval=interval,
                    note=contender.note,
                )
            )
        return CaseBench(
            name=case.name,
            kernel=case.kernel,
            variant=timed.variant.id,
            code=timed.code,
            inputs=inputs_digest(case),
            cache=timed.cache,
            measurement=mine,
            host=host,
            work=work,
            rates=rates_of(work, median(mine.samples), self._ceilings),
            rivals=tuple(results),
        )

    def _rival(
        self, case: BoundCase, text: str, inputs: Mapping[str, Value]
    ) -> RivalResult | tuple[str, str, _Guarded]:
        """A rival that is ready to be timed, or why it cannot be."""
        rival = rival_of(case, text)
        try:
            library = self._place.library(rival.library)
            call = self._call(case, rival, library.module, tuple(inputs))
            contender = self._place.contender(library, call, case, inputs)
            contender.seconds(2)
        except MissingError as error:
            return RivalResult(text=text, reason=error.what)
        except TilecError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what a library raises is no failure of the kernel
            return RivalResult(text=text, reason=_raised(error))
        return text, library.title, _Guarded(contender, case, text)

    def _call(self, case: BoundCase, rival: Rival, module: Any, inputs: Sequence[str]) -> Call:
        if not rival.reference:
            return function_of(
                rival, module, inputs, case=case.name, location=place_of(case, rival.text)
            )
        where = place_of(case, rival.text)
        found = dataclasses.replace(
            case, reference=rival.reference, keys={("reference",): where} if where else {}
        )
        function = self._functions.load(found)
        taken = [parameter.name for parameter in inspect.signature(function).parameters.values()]
        for name in taken:
            if name not in inputs:
                what = f"{case.name}: against {rival.text!r}: it takes {name!r}, which is no input of the case"
                raise CaseError(
                    what,
                    location=where,
                    fix=f"its parameters are called as inputs are: {', '.join(inputs)}",
                )
        return lambda values: function(**{name: values[name] for name in taken})


class _Guarded:
    """A rival that worked at first. What it raises later on is an error of its case, whose samples
    cannot be taken in turn any more.
    """

    def __init__(self, contender: Contender, case: BoundCase, text: str) -> None:
        self._contender, self._case, self._text = contender, case, text

    @property
    def note(self) -> str:
        """What makes its times doubtful."""
        return self._contender.note

    def seconds(self, launches: int) -> float:
        """Seconds of so many launches."""
        try:
            return self._contender.seconds(launches)
        except TilecError:
            raise
        except (Exception, SystemExit) as error:
            what = f"{self._case.name}: against {self._text!r}: {_raised(error)}"
            raise CaseError(
                what,
                location=place_of(self._case, self._text),
                fix="measure without rivals: --no-against",
            ) from error

    def clocks(self) -> ClockReading | None:
        """The clocks now."""
        return self._contender.clocks()


def _raised(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0]
    return f"it raised {type(error).__name__}: {line}"


def rival_of(case: BoundCase, text: str) -> Rival:
    """An entry of `against`, read.

    Raises:
        CaseError: it is none.
    """
    return read_rival(
        text, [param.name for param in case.params], case=case.name, location=place_of(case, text)
    )


def place_of(case: BoundCase, text: str) -> Location | None:
    """Where an entry of `against` is written."""
    return (
        case.place("bench", "against", case.bench.against.index(text))
        if case.bench
        else case.location
    )


def check_rivals(cases: Sequence[BoundCase]) -> None:
    """Read what cases are held against, before anything is measured.

    Raises:
        CaseError: an entry is none.
    """
    for case in cases:
        for text in case.bench.against if case.bench and case.params else ():
            rival_of(case, text)


def host_cost(timed: Timed, each: float, clock: Callable[[], float]) -> float | None:
    """What a launch costs the host: the median of some samples, fewer and shorter ones of launches
    that keep the device busy for long.

    None where that says nothing.
    """
    launches = max(1, min(HOST_LAUNCHES, int(HOST_SECONDS / HOST_SAMPLES / each)))
    samples = max(1, min(HOST_SAMPLES, int(HOST_SECONDS / (launches * each))))
    costs = [
        cost for _ in range(samples) if (cost := timed.host_seconds(launches, clock)) is not None
    ]
    return median(costs) if costs else None


def work_of(case: BoundCase, inputs: Mapping[str, Value]) -> Work:
    """What a launch of a case does, as the case says."""
    return planned_work(case, environment(case, inputs))


def planned_work(case: BoundCase, env: Mapping[str, Any]) -> Work:
    """The same, out of what expressions see.

    Raises:
        CaseError: an expression has no value with these inputs.
    """
    amounts: dict[str, float | None] = {"flops": None, "bytes": None}
    for key in amounts:
        text = getattr(case.bench, key, "")
        if not text:
            continue
        try:
            amounts[key] = amount_of(expr.parse(text).evaluate(env))
        except ExpressionError as error:
            raise CaseError(
                f"{case.name}: bench.{key} = {text!r}: {error.what}",
                location=case.place("bench", key),
            ) from error
        if amounts[key] is None:
            raise CaseError(
                f"{case.name}: bench.{key} = {text!r} is no amount",
                location=case.place("bench", key),
            )
    return Work(flops=amounts["flops"], bytes=amounts["bytes"], dtype=_product_dtype(case, env))


def _product_dtype(case: BoundCase, env: Mapping[str, Any]) -> str:
    """The dtype that would bound the case, were it a matrix product: that of the largest tensor
    which it reads.
    """
    outs = set(case.outs)
    tensors = [
        (env[param.name].nbytes, param.dtype)
        for param in case.params
        if hasattr(env.get(param.name), "nbytes") and param.name not in outs
    ]
    return max(tensors, key=lambda pair: pair[0])[1] if tensors else ""


def inputs_digest(case: BoundCase) -> str:
    """What the inputs of a case are made of: other sizes, dtypes or contents are other
    measurements.
    """
    with contextlib.suppress(ValueError):
        # What is held against a reference is none of what is measured.
        rows = [
            {key: value for key, value in dataclasses.asdict(item).items() if key != "small"}
            for item in case.inputs
        ]
        steps = [
            [[name, one.name, one.value] for name, one in step.arguments] for step in case.steps
        ]
        files, choose = [list(pair) for pair in case.files], [list(pair) for pair in case.choose]
        return sha256(canonical_json([rows, files, choose, *steps]))[:16]
    return ""
