"""Prove that accesses of a safe kernel stay in their arrays, some under launch conditions."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.frontends.tile import alike as alike_module
from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Body
from tilec.frontends.tile.calls import Call
from tilec.frontends.tile.safe import Access, SafeParam
from tilec.frontends.tile.values import (
    ArrayOf,
    Below,
    Count,
    Items,
    Nearest,
    Owned,
    Part,
    Values,
    Within,
    argument,
    limit_of,
    size_text,
)
from tilec.frontends.tools.python_errors import line_of, node_location
from tilec.model.alike import Alike
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.safety import Fact, Guarantee

# What a checked access becomes where nothing is left to check: names of equal length, so that every
# place in the source stays what it is.
UNCHECKED = {
    "load_tile": "_loadtile",
    "load_tile_like": "_loadtile_like",
    "store": "_stow",
    "load": "_got",
    "store_tile": "_storetile",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A checked access: where its name stands (line from 1, column in bytes from 0), and whether it
    needs its check.
    """

    line: int
    column: int
    name: str
    proven: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """Proofs and launch conditions of a function's accesses."""

    sites: tuple[Site, ...]
    requires: tuple[str, ...]
    alike: tuple[Alike, ...]
    facts: tuple[Fact, ...]
    unproven: tuple[Diagnostic, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Access:
    """One access: the call, the node whose last name says what is done, the array, and for each
    dimension index and size, if known.

    Along axes in `once` the array has one element, which is broadcast.
    """

    call: ast.Call
    named: ast.expr
    name: str
    param: SafeParam
    indices: tuple[Any, ...] | None
    sizes: tuple[str | None, ...] | None
    unchecked: bool = False
    once: frozenset[int] = frozenset()

    @property
    def by_its_name(self) -> bool:
        """Whether it is not imported under another one."""
        named = (
            self.named.attr
            if isinstance(self.named, ast.Attribute)
            else self.named.id
            if isinstance(self.named, ast.Name)
            else ""
        )
        return named == self.name


class _UnknownError(Exception):
    """The reason why an access has no proof, and a hint."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclasses.dataclass(frozen=True, slots=True)
class _Verdict:
    """What is known of an access in one call of its function; `site` is None where it has no check
    to lose.
    """

    site: Site | None
    fact: Fact
    needed: Sequence[str] = ()
    doubt: Diagnostic | None = None
    alike: Sequence[Alike] = ()


class Prover:
    """Goes through one function: a kernel, or a function that it calls; `guard` is an expression
    that holds where nothing is launched.
    """

    def __init__(
        self, body: Body, texts: Mapping[str, str], params: Sequence[SafeParam], *, helper: bool
    ) -> None:
        self._body, self._file, self._texts, self._helper = body, body.file, texts, helper
        self._params = params
        # The grid of mapped outputs is whatever a caller says, also where they are empty; along a
        # whole axis there is always a block.
        owned = [param.name for param in params if param.access is Access.MUT]
        self._guard = f" or {owned[0]}.size == 0" if owned else ""

    def prove(self, calls: Sequence[Call]) -> Proof:
        """All accesses of the function, in every call of it: one that stays in its array in each
        needs no check.
        """
        sites: list[Site] = []
        facts: dict[Fact, None] = {}
        unproven: list[Diagnostic] = []
        requires: dict[str, None] = {}
        alike: dict[Alike, None] = {}
        nodes = [inner for inner in ast.walk(self._body.node) if isinstance(inner, ast.Call)]
        for node in sorted(nodes, key=lambda c: (c.lineno, c.col_offset)):
            found = [(self._verdict(node, call.values), call) for call in calls]
            verdicts = [(verdict, call) for verdict, call in found if verdict is not None]
            doubts = [
                (verdict.doubt, call) for verdict, call in verdicts if verdict.doubt is not None
            ]
            for verdict, _ in verdicts:
                # One check serves all calls: where one of them needs it, the others are checked
                # too, and demand nothing.
                checked = (
                    bool(doubts)
                    and verdict.fact.guarantee is not Guarantee.NONE
                    and verdict.site is not None
                )
                fact = (
                    dataclasses.replace(verdict.fact, guarantee=Guarantee.KERNEL)
                    if checked
                    else verdict.fact
                )
                facts[dataclasses.replace(fact, in_helper=self._helper)] = None
                requires.update(dict.fromkeys(() if doubts else verdict.needed))
                alike.update(dict.fromkeys(verdict.alike))
            for doubt, call in doubts[:1]:
                unproven += [doubt, *call.notes]
            site = next((verdict.site for verdict, _ in verdicts if verdict.site is not None), None)
            if site is not None:
                sites.append(
                    dataclasses.replace(site, proven=not doubts and len(verdicts) == len(calls))
                )
        return Proof(
            sites=tuple(sites),
            requires=tuple(requires),
            alike=tuple(alike),
            facts=tuple(facts),
            unproven=tuple(unproven),
        )

    def _verdict(self, call: ast.Call, values: Values) -> _Verdict | None:
        access = _access(call, values)
        if access is not None:
            fact, needed, doubt = self._judged(access)
            return _Verdict(_site(access), fact, needed, doubt, tuple(self._alike(access)))
        if _gathers(call, values):
            what = f"{self._said(call)}: elements beyond the end of an array are padding"
            return _Verdict(
                None, Fact(guarantee=Guarantee.CONSTRUCTION, what=what, location=self._at(call))
            )
        if is_access(call, values):
            fact, said = elsewhere(
                call, "its array is not followed to a parameter", self._file, self._texts
            )
            return _Verdict(None, fact, (), said if fact.guarantee is Guarantee.KERNEL else None)
        return None

    def _judged(self, access: _Access) -> tuple[Fact, Sequence[str], Diagnostic | None]:
        """What is known of an access, what a launch has to fulfil for it, and what keeps it from
        being known.
        """
        at, said = self._at(access.call), self._said(access.call)
        if access.unchecked:
            return (
                Fact(
                    guarantee=Guarantee.NONE,
                    what=f"{said}: unchecked = True promises tiles that begin in it",
                    location=at,
                ),
                (),
                None,
            )
        what = f"{said}: each tile begins in {access.param.name}"
        try:
            needed = self._needed(access)
        except _UnknownError as unknown:
            return (
                Fact(guarantee=Guarantee.KERNEL, what=what, location=at),
                (),
                self._diagnostic(access, at, unknown),
            )
        return (
            Fact(
                guarantee=Guarantee.LAUNCH if needed else Guarantee.CONSTRUCTION,
                what=what,
                location=at,
            ),
            needed,
            None,
        )

    def _alike(self, access: _Access) -> Iterator[Alike]:
        places = tuple(zip(access.indices or (), access.sizes or (), strict=False))
        if access.unchecked or len(places) != access.param.rank:
            return
        like = access.name == "load_tile_like"
        followed = [
            (None, None) if axis in access.once else place for axis, place in enumerate(places)
        ]
        yield from alike_module.of_access(access.param, followed, self._params, like=like)

    def _said(self, call: ast.Call) -> str:
        return f"{ast.unparse(call.func)} at {self._file}:{call.lineno}"

    def _needed(self, access: _Access) -> list[str]:
        """What a launch has to fulfil for an access to begin in its array. Raises _UnknownError."""
        name = access.param.name
        if not access.by_its_name:
            raise _UnknownError(
                f"{access.name} is called by another name",
                f"write {access.name}, or {name}.{access.name}",
            )
        if access.indices is None or access.sizes is None:
            if access.param.access is Access.MAPPED:
                what = f"the place is not known to be one of this block's tiles of {name}"
                raise _UnknownError(
                    what, f"take it in a loop: for tile in {name}.tiles: at = {name}.place(tile)"
                )
            raise _UnknownError(
                "index or shape is not written out where it can be followed",
                "write both as tuples in the call",
            )
        if {len(access.indices), len(access.sizes)} != {access.param.rank}:
            dimensions = f"{access.param.rank} dimension{'' if access.param.rank == 1 else 's'}"
            raise _UnknownError(
                f"{name} has {dimensions}, and index or shape another number of them",
                "give one number for each",
            )
        needed = []
        for axis, (index, size) in enumerate(zip(access.indices, access.sizes, strict=False)):
            if size is None:
                raise _UnknownError(
                    f"the tile's extent {axis} is not a constant that can be followed",
                    "use a tl.Const or an axis",
                )
            there = f"cdiv({name}.shape[{axis}], {size})"
            if axis in access.once:
                needed.append(f"{name}.shape[{axis}] == 1")
                continue
            match index:
                case Within(count=count, divisors=divisors):
                    needed += _positive(divisors)
                    if count != Count(name, axis, size):
                        needed.append(f"{there} >= {limit_of(index)}")
                case Nearest(count=count):
                    needed.append(f"{limit_of(index)} > 0{self._guard}")
                    if count != Count(name, axis, size):
                        needed.append(f"{there} >= {limit_of(index)}")
                case Part(limit=said, divisors=divisors):
                    needed += _positive(divisors)
                    needed.append(f"{there} >= {said}{self._guard}")
                case Below(limit=limit):
                    needed.append(f"{there} >= {limit}{self._guard}")
                case int() if index >= 0:
                    needed.append(f"{there} > {index}{self._guard}")
                case _:
                    what = f"index {axis} is not known to be among the tiles of {name}"
                    raise _UnknownError(
                        what,
                        f"iterate over range({name}.num_tiles({axis}, {size})), or over an output's own index",
                    )
        return needed

    def _at(self, node: ast.Call) -> Location:
        return node_location(self._texts, self._file, node)[0]

    def _diagnostic(self, access: _Access, at: Location, unknown: _UnknownError) -> Diagnostic:
        what = f"{ast.unparse(access.call.func)} is checked inside of the kernel: {unknown.what}"
        return Diagnostic(
            message=what,
            location=at,
            excerpt=line_of(self._texts, at.file, at.line),
            hint=unknown.hint,
        )


def _access(call: ast.Call, values: Values) -> _Access | None:
    """The access that a call is, where its array is a parameter of the kernel."""
    lang = api.lang()
    function = values.resolved(call.func)
    if function is lang.load_tile_like:
        return _like(call, values, argument(call, 0, "x"), argument(call, 1, "z"))
    if not isinstance(call.func, ast.Attribute):
        return None
    base = values.of(call.func.value)
    if not isinstance(base, ArrayOf):
        return None
    name, access = call.func.attr, base.param.access
    if access is Access.REF and name == "load_tile_like":
        return _like(call, values, call.func.value, argument(call, 0, "other"))
    if access is Access.REF and name == "load_tile":
        index, shape = values.of(argument(call, 0, "index")), values.of(argument(call, 1, "shape"))
        said = argument(call, 99, "unchecked")
        return _Access(
            call=call,
            named=call.func,
            name=name,
            param=base.param,
            indices=index.values if isinstance(index, Items) else None,
            sizes=tuple(size_text(size) for size in shape.values)
            if isinstance(shape, Items)
            else None,
            unchecked=said is not None
            and not (isinstance(said, ast.Constant) and said.value is False),
        )
    if access is Access.MAPPED and name in ("store", "load"):
        at = values.of(argument(call, 0, "at"))
        own = isinstance(at, Owned) and at.param is base.param
        indices = (
            tuple(Within(Count(base.param.name, k, size)) for k, size in enumerate(base.param.tile))
            if own
            else None
        )
        return _Access(call, call.func, name, base.param, indices, base.param.tile)
    if access is Access.SPAN and name in ("store_tile", "load_tile"):
        param, number = base.param, values.of(argument(call, 0, "number"))
        places = tuple(
            number if k == param.axis else Within(Count(param.name, k, size))
            for k, size in enumerate(param.tile)
        )
        return _Access(call, call.func, name, param, places, param.tile)
    return None


def _like(
    call: ast.Call, values: Values, array: ast.expr | None, other: ast.expr | None
) -> _Access | None:
    of, like = values.of(array), values.of(other)
    if not isinstance(of, ArrayOf) or of.param.access is not Access.REF:
        return None
    if not isinstance(like, ArrayOf) or like.param.access is not Access.MUT:
        return _Access(call, call.func, "load_tile_like", of.param, None, None)
    places = tuple(
        Within(Count(like.param.name, k, size)) for k, size in enumerate(like.param.tile)
    )
    once = broadcast_axes(call, values, of.param.rank)
    if once is None:
        return _Access(call, call.func, "load_tile_like", of.param, None, None)
    return _Access(call, call.func, "load_tile_like", of.param, places, like.param.tile, once=once)


def broadcast_axes(call: ast.Call, values: Values, rank: int) -> frozenset[int] | None:
    """The axes that a call's `broadcast` names; None where that cannot be followed, or the array
    has no such axis.
    """
    given = argument(call, 99, "broadcast")
    value = Items(()) if given is None else values.of(given)
    axes = value.values if isinstance(value, Items) else (value,)
    return frozenset(axes) if all(type(axis) is int and 0 <= axis < rank for axis in axes) else None


def _site(access: _Access) -> Site | None:
    """Where an access may lose its check: nowhere, where it is unchecked already, or called by
    another name.
    """
    if access.unchecked or not access.by_its_name:
        return None
    end = access.named.end_col_offset or 0
    return Site(
        line=access.named.end_lineno or 0,
        column=end - len(access.name.encode()),
        name=access.name,
        proven=False,
    )


def _gathers(call: ast.Call, values: Values) -> bool:
    base = (
        values.of(call.func.value)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "gather"
        else None
    )
    return isinstance(base, ArrayOf) and base.param.access is Access.REF


def _positive(divisors: Sequence[str]) -> list[str]:
    return [f"{divisor} > 0" for divisor in divisors if not (divisor.isdigit() and int(divisor))]


def is_access(node: ast.AST, values: Values) -> bool:
    """Whether a call of what is not known to be a parameter may be an access: by its name, and,
    where that says little, its arguments.
    """
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if values.resolved(node.func) is not None or isinstance(values.of(node.func.value), ArrayOf):
        return False
    least = {"load_tile": 0, "load_tile_like": 0, "store_tile": 0, "store": 2, "load": 1}.get(
        node.func.attr
    )
    return least is not None and len(node.args) + len(node.keywords) >= least


def elsewhere(
    call: ast.Call, why: str, file: str, texts: Mapping[str, str], *, helper: bool = False
) -> tuple[Fact, Diagnostic]:
    """An access that nothing is proven of: checked inside of the kernel, unless it says itself that
    it is not.
    """
    at, line = node_location(texts, file, call)
    said = ast.unparse(call.func)
    free = any(
        item.arg == "unchecked"
        and not (isinstance(item.value, ast.Constant) and item.value.value is False)
        for item in call.keywords
    )
    kind, what = Guarantee.KERNEL, f"{said} at {file}:{call.lineno}: each tile begins in its array"
    if free:
        kind, what = (
            Guarantee.NONE,
            f"{said} at {file}:{call.lineno}: unchecked = True promises tiles that begin in its array",
        )
    fact = Fact(guarantee=kind, what=what, location=at, in_helper=helper)
    hint = "call functions by their names alone, or load in the kernel itself and pass the tile on"
    return fact, Diagnostic(
        message=f"{said} is checked inside of the kernel: {why}",
        location=at,
        excerpt=line,
        hint=hint,
    )
