"""Kernels that reduce rows which fit into a block's registers: softmax, RMS norm, layer norm,
residual + RMS norm, argmax.

A block takes ROWS rows at once. Rows are used once: without TMA each thread loads vectors of 16
bytes straight into its registers. What counts is that all of them are on their way before the first
is waited for, which rows of exactly COLS elements are compiled for: a mask around a load keeps the
conversion to f32, and with it the wait, beside the load.
"""

import tilec.lang as tl

T = tl.dtype("T")
ROWS = tl.size("ROWS")
COLS = tl.size("COLS")
LOG2_E = 1.4426950408889634


@tl.kernel
@tl.preconditions("y.shape == x.shape", "dim(y, 1) <= COLS")
def softmax(y: tl.Mut[T, (ROWS, COLS)], x: tl.Ref[T, 2]) -> None:
    """Softmax along the last axis, for rows of at most COLS elements."""
    # Padding of minus infinity adds nothing to the sum and never is the maximum.
    logits = x.load_tile_like(y, padding=tl.Padding.NEG_INF, allow_tma=False).astype(tl.float32)
    peak = tl.max(logits, 1, keepdims=True)
    # exp(t) is exp2(t * log2 e); the hardware has exp2.
    weight = tl.exp2((logits - peak) * LOG2_E, flush_to_zero=True)
    y.store((weight * (1.0 / tl.sum(weight, 1, keepdims=True))).astype(T), allow_tma=False)


@tl.kernel
@tl.preconditions("y.shape == x.shape")
def softmax_long(y: tl.SpanMut[T, (ROWS, COLS), 1], x: tl.Ref[T, 2]) -> None:
    """Softmax along the last axis, for rows of any length: a block walks its rows COLS elements at
    a time, twice.
    """
    row, _ = y.index
    peak = tl.full((ROWS, COLS), -3.0e38, tl.float32)
    total = tl.zeros((ROWS, COLS), tl.float32)
    # Every lane keeps a maximum and a sum of its own: the lanes meet once, behind the loop.
    for j in range(y.num_tiles(1)):
        logits = (
            x.load_tile((row, j), (ROWS, COLS), padding=tl.Padding.NEG_INF, allow_tma=False).astype(
                tl.float32
            )
            * LOG2_E
        )
        top = tl.maximum(peak, logits)
        total = total * tl.exp2(peak - top, flush_to_zero=True) + tl.exp2(
            logits - top, flush_to_zero=True
        )
        peak = top
    most = tl.max(peak, 1, keepdims=True)
    scale = 1.0 / tl.sum(total * tl.exp2(peak - most, flush_to_zero=True), 1, keepdims=True)
    for again in range(y.num_tiles(1)):
        logits = (
            x.load_tile((row, again), (ROWS, COLS), allow_tma=False).astype(tl.float32) * LOG2_E
        )
        y.store_tile(
            again, (tl.exp2(logits - most, flush_to_zero=True) * scale).astype(T), allow_tma=False
        )


@tl.kernel
@tl.preconditions("y.shape == x.shape", "dim(y, 1) <= COLS", "dim(weight, 0) == dim(x, 1)")
def rms_norm(
    y: tl.Mut[T, (ROWS, COLS)],
    x: tl.Ref[T, 2],
    weight: tl.Ref[T, 1],
    eps: float = 1e-6,
    AHEAD: tl.Const[bool] = False,
) -> None:
    """x / rms(x) * weight, row by row.

    AHEAD copies the weights to shared memory while the row is summed: the compiler puts plain loads
    of them behind the sum. Long rows gain.
    """
    values = x.load_tile_like(y, allow_tma=False).astype(tl.float32)
    factor = weight.load_tile((0,), (COLS,), allow_tma=AHEAD).astype(tl.float32)
    # Padding is zero and adds nothing to the sum; the mean is over the elements that there are.
    scale = tl.rsqrt(tl.sum(values * values, 1, keepdims=True) * _share(x) + eps)
    y.store((values * scale * factor).astype(T), allow_tma=False)


