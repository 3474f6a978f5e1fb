"""An estimate of compile times, which affects only the order of jobs."""

from __future__ import annotations

import math

from tilec.model.job import Job
from tilec_runtime.model.arch import TargetKind

# Seconds for a small job, measured for each compiler on one core.
_BASE = {"tile": 0.1, "cuda": 0.05, "simt": 0.3, "triton": 0.2}
# Measured on the tile examples for six architectures: time grows with the square root of a block's
# elements. It is twice as long without assumptions, and twice as long for Hopper's matrix
# instructions.
_DOUBLES_AT = 2048
_ASSUMING = 0.5
_TARGETS = {("tile", (9, 0)): 2.0}


def expected_seconds(job: Job) -> float:
    """Estimate a job's time.

    The time depends on language, target, assumptions and the product of the constants.
    """
    language = job.spec.language
    sizes = (value for _, value in job.variant.axes if isinstance(value, int) and value > 1)
    work = math.sqrt(min(math.prod(sizes), 1 << 24) / _DOUBLES_AT)
    work *= _TARGETS.get((language, job.target.cc), 1.0)
    if job.variant.assume:
        work *= _ASSUMING
    seconds = _BASE.get(language, 0.2) * (1.0 + work)
    # Portable code skips the assembler.
    return seconds if job.target.kind is TargetKind.CUBIN else seconds * 0.5
