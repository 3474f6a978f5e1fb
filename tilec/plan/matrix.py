"""Matrix and assumption sets to variants with ids."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tilec.manifest.types import AssumeSet, Kernel
from tilec.model.job import Variant
from tilec.plan.lists import ArrayList
from tilec.plan.points import Point, Report, derived_at, points_of
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

# A set of assumptions: its part of the variant's id, and the facts.
Labelled = tuple[str, tuple[Assumption, ...]]


_UNSAFE = re.compile(r"[^A-Za-z0-9_.]")


def expand(
    kernel: Kernel,
    params: Sequence[Param],
    report: Report,
    *,
    unresolved: Collection[str] = (),
    lists: Sequence[ArrayList] = (),
) -> tuple[Variant, ...]:
    """Return every variant of a kernel in launch order: by point, then by assumption set.

    Args:
        kernel: the manifest's table.
        params: the resolved parameters (ranks are needed for the facts).
        report: takes a problem's text and key path; variants are still returned where they make
            sense.
        unresolved: names of parameters that were reported already.
        lists: of arrays. A variant is for lists of one length, which its axes say.
    """
    points = tuple(points_of(kernel, report))
    listed = {name for one in lists for name in one.items}
    optional = [param.name for param in params if param.optional and param.name not in listed]
    count = len(points) * len(kernel.assume) * 2 ** len(optional)
    if count > kernel.matrix.max_variants:
        path = ("kernel", kernel.name, "matrix", "max-variants")
        report(
            f"the matrix gives {count} variants, more than max-variants = {kernel.matrix.max_variants}",
            path,
        )
        return ()
    if not points:
        report(
            "the matrix excludes every point: no variant is left", ("kernel", kernel.name, "matrix")
        )
    named = any(
        isinstance(divisor, str)
        for assume in kernel.assume
        for _, divisors in assume.divisible
        for divisor in divisors
    )
    let = {point: tuple(derived_at(kernel, point, report)) for point in points}
    first = assumption_sets(
        kernel,
        params,
        report,
        unresolved=unresolved,
        point=(*points[0], *let[points[0]]) if points else (),
    )
    variants = tuple(
        Variant(
            kernel=kernel.name,
            id=_variant_id(kernel.name, point, label),
            axes=point,
            assume=facts,
            let=let[point],
        )
        for point in points
        for label, facts in with_absent(
            assumption_sets(
                kernel, params, report, unresolved=unresolved, point=(*point, *let[point])
            )
            if named
            else first,
            optional,
            [name for one in lists for name in one.absent(dict(point))],
        )
    )
    seen: dict[str, Variant] = {}
    for variant in variants:
        other = seen.setdefault(variant.id, variant)
        if other is not variant:
            report(
                f"two variants get the id {variant.id!r}: give the axis values distinct names",
                ("kernel", kernel.name, "matrix"),
            )
            return ()
    return variants


def _variant_id(kernel: str, point: Point, label: str) -> str:
    parts = [kernel]
    for name, value in point:
        if isinstance(value, str) and value:
            parts.append(_UNSAFE.sub("_", value))
            continue
        shown = int(value) if isinstance(value, bool) else value
        # BLOCK_M1=32: the axis M1, or M with 132, would be read out of BLOCK_M132.
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
    point: Point = (),
) -> tuple[Labelled, ...]:
    """Return each assumption set at a point as (label for the id, facts), in order."""
    result: list[Labelled] = []
    labels: dict[str, int] = {}
    for index, assume in enumerate(kernel.assume):
        label = _UNSAFE.sub("_", assume.name) or _label(assume)
        if label in labels or (not label and result and not result[-1][0]):
            label = f"{label or 'facts'}{index}"
        labels[label] = index
        result.append(
            (
                label,
                _facts(
                    kernel,
                    index,
                    assume,
                    _divisible(kernel.name, index, assume, point, report),
                    params,
                    unresolved,
                    report,
                ),
            )
        )
    return tuple(result)


def with_absent(
    sets: Sequence[Labelled], optional: Sequence[str], without: Sequence[str]
) -> Iterator[Labelled]:
    """Yield each set with every choice of optional tensors that are None; those of `without` are.

    The choice with all tensors given comes first. Of a tensor that is None nothing else is known.
    """
    for missing in (
        chosen
        for number in range(len(optional) + 1)
        for chosen in itertools.combinations(optional, number)
    ):
        seen = set()
        for label, facts in sets:
            left = tuple(fact for fact in facts if fact.param not in (*missing, *without))
            if left in seen:  # sets that differ in what is not there
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
    kernel: str, index: int, assume: AssumeSet, point: Point, report: Report
) -> dict[str, tuple[int, ...]]:
    """Return divisors at a point, with the values of axes."""
    axes = dict(point)
    found: dict[str, tuple[int, ...]] = {}
    for param, divisors in assume.divisible:
        read = []
        for place, divisor in enumerate(divisors):
            value = axes.get(divisor, divisor) if isinstance(divisor, str) else divisor
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                read.append(value)
                continue
            read.append(1)
            if divisor in axes:
                what = f"axis {divisor} is {value!r} in a variant: divisors are positive integers"
            else:
                what = f"{divisor!r} is no axis of the matrix: it has {', '.join(axes) or 'none'}{did_you_mean(str(divisor), axes)}"
            report(what, ("kernel", kernel, "assume", "sets", index, "divisible", param, place))
        found[param] = tuple(read)
    return found


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
    # Where a tensor is named, and how many values it is given.
    named: list[tuple[tuple[str | int, ...], str, int | None]] = [
        *((("divisible", name), name, len(values)) for name, values in divisible.items()),
        *((("stride", name), name, len(values)) for name, values in assume.stride),
        *((("extent", name), name, len(values)) for name, values in assume.extent),
        *((("aligned", name), name, None) for name, _ in assume.aligned if name),
        *(
            (("contiguous", place), name, None)
            for place, name in enumerate(assume.contiguous)
            if name
        ),
    ]
    for place, name, length in named:
        if name not in tensors and name not in unresolved:
            report(
                f"{name!r} is no tensor parameter of the kernel: it has {', '.join(tensors) or 'none'}",
                (*base, *place),
            )
        elif name in tensors and length is not None and length != tensors[name].rank:
            rank = tensors[name].rank
            noun = "extents" if place[0] == "extent" else "divisors"
            report(
                f"{length} {noun} for {name}, which has rank {rank if rank >= 0 else 'any'}",
                (*base, *place),
            )
    strides, aligned, extents = dict(assume.stride), dict(assume.aligned), dict(assume.extent)
    facts = []
    for name, param in tensors.items():
        shape = divisible.get(name, ())
        stride = strides.get(name) or _implied_strides(
            shape, param, contiguous=bool({name, ""}.intersection(assume.contiguous))
        )
        align = aligned.get(name, aligned.get("", 1))
        # A parameter that has to be contiguous in any case is no news.
        contiguous = bool({name, ""}.intersection(assume.contiguous)) and param.stride is not None
        extent = extents.get(name, ())
        why = _contradiction(param, shape, stride, extent, contiguous=contiguous)
        if why:
            report(f"{name}: {why}", base)
        if shape or stride or align > 1 or extent or contiguous:
            facts.append(
                Assumption(
                    param=name,
                    shape=shape,
                    stride=stride,
                    align=align,
                    extent=extent,
                    contiguous=contiguous,
                )
            )
    return tuple(facts)


def _contradiction(
    param: Param,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    extent: tuple[int | None, ...],
    *,
    contiguous: bool,
) -> str:
    """Return why no tensor has all these facts, or an empty text."""
    dense = Assumption(param=param.name, extent=extent, contiguous=True)
    given = param.stride or ()
    follows = dense.strides((None,) * len(given)) if contiguous else ()
    for dim, (known, wanted) in enumerate(zip(follows, given, strict=False)):
        if (
            wanted is not None
            and known is not None
            and known != wanted
            and extent[dim : dim + 1] != (1,)
        ):
            return f"a contiguous tensor has stride {known} in dimension {dim}, and the parameter takes {wanted}"
    taken = dense.strides((None,) * len(stride)) if param.stride is None else param.stride
    for numbers, divisors, what in (
        (extent, shape, "extent {0} is {1}, which is not divisible by {2}"),
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
                return what.format(dim, number, divisor)
    return ""


def _implied_strides(shape: tuple[int, ...], param: Param, *, contiguous: bool) -> tuple[int, ...]:
    """Return divisors of strides that are not fixed, as a contiguous tensor has them.

    Each is the divisor of the innermost extent.
    """
    if not shape or len(shape) < 2:
        return ()
    fixed = param.stride or (*(None,) * (len(shape) - 1), 1)
    if contiguous:
        fixed = (*fixed[:-1], 1)
    return tuple(1 if constant is not None else shape[-1] for constant in fixed)
