"""Attention with a running maximum, as a whole and causal: the inner loop is a function that is called for each part of the keys."""

import triton
import triton.language as tl


@triton.jit
def inner(acc, l_i, m_i, q, K, V, tile, scale, context, DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGE: tl.constexpr):
    """One part of the keys: those before the diagonal (1), those on it (2), all (3)."""
    if STAGE == 1:
        low, high = 0, tile * BM
    elif STAGE == 2:
        low, high = tile * BM, (tile + 1) * BM
        low = tl.multiple_of(low, BM)
    else:
        low, high = 0, context
    rows, columns, depth = tile * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, DIM)
    for start in tl.range(low, high, BN):
        start = tl.multiple_of(start, BN)
        k = tl.load(K + (start + columns)[None, :] * DIM + depth[:, None])
        qk = tl.dot(q, k)
        if STAGE == 2:
            qk = qk * scale + tl.where(rows[:, None] >= (start + columns)[None, :], 0, -1.0e6)
            m_new = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_new[:, None]
        else:
            m_new = tl.maximum(m_i, tl.max(qk, 1) * scale)
            qk = qk * scale - m_new[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + (start + columns)[:, None] * DIM + depth[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def attention(Q, K, V, Out, M, scale, heads, context, DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Out = softmax(Q K^T * scale) V for (batch, head) in the grid's second dimension; M keeps log2 of the sums for a backward pass."""
    tl.static_assert(BN <= DIM)
    tile, head = tl.program_id(0), tl.program_id(1)
    offset = head.to(tl.int64) * context * DIM
    rows, depth = tile * BM + tl.arange(0, BM), tl.arange(0, DIM)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, DIM], dtype=tl.float32)
    in_twos = scale * 1.4426950408889634  # 1 / log(2)
    q = tl.load(Q + offset + rows[:, None] * DIM + depth[None, :])
    if CAUSAL:
        acc, l_i, m_i = inner(acc, l_i, m_i, q, K + offset, V + offset, tile, in_twos, context, DIM, BM, BN, 1)
        acc, l_i, m_i = inner(acc, l_i, m_i, q, K + offset, V + offset, tile, in_twos, context, DIM, BM, BN, 2)
    else:
        acc, l_i, m_i = inner(acc, l_i, m_i, q, K + offset, V + offset, tile, in_twos, context, DIM, BM, BN, 3)
    tl.store(M + head * context + rows, m_i + tl.math.log2(l_i))
    tl.store(Out + offset + rows[:, None] * DIM + depth[None, :], (acc / l_i[:, None]).to(Out.type.element_ty))
