"""Finds results that depend on values that Tile IR leaves undetermined.

The case runs with different values in these elements. An element that `where` masks away, or that
is never stored, makes no difference in the outputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.compare import Array, differing
from tilec.case.device import ModuleDevice
from tilec.case.inputs import make_inputs
from tilec.case.run import arguments_on
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind
from tilec_runtime.cpu.tileir.frame import TURNS, Frame, Grid, Site, Undetermined, coordinates
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.errors import FaultError

_Outcome = Mapping[str, Array] | FaultError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An operation that read undetermined elements.

    Attributes:
        op: the operation. grid: of the launch. parameter: whose memory it reads.
    """

    op: Op
    grid: Grid
    parameter: str


class Fills:
    """Values of undetermined elements in launches on a cpu device (`Options.undetermined`).

    Attributes:
        wish: values for the next launches.
        sources: operations that read such elements since `forget`, in order.
        passes: loop iterations that the next launches may make in all; None for no limit.
    """

    def __init__(self) -> None:
        self.wish = Undetermined(turn=None)
        self.sources: dict[Site, Source] = {}
        self.passes: int | None = None

    def __call__(self) -> Undetermined:
        """Return the values of the next launch."""
        return dataclasses.replace(self.wish, reached=self._reach)

    def forget(self) -> None:
        """Start with another case, and with zeros."""
        self.wish, self.passes = Undetermined(turn=None), None
        self.sources.clear()

    def spent(self) -> bool:
        """Count a loop iteration; return whether the limit is reached (`Options.cancelled`)."""
        if self.passes is None:
            return False
        self.passes -= 1
        return self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether the limit of loop iterations was reached."""
        return self.passes is not None and self.passes < 0

    def _reach(self, op: Op, frame: Frame, address: int) -> None:
        launch = frame.launch
        if (launch.options.kernel, op.number) not in self.sources:
            region = launch.memory.nearest(address)
            self.sources[launch.options.kernel, op.number] = Source(
                op=op, grid=launch.grid, parameter=region.name if region is not None else ""
            )


def find_undetermined(
    case: BoundCase, device: ModuleDevice, fills: Fills, steps: int
) -> tuple[Finding, ...]:
    """Run a case with zeros and with garbage in undetermined elements, and compare the outputs.

    Args:
        case: the case.
        device: launches it, with the values of `fills`.
        fills: has the operations that read such elements, from a run under a checker.
        steps: loop iterations that the search for the operation may make, over all of its runs.

    Returns:
        A finding for each operation that changes a result.

    Raises:
        FaultError: the launch faults with zeros too.
    """
    search = _Search(case, device, fills)
    for rotation in range(TURNS):
        other = search.run(Undetermined(turn=rotation))
        if _differ(search.zeros, other):
            fills.passes = steps
            return search.at_fault(other)
    return ()


class _Search:
    """Looks for the operations whose undetermined elements change the outputs of a case."""

    def __init__(self, case: BoundCase, device: ModuleDevice, fills: Fills) -> None:
        self._case = case
        self._device = device
        self._fills = fills
        self._inputs = make_inputs(case)
        zeros = self.run(Undetermined(turn=None))
        if isinstance(zeros, FaultError):
            raise zeros
        self.zeros = zeros

    def run(self, wish: Undetermined) -> _Outcome:
        """Return the outputs with these values, or the fault of the launch."""
        self._fills.wish = wish
        arguments = arguments_on(self._case, self._device, self._inputs)
        try:
            self._device.launch(self._case, arguments)
        except FaultError as error:
            return error
        return {name: self._device.from_device(arguments[name]) for name in self._case.outs}

    def at_fault(self, every: _Outcome) -> tuple[Finding, ...]:
        """Fill one operation at a time; if none changes a result alone, name all of them.

        `every` is the outcome with all of them filled.
        """
        sources = dict(self._fills.sources)
        decisive = [self._alone(site, source) for site, source in sources.items()]
        if any(decisive):
            return tuple(each for each in decisive if each is not None)
        site, first = next(iter(sources.items()))
        why = ""
        if len(sources) > 1:
            locations = ", ".join(f"{one.op.location}" for one in sources.values() if one.op.loc)
            why = f"; the cause is one of these places, or several together: {locations}"
        return (self._finding(site, first, every, None, why),)

    def _alone(self, site: Site, source: Source) -> Finding | None:
        """Return the finding of one operation; None if it changes nothing or the search ends."""
        for rotation in range(TURNS):
            other = self.run(Undetermined(turn=rotation, site=site))
            if self._fills.exhausted:
                return None
            if _differ(self.zeros, other):
                return self._finding(site, source, other, self._block(site, source, rotation))
        return None

    def _block(self, site: Site, source: Source, turn: int) -> int | None:
        """Return the first block whose elements make a difference, by bisection."""
        low, high = 0, math.prod(source.grid)
        while high - low > 1:
            middle = (low + high) // 2
            other = self.run(Undetermined(turn=turn, site=site, blocks=middle))
            if self._fills.exhausted:
                return None
            low, high = (low, middle) if _differ(self.zeros, other) else (middle, high)
        return high - 1

    def _finding(
        self, site: Site, source: Source, other: _Outcome, block: int | None, why: str = ""
    ) -> Finding:
        """Return the finding with both values of a result, 0 and garbage."""
        if math.prod(source.grid) == 1:
            block = 0
        elements, hint = _elements(source)
        message, count = f"the launch ends because of {elements}", 1
        if isinstance(other, FaultError):
            message = f"{message}: {other.what}"
        else:
            masks = {n: differing(array, other[n]) for n, array in self.zeros.items()}
            count = sum(int(mask.sum()) for mask in masks.values())
            name = next(name for name, mask in masks.items() if mask.any())
            zeros = self.zeros[name]
            first = int(np.flatnonzero(masks[name])[0])
            index = ", ".join(str(int(n)) for n in np.unravel_index(first, zeros.shape))
            values = zeros.reshape(-1)[first], other[name].reshape(-1)[first]
            message = f"{name}[{index}] depends on {elements}: it is {values[0]} with 0 there and {values[1]} with garbage"
        return Finding(
            kind=FindingKind.UNDETERMINED,
            what=message + why,
            location=source.op.loc,
            kernel=site[0],
            block=() if block is None else coordinates(source.grid, block),
            parameter=source.parameter,
            count=count,
            hint=hint,
        )


def _differ(zeros: Mapping[str, Array], other: _Outcome) -> bool:
    if isinstance(other, FaultError):
        return True
    return any(bool(differing(array, other[name]).any()) for name, array in zeros.items())


def _elements(source: Source) -> tuple[str, str]:
    """Describe the undetermined elements of an operation, and what would determine them."""
    name = source.parameter or "its array"
    if source.op.name == "load_view_tko":
        hint = "give the load a padding_mode, or choose other values with ct.where before these are used"
        return f"elements beyond the edge of {name}, which the load leaves undetermined", hint
    if source.op.name == "load_ptr_tko":
        hint = "give the load a padding value"
        return f"elements of {name} that the load's mask leaves out, without a padding value", hint
    hint = "choose other values with ct.where before these are used"
    return f"what the atomic on {name} gives where its mask leaves it out", hint
