"""Read the signature of a safe kernel: the access that each annotation permits."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Body
from tilec.frontends.tools.python_errors import located, node_location, parameter_nodes
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue


class Access(enum.Enum):
    """Permitted access to a parameter."""

    MUT = "tl.Mut"
    MAPPED = "tl.MappedMut"
    SPAN = "tl.SpanMut"
    REF = "tl.Ref"
    PTR = "tl.Ptr"
    SCALAR = "scalar"
    CONST = "tl.Const"


OUTPUTS = (Access.MUT, Access.MAPPED, Access.SPAN)
OWNED = (Access.MUT, Access.SPAN)  # one region for each block
_EXAMPLES = {
    Access.MUT: "tl.Mut[T, TILE] or tl.Mut[T, (BM, BN)]",
    Access.MAPPED: "tl.MappedMut[T, (BM, BN)]",
    Access.SPAN: "tl.SpanMut[T, (BM, BN), 1]",
    Access.REF: "tl.Ref[T, 2]",
    Access.PTR: "tl.Ptr[T]",
}
# Parts of an annotation in order; those in brackets may be left out.
_PARTS = {
    Access.MUT: ("dtype", "tile"),
    Access.MAPPED: ("dtype", "tile", "[strip]"),
    Access.SPAN: ("dtype", "tile", "axis"),
    Access.REF: ("dtype", "rank"),
    Access.PTR: ("dtype", "[rank]"),
}
_RULES = {
    "dtype": 'it is a variable such as T = tl.dtype("T"), or fixed, such as tl.float32',
    "tile": 'it has one to three extents, each a power of two or a variable such as BM = tl.size("BM")',
    "rank": "it is a number from 1 to 8",
    "strip": "it is a number of tile rows of a matrix, a size variable, or tl.BACKWARD",
    "axis": "it is the number of an axis of the tile",
}
_SCALARS = {int: "i32", float: "f32", bool: "bool"}
_KNOWN = "kernels take tl.Mut, tl.MappedMut, tl.SpanMut, tl.Ref, tl.Ptr, tl.Const[int], int, float and bool"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafeParam:
    """One parameter.

    Attributes:
        name: its name.
        access: its permitted access.
        text: its annotation as written.
        dtype: a dtype's name, or that of the axis that holds it.
        rank: dimensions of an array.
        tile: extents of an output's tiles: names of axes, and numbers.
        strip: height in tile rows of the strips by which a mapped output's tiles are numbered;
            empty for none, -1 for numbering from the last tile.
        axis: the axis along which a region spans all tiles, -1 for none.
        axes: the axes that its annotation names.
        default: default of a scalar or constant.
        location: place of its annotation (of the parameter, if it has none).
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


def signature_of(
    body: Body, texts: Mapping[str, str]
) -> tuple[tuple[SafeParam, ...], list[Diagnostic]]:
    """Return the valid parameters of a function in order, and the errors of the others."""
    written = {arg.arg: arg for arg in parameter_nodes(body.node)}
    params, problems = [], []
    for item in inspect.signature(body.function).parameters.values():
        arg = written[item.name]
        at, _ = node_location(texts, body.file, arg.annotation or arg)
        text = ast.unparse(arg.annotation) if arg.annotation else ""
        try:
            fields = _parameter(item, body.function.__globals__, text)
            params.append(SafeParam(name=item.name, text=text, location=at, **fields))
        except _RefusedError as refused:
            problems.append(located(texts, at, refused.what, hint=refused.hint))
    return tuple(params), problems


