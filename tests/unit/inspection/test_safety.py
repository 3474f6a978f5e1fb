"""What inspect tells of a kernel's safety: facts of the source, what a launch checks, and what
nobody does.
"""

from __future__ import annotations

import dataclasses

from tests.bundle_samples import Sample
from tilec.inspection.safety import safety_facts
from tilec_runtime.errors import Location
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import Param, ParamKind

AT = Location(file="kernels/add.py", line=9, column=5)
FACTS = (
    Fact(
        guarantee=Guarantee.KERNEL,
        what="x.load_tile at kernels/add.py:9: each tile begins in x",
        location=AT,
    ),
    Fact(guarantee=Guarantee.CONSTRUCTION, what="x is only read"),
)
SAFE = dataclasses.replace(
    Sample().kernel("add", tile=True),
    safety=Safety(facts=FACTS, regions=(Region(param="y", tile=("B", "16")),), checks=Checks.DENY),
)


def told(kernel, guarantee):
    return [fact.what for fact in safety_facts(kernel) if fact.guarantee is guarantee]


def test_facts_of_the_source_and_of_the_launch() -> None:
    assert told(SAFE, Guarantee.CONSTRUCTION) == ["x is only read"]
    assert told(SAFE, Guarantee.KERNEL) == [
        "x.load_tile at kernels/add.py:9: each tile begins in x"
    ]
    assert told(SAFE, Guarantee.NONE) == []
    assert told(SAFE, Guarantee.LAUNCH) == [
        "number, dtypes, ranks, devices and layouts of the arguments",
        "y: overlaps no other argument, nor itself",
        "y: the grid is that of its tiles of B x 16",
        "x.shape[0] == y.shape[0]",
        *(
            f"add-{dtype}-B{size} is chosen only where x: shape divisible by 16, stride by 16, base by 16"
            for dtype in ("f16", "f32")
            for size in (64, 128)
        ),
    ]


def test_guarantees_nothing_that_the_language_does_not_state() -> None:
    plain = Sample().kernel("rmsnorm")
    with_address = dataclasses.replace(
        plain, params=(*plain.params, Param(name="p", kind=ParamKind.PTR))
    )
    assert told(with_address, Guarantee.NONE) == [
        "what the kernel reads and writes, and in which order: cuda sources do not say (unchecked)",
        "p: an address, whose memory nothing is known of",
    ]
    assert told(with_address, Guarantee.CONSTRUCTION) == []


def test_shares_are_told_by_their_own_grid() -> None:
    shared = dataclasses.replace(
        SAFE, safety=Safety(regions=(Region(param="y", tile=("B", "16"), mapped=True),))
    )
    assert "y: the blocks that share its tiles are numbered along one dimension" in told(
        shared, Guarantee.LAUNCH
    )
