"""The entry point of a kernel: it wraps the raw arguments of a launch, and calls the function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import cuda.tile as ct

FIRST = 3
"""In `Wrap.places`: the region begins at index 0 of this axis, and not at a block's index."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wrap:
    """How an argument of the function is made of a raw one.

    Attributes:
        kind: the class; None to pass the raw argument.
        array: its fields after the array: divisors, and whether accesses are checked.
        places: for each axis of an output's region, the axis of the grid or `FIRST`.
        region: the fields of an output after its place.
    """

    kind: Callable[..., object] | None = None
    array: tuple[object, ...] = ()
    places: tuple[int, ...] = ()
    region: tuple[object, ...] = ()


def entry_of(
    function: Callable[..., None], wraps: tuple[Wrap, ...]
) -> Callable[[tuple[object, ...]], None]:
    """Return a function of one tuple, the raw arguments; `wraps` has one item for each."""

    # It calls no other function, because cuda.tile numbers calls in debug information.
    def entry(arguments: tuple[object, ...]) -> None:
        block = (ct.bid(0), ct.bid(1), ct.bid(2), 0)
        wrapped: tuple[object, ...] = ()
        for number in ct.static_iter(range(len(arguments))):
            place: tuple[int, ...] = ()
            for axis in ct.static_iter(wraps[number].places):
                place = (*place, block[axis])
            if ct.static_eval(wraps[number].kind is None):
                made: object = arguments[number]
            elif ct.static_eval(not wraps[number].region):
                made = ct.static_eval(wraps[number].kind)(
                    arguments[number], *ct.static_eval(wraps[number].array)
                )
            else:
                made = ct.static_eval(wraps[number].kind)(
                    arguments[number],
                    *ct.static_eval(wraps[number].array),
                    place,
                    *ct.static_eval(wraps[number].region),
                )
            wrapped = (*wrapped, made)
        function(*wrapped)

    return entry
