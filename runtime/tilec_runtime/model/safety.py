"""Safety facts of a kernel, each with the way in which it is guaranteed."""

from __future__ import annotations

import enum

from tilec_runtime.errors import Location
from tilec_runtime.values import value_class


class Guarantee(enum.Enum):
    """The way in which a fact is guaranteed, strongest first."""

    CONSTRUCTION = "by construction"  # the language cannot express a violation
    LAUNCH = "checked at launch"
    KERNEL = "checked in the kernel"
    NONE = "not guaranteed"


class Checks(enum.Enum):
    """The policy for checks inside a kernel."""

    ON = "on"
    DENY = "deny"  # refuse a kernel that needs checks
    OFF = "off"  # leave the checks out


@value_class(frozen=True, kw_only=True)
class Fact:
    """One safety fact.

    Attributes:
        guarantee: the way in which it is guaranteed.
        what: text of the fact.
        location: location in the source, or None for the whole kernel.
    """

    guarantee: Guarantee
    what: str
    location: Location | None = None


@value_class(frozen=True, kw_only=True)
class Region:
    """The partition of an output among blocks, in tiles.

    The extents of the tiles are axis names or numbers.

    Each block writes one tile, or several if `mapped`.
    """

    param: str
    tile: tuple[str, ...]
    mapped: bool = False


@value_class(frozen=True, kw_only=True)
class Safety:
    """All safety facts of a kernel, for languages that have them.

    Attributes:
        facts: facts in the order of the source.
        regions: partitions of its outputs among blocks.
        checks: policy with which the checks inside the kernel were compiled.
    """

    facts: tuple[Fact, ...] = ()
    regions: tuple[Region, ...] = ()
    checks: Checks = Checks.ON
