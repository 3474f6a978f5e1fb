"""Operators of a package, for the template of its module `torch`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from tilec.package.doc import summary
from tilec.package.text import bracketed, parameter_names, unique
from tilec.package.view import choice_type, defaults, is_open, param_type
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.operator import GRAD
from tilec_runtime.model.signature import Param, ParamKind

_TAKEN = {"torch", "ctx", "Literal"}


def operators_of(info: BundleInfo) -> list[Operator]:
    """Return the operators of a package."""
    by_name = {kernel.name: kernel for kernel in info.kernels if kernel.op is not None}
    return [_operator(kernel, by_name) for kernel in by_name.values()]


def namespace_of(package: str) -> str:
    """Return the name of a distribution as a Python identifier.

    The module's name is not the namespace, because many libraries have a `_kernels`.
    """
    return unique(re.sub(r"^(?=\d)|[-.]+", "_", package), ())


def _operator(kernel: KernelInfo, by_name: Mapping[str, KernelInfo]) -> Operator:
    own = [*(param.name for param in kernel.params), *kernel.choices]
    gradients = [f"{GRAD}{param.name}" for param in kernel.allocated]
    names = parameter_names([*own, *gradients], _TAKEN)
    return Operator(
        kernel=kernel,
        names=dict(zip(own, names, strict=False)),
        gradients=dict(zip(gradients, names[len(own) :], strict=True)),
        other=by_name[kernel.backward.kernel] if kernel.backward else None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """A kernel as an operator, with the names and expressions of its Python text.

    Attributes:
        kernel: the kernel.
        names: Python names of the kernel's parameters and chosen axes.
        gradients: Python names of the gradients of its outputs.
        other: the kernel that computes the gradients of its inputs, or None.
    """

    kernel: KernelInfo
    names: Mapping[str, str]
    gradients: Mapping[str, str]
    other: KernelInfo | None

    @property
    def summary(self) -> str:
        """First paragraph of the kernel's documentation."""
        return summary(self.kernel)

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return [self.names[param.name] for param in self.kernel.inputs]

    @property
    def axes(self) -> list[str]:
        """Names of the chosen axes."""
        return [self.names[axis] for axis in self.kernel.choices]

    @property
    def results(self) -> list[str]:
        """Names of the outputs."""
        return [self.names[param.name] for param in self.kernel.allocated]

    @property
    def call(self) -> str:
        """Call of the operator with every axis."""
        axes = [f"{axis}={self.names[axis]}" for axis in self.kernel.choices]
        return f"_op_{self.kernel.name}({', '.join(self.inputs)}{''.join(f', {a}' for a in axes)})"

    @property
    def head(self) -> list[str]:
        """Lines of the typed function's signature."""
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

    @property
    def recorded(self) -> list[Param]:
        """Inputs whose gradient a backward computes, or refuses to compute.

        A test of these inputs slows only calls with gradients. An autograd formula of the operator
        would slow every call.
        """
        backward = self.kernel.backward
        if backward is not None:
            return [param for param in self._tensors if backward.gradient_of(param.name)]
        return [] if any(param.out for param in self.kernel.inputs) else self._tensors

    @property
    def refused(self) -> list[Param]:
        """Inputs whose gradient would be lost."""
        recorded = self.recorded
        return [param for param in self._tensors if param not in recorded]

    @property
    def saved(self) -> list[str]:
        """Names of the tensors that the backward uses."""
        return [self.names[name] for name in self._used(ParamKind.TENSOR)]

    @property
    def numbers(self) -> dict[str, str]:
        """Text in the backward of each number that it uses, by name."""
        names = [self.names[name] for name in self._used(ParamKind.SCALAR)]
        return {name: f"ctx.number_{index}" for index, name in enumerate(names)}

    @property
    def gradients_call(self) -> str:
        """Call in the backward of the operator that computes the gradients."""
        assert self.other is not None
        numbers = self.numbers
        values = {name: numbers.get(text, text) for name, text in self.names.items()}
        values |= {name: f"{text}.contiguous()" for name, text in self.gradients.items()}
        args: list[str] = []
        by_name = False  # parameters after an omitted one are passed by keyword
        for param in self.other.inputs:
            if param.name not in self._sources:
                by_name = True
                continue
            value = values[self._sources[param.name]]
            args.append(f"{param.name}={value}" if by_name else value)
        call = f"_op_{self.other.name}({', '.join(args)})"
        return call if len(self.other.allocated) > 1 else f"({call},)"

    @property
    def returned(self) -> str:
        """Gradients in the order of the inputs, of the tuple `gradients` in the backward."""
        assert self.other is not None
        places = {
            self._sources[param.name]: f"gradients[{index}]"
            for index, param in enumerate(self.other.allocated)
        }
        inputs = [*(param.name for param in self.kernel.inputs), *self.kernel.choices]
        listed = ", ".join(places.get(f"{GRAD}{name}", "None") for name in inputs)
        return listed if len(inputs) > 1 else f"({listed},)"

    @property
    def _tensors(self) -> list[Param]:
        return [param for param in self.kernel.inputs if param.kind is ParamKind.TENSOR]

    @property
    def _sources(self) -> dict[str, str]:
        """The argument of each parameter of the backward kernel."""
        return dict(self.kernel.backward.args) if self.kernel.backward else {}

    def _used(self, kind: ParamKind) -> list[str]:
        """Return the parameters of a kind that the backward kernel takes."""
        used = set(self._sources.values())
        return [p.name for p in self.kernel.params if p.kind is kind and p.name in used]
