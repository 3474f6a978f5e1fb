"""The kernels of examples/kernels as one would write them in cuda.tile, to compare the safe language
with.

CHECK is whether tiles may hang over their array: in cuda.tile the author promises that they do not,
and nobody holds a launch to it.
"""

import cuda.tile as ct

LOG2_E = 1.4426950408889634
STRIP = 8
NEAR = ct.RoundingMode.APPROX
ZERO, LOW = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


def load(array, index, shape, check, padding=ZERO, tma=None):
    if check:
        tile = ct.load(array, index, shape, padding_mode=padding, allow_tma=tma)
    else:
        tile = ct.load(array, index, shape, check_bounds=False, allow_tma=tma)
    return tile


@ct.kernel
def add(z, x, y, TILE: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    total = load(x, (i,), (TILE,), CHECK) + load(y, (i,), (TILE,), CHECK)
    ct.store(z, (i,), total, check_bounds=CHECK)


@ct.kernel
def saxpy(y, x, alpha, TILE: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    scaled = load(x, (i,), (TILE,), CHECK).astype(ct.float32) * alpha
    total = scaled + load(y, (i,), (TILE,), CHECK).astype(ct.float32)
    ct.store(y, (i,), total.astype(y.dtype), check_bounds=CHECK)


@ct.kernel
def axpy(z, y, x, alpha, TILE: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    total = load(x, (i,), (TILE,), CHECK).astype(ct.float32) * alpha + load(
        y, (i,), (TILE,), CHECK
    ).astype(ct.float32)
    ct.store(z, (i,), total.astype(z.dtype), check_bounds=CHECK)


@ct.kernel
def swiglu(z, gate, up, TILE: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    g = load(gate, (i,), (TILE,), CHECK).astype(ct.float32)
    u = load(up, (i,), (TILE,), CHECK).astype(ct.float32)
    below = 1.0 + ct.exp2(g * -LOG2_E, flush_to_zero=True)
    found = ct.truediv(g, below, rounding_mode=NEAR, flush_to_zero=True) * u
    ct.store(z, (i,), found.astype(z.dtype), check_bounds=CHECK)


@ct.kernel
def rope(
    y, x, cos, sin, ROWS: ct.Constant[int], HALF: ct.Constant[int], CHECK: ct.Constant[bool] = True
):
    token, head = ct.bid(0), ct.bid(1)
    c = ct.reshape(load(cos, (token, 0), (1, HALF), CHECK), (1, 1, HALF))
    s = ct.reshape(load(sin, (token, 0), (1, HALF), CHECK), (1, 1, HALF))
    first = load(x, (token, head, 0), (1, ROWS, HALF), CHECK).astype(ct.float32)
    second = load(x, (token, head, 1), (1, ROWS, HALF), CHECK).astype(ct.float32)
    ct.store(y, (token, head, 0), (first * c - second * s).astype(y.dtype), check_bounds=CHECK)
    ct.store(y, (token, head, 1), (second * c + first * s).astype(y.dtype), check_bounds=CHECK)


@ct.kernel
def dropout(y, x, seed, keep, TILE: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    a, b, c, d = philox(
        i * (TILE // 4) + ct.expand_dims(ct.arange(TILE // 4, dtype=ct.int32), 1), seed
    )
    word = ct.expand_dims(ct.arange(4, dtype=ct.int32), 0)
    words = ct.reshape(
        ct.where(word < 2, ct.where(word == 0, a, b), ct.where(word == 2, c, d)), (TILE,)
    )
    bound = ct.ceil(ct.astile(keep, dtype=ct.float32) * 16777216.0).astype(ct.int32)
    kept = (words >> 8).astype(ct.int32) < bound
    values = load(x, (i,), (TILE,), CHECK)
    found = ct.where(kept, values.astype(ct.float32) * (1.0 / keep), 0.0)
    ct.store(y, (i,), found.astype(y.dtype), check_bounds=CHECK)


def philox(counter, seed):
    a = counter.astype(ct.uint32)
    b, c, d = (
        ct.zeros(a.shape, ct.uint32),
        ct.zeros(a.shape, ct.uint32),
        ct.zeros(a.shape, ct.uint32),
    )
    first, second = ct.astile(seed, dtype=ct.int32).astype(ct.uint32), ct.uint32(0)
    for _ in ct.static_iter(range(10)):
        left, right = a.astype(ct.uint64) * 0xD2511F53, c.astype(ct.uint64) * 0xCD9E8D57
        a, b = (right >> 32).astype(ct.uint32) ^ b ^ first, right.astype(ct.uint32)
        c, d = (left >> 32).astype(ct.uint32) ^ d ^ second, left.astype(ct.uint32)
        first, second = first + 0x9E3779B9, second + 0xBB67AE85
    return a, b, c, d


@ct.kernel
def softmax(y, x, ROWS: ct.Constant[int], COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i, j = ct.bid(0), 0
    logits = load(x, (i, j), (ROWS, COLS), CHECK, LOW, tma=False).astype(ct.float32)
    weight = ct.exp2((logits - ct.max(logits, 1, keepdims=True)) * LOG2_E, flush_to_zero=True)
    found = weight * (1.0 / ct.sum(weight, 1, keepdims=True))
    ct.store(y, (i, j), found.astype(y.dtype), check_bounds=CHECK, allow_tma=False)


@ct.kernel
def softmax_long(
    y, x, ROWS: ct.Constant[int], COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True
):
    i = ct.bid(0)
    peak = ct.full((ROWS, COLS), -3.0e38, ct.float32)
    total = ct.zeros((ROWS, COLS), ct.float32)
    for j in range(ct.cdiv(y.shape[1], COLS)):
        logits = load(x, (i, j), (ROWS, COLS), CHECK, LOW, tma=False).astype(ct.float32) * LOG2_E
        top = ct.maximum(peak, logits)
        total = total * ct.exp2(peak - top, flush_to_zero=True) + ct.exp2(
            logits - top, flush_to_zero=True
        )
        peak = top
    most = ct.max(peak, 1, keepdims=True)
    scale = 1.0 / ct.sum(total * ct.exp2(peak - most, flush_to_zero=True), 1, keepdims=True)
    for j in range(ct.cdiv(y.shape[1], COLS)):
        logits = load(x, (i, j), (ROWS, COLS), CHECK, tma=False).astype(ct.float32) * LOG2_E
        ct.store(
            y,
            (i, j),
            (ct.exp2(logits - most, flush_to_zero=True) * scale).astype(y.dtype),
            check_bounds=CHECK,
            allow_tma=False,
        )


@ct.kernel
def rms_norm(
    y,
    x,
    weight,
    eps,
    ROWS: ct.Constant[int],
    COLS: ct.Constant[int],
    AHEAD: ct.Constant[bool] = False,
    CHECK: ct.Constant[bool] = True,
):
    i, j = ct.bid(0), 0
    values = load(x, (i, j), (ROWS, COLS), CHECK, tma=False).astype(ct.float32)
    factor = load(weight, (0,), (COLS,), CHECK, tma=AHEAD).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values, 1, keepdims=True) * share(x) + eps)
    ct.store(
        y, (i, j), (values * scale * factor).astype(y.dtype), check_bounds=CHECK, allow_tma=False
    )


@ct.kernel
def layer_norm(
    y,
    x,
    weight,
    bias,
    eps,
    ROWS: ct.Constant[int],
    COLS: ct.Constant[int],
    CHECK: ct.Constant[bool] = True,
):
    i, j = ct.bid(0), 0
    values = load(x, (i, j), (ROWS, COLS), CHECK, tma=False).astype(ct.float32)
    distance = values - load(x, (i, 0), (ROWS, 1), CHECK, tma=False).astype(ct.float32)
    if CHECK:
        distance = ct.where(ct.arange(COLS, dtype=ct.int32) < x.shape[1], distance, 0.0)
    total, squares = ct.reduce((distance, distance * distance), 1, sums, (0.0, 0.0), keepdims=True)
    mean = total * share(x)
    scale = ct.rsqrt(squares * share(x) - mean * mean + eps)
    factor = load(weight, (0,), (COLS,), CHECK, tma=False).astype(ct.float32)
    shift = load(bias, (0,), (COLS,), CHECK, tma=False).astype(ct.float32)
    found = (distance * scale - mean * scale) * factor + shift
    ct.store(y, (i, j), found.astype(y.dtype), check_bounds=CHECK, allow_tma=False)


@ct.kernel
def add_rms_norm(
    y,
    total,
    x,
    residual,
    weight,
    eps,
    ROWS: ct.Constant[int],
    COLS: ct.Constant[int],
    CHECK: ct.Constant[bool] = True,
):
    i, j = ct.bid(0), 0
    one = load(x, (i, j), (ROWS, COLS), CHECK, tma=False).astype(ct.float32)
    other = load(residual, (i, j), (ROWS, COLS), CHECK, tma=False).astype(ct.float32)
    both = (one + other).astype(y.dtype)
    ct.store(total, (i, j), both, check_bounds=CHECK, allow_tma=False)
    values = both.astype(ct.float32)
    factor = load(weight, (0,), (COLS,), CHECK, tma=False).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values, 1, keepdims=True) * share(x) + eps)
    ct.store(
        y, (i, j), (values * scale * factor).astype(y.dtype), check_bounds=CHECK, allow_tma=False
    )


@ct.kernel
def argmax(y, x, ROWS: ct.Constant[int], COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i = ct.bid(0)
    values = load(x, (i, 0), (ROWS, COLS), CHECK, LOW, tma=False).astype(ct.float32)
    column = ct.expand_dims(ct.arange(COLS, dtype=ct.int32), 0)
    found = ct.where(values == ct.max(values, 1, keepdims=True), column, COLS)
    ct.store(y, (i,), ct.min(found, 1), check_bounds=CHECK)


@ct.kernel
def argmax_long(
    y, x, ROWS: ct.Constant[int], COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True
):
    i = ct.bid(0)
    column = ct.expand_dims(ct.arange(COLS, dtype=ct.int32), 0)
    peak = ct.full((ROWS, COLS), -float("inf"), ct.float32)
    place = ct.zeros((ROWS, COLS), ct.int32) + column
    for j in range(ct.cdiv(x.shape[1], COLS)):
        values = load(x, (i, j), (ROWS, COLS), CHECK, LOW, tma=False).astype(ct.float32)
        place = ct.where(values > peak, j * COLS + column, place)
        peak = ct.maximum(peak, values)
    found = ct.where(peak == ct.max(peak, 1, keepdims=True), place, x.shape[1])
    ct.store(y, (i,), ct.min(found, 1), check_bounds=CHECK)


def sums(a, b, c, d):
    return a + c, b + d


def share(x):
    return ct.truediv(1.0, ct.astile(x.shape[1], dtype=ct.float32), rounding_mode=NEAR)


def place(tile, rows, columns):
    first = tile // (STRIP * columns) * STRIP
    height = min(rows - first, STRIP)
    inside = tile % (STRIP * columns)
    return first + inside % height, inside // height


@ct.kernel
def gemm(c, a, b, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    rows, columns = ct.cdiv(c.shape[0], BM), ct.cdiv(c.shape[1], BN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        m, n = place(tile, rows, columns)
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], BK)):
            left = ct.load(a, (m, k), (BM, BK), padding_mode=ZERO)
            acc = ct.mma(left, ct.load(b, (k, n), (BK, BN), padding_mode=ZERO), acc)
        ct.store(c, (m, n), acc.astype(c.dtype))


@ct.kernel
def gemm_split(
    c,
    rest,
    a,
    last,
    b,
    BM: ct.Constant[int],
    BN: ct.Constant[int],
    BK: ct.Constant[int],
    EM: ct.Constant[int],
    EN: ct.Constant[int],
):
    rows, columns = ct.cdiv(c.shape[0], BM), ct.cdiv(c.shape[1], BN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        m, n = place(tile, rows, columns)
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], BK)):
            left = ct.load(a, (m, k), (BM, BK), padding_mode=ZERO)
            acc = ct.mma(left, ct.load(b, (k, n), (BK, BN), padding_mode=ZERO), acc)
        ct.store(c, (m, n), acc.astype(c.dtype))
    for edge in range(ct.bid(0), ct.cdiv(rest.shape[1], EN), ct.num_blocks(0)):
        part = ct.zeros((EM, EN), ct.float32)
        for step in range(ct.cdiv(last.shape[1], BK)):
            left = ct.load(last, (0, step), (EM, BK), padding_mode=ZERO)
            part = ct.mma(left, ct.load(b, (step, edge), (BK, EN), padding_mode=ZERO), part)
        ct.store(rest, (0, edge), part.astype(rest.dtype))


@ct.kernel
def linear(
    c,
    a,
    b,
    BM: ct.Constant[int],
    BN: ct.Constant[int],
    BK: ct.Constant[int],
    FAST: ct.Constant[bool],
):
    rows, columns = ct.cdiv(c.shape[0], BM), ct.cdiv(c.shape[1], BN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        m, n = place(tile, rows, columns)
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], BK)):
            right = ct.transpose(ct.load(b, (n, k), (BN, BK), padding_mode=ZERO))
            acc = ct.mma(
                ct.load(a, (m, k), (BM, BK), padding_mode=ZERO), right, acc, use_fast_acc=FAST
            )
        ct.store(c, (m, n), acc.astype(c.dtype))


