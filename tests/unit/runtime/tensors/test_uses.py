"""What a use has to wait for, against a model that knows everything that comes before everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilec_runtime.tensors.uses import Use, Uses

A, B, C = (0, 1), (0, 2), (0, 3)


def test_reads_wait_for_the_write_and_a_write_for_all_reads() -> None:
    uses = Uses()
    assert uses.before(A, write=True) == []
    uses.note(A, "w", write=True)
    assert uses.before(A, write=False) == []
    assert uses.before(B, write=False) == [Use(A, "w")]
    uses.note(B, "r", write=False)
    assert uses.before(B, write=False) == [], "it waits already"
    assert uses.before(C, write=True) == [Use(B, "r")], "the read comes after the write"
    assert uses.before(B, write=True) == []
    assert uses.last == [Use(B, "r")]
    uses.note(C, "w2", write=True)
    assert uses.last == [Use(C, "w2")]


def test_a_stream_that_goes_leaves_a_mark() -> None:
    uses = Uses()
    uses.note(A, None, write=True)
    uses.note(B, None, write=False)
    uses.note(C, "own", write=False)
    uses.settle(B, "last")
    uses.settle(C, "last")
    assert uses.last == [Use(B, "last"), Use(C, "own")]
    assert uses.gone == {B, C}
    uses.note(B, None, write=False)
    assert uses.gone == {C}
    uses.settle(A, "end")
    assert uses.before((0, 9), write=False) == [Use(A, "end")]


STEPS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)


@given(STEPS)
def test_every_conflict_is_ordered_and_nothing_waits_for_itself(steps: list[tuple[int, bool]]) -> None:
    """Streams as vector clocks: each use knows which uses certainly come before it."""
    uses = Uses()
    known: dict[int, set[int]] = {stream: set() for stream in range(4)}  # what comes before the next work of a stream
    known_at: dict[int, set[int]] = {}  # what comes before each use
    done: list[tuple[int, bool]] = []
    for number, (stream, write) in enumerate(steps):
        for use in uses.before((0, stream), write=write):
            assert use.stream != (0, stream)
            known[stream] |= known_at[use.mark] | {use.mark}
        conflicts = {index for index, (_, wrote) in enumerate(done) if write or wrote}
        assert conflicts <= known[stream], "a conflicting use is not ordered"
        known_at[number] = set(known[stream])
        uses.note((0, stream), number, write=write)
        known[stream].add(number)
        done.append((stream, write))
    last = {use.mark for use in uses.last}
    covered = last.union(*(known_at[mark] for mark in last)) if last else set()
    assert covered == set(range(len(done))), "memory would be given back before its last use"


@given(STEPS)
def test_readers_never_wait_for_each_other(steps: list[tuple[int, bool]]) -> None:
    uses = Uses()
    uses.note(A, "write", write=True)
    for number, (stream, _) in enumerate(steps):
        assert all(use.mark == "write" for use in uses.before((0, stream), write=False))
        uses.note((0, stream), number, write=False)
