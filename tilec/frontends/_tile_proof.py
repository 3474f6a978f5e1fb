"""Which accesses of a kernel are known to stay in their arrays, what a launch has to fulfil for it, and which need a check inside."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.errors import Diagnostic, Location
from tilec.frontends import _tile_api as api
from tilec.frontends._tile_errors import characters, line_of
from tilec.frontends._tile_safe import Access, SafeParam
from tilec.frontends._tile_values import ArrayOf, Below, Count, Items, Nearest, Owned, Part, Values, Within, argument, limit_of, size_text
from tilec.model.safety import Fact, Guarantee

# What a checked access becomes where nothing is left to check: names of equal length, so that every place in the source stays what it is.
UNCHECKED = {"load_tile": "_loadtile", "load_tile_like": "_loadtile_like", "store": "_stow", "load": "_got", "store_tile": "_storetile"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A checked access: where its name stands (line from 1, column in bytes from 0), and whether it needs its check."""

    line: int
    column: int
    name: str
    proven: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What is known of a function's accesses."""

    sites: tuple[Site, ...]
    requires: tuple[str, ...]
    facts: tuple[Fact, ...]
    unproven: tuple[Diagnostic, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Access:
    """One access: the call, the node whose last name says what is done, the array, and for each dimension index and size, if known."""

    call: ast.Call
    named: ast.expr
    name: str
    param: SafeParam
    indices: tuple[Any, ...] | None
    sizes: tuple[str | None, ...] | None
    unchecked: bool = False


class _UnknownError(Exception):
    """Why an access cannot be told to stay in its array, and what would help."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class Prover:
    """Goes through one kernel function; `guard` is an expression that holds where nothing is launched."""

    def __init__(self, values: Values, file: str, texts: Mapping[str, str], params: Sequence[SafeParam]) -> None:
        self._values, self._file, self._texts = values, file, texts
        # The grid of mapped outputs is whatever a caller says, also where they are empty; along a whole axis there is always a block.
        owned = [param.name for param in params if param.access is Access.MUT]
        self._guard = f" or {owned[0]}.size == 0" if owned else ""

    def prove(self, node: ast.FunctionDef) -> Proof:
        """All accesses of a function."""
        sites: list[Site] = []
        facts: list[Fact] = []
        unproven: list[Diagnostic] = []
        requires: dict[str, None] = {}
        calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
        for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset)):
            access = self._access(call)
            if access is not None:
                fact, needed, doubt = self._judged(access)
                facts.append(fact)
                requires.update(dict.fromkeys(needed))
                unproven += [doubt] if doubt else []
                if not access.unchecked:
                    sites.append(self._site(access, proven=doubt is None))
            elif self._gathers(call):
                what = f"{self._said(call)}: elements beyond the end of an array are padding"
                facts.append(Fact(guarantee=Guarantee.CONSTRUCTION, what=what, location=self._at(call)))
            elif is_access(call, self._values):
                fact, said = elsewhere(call, "its array is not followed to a parameter", self._file, self._texts)
                facts.append(fact)
                unproven += [said] if fact.guarantee is Guarantee.KERNEL else []
        return Proof(sites=tuple(sites), requires=tuple(requires), facts=tuple(facts), unproven=tuple(unproven))

    def _judged(self, access: _Access) -> tuple[Fact, Sequence[str], Diagnostic | None]:
        """What is known of an access, what a launch has to fulfil for it, and what keeps it from being known."""
        at, said = self._at(access.call), self._said(access.call)
        if access.unchecked:
            return Fact(guarantee=Guarantee.NONE, what=f"{said}: unchecked = True promises tiles that begin in it", location=at), (), None
        what = f"{said}: each tile begins in {access.param.name}"
        try:
            needed = self._needed(access)
        except _UnknownError as unknown:
            return Fact(guarantee=Guarantee.KERNEL, what=what, location=at), (), self._diagnostic(access, at, unknown)
        return Fact(guarantee=Guarantee.LAUNCH if needed else Guarantee.CONSTRUCTION, what=what, location=at), needed, None

    def _said(self, call: ast.Call) -> str:
        return f"{ast.unparse(call.func)} at {self._file}:{call.lineno}"

    def _access(self, call: ast.Call) -> _Access | None:
        lang = api.lang()
        function = self._values.resolved(call.func)
        if function is lang.load_tile_like:
            return self._like(call, argument(call, 0, "x"), argument(call, 1, "z"))
        if not isinstance(call.func, ast.Attribute):
            return None
        base = self._values.of(call.func.value)
        if not isinstance(base, ArrayOf):
            return None
        name, access = call.func.attr, base.param.access
        if access is Access.REF and name == "load_tile_like":
            return self._like(call, call.func.value, argument(call, 0, "other"))
        if access is Access.REF and name == "load_tile":
            index, shape = self._values.of(argument(call, 0, "index")), self._values.of(argument(call, 1, "shape"))
            said = argument(call, 99, "unchecked")
            return _Access(
                call=call,
                named=call.func,
                name=name,
                param=base.param,
                indices=index.values if isinstance(index, Items) else None,
                sizes=tuple(size_text(size) for size in shape.values) if isinstance(shape, Items) else None,
                unchecked=said is not None and not (isinstance(said, ast.Constant) and said.value is False),
            )
        if access is Access.MAPPED and name in ("store", "load"):
            at = self._values.of(argument(call, 0, "at"))
            own = isinstance(at, Owned) and at.param is base.param
            indices = tuple(Within(Count(base.param.name, k, size)) for k, size in enumerate(base.param.tile)) if own else None
            return _Access(call, call.func, name, base.param, indices, base.param.tile)
        if access is Access.SPAN and name in ("store_tile", "load_tile"):
            param, number = base.param, self._values.of(argument(call, 0, "number"))
            places = tuple(number if k == param.axis else Within(Count(param.name, k, size)) for k, size in enumerate(param.tile))
            return _Access(call, call.func, name, param, places, param.tile)
        return None

    def _like(self, call: ast.Call, array: ast.expr | None, other: ast.expr | None) -> _Access | None:
        of, like = self._values.of(array), self._values.of(other)
        if not isinstance(of, ArrayOf) or of.param.access is not Access.REF:
            return None
        if not isinstance(like, ArrayOf) or like.param.access is not Access.MUT:
            return _Access(call, call.func, "load_tile_like", of.param, None, None)
        places = tuple(Within(Count(like.param.name, k, size)) for k, size in enumerate(like.param.tile))
        return _Access(call, call.func, "load_tile_like", of.param, places, like.param.tile)

    def _needed(self, access: _Access) -> list[str]:
        """What a launch has to fulfil for an access to begin in its array. Raises _UnknownError."""
        name = access.param.name
        if access.indices is None or access.sizes is None:
            if access.param.access is Access.MAPPED:
                what = f"the place is not known to be one of this block's tiles of {name}"
                raise _UnknownError(what, f"take it in a loop: for tile in {name}.tiles: at = {name}.place(tile)")
            raise _UnknownError("index or shape is not written out where it can be followed", "write both as tuples in the call")
        needed = []
        for axis, (index, size) in enumerate(zip(access.indices, access.sizes, strict=False)):
            if size is None:
                raise _UnknownError(f"the tile's extent {axis} is not a constant that can be followed", "use a tl.Const or an axis")
            there = f"cdiv({name}.shape[{axis}], {size})"
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
                    raise _UnknownError(what, f"iterate over range({name}.num_tiles({axis}, {size})), or over an output's own index")
        return needed

    def _site(self, access: _Access, *, proven: bool) -> Site:
        end = access.named.end_col_offset or 0
        return Site(line=access.named.end_lineno or 0, column=end - len(access.name.encode()), name=access.name, proven=proven)

    def _gathers(self, call: ast.Call) -> bool:
        base = self._values.of(call.func.value) if isinstance(call.func, ast.Attribute) and call.func.attr == "gather" else None
        return isinstance(base, ArrayOf) and base.param.access is Access.REF

    def _at(self, node: ast.Call) -> Location:
        line = line_of(self._texts, self._file, node.lineno)
        return Location(file=self._file, line=node.lineno, column=characters(line, node.col_offset) + 1)

    def _diagnostic(self, access: _Access, at: Location, unknown: _UnknownError) -> Diagnostic:
        what = f"{ast.unparse(access.call.func)} is checked inside of the kernel: {unknown.what}"
        return Diagnostic(message=what, location=at, excerpt=line_of(self._texts, at.file, at.line), hint=unknown.hint)


def _positive(divisors: Sequence[str]) -> list[str]:
    return [f"{divisor} > 0" for divisor in divisors if not (divisor.isdigit() and int(divisor))]


def is_access(node: ast.AST, values: Values) -> bool:
    """Whether a call of what is not known to be a parameter may be an access: by its name, and, where that says little, its arguments."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if values.resolved(node.func) is not None or isinstance(values.of(node.func.value), ArrayOf):
        return False
    least = {"load_tile": 0, "load_tile_like": 0, "store_tile": 0, "store": 2, "load": 1}.get(node.func.attr)
    return least is not None and len(node.args) + len(node.keywords) >= least


def elsewhere(call: ast.Call, why: str, file: str, texts: Mapping[str, str], *, helper: bool = False) -> tuple[Fact, Diagnostic]:
    """An access that nothing is proven of: checked inside of the kernel, unless it says itself that it is not."""
    line = line_of(texts, file, call.lineno)
    at = Location(file=file, line=call.lineno, column=characters(line, call.col_offset) + 1)
    said = ast.unparse(call.func)
    free = any(
        item.arg == "unchecked" and not (isinstance(item.value, ast.Constant) and item.value.value is False) for item in call.keywords
    )
    kind, what = Guarantee.KERNEL, f"{said} at {file}:{call.lineno}: each tile begins in its array"
    if free:
        kind, what = Guarantee.NONE, f"{said} at {file}:{call.lineno}: unchecked = True promises tiles that begin in its array"
    fact = Fact(guarantee=kind, what=what, location=at, in_helper=helper)
    hint = "load in the kernel itself, from its parameters, and pass the tile on"
    return fact, Diagnostic(message=f"{said} is checked inside of the kernel: {why}", location=at, excerpt=line, hint=hint)
