"""From a bundle's index to the plain values that the package template shows: signatures, docstrings, imports."""

from __future__ import annotations

import dataclasses

from tilec.model.dtype import DTYPES
from tilec.model.image import ImageInfo
from tilec.model.kernel import AxisValue, BundleInfo, KernelInfo, VariantInfo
from tilec.model.signature import Param, ParamKind
from tilec.stubs.text import WIDTH, bracketed, literal, method_name, paragraph, parameter_names, plain, prose, tuple_text, unique

# A docstring lists this many variants; `tilec inspect` lists them all.
MOST_VARIANTS = 12


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelView:
    """One method: its name and attribute, and the lines of its signature, docstring and body."""

    name: str
    attribute: str
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    body: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PackageView:
    """The whole package: texts are escaped already.

    Attributes:
        title: first line of the module's docstring. subject: name and version, inside another docstring.
        builder: what made it.
        launchers: attribute that holds all launchers.
        bundle: the bundle's file name as a Python literal.
        typing, runtime: names to import, sorted.
        kernels: in the manifest's order.
    """

    title: str
    subject: str
    builder: str
    launchers: str
    bundle: str
    typing: tuple[str, ...]
    runtime: tuple[str, ...]
    kernels: tuple[KernelView, ...]


def package_view(info: BundleInfo, bundle_name: str) -> PackageView:
    """The view of a bundle's package.

    Raises:
        UsageError: a kernel's or a parameter's name cannot be one in Python.
    """
    package = info.package
    taken = {method_name(kernel.name) for kernel in info.kernels}
    launchers = unique("_launchers", taken)
    taken.add(launchers)
    kernels = []
    for kernel in info.kernels:
        attribute = unique(f"_{kernel.name.lstrip('_')}", taken)
        taken.add(attribute)
        kernels.append(_kernel_view(kernel, attribute))
    subject = plain(f"{package.name} {package.version}")
    title = plain(f"{package.name} {package.version}: {package.description}" if package.description else subject)
    signatures = "\n".join(line for kernel in kernels for line in kernel.signature)
    runtime = {"DeviceLike", "Launcher", "load_packaged"}
    runtime |= {name for name in ("StreamLike", "StructLike", "TensorLike") if name in signatures}
    return PackageView(
        title=title if title.endswith(".") else f"{title}.",
        subject=subject,
        builder=plain(info.builder or "tilec"),
        launchers=launchers,
        bundle=literal(bundle_name),
        typing=("Literal",) if "Literal[" in signatures else (),
        runtime=tuple(sorted(runtime, key=lambda name: (name[0].islower(), name))),
        kernels=tuple(kernels),
    )


def _kernel_view(kernel: KernelInfo, attribute: str) -> KernelView:
    choices = kernel.choices
    names = parameter_names([p.name for p in kernel.params] + list(choices), {"self"})
    stream = unique("stream", names)
    params, axes = names[: len(kernel.params)], names[len(kernel.params) :]
    # A parameter without a default cannot follow one that has one: the earlier defaults then hold for the launcher only.
    last = max((i for i, p in enumerate(kernel.params) if p.default is None), default=-1)
    items = ["self", f"{stream}: StreamLike"]
    for index, (name, param) in enumerate(zip(params, kernel.params, strict=True)):
        items.append(f"{name}: {_type(param)}" + (f" = {_number(param.default)}" if index > last and param.default is not None else ""))
    if axes:
        items.append("*")
        built, default = dict(kernel.axes), dict(kernel.default)
        for name, axis in zip(axes, choices, strict=True):
            items.append(f"{name}: {_choice_type(built[axis])}" + (f" = {_value(default[axis])}" if axis in default else ""))
    return KernelView(
        name=kernel.name,
        attribute=attribute,
        signature=tuple(bracketed(f"def {kernel.name}", items, " -> None:", indent=4)),
        doc=tuple(_doc(kernel, stream, params, axes)),
        body=tuple(_launch_call(attribute, stream, params, axes)),
    )


def _launch_call(attribute: str, stream: str, params: tuple[str, ...], axes: tuple[str, ...]) -> list[str]:
    """The method's body; a tuple that is too wide for a line of its own is broken up too."""
    values = tuple_text(params)
    if len(values) + 13 > WIDTH:
        values = "\n".join(["(", *(f"                {name}," for name in params), "            )"])
    arguments = [stream, values] + ([tuple_text(axes)] if axes else [])
    return bracketed(f"self.{attribute}.launch", arguments, "", indent=8)


def _type(param: Param) -> str:
    match param.kind:
        case ParamKind.TENSOR:
            return "TensorLike"
        case ParamKind.PTR:
            return "int"
        case ParamKind.STRUCT:
            return "StructLike"
        case ParamKind.SCALAR:
            kind = DTYPES[param.dtype].kind if param.dtype in DTYPES else "float"
            return {"bool": "bool", "int": "int", "uint": "int", "float": "float"}[kind]


