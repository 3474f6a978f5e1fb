"""Who may use a tensor now: any number of readers, or one writer. Pure: knows no device and no
memory.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, final

from tilec_runtime.device.core import LeaseFields
from tilec_runtime.device.layout import TensorFacts, may_overlap
from tilec_runtime.errors import BorrowError, Location, UseAfterMoveError
from tilec_runtime.forks import ForkLock
from tilec_runtime.sites import hinted, site

# Of claims, by which they are found again.
NUMBERS = itertools.count()
# Held while claims are taken and tensors move; never while they are given up, which the collector
# does on any thread.
LOCK = ForkLock()
# What to do about a part of a mutable borrow that is in the way.
_PARTS = "release or drop that part first; parts that share no memory may be there at once"


class Holder(NamedTuple):
    """Who uses a tensor, as messages name it: what it is (`the view`, `the launch of add`), and
    where it was made.
    """

    what: str
    place: Location | None = None

    def __str__(self) -> str:
        """`the view (app.py:12)`."""
        return f"{self.what} ({self.place})" if self.place else self.what


def holder(what: str) -> Holder:
    """Who is being made now, with its call site in debug mode."""
    return Holder(what, site())


class Claim(NamedTuple):
    """What a lease asks of the one above it.

    Attributes:
        who: has it.
        writes: whether it may write.
        part: the part of the tensor that it is on; None for all of it.
        moved: whether the tensor moved in, so that its own name cannot be used either.
    """

    who: Holder
    writes: bool
    part: TensorFacts | None = None
    moved: bool = False

    def meets(self, part: TensorFacts | None) -> bool:
        """Whether it is on memory that another claim is on."""
        return part is None or self.part is None or may_overlap(part, self.part)


# Of the lease of memory itself.
_WHOLE = Claim(Holder("the memory"), writes=True)


@final
class Lease(LeaseFields):
    """The right to use a tensor. Memory has one, of which borrows and ops take leases, of which
    others are taken in turn.

    A lease holds its claim until `release`, or its end as an object. A borrow that an op was done
    with holds its claim only while something is taken of it: `let_go`. Threads may take and release
    leases at the same time.

    Attributes:
        taken: claims of the leases that were taken of this one and are held, by their numbers. They
            keep none of these alive.
        parent: what it was taken of; None for that of memory.
        held: whether its claim is among those of its parent.
        moves: how often the tensor moved.
    """

    __slots__ = (
        "__weakref__",
        "_claim",
        "_ended",
        "_into",
        "_kept",
        "_moves",
        "_number",
        "moves",
    )

    def __init__(self, parent: Lease | None = None, claim: Claim = _WHOLE) -> None:
        """The lease of memory; others are made by `read` and `write`."""
        self.held = False
        self.parent: Lease | None = parent
        self.taken: dict[int, Claim] = {}
        self.moves = 0
        self._claim = claim
        self._into = claim.who
        self._number = -1 if parent is None else next(NUMBERS)
        self._moves = 0 if parent is None else parent.moves
        self._ended = False
        self._kept = 1  # 1 until an op is done with it; 2 for the time of a `with` block

    @property
    def who(self) -> Holder:
        """Who has it."""
        return self._claim.who

    @property
    def ended(self) -> bool:
        """Whether it, or a borrow that it comes from, was released."""
        return self._ended or (self.parent is not None and self.parent.ended)

    # Take

    def read(self, who: Holder) -> Lease:
        """Take a lease for reading; raises as `take`."""
        return Lease(parent=self, claim=Claim(who, writes=False)).acquire()

    def write(self, who: Holder, *, part: TensorFacts | None = None) -> Lease:
        """Take a lease for reading and writing; of a part, for those that leave the rest to others.
        Raises as `take`.
        """
        return Lease(parent=self, claim=Claim(who, writes=True, part=part)).acquire()

    def acquire(self) -> Lease:
        """Claim what it is on, unless it does so; return it. Raises as `take`."""
        with LOCK:
            if self.parent is not None and not self.held:
                self._require_open(self.who)
                self.parent.take(self._number, self._claim)
                self.held = True
        return self

    def take(self, number: int, claim: Claim) -> None:
        """Add a claim, until it is given back by its number.

        Raises:
            BorrowError: others have claims in the way, or a borrow has ended.
            UseAfterMoveError: the tensor moved.
        """
        with LOCK:
            self._require_open(claim.who)
            self.acquire()
            try:
                self.require_free_for(claim)
                self.taken[number] = claim
            finally:
                self._settle()

    def give_back(self, number: int) -> None:
        """Take a claim away; may be called more than once."""
        if self.taken.pop(number, None) is not None:
            self._settle()

    def require(self, who: Holder) -> None:
        """Check that a user can have it; acquire the lease again if it was released.

        Raises:
            BorrowError: it has ended, or cannot be had now.
            UseAfterMoveError: the tensor moved.
        """
        self._require_open(who)
        if self.parent is None:
            for claim in self.claims:
                if claim.moved:
                    raise moved_error(who, claim.who)
        elif not self.held:
            self.acquire()
            self._settle()

    def require_free(self, who: Holder, verb: str = "moved into") -> None:
        """Check that it is not leased.

        Raises:
            BorrowError: it is leased, or a borrow has ended.
            UseAfterMoveError: the tensor moved.
        """
        self.require(who)
        for claim in self.claims:
            raise _conflict(f"the tensor cannot be {verb} {who}", claim)

    def move(self, who: Holder) -> None:
        """Let borrows that were let go know that the tensor is another object's from now on. The
        caller holds `LOCK`.

        Raises:
            BorrowError: it is in use.
            UseAfterMoveError: it moved.
        """
        self.require_free(who)
        self.moves += 1
        self._into = who

    # Give up

    def keep(self) -> None:
        """Hold the claim until `release`, whatever ops do: for a `with` block."""
        self.acquire()
        self._kept = 2

    def let_go(self) -> None:
        """An op is done with the borrow: give its claim up while nothing is taken of it, but for
        the time of a `with` block.
        """
        if self._kept < 2:
            self._kept = 0
            self._settle()

    def release(self) -> None:
        """End it, and what was taken of it; may be called more than once."""
        self._ended = True
        self._leave()
        self.parent = _NOTHING  # which may end now

    def __del__(self) -> None:
        """End it."""
        self._leave()

    def __enter__(self) -> Lease:
        """The lease itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.release()

    def _settle(self) -> None:
        if not self._kept and not self.taken:
            self._leave()

    def _leave(self) -> None:
        # Steps of the interpreter, without the lock: the collector may come here, whatever this
        # thread holds.
        if self.parent is not None and self.held:
            self.held = False
            self.parent.give_back(self._number)

    # Checks

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Those that are held now, oldest first."""
        while True:
            try:
                return tuple(self.taken.copy().values())
            except (
                RuntimeError
            ):  # either step may call the collector, which ends leases of what it takes
                continue

    def _require_open(self, who: Holder) -> None:
        lease = self
        while (parent := lease.parent) is not None:
            if lease._ended:
                what = f"{who} cannot use the tensor: {lease.who} has ended"
                cause = "it was used after the end of its `with` block, or after release()"
                raise BorrowError(what, cause=cause, fix="use it inside the block")
            if lease._moves != parent.moves:
                raise moved_error(who, parent._into)  # noqa: SLF001
            lease = parent

    def require_free_for(self, claim: Claim) -> None:
        """Check that no other claim is in the way of one.

        Raises:
            BorrowError: one is.
            UseAfterMoveError: the tensor moved.
        """
        for other in self.claims:
            if other.moved:
                raise moved_error(claim.who, other.who)
            if (claim.writes or other.writes) and other.meets(claim.part):
                verb = "written" if claim.writes else "read"
                raise _conflict(f"the tensor cannot be {verb} by {claim.who}", other)


_NOTHING = Lease()


def moved_error(who: Holder, into: Holder, noun: str = "the tensor") -> UseAfterMoveError:
    """A tensor is used that has another owner."""
    fix = hinted("use what that gave back, share() the tensor first, or borrow it")
    return UseAfterMoveError(f"{who} cannot use {noun}: it was moved into {into}", fix=fix)


def _conflict(what: str, claim: Claim) -> BorrowError:
    fix = (
        _PARTS
        if claim.part is not None
        else "run or drop the one before the other is made, or work on a copy (dup)"
    )
    return BorrowError(f"{what}: {claim.who} still {_verb(claim.writes)} it", fix=hinted(fix))


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"
