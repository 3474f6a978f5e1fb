"""Make the entry point of a safe kernel: it wraps raw arrays in `Ref` and `Mut`."""

from __future__ import annotations

import contextlib
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
    """Yield a kernel of cuda.tile that takes a tuple of the raw arguments in order.

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
    from tilec.lang.entry import entry_of  # imports cuda.tile

    known = {} if checks is Checks.OFF else divisors or {}
    checked = frozenset[str]() if checks is Checks.OFF else kernel.checked
    wraps = tuple(
        _wrap(
            param, number, kernel.requires, axes, known.get(param.name, ()), param.name in checked
        )
        for number, param in enumerate(kernel.params)
    )
    made = entry_of(kernel.function, wraps)
    file = patches.installed_name(entry_of.__code__.co_filename)
    with (
        _valued(modules, axes),
        patches.places(file, kernel.function, line, api.language_names()),
    ):
        yield api.cuda_tile().kernel(made, **kernel.hints)


def _wrap(
    param: SafeParam,
    number: int,
    requires: Sequence[str],
    axes: Mapping[str, AxisValue],
    divisors: tuple[int, ...],
    checked: bool,
) -> Any:
    """Return how a parameter is made from a raw argument; `number` is its own."""
    from tilec.lang.entry import FIRST, Wrap

    lang, array = api.lang(), (divisors, checked)
    tile: Any = tuple(int(axes.get(extent, extent)) for extent in param.tile)

    def required(operator: str) -> tuple[bool, ...]:
        conditions = (
            f"{param.name}.shape[{axis}] {operator} {extent}"
            for axis, extent in enumerate(param.tile)
        )
        return tuple(condition in requires for condition in conditions)

    match param.access:
        case Access.MUT:
            # An axis with at most one tile: its index is a constant.
            places = tuple(FIRST if one else k for k, one in enumerate(required("<=")))
            return Wrap(kind=lang.Mut, array=array, places=places, region=(tile,))
        case Access.SPAN:
            places = tuple(FIRST if k == param.axis else k for k in range(param.rank))
            return Wrap(kind=lang.SpanMut, array=array, places=places, region=(tile, param.axis))
        case Access.MAPPED:
            strip = int(axes.get(param.strip, param.strip) or 0)
            region = (tile, strip, number, required("=="))
            return Wrap(kind=lang.MappedMut, array=array, places=(0,), region=region)
        case Access.REF:
            return Wrap(kind=lang.Ref, array=array)
    return Wrap()


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
