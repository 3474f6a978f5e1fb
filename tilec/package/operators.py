"""The view of a package's operators for the template of its module `torch`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilec.package.doc import summary
from tilec.package.text import bracketed, literal, parameter_names, plain
from tilec.package.view import choice_type, defaults, is_open, param_type
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.operator import GRAD
from tilec_runtime.model.signature import Param, ParamKind

_TAKEN = {"torch", "ctx", "Literal"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OperatorView:
    """One operator; all but `name` is Python text.

    Attributes:
        name: the kernel's. summary: first paragraph of its documentation. head, body: lines of the
            typed function.
        taken: parameters of the forward. call: of the operator, by its overload. results: what it
            gives.
        saves: lines that keep what the backward takes. gradients: parameters of the backward.
        backward: its lines, none where the operator has none.
    """

    name: str
    summary: str
    head: list[str]
    body: list[str]
    taken: str
    call: str
    results: str
    saves: list[str]
    gradients: str
    backward: list[str]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OperatorsView:
    """All operators of a package; texts are Python text.

    Attributes:
        choose: whether any has axes to choose. differentiable: whether any has a backward.
        shared: whether the namespace has the build's digest, so that operators which are there
            already are of the same build.
    """

    subject: str
    builder: str
    namespace: str
    exports: str
    choose: bool
    differentiable: bool
    shared: bool
    all: tuple[OperatorView, ...]


def operators_view(info: BundleInfo, namespace: str = "") -> OperatorsView | None:
    """Return the view of a package's operators; None where it has none.

    Args:
        info: the bundle's index.
        namespace: one with the build's digest; the package's module where there is none.
    """
    operators = [kernel for kernel in info.kernels if kernel.op is not None]
    if not operators:
        return None
    shared, namespace = bool(namespace), namespace or info.package.module.replace(".", "_")
    by_name = {kernel.name: kernel for kernel in operators}
    return OperatorsView(
        subject=plain(f"{info.package.name} {info.package.version}"),
        builder=plain(info.builder or "tilec"),
        namespace=namespace,
        exports=f"[{', '.join(map(literal, sorted(by_name)))}]",
        shared=shared,
        choose=any(kernel.choices for kernel in operators),
        differentiable=any(kernel.op.backward for kernel in operators if kernel.op is not None),
        all=tuple(_view(kernel, by_name, namespace) for kernel in operators),
    )


def _view(kernel: KernelInfo, by_name: Mapping[str, KernelInfo], namespace: str) -> OperatorView:
    own = [*(param.name for param in kernel.params), *kernel.choices]
    grads = [f"{GRAD}{param.name}" for param in kernel.allocated]
    unique = parameter_names([*own, *grads], _TAKEN)
    names = dict(zip(own, unique, strict=False))
    inputs = [param for param in kernel.params if param not in kernel.allocated]
    given = dict(zip((param.name for param in kernel.params), defaults(kernel), strict=True))
    built = dict(kernel.axes)
    typed = [
        f"{names[param.name]}: {param_type(param).replace('TensorLike', 'torch.Tensor')}"
        + (f" = {given[param.name]}" if given[param.name] else "")
        for param in inputs
    ]
    axes = [
        f"{names[axis]}: {choice_type(built[axis])}{' | None = None' if is_open(kernel, axis) else ''}"
        for axis in kernel.choices
    ]
    count = len(kernel.allocated)
    result = {0: "None", 1: "torch.Tensor"}.get(
        count, f"tuple[{', '.join(['torch.Tensor'] * count)}]"
    )
    plain_call = f"_op_{kernel.name}({', '.join(names[param.name] for param in inputs)})"
    chosen = "".join(f", {axis}={names[axis]}" for axis in kernel.choices)
    call = f"{plain_call[:-1]}{chosen})"
    taken = [names[name] for name in (*(param.name for param in inputs), *kernel.choices)]
    body = []
    if kernel.choices:
        # Arguments by name cost torch about a microsecond.
        unsaid = " and ".join(f"{names[axis]} is None" for axis in kernel.choices)
        body = [f"if {unsaid}:", f"    return {plain_call}"]
    body.append(f"return {call}")
    return OperatorView(
        name=kernel.name,
        summary=summary(kernel),
        head=bracketed(
            f"def {kernel.name}", [*typed, *(["*", *axes] if axes else [])], f" -> {result}:"
        ),
        body=[*_differentiable(kernel, names, taken, namespace), *body],
        taken=", ".join(taken),
        call=call,
        results=", ".join(names[param.name] for param in kernel.allocated),
        saves=_saves(kernel, names),
        gradients=", ".join(unique[len(own) :]),
        backward=_backward(
            kernel, names, dict(zip(grads, unique[len(own) :], strict=True)), by_name
        ),
    )


def _differentiable(
    kernel: KernelInfo, names: Mapping[str, str], taken: list[str], namespace: str
) -> list[str]:
    """The lines that let autograd know of a call; inputs without a gradient are refused."""
    backward = kernel.op.backward if kernel.op is not None else None
    tensors = [p for p in kernel.params if p.kind is ParamKind.TENSOR and p not in kernel.allocated]
    if backward is None and not any(p.out for p in tensors):
        return []  # torch warns where the gradient of a result is asked for
    with_gradient = [p for p in tensors if backward and backward.gradient_of(p.name)]
    without = [p for p in tensors if p not in with_gradient]
    wanted = " or ".join(f"{names[p.name]}.requires_grad" for p in with_gradient)
    lines = []
    for param in without:
        given = f"{names[param.name]} is not None and " if param.optional else ""
        lines += [
            f"if {given}{names[param.name]}.requires_grad and torch.is_grad_enabled():",
            f'    raise RuntimeError("{namespace}::{kernel.name} has no gradient of {param.name}: pass {param.name}.detach()")',
        ]
    if not with_gradient:
        return lines
    call = f"_Grad_{kernel.name}.apply({', '.join(taken)})"
    condition = f"({wanted})" if len(with_gradient) > 1 else wanted
    return [*lines, f"if {condition} and torch.is_grad_enabled():", f"    return {call}"]


def _kept(kernel: KernelInfo) -> tuple[list[str], list[str]]:
    """The tensors and the numbers that a backward takes of the call."""
    kinds = {param.name: param.kind for param in kernel.params}
    assert kernel.op is not None
    assert kernel.op.backward is not None
    used = [stands for _, stands in kernel.op.backward.args if stands in kinds]
    used = list(dict.fromkeys(used))
    return (
        [name for name in used if kinds[name] is ParamKind.TENSOR],
        [name for name in used if kinds[name] is ParamKind.SCALAR],
    )


def _saves(kernel: KernelInfo, names: Mapping[str, str]) -> list[str]:
    if kernel.op is None or kernel.op.backward is None:
        return []
    tensors, numbers = _kept(kernel)
    return [
        *(
            [f"ctx.save_for_backward({', '.join(names[name] for name in tensors)})"]
            if tensors
            else []
        ),
        *(f"ctx.number_{place} = {names[name]}" for place, name in enumerate(numbers)),
    ]


def _backward(
    kernel: KernelInfo,
    names: Mapping[str, str],
    grads: Mapping[str, str],
    by_name: Mapping[str, KernelInfo],
) -> list[str]:
    """The lines of the backward: what was kept, the other operator, the gradients in order."""
    if kernel.op is None or kernel.op.backward is None:
        return []
    other, stands = by_name[kernel.op.backward.kernel], dict(kernel.op.backward.args)
    tensors, numbers = _kept(kernel)
    values = {name: f"ctx.number_{place}" for place, name in enumerate(numbers)}
    values |= {name: names[name] for name in tensors}
    values |= {name: f"{text}.contiguous()" for name, text in grads.items()}
    args = [
        f"{param.name}={values[stands[param.name]]}" if missing else values[stands[param.name]]
        for param, missing in _passed(other, stands)
    ]
    made = [stands[param.name] for param in other.allocated]
    found = {name: f"found[{place}]" for place, name in enumerate(made)}
    given = [
        *(param.name for param in kernel.params if param not in kernel.allocated),
        *kernel.choices,
    ]
    returned = ", ".join(found.get(f"{GRAD}{name}", "None") for name in given)
    call = f"_op_{other.name}({', '.join(args)})"
    return [
        *(
            [f"({', '.join(names[name] for name in tensors)},) = ctx.saved_tensors"]
            if tensors
            else []
        ),
        f"found = {call}" if len(made) > 1 else f"found = ({call},)",
        f"return {returned}" if len(given) > 1 else f"return ({returned},)",
    ]


def _passed(other: KernelInfo, stands: Mapping[str, str]) -> list[tuple[Param, bool]]:
    """The parameters of the backward that are passed, each with whether one before it is not."""
    found, missing = [], False
    for param in other.params:
        if param in other.allocated:
            continue
        if param.name in stands:
            found.append((param, missing))
        else:
            missing = True
    return found
