"""Expand matrix and assumption sets to variants with ids."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tilec.manifest.types import AssumeSet, Kernel
from tilec.model.job import Variant
from tilec.plan.lists import ArrayList
from tilec.plan.points import MatrixPoint, Point, Report
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
    unresolved: Collection[str] = (),
    lists: Sequence[ArrayList] = (),
) -> tuple[Variant, ...]:
    """Return every variant of a kernel in launch order: by point, then by assumption set.

    Args:
        kernel: the manifest's table.
        points: the points of its matrix.
        params: the resolved parameters; the facts need their ranks.
        report: collects problems; variants are still returned if they make sense.
        unresolved: names of parameters with a reported problem.
        lists: lists of arrays; the axes of a variant fix their lengths.
    """
    listed = {name for one in lists for name in one.items}
    optional = [param.name for param in params if param.optional and param.name not in listed]
    count = len(points) * len(kernel.assume) * 2 ** len(optional)
    path = ("kernel", kernel.name, "matrix")
    if count > kernel.matrix.max_variants:
        report(
            f"the matrix gives {count} variants, more than max-variants = {kernel.matrix.max_variants}",
            (*path, "max-variants"),
        )
        return ()
    if not points:
        report("the matrix excludes every point: no variant is left", path)
    divisors = {divisor for facts in kernel.assume for _, row in facts.divisible for divisor in row}
    sets: dict[Point, tuple[Labelled, ...]] = {}  # by the axes that divide: points may be thousands
    variants = []
    for point in points:
        axes = tuple(pair for pair in (*point.axes, *point.let) if pair[0] in divisors)
        if axes not in sets:
            sets[axes] = assumption_sets(kernel, params, report, unresolved=unresolved, axes=axes)
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
        report(f"two variants get the id {twice!r}: give the axis values distinct names", path)
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
    unresolved: Collection[str] = (),
    axes: Point = (),
) -> tuple[Labelled, ...]:
    """Return each assumption set as (label for the id, facts), in order.

    `axes` are the values of the axes that divide extents.
    """
    result: list[Labelled] = []
    labels: set[str] = set()
    for index, assume in enumerate(kernel.assume):
        label = _UNSAFE.sub("_", assume.name) or _label(assume)
        if label in labels or (not label and result and not result[-1][0]):
            label = f"{label or 'facts'}{index}"
        labels.add(label)
        divisible = _divisible(kernel, index, assume, dict(axes), report)
        facts = _facts(kernel, index, assume, divisible, params, unresolved, report)
        result.append((label, facts))
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


def _divisible(
    kernel: Kernel,
    index: int,
    assume: AssumeSet,
    axes: Mapping[str, AxisValue],
    report: Report,
) -> dict[str, tuple[int, ...]]:
    """Return the divisors of each parameter, with axes replaced by their values."""
    path = ("kernel", kernel.name, "assume", "sets", index, "divisible")
    known = dict(kernel.matrix.axes)
    resolved: dict[str, tuple[int, ...]] = {}
    for param, divisors in assume.divisible:
        read = []
        for position, divisor in enumerate(divisors):
            value = axes.get(divisor) if isinstance(divisor, str) else divisor
            if type(value) is int and value > 0:
                read.append(value)
                continue
            read.append(1)
            message = f"axis {divisor} is {value!r} in a variant: divisors are positive integers"
            if divisor not in known:
                message = f"{divisor!r} is no axis of the matrix: it has {', '.join(known) or 'none'}{did_you_mean(str(divisor), known)}"
            report(message, (*path, param, position))
        resolved[param] = tuple(read)
    return resolved


def _facts(
    kernel: Kernel,
    index: int,
    assume: AssumeSet,
    divisible: Mapping[str, tuple[int, ...]],
    params: Sequence[Param],
    unresolved: Collection[str],
    report: Report,
) -> tuple[Assumption, ...]:
    tensors = {p.name: p for p in params if p.kind is ParamKind.TENSOR}
    base: tuple[str | int, ...] = ("kernel", kernel.name, "assume", "sets", index)
    for key, name, length in _named(assume, divisible):
        if name in tensors:
            rank = tensors[name].rank
            if length not in (None, rank):
                noun = "extents" if key[0] == "extent" else "divisors"
                report(
                    f"{length} {noun} for {name}, which has rank {rank if rank >= 0 else 'any'}",
                    (*base, *key),
                )
        elif name not in unresolved:
            report(
                f"{name!r} is no tensor parameter of the kernel: it has {', '.join(tensors) or 'none'}",
                (*base, *key),
            )
    facts = []
    for name, param in tensors.items():
        fact = _fact(param, assume, divisible.get(name, ()))
        if why := _contradiction(param, fact):
            report(f"{name}: {why}", base)
        if fact != Assumption(param=name):
            facts.append(fact)
    return tuple(facts)


def _named(
    assume: AssumeSet, divisible: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[tuple[str | int, ...], str, int | None]]:
    """Yield key path and name of each tensor in a set, and its number of values or None.

    The number is None if the key does not have one value per dimension.
    """
    for key, pairs in (
        ("divisible", divisible.items()),
        ("stride", assume.stride),
        ("extent", assume.extent),
    ):
        yield from (((key, name), name, len(values)) for name, values in pairs)
    yield from ((("aligned", name), name, None) for name, _ in assume.aligned if name)
    for index, name in enumerate(assume.contiguous):
        if name:
            yield ("contiguous", index), name, None


def _fact(param: Param, assume: AssumeSet, shape: tuple[int, ...]) -> Assumption:
    """Return the facts of a set about one tensor; `shape` are the divisors of its extents."""
    aligned, extents = dict(assume.aligned), dict(assume.extent)
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
