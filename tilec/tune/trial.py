"""The result of one candidate of one case, as a value and as a line of the log."""

from __future__ import annotations

import dataclasses
from statistics import median

from tilec.bench.statistics import Summary, summarize
from tilec.model.tuning import Status
from tilec.tune.space import Point

Range = tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The result of a candidate.

    Attributes:
        case: name of the bound case. point: of the candidate.
        status: measured, pruned, wrong, failed or hung; `reason` says why for all but the first.
        effort: the part of a full measurement that was made.
        samples: seconds of one launch. launches: in each sample.
        variant: id of the variant that ran. cache: how the L2 cache was kept cold.
        sm, memory: least and greatest clock in MHz; None where they cannot be read.
        held_back: what throttled the clocks. steady: the device was warm.
        device: that measured it; empty for none.
    """

    case: str
    point: Point
    status: Status
    reason: str = ""
    effort: float = 1.0
    samples: tuple[float, ...] = ()
    launches: int = 0
    variant: str = ""
    cache: str = ""
    sm: Range | None = None
    memory: Range | None = None
    held_back: tuple[str, ...] = ()
    steady: bool = True
    device: str = ""

    @property
    def measured(self) -> bool:
        """Whether it has a time."""
        return self.status is Status.MEASURED

    @property
    def summary(self) -> Summary:
        """Median, interval and outliers of the samples."""
        return summarize(self.samples)

    @property
    def seconds(self) -> float:
        """The median of the samples."""
        return median(self.samples)
