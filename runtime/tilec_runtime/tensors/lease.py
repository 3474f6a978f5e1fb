"""Leases: a tensor has any number of readers, or one writer.

This module knows no device and no memory.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, final

from tilec_runtime.device.core import LeaseFields
from tilec_runtime.device.layout import TensorFacts, may_overlap
from tilec_runtime.errors import BorrowError, Location, UseAfterMoveError
from tilec_runtime.forks import ForkLock
from tilec_runtime.sites import hinted, site

# Identifies claims.
NUMBERS = itertools.count()
# Held while claims are taken and tensors are moved. Claims are given up without it, because the
# garbage collector may do so on any thread.
LOCK = ForkLock()
# The next step if a part of a mutable borrow conflicts.
_PARTS = "release or drop that part first; parts that share no memory may be there at once"


class Holder(NamedTuple):
    """A user of a tensor for messages: its name and call site.

    Examples of names are `the view` and `the launch of add`.
    """

    name: str
    location: Location | None = None

    def __str__(self) -> str:
        """Return, for example, `the view (app.py:12)`."""
        return f"{self.name} ({self.location})" if self.location else self.name


def holder_here(name: str) -> Holder:
    """Return a holder with the current call site in debug mode."""
    return Holder(name, site())


class Claim(NamedTuple):
    """A lease's claim on its parent.

    Attributes:
        holder: the holder.
        writes: whether it may write.
        part: the part of the tensor that it covers; None for all of it.
        moved: whether the tensor was moved into an op, so that the tensor itself cannot be used.
    """

    holder: Holder
    writes: bool
    part: TensorFacts | None = None
    moved: bool = False

    def meets(self, part: TensorFacts | None) -> bool:
        """Whether it covers memory of another claim's part."""
        return part is None or self.part is None or may_overlap(part, self.part)


# The claim of a memory's own lease.
_WHOLE = Claim(Holder("the memory"), writes=True)


