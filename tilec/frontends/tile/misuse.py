"""What a kernel in the safe language must not do, found in its source: writing what it only reads,
or reaching around the language.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Body, scope_of
from tilec.frontends.tile.calls import Followed, in_branches
from tilec.frontends.tile.proof import UNCHECKED, broadcast_axes
from tilec.frontends.tile.safe import EXAMPLES, OUTPUTS, Access
from tilec.frontends.tile.values import ArrayOf, Items, Size, Values, Within, argument
from tilec.frontends.tools.python_errors import characters, line_of
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.suggest import did_you_mean

# Attributes that hold what the language keeps from kernels, and those that only proven accesses
# become.
FIELDS = (
    "_tl_array",
    "_tl_divisors",
    "_tl_index",
    "_tl_tile",
    "_tl_first",
    "_tl_strip",
    "_tl_of",
    "_tl_number",
    "_tl_axis",
    "_tl_single",
)
PRIVATE = (*FIELDS, *UNCHECKED.values())
_RAW = (
    "load",
    "store",
    "gather",
    "scatter",
    "load_advanced_indexing",
    "store_advanced_indexing",
    "num_tiles",
)
_INSTEAD = {
    "load": "load_tile(index, shape)",
    "gather": "gather(indices)",
    "num_tiles": "num_tiles(axis, size)",
}


def misuses(
    function: Followed, texts: Mapping[str, str], *, kernel: bool
) -> Iterator[tuple[Diagnostic, ...]]:
    """What a kernel, or a function whose calls are known, does wrong with the arrays that it has,
    each with notes of the calls.

    A function may be written for several kinds of arrays: what it does in a branch is left to the
    compiler, which knows the branch.
    """
    node, file = function.body.node, function.body.file
    left_out = frozenset() if kernel else in_branches(node)
    for call in function.calls:
        if not call.certain:
            continue
        for inner in ast.walk(node):
            found = _of_array(inner, call.values) if id(inner) not in left_out else None
            if found:
                yield _diagnostic(inner, found, file, texts), *call.notes


def reaching_around(body: Body, texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """What a function does wrong, whatever it is called with."""
    node, file, values = body.node, body.file, Values(body.node, scope_of(body.function), {})
    for inner in ast.walk(node):
        found = _around(inner, values)
        if found:
            yield _diagnostic(inner, found, file, texts)
    yield from _passed_on(node, values, file, texts)


def _passed_on(
    node: ast.FunctionDef, values: Values, file: str, texts: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """`getattr` that is not called where it stands: under another name, nobody would see what it is
    called with.
    """
    called = {id(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr) and id(inner) not in called and _is_getattr(inner, values):
            found = f"{ast.unparse(inner)} under another name could reach around the safe language"
            yield _diagnostic(inner, (found, "write the attribute out"), file, texts)


def _is_getattr(node: ast.expr, values: Values) -> bool:
    return (isinstance(node, ast.Name) and node.id == "getattr") or values.resolved(node) is getattr


def _around(node: ast.AST, values: Values) -> tuple[str, str] | None:
    """Reaching around the language: private parts, and making what only a launch makes."""
    if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
        return (
            f"{ast.unparse(node)} reaches around the safe language",
            "declare the parameter tl.Ptr[T] where the kernel has to",
        )
    if isinstance(node, ast.keyword) and node.arg in PRIVATE:
        return f"{node.arg} is a part that a launch alone sets", ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PRIVATE:
        return f"{node.value!r} names what the safe language keeps to itself", ""
    if isinstance(node, ast.Call):
        named = (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else node.func.id
            if isinstance(node.func, ast.Name)
            else ""
        )
        if _is_getattr(node.func, values) and not (
            len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
        ):
            return (
                "getattr with a computed name could reach around the safe language",
                "write the attribute out",
            )
        if named in UNCHECKED and any(item.arg is None for item in node.keywords):
            return (
                f"{ast.unparse(node.func)} unpacks arguments: whether it is checked has to stand in the call",
                "write them out",
            )
        lang = api.lang()
        made = values.resolved(node.func)
        if isinstance(made, type) and made in (
            lang.Mut,
            lang.MappedMut,
            lang.SpanMut,
            lang.Ref,
            lang.Ptr,
            lang.Place,
        ):
            return f"{ast.unparse(node.func)} is made by a launch alone", "take it as a parameter"
        if isinstance(made, lang.Kernel):
            return (
                f"{ast.unparse(node.func)} is a kernel, which only a launch calls",
                "put what both do into a function without @tl.kernel",
            )
    return None


def _of_array(node: ast.AST, values: Values) -> tuple[str, str] | None:
    if isinstance(node, ast.Call):
        found = (
            _raw_call(node, values)
            or _own_store(node, values)
            or _numbers(node, values)
            or _ranks(node, values)
        )
        found = found or _broadcast(node, values)
        if found:
            return found
    if not isinstance(node, ast.Attribute):
        return None
    base = values.of(node.value)
    if not isinstance(base, ArrayOf) or base.param.access is Access.PTR:
        return None
    param = base.param
    known = _public(param.access)
    if node.attr in known or node.attr in PRIVATE:
        return None
    if param.access is Access.REF and node.attr in ("store", "store_tile"):
        named = ast.unparse(node.value)
        said = param.name if named == param.name else f"{named} (the kernel's {param.name})"
        return (
            f"{said} is only read ({param.text}): it cannot be stored to",
            f"declare it {EXAMPLES[Access.MUT]} to write it",
        )
    kind = param.access.value
    return (
        f"{kind} has no {node.attr!r}{did_you_mean(node.attr, known)}",
        f"{param.name} is {param.text}, which has {', '.join(known)}",
    )


def _public(access: Access) -> list[str]:
    lang = api.lang()
    cls = {
        Access.MUT: lang.Mut,
        Access.MAPPED: lang.MappedMut,
        Access.SPAN: lang.SpanMut,
        Access.REF: lang.Ref,
    }[access]
    return [name for name in vars(cls) if not name.startswith("_")]


def _raw_call(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """An operation of cuda.tile on memory, applied to a parameter of the language."""
    tile = api.cuda_tile()
    function = values.resolved(node.func)
    name = getattr(function, "__name__", "")
    if (
        function is None
        or getattr(tile, name, None) is not function
        or not (name in _RAW or name.startswith("atomic_"))
    ):
        return None
    base = values.of(node.args[0]) if node.args else None
    if not isinstance(base, ArrayOf) or base.param.access is Access.PTR:
        return None
    param = base.param
    what = f"{ast.unparse(node.func)} takes raw arrays, and {param.name} is {param.text}"
    if param.access in OUTPUTS:
        write = {Access.MAPPED: "store(at, tile)", Access.SPAN: "store_tile(number, tile)"}.get(
            param.access, "store(tile)"
        )
        return (
            what,
            f"{param.name}.{write} writes what this block owns; tl.Ptr[T] is unsafe, and a raw array",
        )
    if name in _INSTEAD:
        return what, f"write {param.name}.{_INSTEAD[name]}"
    return (
        what,
        f"a tl.Ref is only read; {EXAMPLES[Access.MUT]} is written, and tl.Ptr[T] is unsafe, and a raw array",
    )


def _own_store(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """A store that names a place, where a block has only one."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("store", "load"):
        return None
    base = values.of(node.func.value)
    if not isinstance(base, ArrayOf) or base.param.access is not Access.MUT:
        return None
    most = 1 if node.func.attr == "store" else 0
    extra = [item.arg for item in node.keywords if item.arg in ("index", "at")]
    if len(node.args) <= most and not extra:
        return None
    name = base.param.name
    what = f"{name} is this block's own region, and no other can be reached: {name}.{node.func.attr} takes no place"
    return (
        what,
        f"write {name}.{node.func.attr}({'tile' if most else ''}); for several tiles of an output: tl.MappedMut",
    )


