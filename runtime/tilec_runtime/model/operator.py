"""Operators: kernels whose calls allocate outputs, and where their gradients come from."""

from __future__ import annotations

from tilec_runtime.values import value_class

GRAD = "grad_"  # before a parameter's name: its gradient


@value_class(frozen=True, kw_only=True)
class OutputInfo:
    """An output that a call may leave out, which is then allocated.

    Attributes:
        param: the parameter's name.
        like: the input whose shape it has; empty where `shape` says it.
        shape: extents, as expressions over inputs.
        dtype: a dtype's name, or `x.dtype` for that of an input.
    """

    param: str
    like: str = ""
    shape: tuple[str, ...] = ()
    dtype: str


@value_class(frozen=True, kw_only=True)
class BackwardInfo:
    """The operator that computes the gradients of another one's inputs.

    Attributes:
        kernel: its name.
        args: each of its parameters with what it stands for: a parameter of the operator, or
            `grad_` and the name of one, for a gradient. Gradients of outputs are its inputs,
            gradients of inputs its outputs.
    """

    kernel: str
    args: tuple[tuple[str, str], ...]

    def gradient_of(self, param: str) -> str:
        """The parameter of the backward kernel that is the gradient of `param`; empty for none."""
        return next((name for name, stands in self.args if stands == GRAD + param), "")


@value_class(frozen=True, kw_only=True)
class OperatorInfo:
    """A kernel as an operator of other libraries.

    Attributes:
        outputs: what a call allocates, in the order of the parameters. Other tensors that the
            kernel writes are given by the caller, and mutated.
        backward: where gradients come from, None where nothing does.
    """

    outputs: tuple[OutputInfo, ...] = ()
    backward: BackwardInfo | None = None

    @property
    def allocated(self) -> frozenset[str]:
        """Names of the parameters that a call allocates."""
        return frozenset(output.param for output in self.outputs)
