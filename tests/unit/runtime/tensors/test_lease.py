"""Claims on a tensor: readers, writers, borrows inside borrows, and what conflicts say."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tilec_runtime.errors import BorrowError, Location
from tilec_runtime.tensors.lease import Holder, Lease

COPY = Holder(what="the copy", place=Location(file="app.py", line=3))
ADD = Holder(what="the launch of add", place=Location(file="app.py", line=8))


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
