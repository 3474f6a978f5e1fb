"""The operators of sample 1.0 in torch: `torch.ops.sample`.

Made by tilec 0.1.0. Do not edit: builds write this file, and refuse to where it was changed.
"""
# fmt: off

from __future__ import annotations

import torch
from tilec_runtime.torch_ops import Operators as _Operators

from . import _tilec_package_

__all__ = ["scale", "scale_backward"]

_operators = _Operators(_tilec_package_, "sample")
_op_scale = _operators.define("scale")
_op_scale_backward = _operators.define("scale_backward")


class _Twice(torch.autograd.Function):
    """Gives gradients on, with what they were computed of, and refuses to differentiate them."""

    @staticmethod
    def forward(ctx, count, *tensors):
        return tensors[:count]

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            "the gradient of a kernel is of a kernel too, which torch cannot differentiate twice: "
            "leave create_graph out, or detach() the gradient"
        )


def _once(backward):
    # torch's once_differentiable does not see what depends on the saved tensors alone.
    def compute(ctx, *grads):
        with torch.no_grad():
            found = backward(ctx, *grads)
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return found
        sources = [each for each in (*grads, *ctx.saved_tensors) if each is not None]
        return _Twice.apply(len(found), *found, *sources)

    return compute


class _Grad_scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = _op_scale(x, factor)
        ctx.number_0 = factor
        return y

    @staticmethod
    @_once
    def backward(ctx, grad_y):
        gradients = (_op_scale_backward(grad_y.contiguous(), ctx.number_0),)
        return gradients[0], None


def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    """Launch the kernel scale."""
    if x.requires_grad and torch.is_grad_enabled():
        return _Grad_scale.apply(x, factor)
    return _op_scale(x, factor)


class _Grad_scale_backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = _op_scale_backward(x, factor)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        raise RuntimeError("sample::scale_backward has no gradient: name the kernel that computes it in kernel.scale_backward.op.backward of tilec.toml, or detach() its inputs")


def scale_backward(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    """Launch the kernel scale_backward."""
    if x.requires_grad and torch.is_grad_enabled():
        return _Grad_scale_backward.apply(x, factor)
    return _op_scale_backward(x, factor)
