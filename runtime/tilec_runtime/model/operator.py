"""Operators: kernels whose calls allocate outputs, and their gradients."""

from __future__ import annotations

from tilec_runtime.values import value_class

GRAD = "grad_"  # the prefix for the gradient of a parameter


@value_class(frozen=True, kw_only=True)
class OutputInfo:
    """An output that the call allocates if it is left out.

    Attributes:
        param: name of the parameter.
        like: input with the same shape; empty if `shape` gives the shape.
        shape: extents as expressions over inputs.
        dtype: name of a dtype, or `x.dtype` for that of an input.
    """

    param: str
    like: str = ""
    shape: tuple[str, ...] = ()
    dtype: str


@value_class(frozen=True, kw_only=True)
class BackwardInfo:
    """The backward kernel: an operator that computes another operator's gradients.

    Attributes:
        kernel: name of the backward kernel.
        args: argument of each of its parameters: a parameter of the forward operator, or `grad_`
            and its name for a gradient. Gradients of outputs are inputs of the backward kernel,
            gradients of inputs are outputs.
    """

    kernel: str
    args: tuple[tuple[str, str], ...] = ()

    def gradient_of(self, param: str) -> str:
        """Return the backward's parameter for the gradient of `param`, or an empty string."""
        return next((name for name, stands in self.args if stands == GRAD + param), "")


@value_class(frozen=True, kw_only=True)
class OperatorInfo:
    """The description of a kernel as an operator of other libraries.

    Attributes:
        outputs: outputs that a call allocates, in the order of the parameters. The caller gives
            the other tensors that the kernel writes, and the call mutates them.
        backward: the operator that computes gradients, or None.
    """

    outputs: tuple[OutputInfo, ...] = ()
    backward: BackwardInfo | None = None

    @property
    def allocated(self) -> frozenset[str]:
        """Names of the parameters that a call allocates."""
        return frozenset(output.param for output in self.outputs)
