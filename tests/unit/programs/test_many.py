"""Thousands of random programs: the same ones for a seed, with a line now and then, and a failure
as short as it can be made.
"""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from tests.programs.many import Program, carry_out_many, drawn, shorter

NAMES = ["make", "drop", "read"]


def test_programs_are_the_same_for_a_seed_however_many_there_are() -> None:
    few: list[Program] = []
    many: list[Program] = []
    told: list[str] = []
    carry_out_many(lambda program, _: few.append(program), NAMES, 3, 7, told.append)
    carry_out_many(lambda program, _: many.append(program), NAMES, 30, 7, told.append)
    assert many[:3] == few
    assert len({str(program) for program in many}) == 30
    assert [line.split(",")[0] for line in told] == ["3 of 3 programs", "30 of 30 programs"]
    assert all(10 <= len(program) <= 70 for program in many)
    assert drawn(NAMES, 8, 0) != drawn(NAMES, 7, 0)


def test_a_program_that_fails_is_told_and_made_short() -> None:
    def attempt(program: Program, pace: int) -> None:
        steps = [name for name, _ in program]
        if "make" in steps and "read" in steps[steps.index("make") :]:
            raise OSError("read what was made")

    with pytest.raises(
        AssertionError, match=r"^program 0 of seed 7 fails at pace \d+, and so does \[.*\]: OSError"
    ) as caught:
        carry_out_many(attempt, NAMES, 5, 7, lambda _: None)
    found = str(caught.value).partition("and so does ")[2]
    assert (found.count("make"), found.count("read'"), found.count("drop")) == (1, 1, 0)


def test_a_program_is_made_short_by_its_own_failure_alone() -> None:
    """Another failure, and what the first one's frames keep, are none of it."""
    kept: list[weakref.ref[np.ndarray]] = []

    def attempt(program: Program, pace: int) -> None:
        assert all(ref() is None for ref in kept), "something is left"
        thing = np.zeros(1)
        kept.append(weakref.ref(thing))
        if "make" not in [name for name, _ in program]:
            raise OSError("nothing was made")
        raise OSError("read")

    with pytest.raises(AssertionError, match=r"and so does \[\('make', \d+\)\]: OSError\('read'\)"):
        carry_out_many(attempt, NAMES, 5, 7, lambda _: None)


def test_nothing_is_taken_out_that_is_needed() -> None:
    assert shorter(
        [("a", n) for n in range(50)], lambda part: ("a", 3) in part and ("a", 40) in part
    ) == [("a", 3), ("a", 40)]
