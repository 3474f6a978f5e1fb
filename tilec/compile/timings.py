"""The seconds that jobs will probably take. The order of jobs alone depends on it."""

from __future__ import annotations

import math

from tilec.model.job import Job
from tilec_runtime.model.arch import TargetKind

# Seconds for a small job, measured for each compiler on one core.
_BASE = {"tile": 0.1, "cuda": 0.05, "simt": 0.3, "triton": 0.2}
# Measured on the tile examples for six architectures: time grows with the square root of the
# elements in a block, a variant without assumptions takes twice that of one with them, and Hopper's
# matrix instructions double it once more.
_DOUBLES_AT = 2048
_ASSUMING = 0.5
_TARGETS = {("tile", (9, 0)): 2.0}


def expected_seconds(job: Job) -> float:
    """Guess a job's time from language, target, assumptions and its product of tile constants."""
    language = job.spec.language
    sizes = (value for _, value in job.variant.axes if isinstance(value, int) and value > 1)
    work = math.sqrt(min(math.prod(sizes), 1 << 24) / _DOUBLES_AT)
    work *= _TARGETS.get((language, job.target.cc), 1.0)
    if job.variant.assume:
        work *= _ASSUMING
    seconds = _BASE.get(language, 0.2) * (1.0 + work)
    # Portable code is not assembled.
    return seconds if job.target.kind is TargetKind.CUBIN else seconds * 0.5
