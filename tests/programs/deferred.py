"""Ops of programs, as they would run one after another: what each does to the model when its turn
comes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.programs.model import (
    MOVABLE,
    WRITABLE,
    Claim,
    Handle,
    Kind,
    RefusedError,
    Wrong,
    dead,
    misfit,
    not_single,
    unmovable,
    unreadable,
    unwritable,
)
from tilec_runtime.errors import (
    BorrowError,
    LaunchError,
    LaunchLimitError,
    UsageError,
    UseAfterMoveError,
)


@dataclasses.dataclass(frozen=True)
class Copy:
    """Stands for an array on the host that an op gives."""

    array: np.ndarray


@dataclasses.dataclass(eq=False)
class Deferred:
    """An op.

    Attributes:
        real: it. body: what it does with the results of its sources; gives its result, of handles,
            copies, numbers and tuples, or raises RefusedError.
        parts: what it keeps alive until it has run: handles, claims, launches.
        sources: ops that run first, and are kept until all of them have run.
        results: of the sources.
        alone: it looks, when it runs, at what others may use: it must not run beside others.
        used: what it went into.
        lasting: it can be used again.
    """

    real: Any
    body: Callable[..., Any]
    parts: list[Any]
    sources: list[Deferred] = dataclasses.field(default_factory=list)
    results: list[Any] = dataclasses.field(default_factory=list)
    alone: bool = False
    used: str = ""
    lasting: bool = False

    def run(self) -> Any:
        if self.lasting:
            return self.body()
        try:
            for source in self.sources:
                self.results.append(source.run())
            self.sources.clear()
            return self.body(*self.results)
        finally:
            for kept in (self.parts, self.sources, self.results):
                kept.clear()
            self.body = tuple

    def take(self, where: str) -> None:
        if not self.lasting:
            self.used = where


@dataclasses.dataclass(eq=False)
class Launch:
    """A launch that was built: its arguments, and its claims on those that are tensors."""

    who: str
    arguments: list[Any]
    claims: list[Claim]
    extra: tuple[Any, ...]

    def release(self) -> None:
        for claim in self.claims:
            claim.close()

    def discard(self) -> None:
        """It has run, or will not any more: tensors are their owners' again, and borrows end."""
        self.release()
        for argument in self.arguments:
            if isinstance(argument, Handle) and argument.claim is not None:
                argument.claim.let_go()

    def run(self) -> tuple[Any, ...]:
        try:
            # Before anything of it runs.
            gone = [
                Wrong(BorrowError, (self.who, f"{claim.ended} (", "has ended"))
                for claim in self.claims
                if not claim.active
            ]
            gone += [
                Wrong(UseAfterMoveError, (self.who, argument.gone))
                for argument in self.arguments
                if isinstance(argument, Handle) and argument.gone
            ]
            if gone:
                raise RefusedError(gone)
            for place, argument in enumerate(self.arguments):
                if isinstance(argument, Deferred):
                    self.arguments[place] = argument.run()
            if not all(isinstance(argument, Handle) for argument in self.arguments):
                raise RefusedError([Wrong(LaunchError, ())])
            z, x, y = self.arguments
            self.release()
            wrong = (
                unwritable(z, self.who)
                + unreadable(x, self.who)
                + unreadable(y, self.who)
                + misfit(z, x, y)
            )
            if z.tile and z.tile != z.size:
                wrong.append(Wrong(LaunchLimitError, ("the partition z gives",)))
            if wrong:
                raise RefusedError(wrong)
            z.data[:] = x.data + y.data
            return (*self.arguments, *self.extra)
        finally:
            self.discard()


def launch_wrong(arguments: list[Any], who: str) -> list[Wrong]:
    """Why an op of a launch cannot be built of these."""
    handles = [(place, h) for place, h in enumerate(arguments) if isinstance(h, Handle)]
    owned = [h for _, h in handles if h.kind in MOVABLE]
    wrong = [
        Wrong(UseAfterMoveError, (who, "twice"))
        for place, h in enumerate(owned)
        if h in owned[:place]
    ]
    taken: list[Claim] = []
    for _, h in handles:  # before there are claims of this launch, which `settle` does not know
        if h.mem.loose:
            h.mem.settle()
    for place, h in handles:  # one after another: they may be in each other's way
        found = (unreadable if place else unwritable)(h, who) + (
            unmovable(h, who) if h.kind in MOVABLE else []
        )
        if not found:
            taken.append(_hold(h, who, place))
        wrong += found
    for claim in taken:
        claim.close()
    return wrong


