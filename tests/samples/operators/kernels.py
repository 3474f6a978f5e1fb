"""Operators: with gradients, of several outputs, of a computed shape, and in place."""

import tilec.lang as tl

T = tl.dtype("T")
ROWS = tl.size("ROWS")
COLS = tl.size("COLS")
TILE = tl.size("TILE")


@tl.kernel
@tl.preconditions("y.shape == x.shape", "dim(x, 1) <= COLS")
def softmax(y: tl.Mut[T, (ROWS, COLS)], x: tl.Ref[T, 2]) -> None:
    """Softmax along the last axis, for rows of at most COLS elements."""
    logits = x.load_tile_like(y, padding=tl.Padding.NEG_INF)
    weight = tl.exp(logits - tl.max(logits, 1, keepdims=True))
    y.store(weight / tl.sum(weight, 1, keepdims=True))


@tl.kernel
@tl.preconditions("dx.shape == y.shape", "dy.shape == y.shape", "dim(y, 1) <= COLS")
def softmax_backward(dx: tl.Mut[T, (ROWS, COLS)], dy: tl.Ref[T, 2], y: tl.Ref[T, 2]) -> None:
    """Gradient of softmax by its result."""
    weight = y.load_tile_like(dx)
    grad = dy.load_tile_like(dx)
    dx.store(weight * (grad - tl.sum(weight * grad, 1, keepdims=True)))


@tl.kernel
def scale(y: tl.Mut[T, TILE], x: tl.Ref[T, 1], factor: float = 2.0) -> None:
    """Scale a vector: y = factor * x."""
    y.store((x.load_tile_like(y) * factor).astype(T))


@tl.kernel
def scale_backward(
    grad_x: tl.Mut[T, TILE], grad_y: tl.Ref[T, 1], factor: float = 2.0
) -> None:
    """Gradient of scale by x; factor has none."""
    grad_x.store((grad_y.load_tile_like(grad_x) * factor).astype(T))


@tl.kernel
def both(
    total: tl.Mut[tl.float32, TILE],
    difference: tl.Mut[tl.float32, TILE],
    x: tl.Ref[tl.float32, 1],
    y: tl.Ref[tl.float32, 1],
) -> None:
    """Sum and difference of two vectors."""
    one, other = x.load_tile_like(total), y.load_tile_like(total)
    total.store(one + other)
    difference.store(one - other)


@tl.kernel
@tl.preconditions("dim(part, 0) == cdiv(dim(x, 0), TILE)")
def sums(part: tl.Mut[tl.float32, 1], x: tl.Ref[tl.float32, 1], TILE: tl.Const[int]) -> None:
    """Sum each tile of a vector."""
    (tile,) = part.index
    part.store(tl.reshape(tl.sum(x.load_tile((tile,), (TILE,)), 0), (1,)))


@tl.kernel
def accumulate(y: tl.Mut[tl.float32, TILE], x: tl.Ref[tl.float32, 1]) -> None:
    """Add to a vector: y = y + x."""
    y.store(y.load() + x.load_tile_like(y))


@tl.kernel
def weighted(
    y: tl.Mut[tl.float32, TILE], x: tl.Ref[tl.float32, 1], weight: tl.Ref[tl.float32, 1]
) -> None:
    """Weigh a vector: y = weight * x. The gradient is that of x, by this kernel itself."""
    y.store(x.load_tile_like(y) * weight.load_tile_like(y))
