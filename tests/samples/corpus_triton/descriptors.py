"""Attention whose tensors are addresses or descriptors: the kernel makes descriptors of addresses, under the same names."""

import triton
import triton.language as tl


@triton.jit
def described(desc_or_ptr, shape, strides, block_shape):
    """A descriptor, whichever of the two it is given."""
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape, strides, block_shape)


@triton.jit
def inner(acc, l_i, m_i, q, desc_k, desc_v, first, scale, context, BN: tl.constexpr):
    """All keys of one head, whose rows begin at `first`."""
    for start in tl.range(0, context, BN):
        k = desc_k.load([first + start, 0])
        qk = tl.dot(q, k.T) * scale
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = desc_v.load([first + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def described_attention(desc_q, desc_k, desc_v, desc_o, scale, heads, context, DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """o = softmax(q k^T * scale) v; heads of all batches are rows of one matrix."""
    rows = heads * context
    desc_q = described(desc_q, shape=[rows, DIM], strides=[DIM, 1], block_shape=[BM, DIM])
    desc_k = described(desc_k, shape=[rows, DIM], strides=[DIM, 1], block_shape=[BN, DIM])
    desc_v = described(desc_v, shape=[rows, DIM], strides=[DIM, 1], block_shape=[BN, DIM])
    desc_o = described(desc_o, shape=[rows, DIM], strides=[DIM, 1], block_shape=[BM, DIM])
    first = tl.program_id(1) * context
    at = first + tl.program_id(0) * BM
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, DIM], dtype=tl.float32)
    q = desc_q.load([at, 0])
    acc, l_i, m_i = inner(acc, l_i, m_i, q, desc_k, desc_v, first, scale * 1.4426950408889634, context, BN)
    desc_o.store([at, 0], (acc / l_i[:, None]).to(tl.float16))


@triton.jit
def described_sum(z, x, y, rows, COLS: tl.constexpr, BM: tl.constexpr):
    """z = x + y: every name is an address first, and a descriptor from then on."""
    at = tl.program_id(0) * BM
    x = tl.make_tensor_descriptor(x, shape=[rows, COLS], strides=[COLS, 1], block_shape=[BM, COLS])
    y = tl.make_tensor_descriptor(y, shape=[rows, COLS], strides=[COLS, 1], block_shape=[BM, COLS])
    z = tl.make_tensor_descriptor(z, shape=[rows, COLS], strides=[COLS, 1], block_shape=[BM, COLS])
    z.store([at, 0], x.load([at, 0]) + y.load([at, 0]))