def launch(arguments: list[Any], who: str, extra: tuple[Any, ...]) -> Launch:
    """Take the arguments of a launch over."""
    claims: list[Claim] = []
    for place, argument in enumerate(arguments):  # a lease that is used twice is claimed once
        if isinstance(argument, Handle) and argument.scope not in [c.scope for c in claims]:
            claims.append(_hold(argument, who, place))
    return Launch(who, list(arguments), claims, extra)


def _hold(h: Handle, who: str, place: int) -> Claim:
    moved = h.kind in MOVABLE
    return h.scope.take(who, writes=moved or not place, moved=moved)


class Once:
    """An execution that several ops need: the first does it, and all get its result or its error."""

    def __init__(self, op: Deferred) -> None:
        self.op: Deferred | None = op
        self.result: Any = None
        self.wrong: list[Wrong] = []

    def run(self) -> Any:
        if self.op is not None:
            try:
                self.result = self.op.run()
            except RefusedError as error:
                self.wrong = error.wrong
            self.op = None
        if self.wrong:
            raise RefusedError(self.wrong)
        return self.result

    def share(self) -> Any:
        """As a shared op gives it: every user gets shares of its own."""
        self.result = share_all(self.run())
        return share_all(self.result)

    def pick(self, place: int, count: int) -> Any:
        """As a part of `unzip` gives it: elements move out."""
        result = self.run()
        if len(result) != count:
            raise RefusedError(
                [Wrong(UsageError, (f"unzip({count}) of a tuple of {len(result)}",))]
            )
        element, self.result[place] = self.result[place], None
        return element


def share_all(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(share_all(element) for element in result)
    if not isinstance(result, Handle) or result.kind not in (Kind.OWNED, Kind.SHARED):
        return result
    if wrong := unmovable(result, "share") if result.kind is Kind.OWNED else dead(result, "clone"):
        raise RefusedError(wrong)
    if result.kind is Kind.OWNED:
        result.go("share")
    return result.shared()


def listed(result: Any) -> list[Any]:
    """As `unzip` takes it."""
    if not isinstance(result, tuple):
        raise RefusedError([Wrong(UsageError, ("unzip needs an op that gives a tuple",))])
    return list(result)


def unwrap(result: Any) -> Any:
    """As `unshare` gives it."""
    if not isinstance(result, Handle) or result.kind is not Kind.SHARED:
        return result
    if wrong := not_single(result, "try_unwrap"):
        raise RefusedError(wrong)
    result.mem.owners.clear()
    return result.moved("try_unwrap", kind=Kind.OWNED)


def element(result: Any, place: int) -> Any:
    if not isinstance(result, tuple) or not result:
        raise RefusedError([Wrong(UsageError, ("needs a tuple with elements",))])
    return result[place]


def handles_of(result: Any) -> Iterator[Handle]:
    """All tensors in a result."""
    if isinstance(result, Handle):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from handles_of(part)


def first_handle(result: Any, *, written: bool) -> Handle | None:
    """The one that functions of `then` go on with."""
    kinds = WRITABLE if written else (Kind.OWNED, Kind.SHARED, Kind.VIEW)
    return next((h for h in handles_of(result) if h.kind in kinds), None)


def reached(roots: list[Any]) -> tuple[set[Handle], set[Claim], list[Launch]]:
    """Handles, claims and launches that something keeps alive."""
    handles: set[Handle] = set()
    claims: set[Claim] = set()
    launches: list[Launch] = []
    left, seen = list(roots), set()
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Handle):
            handles.add(thing)
            for claim in (thing.claim, thing.scope.parent):
                claims.update(claim.upwards() if claim is not None else ())
        elif isinstance(thing, Claim):
            claims.update(thing.upwards())
        elif isinstance(thing, (tuple, list)):
            left += thing
        elif isinstance(thing, Deferred):
            left += thing.parts + thing.sources + thing.results
        elif isinstance(thing, Launch):
            launches.append(thing)
            left += [*thing.arguments, *thing.claims]
        elif isinstance(thing, Once):
            left += [thing.op, thing.result]
    return handles, claims, launches