@final
class Lease(LeaseFields):
    """The right to use a tensor.

    Memory has a lease. Borrows and ops take leases of it, and others can be taken of these.

    A lease holds a claim on its parent until `release`, or until the object is finalized. After an
    op has used a borrow, the borrow's lease holds its claim only while other leases are taken of it
    (`let_go`). Threads may take and release leases at the same time.

    Attributes:
        taken: held claims of leases taken of this one, by their numbers. The claims do not keep the
            leases alive.
        parent: the lease it was taken of; None for that of memory.
        held: whether its claim is among those of its parent.
        moves: number of moves of the tensor.
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
        """Create the lease of memory; `read` and `write` create others."""
        self.held = False
        self.parent: Lease | None = parent
        self.taken: dict[int, Claim] = {}
        self.moves = 0
        self._claim = claim
        self._into = claim.holder
        self._number = -1 if parent is None else next(NUMBERS)
        self._moves = 0 if parent is None else parent.moves
        self._ended = False
        self._kept = 1  # 1 until an op has used it, then 0; 2 during a `with` block

    @property
    def holder(self) -> Holder:
        """The holder."""
        return self._claim.holder

    @property
    def ended(self) -> bool:
        """Whether it, or a lease that it comes from, was released."""
        return self._ended or (self.parent is not None and self.parent.ended)

    # Take

    def read(self, holder: Holder) -> Lease:
        """Take a lease for reading. Errors are those of `take`."""
        return Lease(parent=self, claim=Claim(holder, writes=False)).acquire()

    def write(self, holder: Holder, *, part: TensorFacts | None = None) -> Lease:
        """Take a lease for reading and writing, of all or a `part`.

        With a part, leases of other parts stay possible. Errors are those of `take`.
        """
        return Lease(parent=self, claim=Claim(holder, writes=True, part=part)).acquire()

    def acquire(self) -> Lease:
        """Claim the parent unless this is done; return this lease.

        Errors are those of `take`.
        """
        with LOCK:
            if self.parent is not None and not self.held:
                self._require_open(self.holder)
                self.parent.take(self._number, self._claim)
                self.held = True
        return self

    def take(self, number: int, claim: Claim) -> None:
        """Add a claim, until `give_back` removes it by its number.

        Raises:
            BorrowError: another claim conflicts, or a borrow has ended.
            UseAfterMoveError: the tensor was moved.
        """
        with LOCK:
            self._require_open(claim.holder)
            self.acquire()
            try:
                self.require_free_for(claim)
                self.taken[number] = claim
            finally:
                self._settle()

    def give_back(self, number: int) -> None:
        """Remove a claim. Further calls do nothing."""
        if self.taken.pop(number, None) is not None:
            self._settle()

    def require(self, holder: Holder) -> None:
        """Check that a user can use the tensor; reacquire a lease that was given up.

        Raises:
            BorrowError: it has ended, or another claim conflicts.
            UseAfterMoveError: the tensor was moved.
        """
        self._require_open(holder)
        if self.parent is None:
            for claim in self.claims:
                if claim.moved:
                    raise moved_error(holder, claim.holder)
        elif not self.held:
            self.acquire()
            self._settle()

    def require_free(self, holder: Holder, verb: str = "moved into") -> None:
        """Check that no lease is taken of it.

        Raises:
            BorrowError: it is leased, or a borrow has ended.
            UseAfterMoveError: the tensor was moved.
        """
        self.require(holder)
        for claim in self.claims:
            raise _conflict(f"the tensor cannot be {verb} {holder}", claim)

    def move(self, holder: Holder) -> None:
        """Move the tensor to another object.

        Later uses of borrows that were given up then fail. The caller holds `LOCK`.

        Raises:
            BorrowError: it is in use.
            UseAfterMoveError: it was moved before.
        """
        self.require_free(holder)
        self.moves += 1
        self._into = holder

    # Give up

    def keep(self) -> None:
        """Hold the claim until `release`, even after ops: for a `with` block."""
        self.acquire()
        self._kept = 2

    def let_go(self) -> None:
        """Give the claim up after an op, as long as no lease is taken of this one.

        A `with` block keeps the claim.
        """
        if self._kept < 2:
            self._kept = 0
            self._settle()

    def release(self) -> None:
        """End it and all leases taken of it. Further calls do nothing."""
        self._ended = True
        self._leave()
        self.parent = _NOTHING  # drop the reference, so that the parent may be finalized

    def __del__(self) -> None:
        """Give the claim up."""
        self._leave()

    def __enter__(self) -> Lease:
        """Return the lease itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.release()

    def _settle(self) -> None:
        if not self._kept and not self.taken:
            self._leave()

    def _leave(self) -> None:
        # Atomic steps, without the lock: the garbage collector may call this under any lock.
        if self.parent is not None and self.held:
            self.held = False
            self.parent.give_back(self._number)

    # Checks

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that are held now, oldest first."""
        while True:
            try:
                return tuple(self.taken.copy().values())
            except RuntimeError:  # either step may run the garbage collector, which gives up claims
                continue

    def _require_open(self, holder: Holder) -> None:
        lease = self
        while (parent := lease.parent) is not None:
            if lease._ended:
                message = f"{holder} cannot use the tensor: {lease.holder} has ended"
                cause = "it was used after the end of its `with` block, or after release()"
                raise BorrowError(message, cause=cause, fix="use it inside the block")
            if lease._moves != parent.moves:
                raise moved_error(holder, parent._into)  # noqa: SLF001
            lease = parent

    def require_free_for(self, claim: Claim) -> None:
        """Check that no other claim conflicts with one.

        Raises:
            BorrowError: another claim conflicts.
            UseAfterMoveError: the tensor was moved.
        """
        for other in self.claims:
            if other.moved:
                raise moved_error(claim.holder, other.holder)
            if (claim.writes or other.writes) and other.meets(claim.part):
                verb = "written" if claim.writes else "read"
                raise _conflict(f"the tensor cannot be {verb} by {claim.holder}", other)


_NOTHING = Lease()


def moved_error(holder: Holder, into: Holder, noun: str = "the tensor") -> UseAfterMoveError:
    """Return the error for the use of a tensor that has another owner."""
    fix = hinted("use what that gave back, share() the tensor first, or borrow it")
    return UseAfterMoveError(f"{holder} cannot use {noun}: it was moved into {into}", fix=fix)


def _conflict(event: str, claim: Claim) -> BorrowError:
    fix = (
        _PARTS
        if claim.part is not None
        else "run or drop the one before the other is made, or work on a copy (dup)"
    )
    return BorrowError(f"{event}: {claim.holder} still {_verb(claim.writes)} it", fix=hinted(fix))


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"
