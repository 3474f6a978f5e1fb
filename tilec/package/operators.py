"""View of a package's operators, for the template of its module `torch`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilec.package.doc import summary
from tilec.package.text import bracketed, literal, parameter_names, plain, unique
from tilec.package.view import choice_type, defaults, is_open, param_type
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.operator import GRAD, BackwardInfo
from tilec_runtime.model.signature import Param, ParamKind

_TAKEN = {"torch", "ctx", "Literal"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OperatorView:
    """One operator; all attributes except `name` are Python text.

    Attributes:
        name: name of the kernel.
        summary: first paragraph of the kernel's documentation.
        head: lines of the typed function's signature.
        body: lines of the typed function's body.
        taken: parameters of the forward.
        call: call of the operator, by its overload.
        results: names of the outputs.
        saves: lines that save the values for the backward.
        gradients: parameters of the backward.
        backward: lines of the backward; none if the operator writes its inputs.
        computed: whether the backward computes gradients; otherwise it raises.
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
        choose: whether any operator has axes to choose.
        differentiable: whether any operator has a backward.
        shared: whether the namespace contains the build's digest; operators that it already has are
            then from the same build.
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
    """Return the view of a package's operators, or None if it has none.

    Args:
        info: index of the bundle.
        namespace: namespace that contains the build's digest. If empty, the package's name is the
            namespace; the module's name is not, because many libraries have a `_kernels`.
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
    """Return a distribution's name as a Python identifier."""
    return unique(re.sub(r"^(?=\d)|[-.]+", "_", name), ())


