"""Reads the signature of a kernel in the safe language: what each parameter may do, in which tiles,
with which axes.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tools.python_errors import (
    function_node,
    line_of,
    node_location,
    parameter_nodes,
)
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.suggest import did_you_mean


class Access(enum.Enum):
    """What a kernel may do with a parameter."""

    MUT = "tl.Mut"
    MAPPED = "tl.MappedMut"
    SPAN = "tl.SpanMut"
    REF = "tl.Ref"
    PTR = "tl.Ptr"
    SCALAR = "scalar"
    CONST = "tl.Const"


OUTPUTS = (Access.MUT, Access.MAPPED, Access.SPAN)
OWNED = (Access.MUT, Access.SPAN)  # one region for each block
EXAMPLES = {
    Access.MUT: "tl.Mut[T, (BM, BN)]",
    Access.MAPPED: "tl.MappedMut[T, (BM, BN)]",
    Access.SPAN: "tl.SpanMut[T, (BM, BN), 1]",
    Access.REF: "tl.Ref[T, 2]",
    Access.PTR: "tl.Ptr[T]",
}
_KNOWN = "kernels take tl.Mut, tl.MappedMut, tl.SpanMut, tl.Ref, tl.Ptr, tl.Const[int], int, float and bool"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafeParam:
    """One parameter.

    Attributes:
        name: its name.
        access: what the kernel may do with it.
        text: its annotation as written.
        dtype: a dtype's name, or that of the axis that holds it.
        rank: dimensions of an array.
        tile: extents of an output's tiles: names of axes, and numbers.
        strip: tile rows of a strip in which the tiles of a mapped output are numbered, empty for
            none, -1 from the last tile on.
        axis: the axis along which a region has all tiles, -1 for none.
        axes: the axes that its annotation names.
        default: default of a scalar or constant.
        location, excerpt: where its annotation stands (the parameter, where it has none).
    """

    name: str
    access: Access
    text: str
    dtype: str = ""
    rank: int = -1
    tile: tuple[str, ...] = ()
    strip: str = ""
    axis: int = -1
    axes: tuple[str, ...] = ()
    default: AxisValue | None = None
    location: Location
    excerpt: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """The parameters that could be read, in order, and what is wrong with the others."""

    params: tuple[SafeParam, ...]
    problems: tuple[Diagnostic, ...]


def signature_of(function: Any, texts: Mapping[str, str]) -> Signature:
    """Read a decorated function's parameters."""
    code = function.__code__
    reader = _Reader(
        texts,
        code.co_filename,
        function_node(texts.get(code.co_filename, ""), code.co_firstlineno),
        code.co_firstlineno,
    )
    params = []
    for item in inspect.signature(function).parameters.values():
        place = reader.place(item.name)
        try:
            params.append(_parameter(item, function, place))
        except _RefusedError as refused:
            message = Diagnostic(
                message=refused.what,
                location=place.location,
                excerpt=place.excerpt,
                hint=refused.hint,
            )
            reader.problems.append(message)
    return Signature(params=tuple(params), problems=tuple(reader.problems))


