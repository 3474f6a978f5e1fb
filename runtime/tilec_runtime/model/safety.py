"""What is known of a kernel's safety: facts, each with how it is made sure of."""

from __future__ import annotations

import enum

from tilec_runtime.errors import Location
from tilec_runtime.values import value_class


class Guarantee(enum.Enum):
    """How a fact is made sure of, strongest first."""

    CONSTRUCTION = "by construction"  # the source cannot say otherwise
    LAUNCH = "checked at launch"
    KERNEL = "checked in the kernel"
    NONE = "not guaranteed"


class Checks(enum.Enum):
    """What becomes of the checks that a kernel needs inside."""

    ON = "on"
    DENY = "deny"  # a kernel that needs any is refused
    OFF = "off"  # they are left out


@value_class(frozen=True, kw_only=True)
class Fact:
    """One fact.

    Attributes:
        guarantee: how it is made sure of.
        what: what is so.
        location: the place in the source that it is about, None for the kernel as a whole.
    """

    guarantee: Guarantee
    what: str
    location: Location | None = None


@value_class(frozen=True, kw_only=True)
class Region:
    """How an output is divided among blocks: into tiles of these extents (names of axes, or
    numbers).

    Each block of the grid has one, or, where `mapped`, a share of them.
    """

    param: str
    tile: tuple[str, ...]
    mapped: bool = False


@value_class(frozen=True, kw_only=True)
class Safety:
    """Everything that is known of a kernel in a language that knows.

    Attributes:
        facts: in the order of the source.
        regions: how its outputs are divided among blocks.
        checks: what became of the checks inside of the kernel.
    """

    facts: tuple[Fact, ...] = ()
    regions: tuple[Region, ...] = ()
    checks: Checks = Checks.ON
