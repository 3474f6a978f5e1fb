"""The view of a package's operators for the template of its module `torch`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from tilec.package.doc import summary
from tilec.package.text import bracketed, literal, parameter_names, plain, unique
from tilec.package.view import choice_type, defaults, is_open, param_type
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.operator import GRAD, BackwardInfo
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
        backward: its lines, none where the operator writes what the caller gives. computed: whether
            they compute gradients, not raise.
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
    computed: bool


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
        namespace: one with the build's digest; the package's name where there is none, because
            modules such as `_kernels` are called alike in many libraries.
    """
    operators = [kernel for kernel in info.kernels if kernel.op is not None]
    if not operators:
        return None
    shared, namespace = bool(namespace), namespace or _identifier(info.package.name)
    by_name = {kernel.name: kernel for kernel in operators}
    return OperatorsView(
        subject=plain(f"{info.package.name} {info.package.version}"),
        builder=plain(info.builder or "tilec"),
        namespace=namespace,
        exports=f"[{', '.join(map(literal, sorted(by_name)))}]",
        shared=shared,
        choose=any(kernel.choices for kernel in operators),
        differentiable=any(kernel.backward for kernel in operators),
        all=tuple(_view(kernel, by_name, namespace) for kernel in operators),
    )


def _identifier(name: str) -> str:
    """Return a distribution's name as an identifier of Python."""
    return unique(re.sub(r"^(?=\d)|[-.]+", "_", name), ())