class _RefusedError(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def _parameter(item: inspect.Parameter, scope: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the fields of a parameter from its annotation and default."""
    name, default = item.name, item.default
    if item.kind not in (item.POSITIONAL_OR_KEYWORD, item.POSITIONAL_ONLY):
        raise _RefusedError(
            f"parameter {name!r} cannot be passed by place: a launcher passes every argument so"
        )
    if item.annotation is item.empty:
        hint = "tl.Ref[T, 2] reads, tl.Mut[T, (BM, BN)] writes one tile for each block, float and int are numbers"
        raise _RefusedError(
            f"parameter {name!r} has no annotation: say what the kernel may do with it", hint
        )
    found = _annotated(name, _evaluated(item.annotation, scope), text)
    if default is item.empty:
        return found
    if found["access"] not in (Access.SCALAR, Access.CONST):
        raise _RefusedError(f"parameter {name!r} is an array, and has the default {default!r}")
    if not isinstance(default, bool | int | float):
        raise _RefusedError(f"parameter {name!r} has the default {default!r}: defaults are numbers")
    return {**found, "default": default}


def _evaluated(annotation: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["it"]
    except Exception as exc:
        what = f"the annotation cannot be evaluated: {type(exc).__name__}: {exc}"
        raise _RefusedError(what) from exc


def _annotated(name: str, annotation: Any, text: str) -> dict[str, Any]:
    lang = api.lang()
    base, *marks = typing.get_args(annotation) or (annotation,)
    kinds = {
        lang.Mut: Access.MUT,
        lang.MappedMut: Access.MAPPED,
        lang.SpanMut: Access.SPAN,
        lang.Ref: Access.REF,
        lang.Ptr: Access.PTR,
    }
    if isinstance(base, type) and base in kinds:
        return _array(name, kinds[base], marks, text)
    constant = any(isinstance(mark, lang.Constant) for mark in marks)
    if not isinstance(base, type) or base not in _SCALARS:
        hint = "write tl.Const[int], tl.Const[float] or tl.Const[bool]" if constant else _KNOWN
        raise _RefusedError(
            f"parameter {name!r} is annotated with {text}, which says nothing that a kernel can take",
            hint,
        )
    if constant:
        return {"access": Access.CONST, "dtype": base.__name__}
    dtype = _part(name, "dtype", marks[0], _dtype(marks[0]), "") if marks else _SCALARS[base]
    return {"access": Access.SCALAR, "dtype": dtype, "axes": _axes(marks)}


def _array(name: str, access: Access, marks: list[Any], text: str) -> dict[str, Any]:
    parts, example = _PARTS[access], f"write {name}: {_EXAMPLES[access]}"
    needed = [part for part in parts if not part.startswith("[")]
    if not len(needed) <= len(marks) <= len(parts):
        listed = f"{', '.join(needed[:-1])} and {needed[-1]}" if needed[1:] else needed[0]
        raise _RefusedError(f"{text} of {name!r} does not say {listed}", example)
    given = dict(zip((part.strip("[]") for part in parts), marks, strict=False))
    found: dict[str, Any] = {"access": access, "axes": _axes(marks), "rank": 1}
    for part, value in given.items():
        found[part] = _part(name, part, value, _READERS[part](value, found["rank"]), example)
        if part == "tile":
            found["rank"] = len(found["tile"])
    return found


def _part(name: str, part: str, given: Any, found: Any, example: str) -> Any:
    if found is None:
        raise _RefusedError(f"the {part} of {name!r} is {_shown(given)}: {_RULES[part]}", example)
    return found


def _axes(marks: Any) -> tuple[str, ...]:
    flat = [item for mark in marks for item in (mark if isinstance(mark, tuple) else (mark,))]
    return tuple(item.name for item in flat if isinstance(item, api.lang().Axis))


def _dtype(given: Any, _rank: int = 0) -> str | None:
    if isinstance(given, api.lang().DTypeAxis):
        return str(given.name)
    tile = api.cuda_tile()
    if isinstance(given, tile.DType):
        known = (d.name for d in DTYPES.values() if d.tile and getattr(tile, d.tile, None) == given)
        return next(known, None)
    return given if isinstance(given, str) and given in DTYPES else None


def _tile(given: Any, _rank: int) -> tuple[str, ...] | None:
    extents = [_extent(item) for item in (given if isinstance(given, tuple) else (given,))]
    known = tuple(extent for extent in extents if extent is not None)
    return known if 1 <= len(known) == len(extents) <= 3 else None


def _extent(given: Any) -> str | None:
    if isinstance(given, api.lang().SizeAxis):
        return str(given.name)
    return str(given) if type(given) is int and given > 0 and not given & (given - 1) else None


def _rank(given: Any, _rank: int) -> int | None:
    return given if type(given) is int and 1 <= given <= 8 else None


def _strip(given: Any, rank: int) -> str | None:
    if isinstance(given, api.lang().SizeAxis):
        return str(given.name) if rank > 1 else None
    backward = given == api.lang().BACKWARD
    return str(given) if type(given) is int and (backward or (given > 0 and rank > 1)) else None


def _axis(given: Any, rank: int) -> int | None:
    return given if type(given) is int and 0 <= given < rank else None


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "dtype": _dtype,
    "tile": _tile,
    "rank": _rank,
    "strip": _strip,
    "axis": _axis,
}


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, api.lang().Axis):
        return str(value.name)
    return value.__name__ if isinstance(value, type) else repr(value)
