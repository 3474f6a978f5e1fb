"""Join the launch, safety facts and axes of a source with those of the manifest."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from tilec.manifest.types import Kernel
from tilec.model.alike import Alike, conditions, unstated
from tilec.model.argument import parse_abi
from tilec.model.declaration import AxisUse, KernelDecl
from tilec.plan.args import passed_name
from tilec.plan.params import misspelt_axis
from tilec.plan.points import filled, inlined
from tilec.plan.report import Report
from tilec_runtime.errors import Diagnostic, ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Safety


def with_source(kernel: Kernel, decl: KernelDecl, report: Report) -> Kernel:
    """Return the kernel with the grid, block and conditions of its source added."""
    launch = kernel.launch
    if decl.grid and launch.grid and not decl.grid_free:
        report(
            f"the grid follows from the outputs, {' x '.join(decl.grid)}: leave launch.grid out",
            "launch",
            "grid",
        )
    if decl.grid_free and len(launch.grid) > 1:
        report(
            "the blocks of a kernel with a tl.MappedMut are numbered along one dimension: give a grid of one",
            "launch",
            "grid",
        )
    axes = dict(kernel.matrix.axes)
    constants = {
        p.name: p.default
        for p in decl.params
        if p.kind == "constant" and p.name not in axes and p.default is not None
    }
    # With `args`, the launcher's parameters may have names of their own.
    given = [param.name for param in decl.params if param.given]
    passed = (passed_name(parse_abi(text)[1]) for text in kernel.args or ())
    renamed = {own: name for own, name in zip(given, passed, strict=False) if name}
    names: dict[str, object] = {**constants, **renamed}
    source = (filled(text, names) for text in (*_equal_extents(kernel, decl), *decl.requires))
    requires = tuple(dict.fromkeys((*launch.requires, *source)))
    block = launch.block or tuple(map(str, decl.block))
    return dataclasses.replace(
        kernel,
        launch=dataclasses.replace(
            launch, grid=launch.grid or decl.grid, block=block, requires=requires
        ),
    )


def _equal_extents(kernel: Kernel, decl: KernelDecl) -> tuple[str, ...]:
    """Return the source's conditions on equal extents that the manifest lacks."""
    ranks = {param.name: param.rank for param in decl.params}
    alike: Sequence[Alike] = decl.alike
    with contextlib.suppress(ExpressionError):  # the checks of the manifest report it
        alike = unstated(alike, kernel.launch.requires, ranks)
    return conditions(alike, ranks)


def with_names(kernel: Kernel, decl: KernelDecl, report: Report) -> KernelDecl:
    """Return the declaration with the names of `params` if the code has none."""
    names = [table.name for table in kernel.params]
    if (
        decl.named
        or kernel.args is not None
        or not names
        or set(names) <= {p.name for p in decl.params}
    ):
        return decl
    if len(names) != len(decl.params):
        sizes = ", ".join(p.type or p.dtype or f"{p.size} bytes" for p in decl.params)
        message = f"{len(names)} params, but {decl.name} takes {len(decl.params)} parameters, which have no names of their own ({sizes})"
        report(
            f"{message}: name each, in order, or say with args what each of them gets",
            "params",
        )
        return decl
    return dataclasses.replace(
        decl,
        params=tuple(
            dataclasses.replace(p, name=name) for p, name in zip(decl.params, names, strict=True)
        ),
    )


def check_source_axes(kernel: Kernel, decl: KernelDecl, report: Report) -> bool:
    """Return whether the matrix has the axes of the source, and report problems."""
    axes = dict(kernel.matrix.axes)
    tiles = (
        {extent for region in decl.safety.regions for extent in region.tile}
        if decl.safety
        else set()
    )
    uses: dict[str, list[AxisUse]] = {}
    for use in decl.axes:
        uses.setdefault(use.name, []).append(use)
    sound = True
    for name, found_uses in uses.items():
        where = "; ".join(dict.fromkeys(use.where for use in found_uses))
        if name not in axes:
            example = '["f32"]' if found_uses[0].dtype else "[64]"
            message = f"axis {name} of the source has no values ({where}, {decl.location}): give it some, such as {name} = {example}"
            report(message + misspelt_axis(name, axes, decl), "matrix")
            sound = False
        for value in axes.get(name, ()):
            if message := _misuse(value, found_uses[0], tile=name in tiles):
                report(message, "matrix", name)
                sound = False
    return sound


