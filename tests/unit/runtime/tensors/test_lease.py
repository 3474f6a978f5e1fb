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
from tilec_runtime.tensors.lease import Claim, Holder, Lease, holder

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
    assert caught.value.what == ("the tensor cannot be written by the launch of add (app.py:8): the copy (app.py:3) still reads it")
    assert caught.value.fix
    first.release()
    first.release()
    second.release()
    with lease.write(ADD) as writer:
        assert writer.active
        with pytest.raises(
            BorrowError, match=r"^the tensor cannot be read by the copy \(app.py:3\): the launch of add \(app.py:8\) still writes it"
        ):
            lease.read(COPY)
    assert not writer.active
    assert not lease.held


def test_the_collector_may_end_claims_while_they_are_listed() -> None:
    class Cycle:
        me: object

    lease = Lease()
    kept = [lease.read(COPY) for _ in range(25)]  # too many for a tuple that the interpreter has ready
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


def test_a_move_needs_a_tensor_that_nobody_uses() -> None:
    lease = Lease()
    lease.require_free(ADD)
    claim = lease.read(COPY)
    with pytest.raises(
        BorrowError, match=r"^the tensor cannot be moved into the launch of add \(app.py:8\): the copy \(app.py:3\) still reads it"
    ):
        lease.require_free(ADD)
    del claim
    gc.collect()
    lease.require_free(ADD)


def test_a_borrow_has_a_lease_of_its_own_that_ends_with_it() -> None:
    outer = Lease()
    borrow = outer.write(COPY)
    inner = Lease(borrow)
    op = inner.write(ADD)
    with pytest.raises(BorrowError, match="still writes it"):
        inner.read(ADD)
    assert op.active
    borrow.release()
    assert not op.active
    for again in (lambda: op.require(ADD), lambda: inner.read(ADD), lambda: inner.require_free(ADD)):
        with pytest.raises(BorrowError) as caught:
            again()
    assert caught.value.what == "the launch of add (app.py:8) cannot use the tensor: the copy (app.py:3) has ended"
    assert not outer.held


def test_claims_from_many_threads_never_conflict() -> None:
    lease = Lease()
    errors: list[str] = []
    writers: list[Claim] = []

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
    assert not lease.held


class Leases(RuleBasedStateMachine):
    """A lease against a model: a list of who reads and who writes, two borrows deep."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = Lease()
        self.claims: list[Claim] = []
        self.leases: dict[int, Lease] = {}
        self.inner: list[tuple[int, Claim]] = []
        self.ended: list[Claim] = []

    def allowed(self, claims: list[Claim], write: bool) -> bool:
        return not claims if write else not any(claim.writes for claim in claims)

    @rule(write=st.booleans())
    def take(self, write: bool) -> None:
        expected = self.allowed(self.claims, write)
        try:
            claim = (self.lease.write if write else self.lease.read)(ADD)
        except BorrowError:
            assert not expected
        else:
            assert expected
            self.claims.append(claim)
            self.leases[claim.number] = Lease(claim)

    @rule(data=st.data(), write=st.booleans())
    def take_inside(self, data: Any, write: bool) -> None:
        if not self.claims:
            return
        parent = self.claims[data.draw(st.integers(0, len(self.claims) - 1))]
        mine = [claim for number, claim in self.inner if number == parent.number]
        expected = self.allowed(mine, write)
        try:
            claim = (self.leases[parent.number].write if write else self.leases[parent.number].read)(COPY)
        except BorrowError:
            assert not expected
        else:
            assert expected
            self.inner.append((parent.number, claim))

    @rule(data=st.data(), collected=st.booleans())
    def give_up(self, data: Any, collected: bool) -> None:
        if not self.claims:
            return
        index = data.draw(st.integers(0, len(self.claims) - 1))
        claim = self.claims.pop(index)
        mine = [one for number, one in self.inner if number == claim.number]
        self.inner = [pair for pair in self.inner if pair[0] != claim.number]
        if not collected:
            claim.release()
            self.ended += mine
        del self.leases[claim.number], claim, mine  # without a cycle: what nobody has any more is given up at once

    @rule(data=st.data())
    def give_up_inside(self, data: Any) -> None:
        if self.inner:
            self.inner.pop(data.draw(st.integers(0, len(self.inner) - 1)))[1].release()

    @invariant()
    def agrees(self) -> None:
        assert [held.writes for held in self.lease.claims] == [claim.writes for claim in self.claims]
        assert all(claim.active for claim in self.claims)
        assert all(claim.active for _, claim in self.inner)
        assert not any(claim.active for claim in self.ended)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
