"""What a use has to wait for, against a model that knows everything that comes before everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilec_runtime.tensors.uses import Line, Use, Uses


def noted(uses: Uses, line: Line, mark: object, *, write: bool) -> None:
    """A use with a mark behind it."""
    uses.note(line, write=write)
    uses.remember(line, mark, uses.count, write=write)


def test_reads_wait_for_the_write_and_a_write_for_all_reads() -> None:
    a, b, c = (Line(0, handle) for handle in (1, 2, 3))
    uses = Uses()
    assert uses.before(a, write=True) == []
    noted(uses, a, "w", write=True)
    assert uses.before(a, write=False) == []
    assert uses.before(b, write=False) == [Use(a, "w")]
    noted(uses, b, "r", write=False)
    assert uses.before(b, write=False) == [], "it waits already"
    assert uses.before(c, write=True) == [Use(b, "r")], "the read comes after the write"
    assert uses.before(b, write=True) == []
    assert uses.last == [Use(b, "r")]
    noted(uses, c, "w2", write=True)
    assert uses.last == [Use(c, "w2")]


def test_marks_are_of_the_uses_that_they_are_behind() -> None:
    a, b = Line(0, 1), Line(0, 2)
    uses = Uses()
    uses.note(a, write=True)
    count = uses.count
    uses.note(a, write=False)
    uses.remember(a, "too early", count)
    assert uses.last == [Use(a, None)]
    uses.remember(a, "of an op that only read", uses.count, write=False)
    assert uses.last == [Use(a, None)]
    uses.remember(a, "m", uses.count)
    uses.note(a, write=False)
    assert uses.last == [Use(a, None)], "behind its mark"
    assert uses.before(b, write=False) == [Use(a, "m")]
    assert uses.sole is a
    uses.note(b, write=False)
    assert uses.sole is None


STEPS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=40)


@given(STEPS)
def test_every_conflict_is_ordered_and_nothing_waits_for_itself(
    steps: list[tuple[int, bool, bool]],
) -> None:
    """Streams as vector clocks: each use knows which uses certainly come before it. Marks are made
    when somebody waits, or at once.
    """
    uses = Uses()
    lines = [Line(0, handle) for handle in range(4)]
    known: dict[Line, set[int]] = {
        line: set() for line in lines
    }  # what comes before the next work of a line

    def marked(use: Use) -> set[int]:
        if use.mark is None:
            uses.remember(use.line, frozenset(known[use.line]), uses.count)
        return set(known[use.line] if use.mark is None else use.mark)

    done: list[bool] = []
    for number, (place, write, at_once) in enumerate(steps):
        line = lines[place]
        for use in uses.before(line, write=write):
            assert use.line is not line
            known[line] |= marked(use)
        conflicts = {index for index, wrote in enumerate(done) if write or wrote}
        assert conflicts <= known[line], "a conflicting use is not ordered"
        uses.note(line, write=write)
        known[line].add(number)
        done.append(write)
        if at_once:
            uses.remember(line, frozenset(known[line]), uses.count, write=write)
    covered = set[int]().union(*(marked(use) for use in uses.last))
    assert covered == set(range(len(done))), "memory would be given back before its last use"


@given(STEPS)
def test_readers_never_wait_for_each_other(steps: list[tuple[int, bool, bool]]) -> None:
    uses = Uses()
    lines = [Line(0, handle) for handle in range(4)]
    noted(uses, lines[0], "write", write=True)
    for place, _, _ in steps:
        assert all(use.mark == "write" for use in uses.before(lines[place], write=False))
        uses.note(lines[place], write=False)
