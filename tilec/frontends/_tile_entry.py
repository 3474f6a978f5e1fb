"""Entry points of kernels in the safe language: raw arrays in, `Ref` and `Mut` handed to the user's function; no code is left of it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.errors import CompileError, Diagnostic, Location
from tilec.frontends import _tile_api as api
from tilec.frontends._tile_misuse import FIELDS
from tilec.frontends._tile_proof import UNCHECKED
from tilec.frontends._tile_safe import Access, SafeParam
from tilec.frontends._tile_safe_declare import SafeKernel
from tilec.model.dtype import DTYPES
from tilec.model.kernel import AxisValue
from tilec.model.safety import Checks

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
    """A kernel of cuda.tile that takes the raw arguments in order; while it lasts, axes have their values in the project's modules.

    Args:
        kernel: what was declared; its proven accesses lose their checks.
        axes: values of the variant, and defaults of constants.
        modules: the project's modules.
        line: where the function's `def` stands.
        checks: whether the other accesses keep theirs.
        divisors: of the extents of arrays, by parameter: what every launch of the variant has; None where the compiler cannot use them.
            Without checks nothing says that a tile begins in its array, so that its end counts for nothing.
    """
    function = kernel.function
    names = _unlike([param.name for param in kernel.params])
    text = _text(function.__name__, kernel.params, axes, names, kernel.requires, {} if checks is Checks.OFF else divisors or {})
    with _valued(modules, axes):
        lang = api.lang()
        scope = {**function.__globals__, "_loadtile_like": lang._loadtile_like}  # noqa: SLF001 - what a proven access becomes
        user = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
        user.__kwdefaults__ = function.__kwdefaults__
        file = f"<tilec entry of {function.__name__}>"
        made: dict[str, Any] = {names: user, f"{names}lang": lang, f"{names}ct": api.cuda_tile()}
        exec(compile(text, file, "exec"), made)  # noqa: S102 - the text is made here of names and numbers
        outer = made[function.__name__]
        renamed = [(s.line, s.column, s.name, UNCHECKED[s.name]) for s in kernel.sites if s.proven or checks is Checks.OFF]
        guard = functools.partial(_guard, own=user.__code__, deny=checks is Checks.DENY)
        with api.places(file, function, line), api.sources({outer.__code__: (text, ()), user.__code__: ("", tuple(renamed))}, guard):
            yield api.cuda_tile().kernel(outer, **kernel.hints)


def _guard(function: Any, lines: Sequence[str], first: int, *, own: types.CodeType, deny: bool) -> None:
    """Refuse a function, wherever it comes from, that reaches around the language; what can be seen without compiling was refused before.

    Raises:
        CompileError: it does, or it checks accesses where none may be checked.
    """
    if api.is_trusted(function.__code__.co_filename):
        return
    file = api.installed_name(function.__code__.co_filename)
    for number, line in enumerate(inspect.getblock(list(lines[first:])), first + 1):
        found, what = _PRIVATE.search(line), "is a part of the safe language that kernels cannot reach"
        if found is None and deny and function.__code__ is not own:
            found, what = _CHECKED.search(line), 'checks inside of the kernel, which has checks = "deny"'
        if found:
            what = f"{found[found.lastindex or 0]} {what}"
            at = Location(file=file, line=number, column=found.start(found.lastindex or 0) + 1)
            raise CompileError(what, diagnostics=(Diagnostic(message=what, location=at, excerpt=line.rstrip("\n")),))


def _text(
    name: str,
    params: Sequence[SafeParam],
    axes: Mapping[str, AxisValue],
    own: str,
    requires: Sequence[str],
    divisors: Mapping[str, tuple[int, ...]],
) -> str:
    """Source of the entry point, whose launches fulfil `requires`; its names start with `own`, which no parameter's does."""
    ids = ", ".join(f"{own}ct.bid({axis})" for axis in range(3))
    passed = []
    for param in params:
        tile = _tuple([str(axes.get(extent, extent)) for extent in param.tile])
        array = f"{param.name}, {_tuple([str(divisor) for divisor in divisors.get(param.name, ())])}"
        match param.access:
            case Access.MUT:
                place = _tuple(["0" if _one(param, axis, requires) else f"{own}b{axis}" for axis in range(param.rank)])
                passed.append(f"{own}lang.Mut({array}, {place}, {tile})")
            case Access.SPAN:
                place = _tuple(["0" if axis == param.axis else f"{own}b{axis}" for axis in range(param.rank)])
                passed.append(f"{own}lang.SpanMut({array}, {place}, {tile}, {param.axis})")
            case Access.MAPPED:
                strip = axes.get(param.strip, param.strip) or 0
                singles = [str(f"{param.name}.shape[{axis}] == {extent}" in requires) for axis, extent in enumerate(param.tile)]
                passed.append(f"{own}lang.MappedMut({array}, {own}b0, {tile}, {strip}, {_number(params, param)}, {_tuple(singles)})")
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
    """Whether every launch has at most one tile along an axis: its place is a constant then, and not the number of a block."""
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
    api.forget_sources()
    try:
        yield
    finally:
        api.forget_sources()
        for module, name, variable in kept:
            setattr(module, name, variable)