@ct.kernel
def batched_gemm(c, a, b, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    rows, columns = ct.cdiv(c.shape[1], BM), ct.cdiv(c.shape[2], BN)
    for tile in range(ct.bid(0), c.shape[0] * rows * columns, ct.num_blocks(0)):
        i = tile // (rows * columns)
        m, n = place(tile % (rows * columns), rows, columns)
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[2], BK)):
            left = ct.reshape(ct.load(a, (i, m, k), (1, BM, BK), padding_mode=ZERO), (BM, BK))
            right = ct.reshape(ct.load(b, (i, k, n), (1, BK, BN), padding_mode=ZERO), (BK, BN))
            acc = ct.mma(left, right, acc)
        ct.store(c, (i, m, n), ct.reshape(acc, (1, BM, BN)).astype(c.dtype))


@ct.kernel
def grouped_gemm(c, a, b, group, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    rows, columns = ct.cdiv(c.shape[0], BM), ct.cdiv(c.shape[1], BN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        m, n = place(tile, rows, columns)
        g = ct.load(group, (m,), (1,), padding_mode=ZERO).item()
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], BK)):
            left = ct.load(a, (m, k), (BM, BK), padding_mode=ZERO)
            acc = ct.mma(
                left,
                ct.reshape(ct.load(b, (g, k, n), (1, BK, BN), padding_mode=ZERO), (BK, BN)),
                acc,
            )
        ct.store(c, (m, n), acc.astype(c.dtype))


