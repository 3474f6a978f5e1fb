"""What an index says of a kernel's safety: a part of its row, which kernels of languages that prove nothing do not have."""

from __future__ import annotations

from tilec_runtime.bundle.codec import enumeration, flag, identifier, optional, record, sequence, text
from tilec_runtime.bundle.format import EXPRESSION, LOCATION
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety

SAFETY = record(
    Safety,
    facts=sequence(
        record(
            Fact,
            guarantee=enumeration(Guarantee),
            what=text(most=10_000),
            location=optional(LOCATION),
            in_helper=flag,
        ),
        most=100_000,
    ),
    regions=sequence(record(Region, param=identifier, tile=sequence(EXPRESSION, most=3), mapped=flag), most=4096),
    checks=enumeration(Checks),
)
