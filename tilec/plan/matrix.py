"""Expand matrix and assumption sets to variants with ids."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.types import AssumeSet, Kernel
from tilec.model.job import Variant
from tilec.plan.lists import ArrayList
from tilec.plan.points import MatrixPoint, Point
from tilec.plan.report import Report
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

# A set of assumptions: its label in the variant's id, and the facts.
Labelled = tuple[str, tuple[Assumption, ...]]


_UNSAFE = re.compile(r"[^A-Za-z0-9_.]")


def expand(
    kernel: Kernel,
    points: Sequence[MatrixPoint],
    params: Sequence[Param],
    report: Report,
    *,
    lists: Sequence[ArrayList] = (),
) -> tuple[Variant, ...]:
    """Return every variant of a kernel in launch order: by point, then by assumption set.

    Args:
        kernel: the manifest's table.
        points: the points of its matrix.
        params: the resolved parameters; the facts need their ranks.
        report: collects problems; variants are still returned if they make sense.
        lists: lists of arrays; the axes of a variant fix their lengths.
    """
    listed = {name for one in lists for name in one.items}
    optional = [param.name for param in params if param.optional and param.name not in listed]
    count = len(points) * max(len(kernel.assume), 1) * 2 ** len(optional)
    if count > kernel.matrix.max_variants:
        report(
            f"the matrix gives {count} variants, more than max-variants = {kernel.matrix.max_variants}",
            "matrix",
            "max-variants",
        )
        return ()
    if not points:
        report("the matrix excludes every point: no variant is left", "matrix")
    divisors = {divisor for facts in kernel.assume for _, row in facts.divisible for divisor in row}
    sets: dict[Point, tuple[Labelled, ...]] = {}  # by the axes that divide: points may be thousands
    variants = []
    for point in points:
        axes = tuple(pair for pair in (*point.axes, *point.let) if pair[0] in divisors)
        if axes not in sets:
            sets[axes] = assumption_sets(kernel, params, report, axes=axes)
        absent = [name for one in lists for name in one.absent(dict(point.axes))]
        variants += [
            Variant(
                kernel=kernel.name,
                id=_variant_id(kernel.name, point.axes, label),
                axes=point.axes,
                assume=facts,
                let=point.let,
            )
            for label, facts in with_absent(sets[axes], optional, absent)
        ]
    ids = Counter(variant.id for variant in variants)
    if twice := next((each for each, count in ids.items() if count > 1), ""):
        report(f"two variants get the id {twice!r}: give the axis values distinct names", "matrix")
        return ()
    return tuple(variants)


def _variant_id(kernel: str, point: Point, label: str) -> str:
    parts = [kernel]
    for name, value in point:
        if isinstance(value, str) and value:
            parts.append(_UNSAFE.sub("_", value))
            continue
        shown = int(value) if isinstance(value, bool) else value
        # BLOCK_M132 could be BLOCK_M = 132 or BLOCK_M1 = 32, so the latter is BLOCK_M1=32.
        parts.append(f"{name}{'=' if name[-1].isdigit() or shown == '' else ''}{shown}")
    if label:
        parts.append(label)
    return "-".join(parts)


def assumption_sets(
    kernel: Kernel,
    params: Sequence[Param],
    report: Report,
    *,
    axes: Point = (),
) -> tuple[Labelled, ...]:
    """Return each assumption set as (label for the id, facts), in order.

    `axes` are the values of the axes that divide extents.
    """
    result: list[Labelled] = []
    labels: set[str] = set()
    for index, assume in enumerate(kernel.assume or (AssumeSet(),)):
        label = _UNSAFE.sub("_", assume.name) or _label(assume)
        if label in labels or (not label and result and not result[-1][0]):
            label = f"{label or 'facts'}{index}"
        labels.add(label)
        at = report.at("assume", "sets", index)
        numbers = _with_numbers(kernel, assume, dict(axes), at)
        result.append((label, _facts(numbers, params, at)))
    return tuple(result)


def with_absent(
    sets: Sequence[Labelled], optional: Sequence[str], without: Sequence[str]
) -> Iterator[Labelled]:
    """Yield each set with every choice of optional tensors that are None.

    Tensors of `without` are always None. The choice with all optional tensors present comes first.
    Other facts about a tensor that is None are dropped.
    """
    for missing in (
        chosen
        for number in range(len(optional) + 1)
        for chosen in itertools.combinations(optional, number)
    ):
        seen = set()
        for label, facts in sets:
            left = tuple(fact for fact in facts if fact.param not in (*missing, *without))
            if left in seen:  # the sets differ in dropped facts only
                continue
            seen.add(left)
            names = [label, *(f"no_{name}" for name in missing)]
            yield (
                "-".join(filter(None, names)),
                (
                    *left,
                    *(Assumption(param=name, absent=True) for name in (*missing, *without)),
                ),
            )


def _label(assume: AssumeSet) -> str:
    divisors = {d for _, divs in assume.divisible for d in divs if d != 1}
    if len(divisors) == 1:
        return f"div{divisors.pop()}"
    if divisors or assume.stride or assume.extent:
        return "facts"
    bases = {n for _, n in assume.aligned}
    return f"al{max(bases)}" if bases else "contiguous" if assume.contiguous else ""


def _with_numbers(
    kernel: Kernel, assume: AssumeSet, axes: Mapping[str, AxisValue], report: Report
) -> AssumeSet:
    """Return a set with the values of axes in place of their names among the divisors."""
    known = dict(kernel.matrix.axes)
    divisible = []
    for param, divisors in assume.divisible:
        numbers = []
        for position, divisor in enumerate(divisors):
            value = axes.get(divisor) if isinstance(divisor, str) else divisor
            if type(value) is int and value > 0:
                numbers.append(value)
                continue
            numbers.append(1)
            message = f"axis {divisor} is {value!r} in a variant: divisors are positive integers"
            if divisor not in known:
                message = f"{divisor!r} is no axis of the matrix: it has {', '.join(known) or 'none'}{did_you_mean(str(divisor), known)}"
            report(message, "divisible", param, position)
        divisible.append((param, tuple(numbers)))
    return dataclasses.replace(assume, divisible=tuple(divisible))


def _facts(assume: AssumeSet, params: Sequence[Param], report: Report) -> tuple[Assumption, ...]:
    tensors = {p.name: p for p in params if p.kind is ParamKind.TENSOR}
    for key, name, length in _named(assume):
        if name in tensors:
            rank = tensors[name].rank
            if length not in (None, rank):
                noun = "extents" if key[0] == "extent" else "divisors"
                shown = rank if rank >= 0 else "any"
                report(f"{length} {noun} for {name}, which has rank {shown}", *key)
        else:
            known = ", ".join(tensors) or "none"
            report(f"{name!r} is no tensor parameter of the kernel: it has {known}", *key)
    facts = []
    for name, param in tensors.items():
        fact = _fact(param, assume)
        if why := _contradiction(param, fact):
            report(f"{name}: {why}")
        if fact != Assumption(param=name):
            facts.append(fact)
    return tuple(facts)


def _named(assume: AssumeSet) -> Iterator[tuple[tuple[str | int, ...], str, int | None]]:
    """Yield key and name of each tensor in a set, and its number of values or None.

    The number is None if the key does not have one value per dimension.
    """
    for key, pairs in (
        ("divisible", assume.divisible),
        ("stride", assume.stride),
        ("extent", assume.extent),
    ):
        yield from (((key, name), name, len(values)) for name, values in pairs)
    yield from ((("aligned", name), name, None) for name, _ in assume.aligned if name)
    for index, name in enumerate(assume.contiguous):
        if name:
            yield ("contiguous", index), name, None


def _fact(param: Param, assume: AssumeSet) -> Assumption:
    """Return the facts of a set about one tensor."""
    aligned, extents = dict(assume.aligned), dict(assume.extent)
    shape = tuple(int(divisor) for divisor in dict(assume.divisible).get(param.name, ()))
    contiguous = not {param.name, ""}.isdisjoint(assume.contiguous)
    return Assumption(
        param=param.name,
        shape=shape,
        stride=dict(assume.stride).get(param.name) or _implied_strides(shape, param),
        align=aligned.get(param.name, aligned.get("", 1)),
        extent=extents.get(param.name, ()),
        # For a parameter that is always contiguous, the fact adds nothing.
        contiguous=contiguous and param.stride is not None,
    )


def _contradiction(param: Param, fact: Assumption) -> str:
    """Return why no tensor can have all these facts, or an empty string."""
    stride, extent = fact.stride, fact.extent
    dense = Assumption(param=param.name, extent=extent, contiguous=True)
    given = param.stride or ()
    follows = dense.strides((None,) * len(given)) if fact.contiguous else ()
    for dim, (known, wanted) in enumerate(zip(follows, given, strict=False)):
        if (
            wanted is not None
            and known is not None
            and known != wanted
            and extent[dim : dim + 1] != (1,)
        ):
            return f"a contiguous tensor has stride {known} in dimension {dim}, and the parameter takes {wanted}"
    taken = dense.strides((None,) * len(stride)) if param.stride is None else param.stride
    for numbers, divisors, message in (
        (extent, fact.shape, "extent {0} is {1}, which is not divisible by {2}"),
        (
            extent,
            param.shape_divisible,
            "extent {0} is {1}, and every launch's is divisible by {2}",
        ),
        (
            taken,
            stride,
            "the parameter takes stride {1} in dimension {0}, which is not divisible by {2}",
        ),
        (
            follows,
            stride,
            "a contiguous tensor has stride {1} in dimension {0}, which is not divisible by {2}",
        ),
    ):
        for dim, (number, divisor) in enumerate(zip(numbers, divisors, strict=False)):
            if number is not None and number % divisor:
                return message.format(dim, number, divisor)
    return ""


def _implied_strides(shape: tuple[int, ...], param: Param) -> tuple[int, ...]:
    """Return the divisors of a contiguous tensor's strides.

    That of the innermost extent divides every stride but the last, which is 1.
    """
    if not shape or len(shape) < 2:
        return ()
    fixed = param.stride or (None,) * len(shape)
    return (*(1 if constant is not None else shape[-1] for constant in fixed[:-1]), 1)