@ct.kernel
def attention(
    o,
    q,
    k,
    v,
    scale,
    BM: ct.Constant[int],
    BN: ct.Constant[int],
    D: ct.Constant[int],
    GROUP: ct.Constant[int],
    CAUSAL: ct.Constant[bool],
):
    rows_of = ct.cdiv(o.shape[1], BM)
    for number in range(ct.bid(0), o.shape[0] * rows_of, ct.num_blocks(0)):
        tile = o.shape[0] * rows_of - 1 - number
        head, m = tile // rows_of, tile % rows_of
        queries = ct.reshape(ct.load(q, (head, m, 0), (1, BM, D), padding_mode=ZERO), (BM, D))
        rows = m * BM + ct.expand_dims(ct.arange(BM, dtype=ct.int32), 1)
        factor = scale * LOG2_E
        acc = ct.zeros((BM, D), ct.float32)
        peak, total = ct.full((BM, 1), -float("inf"), ct.float32), ct.zeros((BM, 1), ct.float32)
        tiles = ct.cdiv(k.shape[1], BN)
        whole = min(m * BM // BN, tiles) if CAUSAL else min(k.shape[1] // BN, tiles)
        last = min(ct.cdiv((m + 1) * BM, BN), tiles) if CAUSAL else tiles
        for n in range(whole):
            keys = ct.reshape(
                ct.load(k, (head // GROUP, n, 0), (1, BN, D), padding_mode=ZERO), (BN, D)
            )
            score = ct.mma(queries, ct.transpose(keys), ct.zeros((BM, BN), ct.float32))
            top = ct.maximum(peak, ct.max(score, 1, keepdims=True) * factor)
            weight = ct.exp2(score * factor - top, flush_to_zero=True)
            before = ct.exp2(peak - top, flush_to_zero=True)
            total = total * before + ct.sum(weight, 1, keepdims=True)
            values = ct.reshape(
                ct.load(v, (head // GROUP, n, 0), (1, BN, D), padding_mode=ZERO), (BN, D)
            )
            acc = ct.mma(weight.astype(v.dtype), values, acc * before)
            peak = top
        for n in range(whole, last):
            keys = ct.reshape(
                ct.load(k, (head // GROUP, n, 0), (1, BN, D), padding_mode=ZERO), (BN, D)
            )
            score = ct.mma(queries, ct.transpose(keys), ct.zeros((BM, BN), ct.float32))
            columns = n * BN + ct.expand_dims(ct.arange(BN, dtype=ct.int32), 0)
            seen = columns <= rows if CAUSAL else columns < k.shape[1]
            score = ct.where(seen, score, -float("inf"))
            top = ct.maximum(peak, ct.max(score, 1, keepdims=True) * factor)
            weight = ct.exp2(score * factor - top, flush_to_zero=True)
            before = ct.exp2(peak - top, flush_to_zero=True)
            total = total * before + ct.sum(weight, 1, keepdims=True)
            values = ct.reshape(
                ct.load(v, (head // GROUP, n, 0), (1, BN, D), padding_mode=ZERO), (BN, D)
            )
            acc = ct.mma(weight.astype(v.dtype), values, acc * before)
            peak = top
        ct.store(o, (head, m, 0), ct.reshape(acc * (1.0 / total), (1, BM, D)).astype(o.dtype))


@ct.kernel
def embedding(y, table, ids, COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i, j = ct.bid(0), ct.bid(1)
    row = load(ids, (i,), (1,), CHECK).item()
    ct.store(y, (i, j), load(table, (row, j), (1, COLS), CHECK), check_bounds=CHECK)


@ct.kernel
def kv_append(cache, new, start, COLS: ct.Constant[int], CHECK: ct.Constant[bool] = True):
    i, j = ct.bid(0), ct.bid(2)
    at = load(start, (i,), (1,), CHECK).item()
    for t in range(new.shape[1]):
        ct.store(
            cache, (i, at + t, j), load(new, (i, t, j), (1, 1, COLS), CHECK), check_bounds=CHECK
        )