class _RefusedError(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    location: Location
    excerpt: str
    text: str


class _Reader:
    def __init__(
        self, texts: Mapping[str, str], file: str, node: ast.FunctionDef | None, line: int
    ) -> None:
        self._texts, self._file, self._node, self._line = texts, file, node, line
        self.problems: list[Diagnostic] = []

    def place(self, name: str) -> _Place:
        """Where a parameter's annotation stands, and its text."""
        for arg in parameter_nodes(self._node) if self._node is not None else ():
            if arg.arg == name:
                at, line = node_location(self._texts, self._file, arg.annotation or arg)
                return _Place(at, line, ast.unparse(arg.annotation) if arg.annotation else "")
        return _Place(
            Location(file=self._file, line=self._line),
            line_of(self._texts, self._file, self._line),
            "",
        )


def _evaluated(annotation: Any, function: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__)  # noqa: S307 - the module's own text, which was executed already
    except Exception as exc:
        raise _RefusedError(
            f"the annotation cannot be evaluated: {type(exc).__name__}: {exc}"
        ) from exc


def _parameter(item: inspect.Parameter, function: Any, place: _Place) -> SafeParam:
    name, default = item.name, item.default
    if item.kind is not item.POSITIONAL_OR_KEYWORD and item.kind is not item.POSITIONAL_ONLY:
        raise _RefusedError(
            f"parameter {name!r} cannot be passed by place: a launcher passes every argument so"
        )
    if item.annotation is inspect.Parameter.empty:
        hint = "tl.Ref[T, 2] reads, tl.Mut[T, (BM, BN)] writes one tile for each block"
        raise _RefusedError(
            f"parameter {name!r} has no annotation: say what the kernel may do with it", hint
        )
    annotation = _evaluated(item.annotation, function)
    plain = default if isinstance(default, bool | int | float) else None
    if default is not inspect.Parameter.empty and plain is None:
        raise _RefusedError(f"parameter {name!r} has the default {default!r}: defaults are numbers")
    base, marks = annotation, ()
    if typing.get_origin(annotation) is typing.Annotated:
        base, *found = typing.get_args(annotation)
        marks = tuple(found)
    made = _made(name, base, marks, place.text)
    if plain is not None and made["access"] not in (Access.SCALAR, Access.CONST):
        raise _RefusedError(f"parameter {name!r} is an array, and has the default {default!r}")
    return SafeParam(
        name=name,
        text=place.text,
        default=plain,
        location=place.location,
        excerpt=place.excerpt,
        **made,
    )


def _made(name: str, base: Any, marks: tuple[Any, ...], text: str) -> dict[str, Any]:
    lang = api.lang()
    kinds = {
        lang.Mut: Access.MUT,
        lang.MappedMut: Access.MAPPED,
        lang.SpanMut: Access.SPAN,
        lang.Ref: Access.REF,
        lang.Ptr: Access.PTR,
    }
    if isinstance(base, type) and base in kinds:
        return _array(name, kinds[base], marks, text)
    if any(isinstance(mark, lang.Constant) for mark in marks) or base is lang.Const:
        if base not in (int, float, bool):
            raise _RefusedError(
                f"constant {name!r} is annotated with {text}: write tl.Const[int], tl.Const[float] or tl.Const[bool]"
            )
        return {"access": Access.CONST, "dtype": base.__name__}
    if base in (int, float, bool):
        given = {int: "i32", float: "f32", bool: "bool"}[base]
        axes: tuple[str, ...] = ()
        if marks:
            given, axes = _dtype(name, marks[0])
        return {"access": Access.SCALAR, "dtype": given, "axes": axes}
    raise _RefusedError(
        f"parameter {name!r} is annotated with {text}, which says nothing that a kernel can take",
        _KNOWN,
    )


def _array(name: str, access: Access, marks: tuple[Any, ...], text: str) -> dict[str, Any]:
    example = EXAMPLES[access]
    wanted = {Access.PTR: (1, 2), Access.MAPPED: (2, 3), Access.SPAN: (3,)}.get(access, (2,))
    if len(marks) not in wanted:
        parts = {
            Access.PTR: "dtype and rank",
            Access.REF: "dtype and rank",
            Access.SPAN: "dtype, tile and axis",
        }.get(access, "dtype and tile")
        raise _RefusedError(f"{text} of {name!r} does not say {parts}", f"write {name}: {example}")
    dtype, axes = _dtype(name, marks[0])
    if access in OUTPUTS:
        tile, named = _tile(name, marks[1], access)
        if access is Access.SPAN:
            return {
                "access": access,
                "dtype": dtype,
                "rank": len(tile),
                "tile": tile,
                "axis": _span(name, marks[2], len(tile)),
                "axes": (*axes, *named),
            }
        strip, more = _strip(name, marks, len(tile))
        return {
            "access": access,
            "dtype": dtype,
            "rank": len(tile),
            "tile": tile,
            "strip": strip,
            "axes": (*axes, *named, *more),
        }
    rank = marks[1] if len(marks) > 1 else 1
    if type(rank) is not int or not 1 <= rank <= 8:
        raise _RefusedError(
            f"the rank of {name!r} is {_shown(rank)}: it is a number from 1 to 8",
            f"write {name}: {example}",
        )
    return {"access": access, "dtype": dtype, "rank": rank, "axes": axes}


def _dtype(name: str, given: Any) -> tuple[str, tuple[str, ...]]:
    lang = api.lang()
    if isinstance(given, lang.DTypeAxis):
        return given.name, (given.name,)
    if isinstance(given, api.cuda_tile().DType):
        for dtype in DTYPES.values():
            if dtype.tile and getattr(api.cuda_tile(), dtype.tile, None) == given:
                return dtype.name, ()
        raise _RefusedError(
            f"the dtype of {name!r} is {given}, which no launcher takes",
            f"dtypes are {', '.join(DTYPES)}",
        )
    if isinstance(given, str):
        if given in DTYPES:
            return given, ()
        raise _RefusedError(
            f"the dtype of {name!r} is {given!r}, which is none{did_you_mean(given, DTYPES)}",
            _dtypes(),
        )
    if isinstance(given, lang.SizeAxis):
        raise _RefusedError(
            f"the dtype of {name!r} is {given.name}, a size",
            f'dtype variables are made so: {given.name} = tl.dtype("…")',
        )
    raise _RefusedError(f"the dtype of {name!r} is {_shown(given)}", _dtypes())


def _dtypes() -> str:
    return 'a dtype is a variable such as T = tl.dtype("T"), or fixed, such as tl.float32'


def _tile(name: str, given: Any, access: Access) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lang = api.lang()
    extents = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(extents) <= 3:
        what = f"the tile of {name!r} has {len(extents)} dimensions: a grid has one to three, so an output has as many"
        raise _RefusedError(what, "reshape the output on the host, which copies nothing")
    tile, axes = [], []
    for extent in extents:
        if isinstance(extent, lang.SizeAxis):
            tile.append(extent.name)
            axes.append(extent.name)
        elif type(extent) is int and extent > 0 and not extent & (extent - 1):
            tile.append(str(extent))
        elif type(extent) is int:
            raise _RefusedError(
                f"the tile of {name!r} has an extent of {extent}: extents of tiles are powers of two"
            )
        elif isinstance(extent, lang.DTypeAxis):
            raise _RefusedError(
                f"the tile of {name!r} has the extent {extent.name}, which is a dtype",
                f"write {name}: {EXAMPLES[access]}",
            )
        else:
            hint = 'sizes are variables such as BM = tl.size("BM"), or numbers'
            raise _RefusedError(f"the tile of {name!r} has the extent {_shown(extent)}", hint)
    return tuple(tile), tuple(axes)


def _strip(name: str, marks: tuple[Any, ...], rank: int) -> tuple[str, tuple[str, ...]]:
    if len(marks) < 3:
        return "", ()
    given = marks[2]
    if type(given) is int and given == api.lang().BACKWARD:
        return str(given), ()
    if rank == 1:
        raise _RefusedError(
            f"{name!r} has 1 dimension: the tiles of matrices alone are numbered in strips"
        )
    if isinstance(given, api.lang().SizeAxis):
        return given.name, (given.name,)
    if type(given) is int and given > 0:
        return str(given), ()
    raise _RefusedError(
        f"the strips of {name!r} have {_shown(given)} tile rows: that is a number, a size variable, or tl.BACKWARD"
    )


def _span(name: str, given: Any, rank: int) -> int:
    if type(given) is int and 0 <= given < rank:
        return given
    raise _RefusedError(
        f"the region of {name!r} goes along axis {_shown(given)}: that is a number from 0 to {rank - 1}"
    )


def _shown(value: Any) -> str:
    if isinstance(value, api.lang().Axis):
        return f"the variable {value.name}"
    return value.__name__ if isinstance(value, type) else repr(value)