@tl.kernel
@tl.preconditions(
    "y.shape == x.shape",
    "dim(y, 1) <= COLS",
    "dim(weight, 0) == dim(x, 1)",
    "dim(bias, 0) == dim(x, 1)",
)
def layer_norm(
    y: tl.Mut[T, (ROWS, COLS)],
    x: tl.Ref[T, 2],
    weight: tl.Ref[T, 1],
    bias: tl.Ref[T, 1],
    eps: float = 1e-5,
) -> None:
    """(x - mean) / sqrt(variance + eps) * weight + bias, row by row."""
    row, _ = y.index
    # Distances from a row's first element, not from its mean, which is known too late: one
    # reduction does for mean and variance. The first element is at most sqrt(n) deviations from the
    # mean, so that the difference below keeps its digits whatever the mean is.
    values = x.load_tile_like(y, allow_tma=False).astype(tl.float32)
    distance = values - x.load_tile((row, 0), (ROWS, 1), allow_tma=False).astype(tl.float32)
    if not y.whole:
        distance = tl.where(tl.arange(COLS, dtype=tl.int32) < x.shape[1], distance, 0.0)
    total, squares = tl.reduce((distance, distance * distance), 1, _sums, (0.0, 0.0), keepdims=True)
    mean = total * _share(x)
    scale = tl.rsqrt(squares * _share(x) - mean * mean + eps)
    factor = weight.load_tile((0,), (COLS,), allow_tma=False).astype(tl.float32)
    shift = bias.load_tile((0,), (COLS,), allow_tma=False).astype(tl.float32)
    y.store(((distance * scale - mean * scale) * factor + shift).astype(T), allow_tma=False)


@tl.kernel
@tl.preconditions(
    "y.shape == x.shape",
    "total.shape == x.shape",
    "residual.shape == x.shape",
    "dim(y, 1) <= COLS",
    "dim(total, 1) <= COLS",
    "dim(weight, 0) == dim(x, 1)",
)
def add_rms_norm(
    y: tl.Mut[T, (ROWS, COLS)],
    total: tl.Mut[T, (ROWS, COLS)],
    x: tl.Ref[T, 2],
    residual: tl.Ref[T, 2],
    weight: tl.Ref[T, 1],
    eps: float = 1e-6,
) -> None:
    """total = x + residual and y = rms_norm(total), in one pass: the sum is not read back."""
    both = (
        x.load_tile_like(y, allow_tma=False).astype(tl.float32)
        + residual.load_tile_like(y, allow_tma=False).astype(tl.float32)
    ).astype(T)
    total.store(both, allow_tma=False)
    # The norm is of what was stored, rounded as whoever reads it back would see it.
    values = both.astype(tl.float32)
    factor = weight.load_tile((0,), (COLS,), allow_tma=False).astype(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 1, keepdims=True) * _share(x) + eps)
    y.store((values * scale * factor).astype(T), allow_tma=False)


@tl.kernel
@tl.preconditions("dim(x, 1) <= COLS")
def argmax(y: tl.Mut[tl.int32, ROWS], x: tl.Ref[T, 2]) -> None:
    """The first place of each row's largest element, for rows of at most COLS elements."""
    (row,) = y.index
    values = x.load_tile(
        (row, 0), (ROWS, COLS), padding=tl.Padding.NEG_INF, allow_tma=False
    ).astype(tl.float32)
    # Two plain reductions cost less than one that carries places along; NaN equals nothing and is
    # passed over.
    peak = tl.max(values, 1, keepdims=True)
    column = tl.expand_dims(tl.arange(COLS, dtype=tl.int32), 0)
    y.store(tl.min(tl.where(values == peak, column, COLS), 1))


@tl.kernel
def argmax_long(y: tl.Mut[tl.int32, ROWS], x: tl.Ref[T, 2]) -> None:
    """The first place of each row's largest element, for rows of any length: every lane keeps a
    largest of its own.
    """
    (row,) = y.index
    column = tl.expand_dims(tl.arange(COLS, dtype=tl.int32), 0)
    peak = tl.full((ROWS, COLS), -float("inf"), tl.float32)
    place = tl.zeros((ROWS, COLS), tl.int32) + column
    for j in range(x.num_tiles(1, COLS)):
        values = x.load_tile(
            (row, j), (ROWS, COLS), padding=tl.Padding.NEG_INF, allow_tma=False
        ).astype(tl.float32)
        place = tl.where(values > peak, j * COLS + column, place)
        peak = tl.maximum(peak, values)
    most = tl.max(peak, 1, keepdims=True)
    y.store(tl.min(tl.where(peak == most, place, x.shape[1]), 1))


def _sums(a: tl.Tile, b: tl.Tile, c: tl.Tile, d: tl.Tile) -> tuple[tl.Tile, tl.Tile]:
    return a + c, b + d


def _share(x: tl.Ref) -> tl.Tile:
    """What one element of a row has in its mean; worked out once for a block, so that rows are
    multiplied and not divided.
    """
    return tl.truediv(
        1.0, tl.astile(x.shape[1], dtype=tl.float32), rounding_mode=tl.RoundingMode.APPROX
    )
