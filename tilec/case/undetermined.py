"""Find results that depend on values that Tile IR leaves undetermined.

The case runs with other values in these elements each time. What differs in a stored bit depends on
them: an element that `where` masks away, or that is never stored, makes no difference.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.compare import differing
from tilec.case.inputs import Array, make_inputs
from tilec.case.run import Device, arguments_on
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind
from tilec_runtime.cpu.tileir.faults import location
from tilec_runtime.cpu.tileir.frame import TURNS, Frame, Grid, Site, Undetermined, coordinates
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.errors import FaultError

_Outcome = Mapping[str, Array] | FaultError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An operation that read undetermined elements.

    Attributes:
        op: the operation. grid: of the launch. parameter: of the kernel, whose memory it reads.
    """

    op: Op
    grid: Grid
    parameter: str


class Fills:
    """What undetermined elements hold in the launches of some devices (`CpuOptions.undetermined`).

    Attributes:
        wish: for the next launches.
        sources: operations that read such elements since `forget`, in order.
        passes: passes of loops that the next launches may make in all; None for no such limit.
    """

    def __init__(self) -> None:
        self.wish = Undetermined(turn=None)
        self.sources: dict[Site, Source] = {}
        self.passes: int | None = None

    def __call__(self) -> Undetermined:
        """What the next launch gets."""
        return dataclasses.replace(self.wish, reached=self._reach)

    def forget(self) -> None:
        """Start with another case: its undetermined elements are zeros at first."""
        self.wish, self.passes = Undetermined(turn=None), None
        self.sources.clear()

    def spent(self) -> bool:
        """Count a pass of a loop; whether there were too many (`CpuOptions.cancelled`)."""
        if self.passes is None:
            return False
        self.passes -= 1
        return self.passes < 0

    def _reach(self, op: Op, frame: Frame, address: int) -> None:
        launch = frame.launch
        if (launch.kernel, op.number) not in self.sources:
            region = launch.memory.nearest(address)
            self.sources[launch.kernel, op.number] = Source(
                op=op, grid=launch.grid, parameter=region.name if region is not None else ""
            )


class Comparison:
    """Runs one case with several values in undetermined elements.

    Args:
        case: the case. device: launches it, with the values of `fills`.
        fills: knows which operations read such elements, from a run that was watched.
        steps: passes of loops that the search for the operation may make, over all of its runs.
    """

    def __init__(self, case: BoundCase, device: Device, fills: Fills, steps: int) -> None:
        self._case = case
        self._device = device
        self._fills = fills
        self._steps = steps
        self._inputs = make_inputs(case)

    def findings(self) -> tuple[Finding, ...]:
        """Compare runs with zeros, with each rotation of the pattern, and with one value alone.

        There is a finding for each operation that changes a result.

        Raises:
            FaultError: the launch does not come to its end with zeros either.
        """
        zeros = self._run(Undetermined(turn=None))
        if isinstance(zeros, FaultError):
            raise zeros
        for turn in range(TURNS):
            other = self._run(Undetermined(turn=turn))
            if _differ(zeros, other):
                return self._at_fault(zeros, other)
        return ()

    def _at_fault(self, zeros: _Outcome, every: _Outcome) -> tuple[Finding, ...]:
        """Fill one operation at a time.

        What only several of them change together is one finding that names them all.
        """
        self._fills.passes = self._steps
        sources = dict(self._fills.sources)
        found = tuple(
            finding
            for site, source in sources.items()
            if (finding := self._alone(site, source, zeros)) is not None
        )
        if found:
            return found
        site, first = next(iter(sources.items()))
        places = ", ".join(f"{location(one.op)}" for one in sources.values() if one.op.loc)
        why = (
            f"; the cause is one of these places, or several together: {places}"
            if len(sources) > 1
            else ""
        )
        return (_described(site, first, zeros, every, None, why),)

    def _alone(self, site: Site, source: Source, zeros: _Outcome) -> Finding | None:
        """Return the finding of an operation that changes a result without any other.

        None where it does not, or where the search takes too many passes.
        """
        for turn in range(TURNS):
            other = self._run(Undetermined(turn=turn, site=site))
            if self._exhausted:
                return None
            if _differ(zeros, other):
                return self._finding(site, source, turn, zeros, other)
        return None

    def _finding(
        self, site: Site, source: Source, turn: int, zeros: _Outcome, other: _Outcome
    ) -> Finding:
        """The finding of one operation, with the first block whose elements make a difference."""
        # With the blocks below `low` filled nothing differs, with those below `high` something
        # does.
        low, high = 0, math.prod(source.grid)
        while high - low > 1:
            middle = (low + high) // 2
            differs = _differ(zeros, self._run(Undetermined(turn=turn, site=site, blocks=middle)))
            if self._exhausted:
                return _described(site, source, zeros, other, None, "")
            low, high = (low, middle) if differs else (middle, high)
        return _described(site, source, zeros, other, high - 1, "")

    @property
    def _exhausted(self) -> bool:
        return self._fills.passes is not None and self._fills.passes < 0

    def _run(self, wish: Undetermined) -> _Outcome:
        """What the case's outputs are with these values, or how the launch fails."""
        self._fills.wish = wish
        arguments = arguments_on(self._case, self._device, self._inputs)
        try:
            self._device.launch(self._case.kernel, arguments, dict(self._case.choose))
        except FaultError as error:
            return error
        return {name: self._device.from_device(arguments[name]) for name in self._case.outs}


def _differ(one: _Outcome, other: _Outcome) -> bool:
    if isinstance(one, FaultError) or isinstance(other, FaultError):
        return type(one) is not type(other)
    return any(bool(differing(array, other[name]).any()) for name, array in one.items())


def _described(
    site: Site, source: Source, zeros: _Outcome, other: _Outcome, block: int | None, why: str
) -> Finding:
    """Describe which result depends on which elements, with both values.

    `block` is the number of the block, None if unknown.
    """
    assert not isinstance(zeros, FaultError)
    if math.prod(source.grid) == 1:
        block = 0
    elements, hint = _elements(source)
    if isinstance(other, FaultError):
        what, count = f"the launch ends because of {elements}: {other.what}", 1
    else:
        name, off = next(
            (name, off)
            for name, array in zeros.items()
            if (off := differing(array, other[name])).any()
        )
        count = sum(int(differing(array, other[name]).sum()) for name, array in zeros.items())
        place = int(np.flatnonzero(off)[0])
        index = ", ".join(str(int(n)) for n in np.unravel_index(place, zeros[name].shape))
        values = zeros[name].reshape(-1)[place], other[name].reshape(-1)[place]
        what = f"{name}[{index}] depends on {elements}: it is {values[0]} with 0 there and {values[1]} with garbage"
    return Finding(
        kind=FindingKind.UNDETERMINED,
        what=what + why,
        location=source.op.loc,
        kernel=site[0],
        block=() if block is None else coordinates(source.grid, block),
        parameter=source.parameter,
        count=count,
        hint=hint,
    )


def _elements(source: Source) -> tuple[str, str]:
    """The undetermined elements of an operation in words, and what determines them."""
    name = source.parameter or "its array"
    if source.op.name == "load_view_tko":
        hint = "give the load a padding_mode, or choose other values with ct.where before these are used"
        return f"elements beyond the edge of {name}, which the load leaves undetermined", hint
    if source.op.name == "load_ptr_tko":
        return (
            f"elements of {name} that the load's mask leaves out, without a padding value",
            "give the load a padding value",
        )
    return (
        f"what the atomic on {name} gives where its mask leaves it out",
        "choose other values with ct.where before these are used",
    )