def _view(kernel: KernelInfo, by_name: Mapping[str, KernelInfo], namespace: str) -> OperatorView:
    own = [*(param.name for param in kernel.params), *kernel.choices]
    grads = [f"{GRAD}{param.name}" for param in kernel.allocated]
    distinct = parameter_names([*own, *grads], _TAKEN)
    operator = _Operator(kernel, dict(zip(own, distinct, strict=False)), namespace)
    gradients = dict(zip(grads, distinct[len(own) :], strict=True))
    backward = kernel.backward
    saves: list[str] = []
    if backward is not None:
        saves, loads, values = operator.saved(backward)
        values |= {name: f"{text}.contiguous()" for name, text in gradients.items()}
        loads += _backward(kernel, backward, values, by_name[backward.kernel])
    else:
        loads = operator.missing_gradient()
    return OperatorView(
        name=kernel.name,
        summary=summary(kernel),
        head=operator.head(),
        body=[*operator.guards(), *operator.calls()],
        taken=", ".join(operator.taken),
        call=operator.call,
        results=", ".join(operator.names[param.name] for param in kernel.allocated),
        saves=saves,
        gradients=", ".join(gradients.values()),
        backward=loads,
        computed=backward is not None,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Operator:
    """Writer of the Python text of one operator.

    Attributes:
        names: Python names of the kernel's parameters and chosen axes.
        namespace: namespace of the operators in torch.
    """

    kernel: KernelInfo
    names: Mapping[str, str]
    namespace: str

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs."""
        return [self.names[param.name] for param in self.kernel.inputs]

    @property
    def taken(self) -> list[str]:
        """The names of the inputs and the chosen axes."""
        return [*self.inputs, *(self.names[axis] for axis in self.kernel.choices)]

    @property
    def call(self) -> str:
        """The call with every axis."""
        axes = [f"{axis}={self.names[axis]}" for axis in self.kernel.choices]
        return f"_op_{self.kernel.name}({', '.join(self.inputs)}{''.join(f', {a}' for a in axes)})"

    def head(self) -> list[str]:
        """Return the lines of the typed signature."""
        kernel, built = self.kernel, dict(self.kernel.axes)
        default = dict(zip((p.name for p in kernel.params), defaults(kernel), strict=True))
        typed = [
            f"{self.names[param.name]}: {param_type(param).replace('TensorLike', 'torch.Tensor')}"
            + (f" = {default[param.name]}" if default[param.name] else "")
            for param in kernel.inputs
        ]
        axes = [
            f"{self.names[axis]}: {choice_type(built[axis])}{' | None = None' if is_open(kernel, axis) else ''}"
            for axis in kernel.choices
        ]
        results = ["torch.Tensor"] * len(kernel.allocated)
        result = f"tuple[{', '.join(results)}]" if len(results) > 1 else "".join(results) or "None"
        return bracketed(
            f"def {kernel.name}", [*typed, *(["*", *axes] if axes else [])], f" -> {result}:"
        )

    def calls(self) -> Iterator[str]:
        """Yield the lines that call the operator."""
        if self.kernel.choices:
            # Arguments by name cost torch about a microsecond.
            left_open = " and ".join(f"{self.names[axis]} is None" for axis in self.kernel.choices)
            yield f"if {left_open}:"
            yield f"    return _op_{self.kernel.name}({', '.join(self.inputs)})"
        yield f"return {self.call}"

    def guards(self) -> Iterator[str]:
        """Yield the lines that record a call with autograd, or reject inputs.

        Inputs that require a gradient are rejected if the operator has none for them.
        """
        kernel, backward = self.kernel, self.kernel.backward
        tensors = [param for param in kernel.inputs if param.kind is ParamKind.TENSOR]
        if backward is not None:
            with_gradient = [param for param in tensors if backward.gradient_of(param.name)]
            yield from self._refusing(param for param in tensors if param not in with_gradient)
            yield from self._recorded(with_gradient)
        elif any(param.out for param in kernel.inputs):
            yield from self._refusing(tensors)
        else:
            # An autograd formula of the operator slows every call. This line slows only calls with
            # gradients.
            yield from self._recorded(tensors)

    def _recorded(self, tensors: Sequence[Param]) -> Iterator[str]:
        """Yield the lines that record a call with autograd if a tensor requires it."""
        wanted = " or ".join(
            f"({name} is not None and {name}.requires_grad)"
            if param.optional
            else f"{name}.requires_grad"
            for param in tensors
            for name in [self.names[param.name]]
        )
        condition = f"({wanted})" if len(tensors) > 1 else wanted
        yield f"if {condition} and torch.is_grad_enabled():"
        yield f"    return _Grad_{self.kernel.name}.apply({', '.join(self.taken)})"

    def _refusing(self, tensors: Iterable[Param]) -> Iterator[str]:
        """Yield the lines that reject tensors whose gradient would be lost."""
        for param in tensors:
            name = self.names[param.name]
            given = f"{name} is not None and " if param.optional else ""
            yield f"if {given}{name}.requires_grad and torch.is_grad_enabled():"
            yield f'    raise RuntimeError("{self.namespace}::{self.kernel.name} has no gradient of {param.name}: pass {param.name}.detach()")'

    def missing_gradient(self) -> list[str]:
        """Return the line of a backward that raises.

        There is no such line if the operator writes an input.
        """
        name = self.kernel.name
        if any(param.out for param in self.kernel.inputs):
            return []
        line = (
            f'raise RuntimeError("{self.namespace}::{name} has no gradient: name the kernel that computes it '
            f'in kernel.{name}.op.backward of tilec.toml, or detach() its inputs")'
        )
        return [line]

    def saved(self, backward: BackwardInfo) -> tuple[list[str], list[str], dict[str, str]]:
        """Return the code that saves the values of a call and loads them in the backward.

        Returns:
            Lines that save, lines that load, and the Python text of each saved parameter in the
            backward.
        """
        names, used = self.names, {source for _, source in backward.args}
        kinds = {param.name: param.kind for param in self.kernel.params if param.name in used}
        tensors = [names[name] for name, kind in kinds.items() if kind is ParamKind.TENSOR]
        numbers = [name for name, kind in kinds.items() if kind is ParamKind.SCALAR]
        values = {name: names[name] for name in kinds}
        values |= {name: f"ctx.number_{index}" for index, name in enumerate(numbers)}
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
    """Return the lines that call the backward operator and return its gradients.

    The gradients are in the order of the inputs.

    Args:
        kernel: the operator.
        backward: the operator's declaration of its gradients.
        values: Python texts of saved inputs and of gradients of outputs, by name.
        other: the kernel that computes the gradients.
    """
    sources = dict(backward.args)
    args: list[str] = []
    by_name = False  # parameters after an omitted one are passed by keyword
    for param in other.inputs:
        if param.name not in sources:
            by_name = True
            continue
        value = values[sources[param.name]]
        args.append(f"{param.name}={value}" if by_name else value)
    gradients = [sources[param.name] for param in other.allocated]
    sources_of = {name: f"gradients[{index}]" for index, name in enumerate(gradients)}
    inputs = [*(param.name for param in kernel.inputs), *kernel.choices]
    returned = ", ".join(sources_of.get(f"{GRAD}{name}", "None") for name in inputs)
    call = f"_op_{other.name}({', '.join(args)})"
    return [
        f"gradients = {call if len(gradients) > 1 else f'({call},)'}",
        f"return {returned}" if len(inputs) > 1 else f"return ({returned},)",
    ]
