"""Docstrings of generated functions: text, arguments, requirements, variants."""

from __future__ import annotations

import itertools

from tilec.package.text import paragraph, plain, prose
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.table import axis_shown

# A docstring lists this many variants; `tilec inspect` lists them all.
MOST_VARIANTS = 12
_STREAM = "where the kernel is enqueued; None is the current stream of the arrays' library, or the device's default stream"
_PRESET = "; None takes the manifest's"


def summary(kernel: KernelInfo) -> str:
    """Return the first paragraph of a kernel's documentation."""
    return (
        " ".join(itertools.takewhile(bool, map(str.strip, prose(kernel.doc))))
        or f"Launch the kernel {plain(kernel.name)}."
    )


def launcher_doc(kernel: KernelInfo, params: tuple[str, ...], axes: tuple[str, ...]) -> list[str]:
    """Return the lines of the full docstring, for the method that launches at once."""
    lines = prose(kernel.doc) if kernel.doc.strip() else [f"Enqueue the kernel {kernel.name}."]
    lines += [
        "",
        "Args:",
        *_params(kernel, params),
        *entry("stream", _STREAM),
        *_config(kernel),
        *_axes(kernel, axes),
    ]
    built = dict(kernel.axes)
    bound = [
        axis
        for axis in kernel.dtype_axes
        if axis not in kernel.choices and axis in {p.dtype for p in kernel.params}
    ]
    if bound:
        lines += [
            "",
            *(
                line
                for axis in bound
                for line in paragraph(f"{axis} is {one_of(built[axis])}, by the arguments.")
            ),
        ]
    fixed = [
        (axis, values[0]) for axis, values in kernel.axes if len(values) == 1 and axis not in bound
    ]
    if fixed:
        lines += [
            "",
            *paragraph(f"Built with {', '.join(f'{axis} = {value}' for axis, value in fixed)}."),
        ]
    if kernel.launch.requires:
        lines += [
            "",
            "Requires:",
            *(
                line
                for text in kernel.launch.requires
                for line in paragraph(text, indent="    ", hanging="        ")
            ),
        ]
    lines += ["", *_variants(kernel)]
    return lines


def op_doc(kernel: KernelInfo, params: tuple[str, ...], axes: tuple[str, ...]) -> list[str]:
    """Return the lines of the short docstring, for the function that returns ops."""
    entries = [*_params(kernel, params), *_config(kernel), *_axes(kernel, axes)]
    later = f"Nothing runs yet: this is an op, whose result is its arguments. `Module.{kernel.name}` says what it requires."
    lines = [*paragraph(summary(kernel)), "", *paragraph(later)]
    return [*lines, "", "Args:", *entries] if entries else lines


def _params(kernel: KernelInfo, params: tuple[str, ...]) -> list[str]:
    return [
        line
        for name, param in zip(params, kernel.call_params, strict=True)
        for line in entry(name, _list_doc(kernel, param) or param_doc(param))
    ]


def _list_doc(kernel: KernelInfo, param: Param) -> str:
    """Return what a list of arrays accepts, or an empty string for no list."""
    counts = kernel.list_counts.get(param.name)
    return f"list of {one_of(counts)} arrays, each: {param_doc(param)}" if counts else ""


def _config(kernel: KernelInfo) -> list[str]:
    return (
        entry(
            "config",
            f"{', '.join(kernel.launch.open)} of this launch{_PRESET if kernel.launch.preset else ''}",
        )
        if kernel.launch.open
        else []
    )


def _axes(kernel: KernelInfo, axes: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    built, default = dict(kernel.axes), dict(kernel.default)
    for name, axis in zip(axes, kernel.choices, strict=True):
        tiled = f"by the tiles of {', '.join(cut)}" if (cut := kernel.tiled_by(axis)) else ""
        tuned = "by the tuning table" if kernel.table is not None else ""
        ruled = "by rule" if any(axis in dict(rule.take) for rule in kernel.rules) else ""
        source = " or ".join(
            filter(
                None,
                (tiled, tuned, ruled, f"{default[axis]} by default" if axis in default else ""),
            )
        )
        suffix = f"; {source}" if source else ""
        lines += entry(name, f"{one_of(built[axis])}{suffix}")
    return lines


def entry(name: str, text: str) -> list[str]:
    """Return the lines of one argument."""
    return paragraph(f"{name}: {text}", indent="    ", hanging="        ")


def param_doc(param: Param) -> str:
    """Return what a parameter accepts."""
    facts = []
    match param.kind:
        case ParamKind.TENSOR:
            dims = (
                "any number of dimensions"
                if param.rank < 0
                else f"{param.rank} dimension{'' if param.rank == 1 else 's'}"
            )
            facts += [
                f"{param.dtype} tensor",
                dims,
                *_layout(param),
                "written" if param.out else "read",
            ]
            facts += ["may be None"] if param.optional else []
        case ParamKind.SCALAR:
            facts.append(param.dtype)
            if param.default is not None:
                facts.append(f"{param.default!r} by default")
        case ParamKind.PTR:
            facts.append("address in device memory")
        case ParamKind.STRUCT:
            facts.append(f"{param.size} bytes, passed by value")
    return f"{param.doc.rstrip('.')} ({', '.join(facts)})" if param.doc else ", ".join(facts)


def _layout(param: Param) -> list[str]:
    facts = []
    if param.stride is None:
        facts.append("C-contiguous")
    elif any(stride is not None for stride in param.stride):
        facts.append(
            f"strides ({', '.join('any' if stride is None else str(stride) for stride in param.stride)})"
        )
    else:
        facts.append("any strides")
    if any(divisor > 1 for divisor in param.shape_divisible):
        facts.append(f"extents divisible by {param.shape_divisible}")
    if any(divisor > 1 for divisor in param.stride_divisible):
        facts.append(f"strides divisible by {param.stride_divisible}")
    if param.align > 1:
        facts.append(f"aligned to {param.align} bytes")
    return facts


def one_of(values: tuple[AxisValue, ...]) -> str:
    """Format the values of an axis as `1, 2 or 4`."""
    *first, last = map(axis_shown, values)
    return f"{', '.join(first)} or {last}" if first else last


def _variants(kernel: KernelInfo) -> list[str]:
    lines = ["Variants:"]
    for variant in kernel.variants[:MOST_VARIANTS]:
        texts = filter(None, (variant.id, assumption_text(variant.assume)))
        lines += paragraph(": ".join(texts), indent="    ", hanging="        ")
    more = len(kernel.variants) - MOST_VARIANTS
    if more > 0:
        lines.append(f"    and {more} more: tilec inspect lists them")
    return lines


def assumption_text(assume: tuple[Assumption, ...]) -> str:
    """Format as `a, b: shape divisible by 16,16, stride by 16,1, base by 16`.

    The text is empty if there are no facts.
    """
    groups: dict[str, list[str]] = {}
    for one in assume:
        facts = [
            f"{name} by {','.join(map(str, values))}"
            for name, values in (("shape", one.shape), ("stride", one.stride))
            if values
        ]
        if one.align > 1:
            facts.append(f"base by {one.align}")
        parts = [", ".join(facts).replace(" by ", " divisible by ", 1)] if facts else []
        if one.extent:
            parts.append(
                f"shape is {','.join('?' if extent is None else str(extent) for extent in one.extent)}"
            )
        if one.contiguous:
            parts.append("contiguous")
        if one.absent:
            parts.append("None")
        if parts:
            groups.setdefault(", ".join(parts), []).append(one.param)
    return "; ".join(f"{', '.join(params)}: {facts}" for facts, params in groups.items())
