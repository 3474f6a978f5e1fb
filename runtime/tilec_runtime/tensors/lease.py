"""Who may use a tensor now: any number of readers, or one writer. Pure: knows no device and no memory."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from typing import NamedTuple, final

from tilec_runtime.errors import BorrowError, Location
from tilec_runtime.layout import TensorFacts, may_overlap
from tilec_runtime.sites import hinted, site
from tilec_runtime.tensors.debug import leases

_NUMBERS = itertools.count()
# What to do about a part of a mutable borrow that is in the way.
_PARTS = "release or drop that part first; parts that share no memory may be there at once"


class Holder(NamedTuple):
    """Who uses a tensor, as messages name it: what it is (`the view`, `the launch of add`), and where it was made."""

    what: str
    place: Location | None = None

    def __str__(self) -> str:
        """`the view (app.py:12)`."""
        return f"{self.what} ({self.place})" if self.place else self.what


def holder(what: str) -> Holder:
    """Who is being made now, with its call site in debug mode."""
    return Holder(what, site())


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A claim that is held: who has it, whether it may write, and on which part of the tensor; on all of it without one."""

    who: Holder
    writes: bool
    part: TensorFacts | None = None

    def meets(self, part: TensorFacts | None) -> bool:
        """Whether it is on memory that another claim is on."""
        return part is None or self.part is None or may_overlap(part, self.part)


class Lease:
    """The claims on one tensor. A claim is taken softly when somebody who will use the tensor is made, and lasts until it is released.

    A borrow has a lease of its own, made with its claim as `parent`: the claims on that end with the borrow.
    Threads may take and release claims at the same time.
    """

    __slots__ = ("_held", "_lock", "_parent", "about")

    def __init__(self, parent: Claim | None = None, about: str = "") -> None:
        """Start with no claim.

        Args:
            parent: the claim through which the tensor is used; it is kept.
            about: what the log calls the tensor.
        """
        self.about = about if parent is None else parent.about
        self._held: dict[int, Held] = {}  # what claims say, not the claims: those end with their objects
        self._lock = threading.RLock()
        self._parent = parent

    def read(self, who: Holder) -> Claim:
        """Claim the tensor for reading.

        Raises:
            BorrowError: somebody writes it, or the borrow that it comes from has ended.
        """
        return self._take(who, writes=False)

    def write(self, who: Holder, *, part: TensorFacts | None = None) -> Claim:
        """Claim the tensor for reading and writing.

        Args:
            who: has the claim.
            part: what of it, for claims that leave the rest to others; None for all of it.

        Raises:
            BorrowError: somebody reads or writes it, or the borrow that it comes from has ended.
        """
        return self._take(who, writes=True, part=part)

    def require_free(self, who: Holder, verb: str = "moved into") -> None:
        """See that nobody has a claim.

        Raises:
            BorrowError: somebody has, or the borrow that it comes from has ended.
        """
        self._require_parent(who)
        for held in self.claims:
            raise _conflict(f"the tensor cannot be {verb} {who}", held)

    @property
    def claims(self) -> tuple[Held, ...]:
        """Those that are held now, oldest first."""
        while True:
            try:
                return tuple(self._held.copy().values())
            except RuntimeError:  # either step may call the collector, which ends claims of what it takes: see `_drop`
                continue

    @property
    def held(self) -> bool:
        """Whether anybody has a claim."""
        return bool(self._held)

    @property
    def ended(self) -> bool:
        """Whether the borrow that it comes from has ended."""
        return self._parent is not None and not self._parent.active

    def _take(self, who: Holder, *, writes: bool, part: TensorFacts | None = None) -> Claim:
        with self._lock:
            self._require_parent(who)
            for held in self.claims:
                if (writes or held.writes) and held.meets(part):
                    if (log := leases()) is not None:
                        log.debug("%s: refused, %s %s and %s %s", self.about, held.who, _verb(held.writes), who, _verb(writes))
                    raise _conflict(f"the tensor cannot be {'written' if writes else 'read'} by {who}", held)
            taken = Claim(self, who, writes=writes)
            self._held[taken.number] = Held(who=who, writes=writes, part=part)
        if (log := leases()) is not None:
            log.debug("%s: claim %d, %s %s", self.about, taken.number, who, _verb(writes))
        return taken

    def _require_parent(self, who: Holder) -> None:
        if self._parent is not None:
            self._parent.require(who)

    def _drop(self, number: int) -> None:
        # One step of the interpreter, without the lock: claims are also released by the collector, whatever this thread holds.
        self._held.pop(number, None)


@final
class Claim:
    """The right to read a tensor, or to read and write it, until `release`, the end of a `with` block, or of this object.

    Attributes:
        who: has it. writes: whether it may write.
        number: grows from claim to claim.
    """

    __slots__ = ("__weakref__", "_lease", "number", "who", "writes")

    def __init__(self, lease: Lease, who: Holder, *, writes: bool) -> None:
        """Made by `Lease.read` and `Lease.write` alone."""
        self.number = next(_NUMBERS)
        self.who = who
        self.writes = writes
        self._lease: Lease | None = lease  # until it is given up: a lease of a borrow holds the claim that this one is made through

    @property
    def about(self) -> str:
        """What the log calls the tensor."""
        lease = self._lease
        return "" if lease is None else lease.about

    @property
    def active(self) -> bool:
        """Whether it still holds."""
        lease = self._lease
        return lease is not None and self.number in lease._held and not lease.ended  # noqa: SLF001 - the two are one thing

    def require(self, who: Holder) -> None:
        """See that it still holds: checked again when something that was made with it runs.

        Raises:
            BorrowError: it has ended.
        """
        if not self.active:
            what = f"{who} cannot use the tensor: {self._ended} has ended"
            raise BorrowError(
                what, cause="it was used after the end of its `with` block, or after release()", fix="use it inside the block"
            )

    def past(self) -> Claim:
        """The same claim as one that has ended."""
        made = Claim(Lease(), self.who, writes=self.writes)
        made.release()
        return made

    @property
    def _ended(self) -> Holder:
        """Who has ended: the claim's own holder, or one whose borrow it was made of."""
        lease = self._lease
        if lease is None or lease._parent is None or self.number not in lease._held:  # noqa: SLF001
            return self.who
        return lease._parent._ended  # noqa: SLF001

    def release(self) -> None:
        """Give it up; may be called more than once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease._drop(self.number)  # noqa: SLF001

    def __del__(self) -> None:
        """Give it up."""
        self.release()

    def __enter__(self) -> Claim:
        """The claim itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it up."""
        self.release()


def _conflict(what: str, held: Held) -> BorrowError:
    fix = _PARTS if held.part is not None else "run or drop the one before the other is made, or work on a copy (dup)"
    return BorrowError(f"{what}: {held.who} still {_verb(held.writes)} it", fix=hinted(fix))


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"
