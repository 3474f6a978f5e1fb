"""From a kernel to its function that gives ops: the types that checkers see, the signature, and the call behind it."""

from __future__ import annotations

import dataclasses

from tilec.package.doc import op_doc
from tilec.package.text import WIDTH, bracketed, function_head, literal, subscripted, tuple_text, unique
from tilec.package.types import chosen, keywords, param_type, signature
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LazyView:
    """One function of the module: its class for type checkers, and the lines of its signature, docstring and body.

    Attributes:
        name: the kernel's. exported: the function's name in the module.
        tensors: how many type variables it has.
    """

    name: str
    exported: str
    tensors: int
    checked: tuple[str, ...]
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    body: tuple[str, ...]


def lazy_view(kernel: KernelInfo, names: tuple[str, ...], launch: str, op: str, exported: str) -> LazyView:
    """The view of a kernel's function.

    Args:
        kernel: the kernel.
        names: of its parameters and choices in Python.
        launch: what has the makers of launches.
        op: name of the class that checkers take its ops for.
        exported: the function's name in the module.
    """
    params, axes = names[: len(kernel.params)], names[len(kernel.params) :]
    tensors = [place for place, param in enumerate(kernel.params) if param.kind is ParamKind.TENSOR and not param.optional]
    variables = {place: f"_T{number}" for number, place in enumerate(tensors, 1)}
    result = op, list(variables.values())

    def type_of(place: int, param: Param) -> str:
        return f"OrOp[{variables.get(place) or param_type(param)}]"

    made = unique("made", names)
    arguments = [tuple_text(params, indent=8)] + ([chosen(kernel, axes, indent=8)] if axes else [])
    return LazyView(
        name=kernel.name,
        exported=exported,
        tensors=len(tensors),
        checked=tuple(_checked(kernel, result, [variables.get(i) or param_type(p) for i, p in enumerate(kernel.params)])),
        signature=tuple(function_head(exported, signature(kernel, params, axes, type_of), result, indent=0)),
        doc=tuple(op_doc(kernel, kernel.name, params, axes)),
        body=(
            *subscripted(f"{made}: {op}", result[1], "", indent=4),
            *bracketed(f"{made} = {launch}[{literal(kernel.name)}]", arguments, "", indent=4),
            f"return {made}",
        ),
    )


def _checked(kernel: KernelInfo, op: tuple[str, list[str]], results: list[str]) -> list[str]:
    """The class of a kernel's ops, with the axes and options that there are; lines that stand at 4."""
    hints: dict[str, dict[int, None]] = {}
    for variant in kernel.variants:
        for _, given in variant.hints:
            for name, value in given:
                hints.setdefault(name, {})[value] = None
    divisors = dict.fromkeys(variant.divisibility for variant in kernel.variants)
    if len(divisors) > 1:
        hints["max_divisibility"] = divisors
    options: list[tuple[str, tuple[AxisValue, ...]]] = [(name, tuple(sorted(hints[name]))) for name in sorted(hints)]
    lines = [f"class {op[0]}(LazyLaunch[tuple[{', '.join(results) or '()'}]]):"]
    if len(lines[0]) + 4 > WIDTH:
        items = [f"            {each}," for each in results]
        lines = [f"class {op[0]}(", "    LazyLaunch[", "        tuple[", *items, "        ]", "    ]", "):"]
    lines += [f'    """A launch of {kernel.name} that runs later."""', ""]
    for name, items, doc in (
        ("variant", keywords(kernel.axes, opens=True), "Launch the variant of these axis values; None leaves an axis open again."),
        ("options", keywords(options), "Launch a variant that was built with these compiler hints, or assumes no larger divisor."),
    ):
        head = function_head(name, items, op, indent=8)
        lines += [f"    {line}" for line in (*head, f'    """{doc}"""', "    ...")]
        lines.append("")
    return lines[:-1]
