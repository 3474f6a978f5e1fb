"""CUDA C++ behind a tile kernel, in one project: as one chain of ops, and as a typed operator of
torch where torch has a GPU.
"""

import pipelines
import reference
from common import GPU_ONLY, check, matrix, on_cpu, run

from tilec_runtime import api

ROWS, INNER, COLUMNS, FACTOR = 61, 70, 45, 2.5


def scaled_layer(x, w):
    """relu(x @ w) by the tile kernel, then times a factor by CUDA C++; the cpu device runs the
    first half.
    """
    op = pipelines.ops.layer(
        api.empty((x.shape[0], w.shape[1])), api.from_host(x), api.from_host(w)
    ).first()
    if not on_cpu():
        op = op.then(lambda h: pipelines.ops.scale(api.empty(h.shape), h, FACTOR).first())
    return op.to_host()


def torch_operator(torch):
    """`pipelines::scaled_layer`, with a schema that its annotations give, shapes for torch.compile
    and a gradient.
    """

    def scaled_layer(x: torch.Tensor, w: torch.Tensor, factor: float) -> torch.Tensor:
        kernels, stream = pipelines.load(x.device), torch.cuda.current_stream(x.device)
        hidden = x.new_empty((x.shape[0], w.shape[1]))
        kernels.layer(hidden, x, w, stream=stream)
        scaled = torch.empty_like(hidden)
        kernels.scale(scaled, hidden, factor, stream=stream)
        return scaled

    operator = torch.library.custom_op(
        "pipelines::scaled_layer", scaled_layer, mutates_args=(), device_types="cuda"
    )
    operator.register_fake(lambda x, w, _factor: x.new_empty((x.shape[0], w.shape[1])))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], inputs[1], output)
        ctx.factor = inputs[2]

    def backward(ctx, grad):
        x, w, output = ctx.saved_tensors
        grad = torch.where(output > 0, ctx.factor * grad, 0)
        return grad @ w.T, x.T @ grad, None

    operator.register_autograd(backward, setup_context=setup_context)
    return operator


def check_operator(x, w):
    """What torch says of the operator; whether torch was there with a GPU."""
    try:
        import torch
    except ImportError:
        return False
    if not torch.cuda.is_available():
        return False
    operator = torch_operator(torch)
    tx, tw = (torch.from_numpy(array).cuda().requires_grad_() for array in (x, w))
    torch.library.opcheck(operator, (tx, tw, FACTOR))
    found = operator(tx, tw, FACTOR)
    found.sum().backward()
    check(found.detach().cpu().numpy(), reference.scale(reference.layer(x, w), FACTOR))
    expected = torch.relu(torch.from_numpy(x) @ torch.from_numpy(w)) > 0
    check(tw.grad.cpu().numpy(), FACTOR * x.T @ expected.numpy())
    return True


def main():
    """Compare both ways with NumPy."""
    x, w = matrix(0, ROWS, INNER), matrix(1, INNER, COLUMNS)
    found = scaled_layer(x, w).sync()
    if on_cpu():
        check(found, reference.layer(x, w))
        return f"PASS: the tile half on the cpu device: {GPU_ONLY}"
    check(found, reference.scale(reference.layer(x, w), FACTOR))
    how = (
        "as a chain and as an operator of torch"
        if check_operator(x, w)
        else "as a chain (no torch with a GPU)"
    )
    return f"PASS: tile -> CUDA C++, {ROWS} x {COLUMNS}, {how}"


if __name__ == "__main__":
    run(main)
