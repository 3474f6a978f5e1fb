"""Make the entry point of a safe kernel: it wraps raw arrays in `Ref` and `Mut`."""

from __future__ import annotations

import contextlib
import linecache
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api, patches
from tilec.frontends.tile.safe import Access, SafeParam
from tilec.frontends.tile.safe_declare import SafeKernel
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.safety import Checks


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
    """Yield a kernel of cuda.tile that takes the raw arguments in order.

    Inside the context, the axes in the project's modules have the values of the variant.

    Args:
        kernel: the declared kernel.
        axes: values of the variant, and defaults of constants.
        modules: the project's modules.
        line: where the function's `def` stands.
        checks: whether accesses without a proof keep their checks.
        divisors: of the extents of arrays, by parameter, in every launch of the variant; None if
            the compiler cannot use them. They are left out without checks, because no check then
            guarantees that a tile begins in its array.
    """
    name, own = kernel.function.__name__, _unlike([param.name for param in kernel.params])
    known = {} if checks is Checks.OFF else divisors or {}
    checked = frozenset() if checks is Checks.OFF else kernel.checked
    text = _text(name, kernel, axes, own, known, checked)
    file = f"<tilec entry of {name}>"
    scope: dict[str, Any] = {
        own: kernel.function,
        f"{own}lang": api.lang(),
        f"{own}ct": api.cuda_tile(),
    }
    exec(compile(text, file, "exec"), scope)  # noqa: S102 - the text is made here of names and numbers
    # cuda.tile reads the sources of functions where tracebacks do.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        with (
            _valued(modules, axes),
            patches.places(file, kernel.function, line, api.language_names()),
        ):
            yield api.cuda_tile().kernel(scope[name], **kernel.hints)
    finally:
        del linecache.cache[file]


def _text(
    name: str,
    kernel: SafeKernel,
    axes: Mapping[str, AxisValue],
    own: str,
    divisors: Mapping[str, tuple[int, ...]],
    checked: frozenset[str],
) -> str:
    """Return the source of the entry point; its names start with `own`, which no parameter's does."""
    params, requires = kernel.params, kernel.requires
    ids = ", ".join(f"{own}ct.bid({axis})" for axis in range(3))
    passed = []
    for param in params:
        tile = _tuple([str(axes.get(extent, extent)) for extent in param.tile])
        known = _tuple([str(divisor) for divisor in divisors.get(param.name, ())])
        array = f"{param.name}, {known}, {param.name in checked}"
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
    """Whether every launch has at most one tile along an axis, so that its index is a constant."""
    return f"{param.name}.shape[{axis}] <= {param.tile[axis]}" in requires


def _number(params: Sequence[SafeParam], param: SafeParam) -> int:
    """Return a number unique to each parameter, by which a `Place` is checked against its output."""
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
    """Set the modules' axis variables to the values of a variant inside the context."""
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
