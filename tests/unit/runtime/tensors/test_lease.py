"""Claims on a tensor: readers, writers, borrows inside borrows, and what conflicts say."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.waiting import joined
from tilec_runtime.errors import BorrowError, Location
from tilec_runtime.tensors.lease import Holder, Lease, holder

COPY = Holder(what="the copy", place=Location(file="app.py", line=3))
ADD = Holder(what="the launch of add", place=Location(file="app.py", line=8))


def test_a_holder_is_named_by_the_line_that_made_it() -> None:
    who = holder("the view")
    assert who.place is not None
    assert who.place.file == __file__
    assert str(who) == f"the view ({__file__}:{who.place.line})"
    assert str(Holder(what="the view")) == "the view"


def test_many_read_and_one_writes() -> None:
    lease = Lease()
    first, second = lease.read(COPY), lease.read(ADD)
    with pytest.raises(BorrowError) as caught:
        lease.write(ADD)
    assert caught.value.what == (
        "the tensor cannot be written by the launch of add (app.py:8): the copy (app.py:3) still reads it"
    )
    assert caught.value.fix
    first.release()
    first.release()
    second.release()
    with lease.write(ADD) as writer:
        assert writer.held
        with pytest.raises(
            BorrowError,
            match=r"^the tensor cannot be read by the copy \(app.py:3\): the launch of add \(app.py:8\) still writes it",
        ):
            lease.read(COPY)
    assert writer.ended
    assert not lease.taken


def test_the_collector_may_end_claims_while_they_are_listed() -> None:
    class Cycle:
        me: object

    lease = Lease()
    kept = [
        lease.read(COPY) for _ in range(25)
    ]  # too many for a tuple that the interpreter has ready
    threshold = gc.get_threshold()
    try:
        for later in range(8):  # allocations until the collector runs
            gc.collect()
            gc.disable()
            cycle = Cycle()
            cycle.me = (cycle, lease.read(ADD))
            del cycle
            gc.enable()
            gc.set_threshold(gc.get_count()[0] + later)
            assert len(lease.claims) in (25, 26)
            gc.set_threshold(*threshold)
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(lease.claims) == len(kept)


def test_claims_from_many_threads_never_conflict() -> None:
    lease = Lease()
    errors: list[str] = []
    writers: list[Lease] = []

    def work(write: bool) -> None:
        for _ in range(300):
            try:
                claim = lease.write(ADD) if write else lease.read(COPY)
            except BorrowError:
                continue
            held = lease.claims
            if write and len(held) != 1:
                errors.append(f"a writer beside {len(held) - 1}")
            if not write and any(one.writes for one in held):
                errors.append("a reader beside a writer")
            if write:
                writers.append(claim)
            del claim
            writers.clear()

    threads = [threading.Thread(target=work, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert errors == []
    writers.clear()
    gc.collect()
    assert not lease.taken


class Leases(RuleBasedStateMachine):
    """A lease against a model of the borrows taken of it, two deep: who is kept, and who claims
    through whom.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lease = Lease()
        self.borrows: list[Lease] = []
        self.asleep: list[Lease] = []
        self.writes: dict[Lease, bool] = {}
        self.inner: list[tuple[Lease, Lease]] = []

    def place(self) -> st.SearchStrategy[int]:
        """Places in `borrows`: Hypothesis keeps what it draws, and a lease that is kept never ends."""
        return st.integers(0, len(self.borrows) - 1)

    def claimed(self) -> list[Lease]:
        return [
            one
            for one in self.borrows
            if one not in self.asleep or any(of is one for of, _ in self.inner)
        ]

    def allowed(self, claims: list[Lease], write: bool) -> bool:
        return not any(write or self.writes[claim] for claim in claims)

    def take(self, of: Lease, write: bool, expected: bool) -> Lease | None:
        try:
            made = (of.write if write else of.read)(ADD)
        except BorrowError:
            assert not expected
            return None
        assert expected
        self.writes[made] = write
        return made

    @rule(write=st.booleans())
    def borrow(self, write: bool) -> None:
        made = self.take(self.lease, write, self.allowed(self.claimed(), write))
        if made is not None:
            self.borrows.append(made)

    @rule(data=st.data(), write=st.booleans())
    def borrow_inside(self, data: Any, write: bool) -> None:
        if not self.borrows:
            return
        of = self.borrows[data.draw(self.place())]
        there = of in self.claimed() or self.allowed(self.claimed(), self.writes[of])
        made = self.take(
            of,
            write,
            there and self.allowed([one for borrow, one in self.inner if borrow is of], write),
        )
        if made is not None:
            self.inner.append((of, made))

    @rule(data=st.data())
    def let_go(self, data: Any) -> None:
        if self.borrows:
            one = self.borrows[data.draw(self.place())]
            one.let_go()
            if one not in self.asleep:
                self.asleep.append(one)

    @rule(data=st.data(), dropped=st.booleans())
    def give_up(self, data: Any, dropped: bool) -> None:
        if not self.borrows:
            return
        one = self.borrows.pop(data.draw(self.place()))
        mine = [inner for of, inner in self.inner if of is one]
        self.inner = [pair for pair in self.inner if pair[0] is not one]
        self.asleep = [other for other in self.asleep if other is not one]
        if not dropped:
            one.release()
            assert all(inner.ended for inner in mine)
        for lease in (one, *mine):
            del self.writes[lease]
        del one, mine, lease  # a lease without a reference ends at once

    @rule(data=st.data())
    def give_up_inside(self, data: Any) -> None:
        if self.inner:
            _, one = self.inner.pop(data.draw(st.integers(0, len(self.inner) - 1)))
            one.release()
            del self.writes[one]

    @invariant()
    def agrees(self) -> None:
        claimed = self.claimed()
        assert sorted(claim.writes for claim in self.lease.claims) == sorted(
            self.writes[one] for one in claimed
        )
        assert all(one.held == (one in claimed) and not one.ended for one in self.borrows)
        assert all(one.held for _, one in self.inner)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
