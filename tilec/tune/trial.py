"""The result of one candidate of one case, which is also a line of the log."""

from __future__ import annotations

import dataclasses
from statistics import median

from tilec.bench.measure import Measurement
from tilec.model.tuning import Status
from tilec.tune.space import Point


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The result of a candidate.

    Attributes:
        case: name of the bound case. point: of the candidate.
        status: measured, pruned, wrong, failed or hung; `reason` says why for all but the first.
        effort: the part of a full measurement that was made.
        measurement: None if it was not measured.
        variant: id of the variant that ran. cache: how the L2 cache was kept cold.
        device: that measured it; empty for none.
    """

    case: str
    point: Point
    status: Status
    reason: str = ""
    effort: float = 1.0
    measurement: Measurement | None = None
    variant: str = ""
    cache: str = ""
    device: str = ""

    @property
    def seconds(self) -> float:
        """The median of the samples; infinite without a measurement."""
        return median(self.measurement.samples) if self.measurement else float("inf")

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Sort key of a table: measured trials first, with the greatest effort, the fastest."""
        return self.measurement is None, -self.effort, self.seconds