def _number(value: float | bool | None) -> str:
    return f'float("{value!r}")' if isinstance(value, float) and repr(value) in ("inf", "-inf", "nan") else repr(value)


def _value(value: AxisValue) -> str:
    return literal(value) if isinstance(value, str) else repr(value)


def _choice_type(values: tuple[AxisValue, ...]) -> str:
    if any(isinstance(value, float) for value in values):  # Literal takes no floats
        return "float"
    return f"Literal[{', '.join(_value(value) for value in values)}]"


def _doc(kernel: KernelInfo, stream: str, params: tuple[str, ...], axes: tuple[str, ...]) -> list[str]:
    lines = prose(kernel.doc) if kernel.doc.strip() else [f"Enqueue the kernel {kernel.name}."]
    lines += ["", "Args:", *_entry(stream, "where the kernel is enqueued")]
    for name, param in zip(params, kernel.params, strict=True):
        lines += _entry(name, _param_doc(param))
    built, default = dict(kernel.axes), dict(kernel.default)
    for name, axis in zip(axes, kernel.choices, strict=True):
        suffix = f"; {default[axis]} by default" if axis in default else ""
        lines += _entry(name, f"{_one_of(built[axis])}{suffix}")
    bound = [axis for axis in kernel.dtype_axes if axis not in kernel.choices and axis in {p.dtype for p in kernel.params}]
    if bound:
        lines += ["", *(line for axis in bound for line in paragraph(f"{axis} is {_one_of(built[axis])}, by the arguments."))]
    fixed = [(axis, values[0]) for axis, values in kernel.axes if len(values) == 1 and axis not in bound]
    if fixed:
        lines += ["", *paragraph(f"Built with {', '.join(f'{axis} = {value}' for axis, value in fixed)}.")]
    if kernel.launch.requires:
        lines += [
            "",
            "Requires:",
            *(line for text in kernel.launch.requires for line in paragraph(text, indent="    ", hanging="        ")),
        ]
    lines += ["", *_variants(kernel)]
    return lines


def _entry(name: str, text: str) -> list[str]:
    return paragraph(f"{name}: {text}", indent="    ", hanging="        ")


def _param_doc(param: Param) -> str:
    facts = []
    match param.kind:
        case ParamKind.TENSOR:
            dims = "any number of dimensions" if param.rank < 0 else f"{param.rank} dimension{'' if param.rank == 1 else 's'}"
            facts += [f"{param.dtype} tensor", dims, *_layout(param), "written" if param.out else "read"]
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
        facts.append(f"strides ({', '.join('any' if stride is None else str(stride) for stride in param.stride)})")
    else:
        facts.append("any strides")
    if any(divisor > 1 for divisor in param.shape_divisible):
        facts.append(f"extents divisible by {param.shape_divisible}")
    if any(divisor > 1 for divisor in param.stride_divisible):
        facts.append(f"strides divisible by {param.stride_divisible}")
    if param.align > 1:
        facts.append(f"aligned to {param.align} bytes")
    return facts


def _one_of(values: tuple[AxisValue, ...]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}" if first else last


def _variants(kernel: KernelInfo) -> list[str]:
    lines = ["Variants:"]
    for variant in kernel.variants[:MOST_VARIANTS]:
        assumes = f": {_assumptions(variant)}" if variant.assume else ""
        lines += paragraph(f"{variant.id}{assumes}", indent="    ", hanging="        ")
        by_resources: dict[str, list[str]] = {}
        for image in variant.images:
            by_resources.setdefault(_resources(image), []).append(str(image.target))
        for resources, targets in by_resources.items():
            lines += paragraph(
                f"{', '.join(targets)}: {resources}" if resources else ", ".join(targets), indent="        ", hanging="            "
            )
    more = len(kernel.variants) - MOST_VARIANTS
    if more > 0:
        lines.append(f"    and {more} more: tilec inspect lists them")
    return lines


def _assumptions(variant: VariantInfo) -> str:
    facts: dict[str, list[str]] = {}
    for assumption in variant.assume:
        for text in (
            f"extents divisible by {assumption.shape}" if any(d > 1 for d in assumption.shape) else "",
            f"strides divisible by {assumption.stride}" if any(d > 1 for d in assumption.stride) else "",
            f"aligned to {assumption.align} bytes" if assumption.align > 1 else "",
        ):
            if text:
                facts.setdefault(text, []).append(assumption.param)
    return "; ".join(f"{', '.join(params)} {text}" for text, params in facts.items())


def _resources(image: ImageInfo) -> str:
    r = image.resources
    spills = None if r.spill_stores is None and r.spill_loads is None else (r.spill_stores or 0) + (r.spill_loads or 0)
    parts = [
        f"{r.registers} registers" if r.registers is not None else "",
        "" if spills is None else f"{spills} bytes spilled" if spills else "no spills",
        f"{r.stack} bytes of stack" if r.stack else "",
        f"{r.shared} bytes of shared memory" if r.shared else "",
    ]
    return ", ".join(part for part in parts if part)
