"""Thousands of random programs: the same ones for a seed, with a line now and then, and a failure
as short as it can be made.
"""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from tests.programs.many import Program, carry_out_many, drawn

NAMES = ["make", "drop", "read"]


def test_programs_are_the_same_for_a_seed_however_many_there_are() -> None:
    few: list[Program] = []
    many: list[Program] = []
    carry_out_many(lambda program, _: few.append(program), NAMES, 3, 7)
    carry_out_many(lambda program, _: many.append(program), NAMES, 30, 7)
    assert many[:3] == few
    assert len({str(program) for program in many}) == 30
    assert drawn(NAMES, 8, 0) != drawn(NAMES, 7, 0)


def test_a_program_that_fails_is_made_short_by_its_own_failure_alone() -> None:
    """Another failure, and what the first one's frames keep, are none of it."""
    kept: list[weakref.ref[np.ndarray]] = []

    def attempt(program: Program, pace: int) -> None:
        assert all(ref() is None for ref in kept), "something is left"
        thing = np.zeros(1)
        kept.append(weakref.ref(thing))
        steps = [name for name, _ in program]
        if "make" not in steps:
            raise OSError("nothing was made")
        if "read" in steps[steps.index("make") :]:
            raise OSError("read what was made")

    words = (
        r"^program 0 of seed 7 fails at pace \d+, and so does \[\('make', \d+\), \('read', \d+\)\]"
    )
    with pytest.raises(AssertionError, match=rf"{words}: OSError\('read what was made'\)"):
        carry_out_many(attempt, NAMES, 5, 7)