def _numbers(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """A place, where a tile of a region along an axis has a number."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in (
        "store_tile",
        "load_tile",
    ):
        return None
    base = values.of(node.func.value)
    if not isinstance(base, ArrayOf) or base.param.access is not Access.SPAN:
        return None
    if not isinstance(values.of(argument(node, 0, "number")), Items | ArrayOf):
        return None
    what = f"{ast.unparse(node.func)} takes the number of a tile along axis {base.param.axis}, and no place"
    return what, f"iterate over range({base.param.name}.num_tiles({base.param.axis}))"


def _ranks(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """Tiles that have other dimensions than their array."""
    if not isinstance(node.func, ast.Attribute):
        return None
    base = values.of(node.func.value)
    if not isinstance(base, ArrayOf) or base.param.access is not Access.REF:
        return None
    param = base.param
    if node.func.attr == "load_tile_like":
        other = values.of(argument(node, 0, "other"))
        if isinstance(other, ArrayOf) and other.param.rank != param.rank:
            what = f"{param.name} has {_dimensions(param.rank)}, and {other.param.name} has {other.param.rank}"
            return what, f"{param.name} is {param.text}, {other.param.name} is {other.param.text}"
    if node.func.attr == "load_tile":
        for place, name in enumerate(("index", "shape")):
            given = values.of(argument(node, place, name))
            if isinstance(given, int | Size | Within):
                return (
                    f"{ast.unparse(node.func)} takes {name} as a tuple, one number for each dimension",
                    "a tuple of one is written (i,)",
                )
            if isinstance(given, Items) and len(given.values) != param.rank:
                what = f"{param.name} has {_dimensions(param.rank)} ({param.text}), and this {name} has {len(given.values)}"
                return what, f"give one number for each of {param.rank}"
    return None


def _broadcast(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """Axes of `load_tile_like` that are none, or that only running the kernel would tell."""
    if values.resolved(node.func) is api.lang().load_tile_like:
        array = argument(node, 0, "x")
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "load_tile_like":
        array = node.func.value
    else:
        return None
    base = values.of(array)
    if not isinstance(base, ArrayOf) or broadcast_axes(node, values, base.param.rank) is not None:
        return None
    what = f"broadcast names axes of {base.param.name}, which has {_dimensions(base.param.rank)}: numbers from 0, written out"
    return what, "write broadcast=0, or broadcast=(0, 1) for several"


def _dimensions(rank: int) -> str:
    return f"{rank} dimension{'' if rank == 1 else 's'}"


def _diagnostic(
    node: ast.AST, found: tuple[str, str], file: str, texts: Mapping[str, str]
) -> Diagnostic:
    lineno, offset = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    line = line_of(texts, file, lineno)
    location = Location(file=file, line=lineno, column=characters(line, offset) + 1)
    return Diagnostic(message=found[0], location=location, excerpt=line, hint=found[1])
