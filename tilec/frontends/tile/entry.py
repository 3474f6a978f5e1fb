"""Make the entry point of a safe kernel: it wraps raw arrays in `Ref` and `Mut`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api, patches
from tilec.frontends.tile.misuse import FIELDS
from tilec.frontends.tile.proof import UNCHECKED
from tilec.frontends.tile.safe import Access, SafeParam
from tilec.frontends.tile.safe_declare import Compiled, SafeKernel
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.safety import Checks

# Parts of what kernels hold, wherever they are written; methods, where they are called.
_PRIVATE = re.compile(rf"\b({'|'.join(FIELDS)})\b|\.\s*({'|'.join(UNCHECKED.values())})\b")
_CHECKED = re.compile(r"\.\s*(load_tile|load_tile_like|store_tile)\b")


@contextlib.contextmanager
def entry(
    kernel: SafeKernel,
    axes: Mapping[str, AxisValue],
    modules: Sequence[types.ModuleType],
    *,
    line: int,
    checks: Checks,
    divisors: Mapping[str, tuple[int, ...]] | None = None,
) -> Iterator[Any]:
    """A kernel of cuda.tile that takes the raw arguments in order; while it lasts, axes have their
    values in the project's modules.

    Args:
        kernel: what was declared; proven accesses, its own and those of functions that it calls,
            lose their checks.
        axes: values of the variant, and defaults of constants.
        modules: the project's modules.
        line: where the function's `def` stands.
        checks: whether its other accesses keep theirs.
        divisors: of the extents of arrays, by parameter: what every launch of the variant has; None
            where the compiler cannot use them. Without checks nothing says that a tile begins in
            its array, so that its end counts for nothing.
    """
    function = kernel.own.function
    names = _unlike([param.name for param in kernel.params])
    text = _text(
        function.__name__,
        kernel.params,
        axes,
        names,
        kernel.requires,
        {} if checks is Checks.OFF else divisors or {},
    )
    with _valued(modules, axes):
        lang = api.lang()
        followed = (kernel.own, *kernel.helpers)
        made_of = _copies(followed)
        user = made_of[function]
        file = f"<tilec entry of {function.__name__}>"
        made: dict[str, Any] = {names: user, f"{names}lang": lang, f"{names}ct": api.cuda_tile()}
        exec(compile(text, file, "exec"), made)  # noqa: S102 - the text is made here of names and numbers
        outer = made[function.__name__]
        texts = {
            made_of[item.function]: (
                "",
                _renamed(item, everything=item is kernel.own and checks is Checks.OFF),
            )
            for item in followed
        }
        guard = functools.partial(_guard, known=frozenset(texts), deny=checks is Checks.DENY)
        with (
            patches.places(file, function, line, api.language_names()),
            patches.sources({outer: (text, ()), **texts}, guard),
        ):
            yield api.cuda_tile().kernel(outer, **kernel.hints)


def _copies(followed: Sequence[Compiled]) -> dict[Any, Any]:
    """Copies of functions, whose names for each other stand for the copies: whatever else reaches
    the originals has their checks.
    """
    like = {"_loadtile_like": api.lang()._loadtile_like}  # noqa: SLF001 - what a proven access becomes
    found: dict[Any, Any] = {}
    for item in followed:
        old = item.function
        found[old] = copy = types.FunctionType(
            old.__code__,
            {**old.__globals__, **like},
            old.__name__,
            old.__defaults__,
            old.__closure__,
        )
        copy.__kwdefaults__ = old.__kwdefaults__
    for item in followed:
        for name, function in item.names.items():
            _stand_in(found[item.function].__globals__, name, found[function])
    return found


class _StandIn(types.ModuleType):
    """A module, some of whose functions are copies."""


def _stand_in(scope: dict[str, Any], name: str, copy: Any) -> None:
    """Have a dotted name mean a copy."""
    first, _, rest = name.partition(".")
    if not rest:
        scope[first] = copy
        return
    module = scope[first]
    if not isinstance(module, _StandIn):
        scope[first] = _StandIn(module.__name__)
        vars(scope[first]).update(vars(module))
    _stand_in(vars(scope[first]), rest, copy)


def _renamed(item: Compiled, *, everything: bool) -> tuple[tuple[int, int, str, str], ...]:
    """The accesses that lose their checks."""
    return tuple(
        (site.line, site.column, site.name, UNCHECKED[site.name])
        for site in item.sites
        if site.proven or everything
    )


def _guard(
    function: Any, lines: Sequence[str], first: int, *, known: frozenset[Any], deny: bool
) -> None:
    """Refuse a function, wherever it comes from, that reaches around the language; what can be seen
    without compiling was refused before.

    Raises:
        CompileError: it does, or it checks accesses where none may be checked.
    """
    if api.is_trusted(function.__code__.co_filename):
        return
    file = patches.installed_name(function.__code__.co_filename)
    for number, line in enumerate(inspect.getblock(list(lines[first:])), first + 1):
        found, what = (
            _PRIVATE.search(line),
            "is a part of the safe language that kernels cannot reach",
        )
        if found is None and deny and function not in known:
            found, what = (
                _CHECKED.search(line),
                'checks inside of the kernel, which has checks = "deny"',
            )
        if found:
            what = f"{found[found.lastindex or 0]} {what}"
            at = Location(file=file, line=number, column=found.start(found.lastindex or 0) + 1)
            raise CompileError(
                what,
                diagnostics=(Diagnostic(message=what, location=at, excerpt=line.rstrip("\n")),),
            )


def _text(
    name: str,
    params: Sequence[SafeParam],
    axes: Mapping[str, AxisValue],
    own: str,
    requires: Sequence[str],
    divisors: Mapping[str, tuple[int, ...]],
) -> str:
    """Source of the entry point, whose launches fulfil `requires`; its names start with `own`,
    which no parameter's does.
    """
    ids = ", ".join(f"{own}ct.bid({axis})" for axis in range(3))
    passed = []
    for param in params:
        tile = _tuple([str(axes.get(extent, extent)) for extent in param.tile])
        array = (
            f"{param.name}, {_tuple([str(divisor) for divisor in divisors.get(param.name, ())])}"
        )
        match param.access:
            case Access.MUT:
                place = _tuple(
                    [
                        "0" if _one(param, axis, requires) else f"{own}b{axis}"
                        for axis in range(param.rank)
                    ]
                )
                passed.append(f"{own}lang.Mut({array}, {place}, {tile})")
            case Access.SPAN:
                place = _tuple(
                    ["0" if axis == param.axis else f"{own}b{axis}" for axis in range(param.rank)]
                )
                passed.append(f"{own}lang.SpanMut({array}, {place}, {tile}, {param.axis})")
            case Access.MAPPED:
                strip = axes.get(param.strip, param.strip) or 0
                singles = [
                    str(f"{param.name}.shape[{axis}] == {extent}" in requires)
                    for axis, extent in enumerate(param.tile)
                ]
                passed.append(
                    f"{own}lang.MappedMut({array}, {own}b0, {tile}, {strip}, {_number(params, param)}, {_tuple(singles)})"
                )
            case Access.REF:
                passed.append(f"{own}lang.Ref({array})")
            case _:
                passed.append(param.name)
    lines = [
        f"def {name}({', '.join(param.name for param in params)}):",
        f"    {own}b0, {own}b1, {own}b2 = {ids}",
        f"    {own}({', '.join(passed)})",
    ]
    return "\n".join(lines) + "\n"


def _one(param: SafeParam, axis: int, requires: Sequence[str]) -> bool:
    """Whether every launch has at most one tile along an axis: its place is a constant then, and
    not the number of a block.
    """
    return f"{param.name}.shape[{axis}] <= {param.tile[axis]}" in requires


def _number(params: Sequence[SafeParam], param: SafeParam) -> int:
    """A number of its own for each parameter: places of one output do not fit another."""
    return [item.name for item in params].index(param.name)


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _unlike(names: Sequence[str]) -> str:
    own = "_tilec_"
    while any(name.startswith(own) for name in names):
        own += "_"
    return own


@contextlib.contextmanager
def _valued(modules: Sequence[types.ModuleType], axes: Mapping[str, AxisValue]) -> Iterator[None]:
    """Give the modules' axis variables the values of a variant, and take them back afterwards."""
    lang, tile = api.lang(), api.cuda_tile()
    kept: list[tuple[types.ModuleType, str, Any]] = []
    for module in modules:
        for name, variable in list(vars(module).items()):
            if isinstance(variable, lang.SizeAxis | lang.DTypeAxis) and variable.name in axes:
                value: Any = axes[variable.name]
                if isinstance(variable, lang.DTypeAxis):
                    value = getattr(tile, DTYPES[str(value)].tile)
                kept.append((module, name, variable))
                setattr(module, name, value)
    patches.forget_sources()
    try:
        yield
    finally:
        patches.forget_sources()
        for module, name, variable in kept:
            setattr(module, name, variable)
