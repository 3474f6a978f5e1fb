"""What programs may do with tensors, one step at a time: contents, who claims what, and which step
is refused with which words.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tilec_runtime.errors import (
    AliasError,
    BorrowError,
    OwnershipError,
    RequirementError,
    UseAfterMoveError,
)


class Wrong(NamedTuple):
    """One reason to refuse a step: the error's type, and words that its message has to have."""

    kind: type[BaseException]
    words: tuple[str, ...]

    def fits(self, error: BaseException) -> bool:
        return isinstance(error, self.kind) and all(word in str(error) for word in self.words)


class RefusedError(Exception):
    """The model of an op came to an error: any of these."""

    def __init__(self, wrong: list[Wrong]) -> None:
        super().__init__(str(wrong))
        self.wrong = wrong


class Kind(enum.Enum):
    """Kinds of tensors; PLACE is a partition in place."""

    OWNED = "Tensor"
    SHARED = "SharedTensor"
    VIEW = "TensorView"
    MUT = "TensorMut"
    PART = "Partition"
    PLACE = "Partition "


MOVABLE, WRITABLE = (Kind.OWNED, Kind.PART), (Kind.OWNED, Kind.PART, Kind.MUT, Kind.PLACE)


@dataclasses.dataclass(eq=False)
class Claim:
    """A claim, what holds it, and for which it is the parent; on the elements of `part`, or on all
    of the tensor.

    Attributes:
        open: whether it was not ended. kept: whether no op was done with it. moved: whether an op
            holds the tensor by it.
        moves: how often the tensor had moved when it was made. inner: what is claimed through it.
    """

    scope: Scope
    what: str
    writes: bool
    part: range | None = None
    moved: bool = False
    open: bool = True
    kept: bool = True
    moves: int = 0
    inner: Scope | None = None

    @property
    def active(self) -> bool:
        return self.open and (self.scope.parent is None or self.scope.parent.active)

    @property
    def ended(self) -> str:
        """What ended that this needs."""
        parent = self.scope.parent
        return parent.ended if self.open and parent is not None else self.what

    @property
    def held(self) -> bool:
        return self in self.scope.claims

    def meets(self, part: range | None) -> bool:
        if part is None or self.part is None:
            return True
        return max(part.start, self.part.start) < min(part.stop, self.part.stop)

    def wake(self) -> None:
        if not self.held:
            if self.scope.parent is not None:
                self.scope.parent.wake()
            self.scope.claims.append(self)

    def let_go(self) -> None:
        """An op is done with it: it is held while something is claimed through it."""
        self.kept = False
        self.settle()

    def settle(self) -> None:
        if not self.kept and not (self.inner is not None and self.inner.claims):
            self.leave()

    def close(self) -> None:
        self.open = False
        self.leave()

    def leave(self) -> None:
        if self.held:
            self.scope.claims.remove(self)
            if self.scope.parent is not None:
                self.scope.parent.settle()

    def upwards(self) -> Iterator[Claim]:
        claim: Claim | None = self
        while claim is not None and claim.open:
            yield claim
            claim = claim.scope.parent


@dataclasses.dataclass(eq=False)
class Scope:
    """What one lease knows: claims on a tensor, or on what was made through a borrow of it; how
    often it moved, and into what last.
    """

    parent: Claim | None = None
    claims: list[Claim] = dataclasses.field(default_factory=list)
    moves: int = 0
    into: str = ""

    def take(
        self, what: str, *, writes: bool, part: range | None = None, moved: bool = False
    ) -> Claim:
        if self.parent is not None:
            self.parent.wake()
        claim = Claim(self, what, writes, part, moved, moves=self.moves)
        self.claims.append(claim)
        return claim

    def move(self, into: str) -> None:
        self.moves, self.into = self.moves + 1, into


@dataclasses.dataclass(eq=False)
class Mem:
    """A tensor's memory. It is loose while the device still has objects that nobody else has:
    `settle` waits for these. Copies by address cannot reach foreign memory.
    """

    contents: np.ndarray
    settle: Callable[[], None]
    root: Scope = dataclasses.field(default_factory=Scope)
    owners: list[Handle] = dataclasses.field(default_factory=list)
    loose: bool = False
    foreign: bool = False


