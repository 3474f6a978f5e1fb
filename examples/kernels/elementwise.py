"""Kernels that touch each element once: add, saxpy, SwiGLU, RoPE, dropout. Bytes are all that
counts, in vectors of 16 for each thread.
"""

import tilec.lang as tl
from tilec.lang import static_iter

T = tl.dtype("T")
TILE = tl.size("TILE")
ROWS = tl.size("ROWS")
HALF = tl.size("HALF")
LOG2_E = 1.4426950408889634


@tl.kernel
def add(z: tl.Mut[T, TILE], x: tl.Ref[T, 1], y: tl.Ref[T, 1]) -> None:
    """z = x + y."""
    z.store(x.load_tile_like(z) + y.load_tile_like(z))


@tl.kernel
def saxpy(y: tl.Mut[T, TILE], x: tl.Ref[T, 1], alpha: float = 1.0) -> None:
    """y = alpha * x + y, in f32 whatever the dtype."""
    scaled = x.load_tile_like(y).astype(tl.float32) * alpha
    y.store((scaled + y.load().astype(tl.float32)).astype(T))


@tl.kernel
def swiglu(z: tl.Mut[T, TILE], gate: tl.Ref[T, 1], up: tl.Ref[T, 1]) -> None:
    """z = silu(gate) * up, as the two projections of a feed-forward layer are joined."""
    g = gate.load_tile_like(z).astype(tl.float32)
    u = up.load_tile_like(z).astype(tl.float32)
    # g / (1 + exp(-g)), with the exp2 and the reciprocal that the hardware has; what overflows to
    # infinity gives 0.
    below = 1.0 + tl.exp2(g * -LOG2_E, flush_to_zero=True)
    z.store(
        (tl.truediv(g, below, rounding_mode=tl.RoundingMode.APPROX, flush_to_zero=True) * u).astype(
            T
        )
    )


@tl.kernel
@tl.preconditions(
    "y.shape == x.shape",
    "dim(x, 2) == 2 * HALF",
    "dim(cos, 0) == dim(x, 0)",
    "dim(cos, 1) == HALF",
    "cos.shape == sin.shape",
)
def rope(
    y: tl.SpanMut[T, (1, ROWS, HALF), 2],
    x: tl.Ref[T, 3],
    cos: tl.Ref[tl.float32, 2],
    sin: tl.Ref[tl.float32, 2],
) -> None:
    """Rotary embedding of (tokens, heads, 2 * HALF): the halves of a head are the coordinates; cos
    and sin have a row for each token.
    """
    token, head, _ = y.index
    c = tl.reshape(cos.load_tile((token, 0), (1, HALF)), (1, 1, HALF))
    s = tl.reshape(sin.load_tile((token, 0), (1, HALF)), (1, 1, HALF))
    first = x.load_tile((token, head, 0), (1, ROWS, HALF)).astype(tl.float32)
    second = x.load_tile((token, head, 1), (1, ROWS, HALF)).astype(tl.float32)
    y.store_tile(0, (first * c - second * s).astype(T))
    y.store_tile(1, (second * c + first * s).astype(T))


@tl.kernel
def dropout(y: tl.Mut[T, TILE], x: tl.Ref[T, 1], seed: int, keep: float = 0.9) -> None:
    """Each element with probability `keep`, over `keep`, else 0; the same seed drops the same
    elements, whatever the tile.

    Philox makes four random words of a counter: element i takes word i % 4 of counter i // 4, all
    four in one thread.
    """
    (i,) = y.index
    a, b, c, d = _philox(
        i * (TILE // 4) + tl.expand_dims(tl.arange(TILE // 4, dtype=tl.int32), 1), seed
    )
    word = tl.expand_dims(tl.arange(4, dtype=tl.int32), 0)
    words = tl.reshape(
        tl.where(word < 2, tl.where(word == 0, a, b), tl.where(word == 2, c, d)), (TILE,)
    )
    # Of 2^24 values that the upper bits have, those below the bound are kept.
    bound = tl.ceil(tl.astile(keep, dtype=tl.float32) * 16777216.0).astype(tl.int32)
    kept = (words >> 8).astype(tl.int32) < bound
    y.store(tl.where(kept, x.load_tile_like(y).astype(tl.float32) * (1.0 / keep), 0.0).astype(T))


def _philox(counter: tl.Tile, seed: int) -> tuple[tl.Tile, tl.Tile, tl.Tile, tl.Tile]:
    """Philox 4x32-10: four random words, one tile for each word."""
    a = counter.astype(tl.uint32)
    b = tl.zeros(a.shape, tl.uint32)
    c = tl.zeros(a.shape, tl.uint32)
    d = tl.zeros(a.shape, tl.uint32)
    first, second = tl.astile(seed, dtype=tl.int32).astype(tl.uint32), tl.uint32(0)
    for _ in static_iter(range(10)):
        left, right = a.astype(tl.uint64) * 0xD2511F53, c.astype(tl.uint64) * 0xCD9E8D57
        a, b = (right >> 32).astype(tl.uint32) ^ b ^ first, right.astype(tl.uint32)
        c, d = (left >> 32).astype(tl.uint32) ^ d ^ second, left.astype(tl.uint32)
        first, second = first + 0x9E3779B9, second + 0xBB67AE85
    return a, b, c, d