def _view(kernel: KernelInfo, by_name: Mapping[str, KernelInfo], namespace: str) -> OperatorView:
    own = [*(param.name for param in kernel.params), *kernel.choices]
    grads = [f"{GRAD}{param.name}" for param in kernel.allocated]
    distinct = parameter_names([*own, *grads], _TAKEN)
    names = dict(zip(own, distinct, strict=False))
    inputs = kernel.inputs
    default = dict(zip((param.name for param in kernel.params), defaults(kernel), strict=True))
    built = dict(kernel.axes)
    typed = [
        f"{names[param.name]}: {param_type(param).replace('TensorLike', 'torch.Tensor')}"
        + (f" = {default[param.name]}" if default[param.name] else "")
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
        left_open = " and ".join(f"{names[axis]} is None" for axis in kernel.choices)
        body = [f"if {left_open}:", f"    return {plain_call}"]
    body.append(f"return {call}")
    gradients = dict(zip(grads, distinct[len(own) :], strict=True))
    saves: list[str] = []
    loads: list[str] = []
    backward = kernel.backward
    if backward is not None:
        body = [*_differentiable(kernel, backward, names, taken, namespace), *body]
        saves, loads, values = _saved(kernel, backward, names)
        values |= {name: f"{text}.contiguous()" for name, text in gradients.items()}
        loads += _backward(kernel, backward, values, by_name[backward.kernel])
    elif any(param.out for param in inputs):
        body = [*_refusing(kernel, _tensors(kernel), names, namespace), *body]
    else:
        # An autograd formula of the operator would cost every call, this one those with gradients.
        body = [*_recorded(kernel, _tensors(kernel), names, taken), *body]
        loads = [_missing_gradient(kernel, namespace)]
    return OperatorView(
        name=kernel.name,
        summary=summary(kernel),
        head=bracketed(
            f"def {kernel.name}", [*typed, *(["*", *axes] if axes else [])], f" -> {result}:"
        ),
        body=body,
        taken=", ".join(taken),
        call=call,
        results=", ".join(names[param.name] for param in kernel.allocated),
        saves=saves,
        gradients=", ".join(gradients.values()),
        backward=loads,
        computed=backward is not None,
    )


def _tensors(kernel: KernelInfo) -> list[Param]:
    return [param for param in kernel.inputs if param.kind is ParamKind.TENSOR]


def _differentiable(
    kernel: KernelInfo,
    backward: BackwardInfo,
    names: Mapping[str, str],
    taken: Sequence[str],
    namespace: str,
) -> list[str]:
    """Return the lines that register a call with autograd, and refuse inputs without a gradient."""
    tensors = _tensors(kernel)
    with_gradient = [param for param in tensors if backward.gradient_of(param.name)]
    without = [param for param in tensors if param not in with_gradient]
    return [
        *_refusing(kernel, without, names, namespace),
        *_recorded(kernel, with_gradient, names, taken),
    ]


def _recorded(
    kernel: KernelInfo, tensors: Sequence[Param], names: Mapping[str, str], taken: Sequence[str]
) -> list[str]:
    """Return the lines that register a call with autograd where one of the tensors wants it."""
    wanted = " or ".join(_wants_gradient(param, names) for param in tensors)
    condition = f"({wanted})" if len(tensors) > 1 else wanted
    return [
        f"if {condition} and torch.is_grad_enabled():",
        f"    return _Grad_{kernel.name}.apply({', '.join(taken)})",
    ]


def _wants_gradient(param: Param, names: Mapping[str, str]) -> str:
    """Return the condition that a tensor is given and requires a gradient."""
    name = names[param.name]
    condition = f"{name}.requires_grad"
    return f"({name} is not None and {condition})" if param.optional else condition


def _missing_gradient(kernel: KernelInfo, namespace: str) -> str:
    """Return the line that raises where the gradient of an operator without a backward is due."""
    return (
        f'raise RuntimeError("{namespace}::{kernel.name} has no gradient: name the kernel that computes it '
        f'in kernel.{kernel.name}.op.backward of tilec.toml, or detach() its inputs")'
    )


def _refusing(
    kernel: KernelInfo, tensors: Sequence[Param], names: Mapping[str, str], namespace: str
) -> Iterator[str]:
    """Yield the lines that refuse tensors whose gradient would be lost."""
    for param in tensors:
        yield f"if {_wants_gradient(param, names)} and torch.is_grad_enabled():"
        yield f'    raise RuntimeError("{namespace}::{kernel.name} has no gradient of {param.name}: pass {param.name}.detach()")'


def _saved(
    kernel: KernelInfo, backward: BackwardInfo, names: Mapping[str, str]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the lines that save what a backward takes of a call, those that load it, and the
    Python text of each saved parameter in the backward.
    """
    used = {source for _, source in backward.args}
    kinds = {param.name: param.kind for param in kernel.params if param.name in used}
    tensors = [names[name] for name, kind in kinds.items() if kind is ParamKind.TENSOR]
    numbers = [name for name, kind in kinds.items() if kind is ParamKind.SCALAR]
    values = {name: names[name] for name in kinds}
    values |= {name: f"ctx.number_{place}" for place, name in enumerate(numbers)}
    saves = [f"{values[name]} = {names[name]}" for name in numbers]
    if not tensors:
        return saves, [], values
    listed = ", ".join(tensors)
    return (
        [f"ctx.save_for_backward({listed})", *saves],
        [f"({listed},) = ctx.saved_tensors"],
        values,
    )


def _backward(
    kernel: KernelInfo, backward: BackwardInfo, values: Mapping[str, str], other: KernelInfo
) -> list[str]:
    """Return the lines that call the backward operator and return its gradients in order.

    Args:
        kernel: the operator.
        backward: where its gradients come from.
        values: saved inputs and gradients of outputs, by name.
        other: the kernel that computes the gradients.
    """
    sources = dict(backward.args)
    args: list[str] = []
    by_name = False  # a parameter that is left out makes those behind it keywords
    for param in other.inputs:
        if param.name not in sources:
            by_name = True
            continue
        value = values[sources[param.name]]
        args.append(f"{param.name}={value}" if by_name else value)
    gradients = [sources[param.name] for param in other.allocated]
    places = {name: f"gradients[{place}]" for place, name in enumerate(gradients)}
    inputs = [*(param.name for param in kernel.inputs), *kernel.choices]
    returned = ", ".join(places.get(f"{GRAD}{name}", "None") for name in inputs)
    call = f"_op_{other.name}({', '.join(args)})"
    return [
        f"gradients = {call if len(gradients) > 1 else f'({call},)'}",
        f"return {returned}" if len(inputs) > 1 else f"return ({returned},)",
    ]
