"""Prove that accesses of a safe kernel stay in their arrays, some under launch conditions.

The accesses of an array are unchecked if each is proven, and the array does not escape.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.alike import of_access
from tilec.frontends.tile.bodies import Body
from tilec.frontends.tile.calls import Call
from tilec.frontends.tile.safe import Access, SafeParam
from tilec.frontends.tile.values import (
    Count,
    Share,
    argument,
    number,
    own_places,
    passed_to,
    size_text,
)
from tilec.frontends.tools.python_errors import located, node_location
from tilec.model.alike import Alike
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.safety import Fact, Guarantee

# Methods with a bounds check, and the name of their first argument, by kind of parameter. A `Mut`
# has one tile, which needs no check.
_CHECKED = {
    Access.REF: {"load_tile": "index", "load_tile_like": "other"},
    Access.MAPPED: {"store": "at", "load": "at"},
    Access.SPAN: {"store_tile": "number", "load_tile": "number"},
}
# Index and extent of the tile along each axis, as far as they are known.
_Places = Sequence["tuple[Any, str | None]"]
_BROADCAST = object()  # the index along an axis of one element


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The proofs of a kernel's accesses.

    Attributes:
        checked: names of the arrays whose accesses keep their checks.
        requires: launch conditions under which accesses of the other arrays stay inside.
        alike: extents that must be equal.
        facts: conditions of each access.
        unproven: accesses without a proof, with the calls that lead there.
        unfollowed: loads of tiles of unknown extents: the array, and the location.
        wrong: tiles of another rank than their array, in the kernel's own body.
    """

    checked: frozenset[str]
    requires: tuple[str, ...]
    alike: tuple[Alike, ...]
    facts: tuple[Fact, ...]
    unproven: tuple[Diagnostic, ...]
    unfollowed: tuple[tuple[str, str], ...]
    wrong: tuple[Diagnostic, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Finding:
    """An access of an array, or another use of it, in one call of a function.

    Attributes:
        doubt: why it has no proof, followed by notes on the calls that lead there.
    """

    param: str
    fact: Fact
    needs: Sequence[str] = ()
    alike: Sequence[Alike] = ()
    doubt: tuple[Diagnostic, ...] = ()
    unfollowed: str = ""
    wrong: Diagnostic | None = None


def prove(calls: Sequence[Call], params: Sequence[SafeParam], texts: Mapping[str, str]) -> Proof:
    """Prove the accesses of a kernel, the first of `calls`, as far as possible."""
    followed = frozenset(call.body.function for call in calls)
    readers = [_Reader(call, params, followed, texts) for call in calls]
    findings = [finding for reader in readers for finding in reader.findings()]
    checked = frozenset(finding.param for finding in findings if finding.doubt)
    facts, requires = list[Fact](), list[str]()
    doubts: dict[Location | None, tuple[Diagnostic, ...]] = {}
    for finding in findings:
        if finding.param in checked:
            facts.append(dataclasses.replace(finding.fact, guarantee=Guarantee.KERNEL))
        else:
            facts.append(finding.fact)
            requires += finding.needs
        if finding.doubt:
            doubts.setdefault(finding.doubt[0].location, finding.doubt)
    return Proof(
        checked=checked,
        requires=_unique(requires),
        alike=_unique(same for finding in findings for same in finding.alike),
        facts=_unique(facts),
        unproven=tuple(diagnostic for doubt in doubts.values() for diagnostic in doubt),
        unfollowed=_unique((f.param, f.unfollowed) for f in findings if f.unfollowed),
        wrong=_unique(finding.wrong for finding in findings if finding.wrong),
    )


def promises(body: Body, texts: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the accesses of a function that `unchecked=True` leaves unchecked."""
    for node in ast.walk(body.node):
        if isinstance(node, ast.Call) and _is_unchecked(node):
            said = f"{ast.unparse(node.func)} at {body.file}:{node.lineno}"
            what = f"{said}: unchecked = True promises tiles that begin in it"
            at = node_location(texts, body.file, node)[0]
            yield Fact(guarantee=Guarantee.NONE, what=what, location=at)


def _unique(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


class _DoubtError(Exception):
    """The reason why an access has no proof, and a hint."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class _ShapeError(_DoubtError):
    """The extents of a tile are not known."""


class _RankError(_DoubtError):
    """An array and a tile of it have different ranks."""


class _Reader:
    """Reads one function in one call of it."""

    def __init__(
        self,
        call: Call,
        params: Sequence[SafeParam],
        followed: frozenset[Any],
        texts: Mapping[str, str],
    ) -> None:
        self._call, self._values, self._file = call, call.values, call.body.file
        self._params, self._followed, self._texts = params, followed, texts
        # A caller chooses the grid of mapped outputs, even if they are empty. An owned output
        # without elements has no blocks.
        owned = [param.name for param in params if param.access is Access.MUT]
        self._unless_empty = f" or {owned[0]}.size == 0" if owned else ""
        # Names of arrays in uses that are analyzed; another use lets the array escape.
        self._analyzed: set[ast.expr | None] = set()

    def findings(self) -> list[_Finding]:
        """Return accesses of arrays and uses by which an array escapes, in source order."""
        nodes = ast.walk(self._call.body.node)  # a node before its parts
        return sorted((finding for node in nodes for finding in self._read(node)), key=_place)

    def _read(self, node: ast.AST) -> Iterator[_Finding]:
        """Yield what one node does with arrays, and note the names of arrays that it explains."""
        match node:
            case ast.Call():
                access = self._access(node)
                if access is not None and not _is_unchecked(node):
                    yield self._judged(node, *access)
                self._analyzed.update(self._passed(node))
            case ast.Attribute(value=array, attr=name):
                param = self._values.of(array)
                if isinstance(param, SafeParam) and name not in _CHECKED.get(param.access, ()):
                    self._analyzed.add(array)
            case ast.Assign(targets=targets, value=ast.Name() as array):
                # The targets are other names of the array, and each is bound once.
                param = self._values.of(array)
                same = all(self._values.of(target) is param for target in targets)
                if isinstance(param, SafeParam) and same:
                    self._analyzed.add(array)
            case ast.Name() if node not in self._analyzed:
                yield from self._escaped(node)

    def _access(self, call: ast.Call) -> tuple[SafeParam, str, ast.expr | None] | None:
        """Return array, method and first argument of a call that accesses an array, or None."""
        if self._values.resolved(call.func) is api.lang().load_tile_like:
            array, name, first = argument(call, 0, "x"), "load_tile_like", argument(call, 1, "z")
            param = self._values.of(array)
        elif isinstance(call.func, ast.Attribute):
            array, name = call.func.value, call.func.attr
            param = self._values.of(array)
            known = _CHECKED.get(param.access, {}) if isinstance(param, SafeParam) else {}
            if name not in known:
                return None
            first = argument(call, 0, known[name])
        else:
            return None
        if not isinstance(param, SafeParam):
            return None
        self._analyzed.add(array)
        return param, name, first

    def _judged(
        self, call: ast.Call, param: SafeParam, name: str, first: ast.expr | None
    ) -> _Finding:
        """Return the proof of an access, or the doubt about it."""
        at, _ = node_location(self._texts, self._file, call)
        said = ast.unparse(call.func)
        what = f"{said} at {self._file}:{call.lineno}: each tile begins in {param.name}"
        fact = Fact(guarantee=Guarantee.CONSTRUCTION, what=what, location=at)
        finding = _Finding(param=param.name, fact=fact)
        try:
            places = self._places(call, param, name, first)
            alike = tuple(of_access(param, places, self._params, like=name == "load_tile_like"))
            finding = dataclasses.replace(finding, alike=alike)
            needs = self._needs(param, places)
        except _DoubtError as error:
            wrong, unfollowed = None, ""
            # A function that is called may choose by rank, at compile time.
            if isinstance(error, _RankError) and not self._call.notes:
                wrong = located(self._texts, at, f"{name}: {error.what}", hint=error.hint)
            # An explicit padding shows that the author considered elements outside the array.
            padded = any(item.arg == "padding" for item in call.keywords)
            if isinstance(error, _ShapeError) and not padded:
                unfollowed = f"{at}: {said}"
            doubt = self._doubt(call, said, error.what, error.hint)
            return dataclasses.replace(finding, doubt=doubt, wrong=wrong, unfollowed=unfollowed)
        if needs:
            fact = dataclasses.replace(fact, guarantee=Guarantee.LAUNCH)
        return dataclasses.replace(finding, fact=fact, needs=needs)

    def _places(
        self, call: ast.Call, param: SafeParam, name: str, first: ast.expr | None
    ) -> _Places:
        """Return the tile's index and extents. Raises _DoubtError."""
        value = self._values.of(first)
        if param.access is Access.MAPPED:
            if value != Share(param, "place"):
                what = f"the place is not known to be one of this block's tiles of {param.name}"
                loop = f"for tile in {param.name}.tiles: at = {param.name}.place(tile)"
                raise _DoubtError(what, f"take it in a loop: {loop}")
            return list(zip(own_places(param), param.tile, strict=True))
        if param.access is Access.SPAN:
            own = list(zip(own_places(param), param.tile, strict=True))
            own[param.axis] = (value, param.tile[param.axis])
            return own
        once: Sequence[Any] | None = ()
        if name == "load_tile":
            index, extents = value, self._values.of(argument(call, 1, "shape"))
            sizes = tuple(map(size_text, extents)) if isinstance(extents, tuple) else None
        else:
            like = isinstance(value, SafeParam) and value.access is Access.MUT
            index, sizes = (own_places(value), value.tile) if like else (None, None)
            once = self._broadcast_axes(call, param.rank)
        if not isinstance(index, tuple) or sizes is None or once is None:
            what = "index or shape is not written out where it can be followed"
            raise _ShapeError(what, "write both as tuples in the call")
        if not len(index) == len(sizes) == param.rank:
            raise _other_rank(param, value, index, sizes)
        return [
            (_BROADCAST, None) if axis in once else place
            for axis, place in enumerate(zip(index, sizes, strict=True))
        ]

    def _broadcast_axes(self, call: ast.Call, rank: int) -> Sequence[int] | None:
        """Return the axes that `broadcast` names; None if they are not known."""
        given = next((item.value for item in call.keywords if item.arg == "broadcast"), None)
        value = () if given is None else self._values.of(given)
        axes = value if isinstance(value, tuple) else (value,)
        return axes if all(type(axis) is int and 0 <= axis < rank for axis in axes) else None

    def _needs(self, param: SafeParam, places: _Places) -> list[str]:
        """Return the launch conditions for a tile that begins in its array. Raises _DoubtError."""
        needs = []
        for axis, (value, size) in enumerate(places):
            if value is _BROADCAST:
                needs.append(f"{param.name}.shape[{axis}] == 1")
                continue
            if size is None:
                what = (
                    f"the tile's extent of dimension {axis} is not a constant that can be followed"
                )
                raise _ShapeError(
                    what,
                    "use a number, an axis, or a tl.Const; `let` of the manifest derives sizes",
                )
            index, own = number(value), Count(param.name, axis, size)
            if index is None or not index.below:
                what = f"index {axis} is not known to be among the tiles of {param.name}"
                loop = f"range({param.name}.num_tiles({axis}, {size}))"
                raise _DoubtError(what, f"iterate over {loop}, or over an output's own index")
            needs += [f"{d} > 0" for d in index.divisors if not (d.isdigit() and int(d))]
            if index.clamped:
                needs.append(f"{index.below} > 0{self._unless_empty}")
            if index.below != own:
                excuse = "" if isinstance(index.below, Count) else self._unless_empty
                needs.append(f"{own} >= {index.below}{excuse}")
        return needs

    def _passed(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the arguments that are arrays for a followed function, which is read apart."""
        callee = self._values.callee(call.func)
        if callee is not None and callee.function in self._followed:
            inside = self._values.inside(callee, call)
            for name, passed in passed_to(callee, call).items():
                if isinstance(inside.of(ast.Name(id=name)), SafeParam):
                    yield passed

    def _escaped(self, node: ast.Name) -> Iterator[_Finding]:
        """Yield the use of a name by which an array escapes, or is bound again."""
        value, given = self._values.of(node), self._values.given.get(node.id)
        param = given if value is None else value if isinstance(node.ctx, ast.Load) else None
        if isinstance(param, SafeParam) and param.access in _CHECKED:
            what = f"{node.id} at {self._file}:{node.lineno}: accesses elsewhere are checked"
            at, _ = node_location(self._texts, self._file, node)
            fact = Fact(guarantee=Guarantee.KERNEL, what=what, location=at)
            hint = "pass it to functions of the project by name, or load here and pass the tile on"
            doubt = self._doubt(node, node.id, "what is done with it here is not followed", hint)
            yield _Finding(param=param.name, fact=fact, doubt=doubt)

    def _doubt(self, node: ast.expr, said: str, why: str, hint: str) -> tuple[Diagnostic, ...]:
        at, _ = node_location(self._texts, self._file, node)
        message = f"{said} is checked inside of the kernel: {why}"
        return located(self._texts, at, message, hint=hint), *self._call.notes


def _place(finding: _Finding) -> tuple[int, int]:
    at = finding.fact.location
    return (at.line, at.column) if at else (0, 0)


def _other_rank(
    param: SafeParam, value: Any, index: Sequence[Any], sizes: Sequence[str | None]
) -> _RankError:
    """Return the error of a tile whose index, or whose shape, has another rank than its array."""
    own = f"{param.name} has rank {param.rank}"
    if not isinstance(value, SafeParam):
        what = f"{own}, its index has {len(index)} and its shape {len(sizes)} numbers"
        return _RankError(
            what, "give one number for each dimension; a tuple of one is written (i,)"
        )
    example = f", such as {param.name}.load_tile((0,), ({sizes[-1]},))" if param.rank == 1 else ""
    hint = f"load_tile takes an index and a shape of {param.name}'s rank{example}"
    return _RankError(f"{own}, and {value.name} has rank {value.rank}", hint)


def _is_unchecked(call: ast.Call) -> bool:
    return any(
        item.arg == "unchecked"
        and not (isinstance(item.value, ast.Constant) and item.value.value is False)
        for item in call.keywords
    )