@dataclasses.dataclass(eq=False)
class Handle:
    """One tensor object of a program.

    Attributes:
        start, size: elements of the memory that it is. claim: that it holds.
        gone: into what it was moved. tile: of a partition. real: the object; None until an op gives
            it.
    """

    kind: Kind
    mem: Mem
    scope: Scope
    start: int
    size: int
    claim: Claim | None = None
    gone: str = ""
    tile: int = 0
    real: Any = None

    @property
    def data(self) -> np.ndarray:
        return self.mem.contents[self.start : self.start + self.size]

    def go(self, into: str) -> None:
        self.gone = into
        self.mem.root.move(into)

    def moved(self, into: str, **changes: Any) -> Handle:
        """The same tensor as another object; this one is used up."""
        self.go(into)
        return dataclasses.replace(self, **{"gone": "", "real": None, **changes})

    def claimed(
        self,
        kind: Kind,
        what: str,
        start: int = 0,
        size: int | None = None,
        tile: int = 0,
        part: range | None = None,
    ) -> Handle:
        """What a view or borrow of it is."""
        claim = self.scope.take(what, writes=kind in WRITABLE, part=part)
        size = self.size if size is None else size
        claim.inner = Scope(claim)
        return Handle(kind, self.mem, claim.inner, self.start + start, size, claim, tile=tile)

    def shared(self) -> Handle:
        """One more owner of a shared tensor."""
        made = Handle(Kind.SHARED, self.mem, self.scope, self.start, self.size)
        self.mem.owners.append(made)
        return made


def dead(h: Handle, who: str) -> list[Wrong]:
    """Why a tensor cannot be used at all."""
    if h.mem.loose:
        h.mem.settle()
    if h.gone:
        return [Wrong(UseAfterMoveError, (who, h.gone))]
    if h.scope.parent is not None and not h.scope.parent.active:
        return [Wrong(BorrowError, (who, f"{h.scope.parent.ended} ", "has ended"))]
    held = [Wrong(UseAfterMoveError, (who, claim.what)) for claim in h.scope.claims if claim.moved]
    return held or asleep(h.scope.parent, who)


def asleep(claim: Claim | None, who: str) -> list[Wrong]:
    """Why a borrow that an op was done with is not there again."""
    if claim is None or claim.held:
        return []
    if claim.moves != claim.scope.moves:
        return [Wrong(UseAfterMoveError, (who, claim.scope.into))]
    if found := asleep(claim.scope.parent, who):
        return found
    return [
        _conflict(claim.what, other)
        for other in claim.scope.claims
        if (claim.writes or other.writes) and other.meets(claim.part)
    ]


def unreadable(h: Handle, who: str) -> list[Wrong]:
    return dead(h, who) or [_conflict(who, claim) for claim in h.scope.claims if claim.writes]


def unwritable(h: Handle, who: str, part: range | None = None) -> list[Wrong]:
    if found := dead(h, who):
        return found
    if h.kind not in WRITABLE:
        return [Wrong(BorrowError, (who, "for reading only"))]
    return [_conflict(who, claim) for claim in h.scope.claims if claim.meets(part)]


def unmovable(h: Handle, who: str) -> list[Wrong]:
    return dead(h, who) or [_conflict(who, claim) for claim in h.scope.claims]


def not_single(h: Handle, who: str) -> list[Wrong]:
    """Why a shared tensor is not given back."""
    if found := dead(h, who):
        return found
    if len(h.mem.owners) > 1:
        return [Wrong(OwnershipError, (who, "it has ", " owners, among them the shared tensor"))]
    return unmovable(h, who)


def misfit(z: Handle, x: Handle, y: Handle) -> list[Wrong]:
    """Why the kernel does not take these, whoever owns them."""
    wrong = [
        Wrong(RequirementError, (f"{name}.shape[0] == z.shape[0]",))
        for name, t in (("x", x), ("y", y))
        if t.size != z.size
    ]
    for name, t in (("x", x), ("y", y)):
        if t.mem is z.mem and t.start < z.start + z.size and z.start < t.start + t.size:
            wrong.append(Wrong(AliasError, ("z", name)))
    return wrong


def _conflict(who: str, claim: Claim) -> Wrong:
    if claim.moved:
        return Wrong(UseAfterMoveError, (who, claim.what))
    return Wrong(
        BorrowError, (who, f"{claim.what} (", f"still {'writes' if claim.writes else 'reads'} it")
    )