def _misuse(value: AxisValue, use: AxisUse, *, tile: bool) -> str:
    """Return why a use in the source does not allow a value of an axis, or an empty string."""
    if use.dtype:
        if value in DTYPES:
            return ""
        return f"{value!r} is no dtype, and {use.name} is one in the source ({use.where})"
    if type(value) is not int or value <= 0:
        return f"{value!r} is no size, and {use.name} is one in the source ({use.where})"
    if tile and value & (value - 1):
        return f"{value} is no power of two, as extents of tiles are ({use.where})"
    return ""


def check_checks(kernel: Kernel, decl: KernelDecl, report: Report) -> tuple[Diagnostic, ...]:
    """Return diagnostics of accesses that `checks = "deny"` refuses, located in the source."""
    if kernel.checks and decl.safety is None:
        report(
            f"checks concern kernels of the safe tile language (@tl.kernel): nothing is known of what {decl.name} does",
            "checks",
        )
    if kernel.checks != Checks.DENY.value:
        return ()
    prefixes = {
        "error": f'kernel {kernel.name!r} has checks = "deny": '
    }  # notes are call sites, and stay unchanged
    return tuple(
        dataclasses.replace(
            diagnostic, message=prefixes.get(diagnostic.severity, "") + diagnostic.message
        )
        for diagnostic in decl.unproven
    )


def unfollowed_note(kernel: Kernel, decl: KernelDecl) -> str:
    """Return a note on loads that the proof cannot follow, or an empty string.

    The note lists the extents that no requirement of the launch names.

    Args:
        kernel: the kernel, with the requirements of its source.
        decl: its declaration.
    """
    if kernel.checks == Checks.OFF.value:
        return ""
    ranks = {param.name: param.rank for param in decl.params}
    named: set[tuple[str, int]] = set()
    with contextlib.suppress(ExpressionError):  # the checks of the manifest report it
        for text in kernel.launch.requires:
            extents = expr.parse(text).extents
            named |= {(name, axis % ranks[name]) for name, _, axis in extents if name in ranks}
    locations, free = [], dict[str, None]()
    for array, location in decl.unfollowed:
        axes = [axis for axis in range(ranks[array]) if (array, axis) not in named]
        locations += [location] if axes else []
        free |= dict.fromkeys(f"{array}.shape[{axis}]" for axis in axes)
    if not locations:
        return ""
    where = f"{'; '.join(locations)} cannot be followed, so no launch compares {', '.join(free)}"
    return f'{where}: elements outside are read as 0; checks = "deny" makes this an error'


def safety_of(kernel: Kernel, decl: KernelDecl) -> Safety | None:
    """Return a kernel's safety facts under the manifest's `checks`."""
    if decl.safety is None:
        return None
    checks = Checks(kernel.checks or Checks.ON.value)
    facts = tuple(_unchecked(fact) if checks is Checks.OFF else fact for fact in decl.safety.facts)
    regions = tuple(
        dataclasses.replace(region, tile=tuple(inlined(kernel, side) for side in region.tile))
        for region in decl.safety.regions
    )
    return dataclasses.replace(decl.safety, checks=checks, facts=facts, regions=regions)


def _unchecked(fact: Fact) -> Fact:
    if fact.guarantee is not Guarantee.KERNEL:
        return fact
    return dataclasses.replace(fact, guarantee=Guarantee.NONE, what=f'{fact.what} (checks = "off")')
