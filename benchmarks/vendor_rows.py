"""The rows of the table: inputs, torch's way, what a launch gets, and what is right, for each
kernel and size; see vendor_kernels.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vendor_tasks import SIZE, Bench, Run, Step, Task


def add(b: Bench) -> Iterator[Task]:
    """Sums, and y = alpha * x + y."""
    n = b.size(1 << 28, 4096)
    for dtype in ("f32", "bf16"):
        data = b.several(lambda: [b.randn(n, dtype=dtype) for _ in range(3)])
        z, x, y = data[0]
        yield Task(
            row="add",
            size=f"{dtype} {n}",
            unit="TB/s",
            amount=3 * n * SIZE[dtype] / 1e12,
            sets=len(data),
            launches={"add": lambda i: tuple(data[i])},
            fits=lambda axes: axes["T"] == dtype,
            vendors={
                "torch.add": lambda i: b.torch.add(data[i][1], data[i][2], out=data[i][0]),
                "copy (2 of its 3 bytes)": lambda i: data[i][0].copy_(data[i][1]),
            },
            reset=lambda: z.fill_(math.nan),
            found=lambda: [z],
            expected=lambda: [x + y],
        )


def saxpy(b: Bench) -> Iterator[Task]:
    """y = alpha * x + y."""
    n = b.size(1 << 28, 4096)
    for dtype in ("f32", "bf16"):
        kept, data = (
            b.randn(n, dtype=dtype),
            b.several(lambda: [b.randn(n, dtype=dtype) for _ in range(2)]),
        )
        y, x = data[0]
        yield Task(
            row="saxpy",
            size=f"{dtype} {n}",
            unit="TB/s",
            amount=3 * n * SIZE[dtype] / 1e12,
            sets=len(data),
            launches={"saxpy": lambda i: (*data[i], 1e-4)},
            fits=lambda axes: axes["T"] == dtype,
            vendors={"torch.add_": lambda i: data[i][0].add_(data[i][1], alpha=1e-4)},
            reset=lambda: y.copy_(kept),
            found=lambda: [y],
            expected=lambda: [kept + 1e-4 * x],
        )


def softmax(b: Bench) -> Iterator[Task]:
    """Rows of 512 to 32768."""
    for dtype in ("f32", "bf16"):
        for length in (512,) if b.small else (512, 1024, 2048, 4096, 8192, 16384, 32768):
            rows = b.size((1 << 27) // length, 16)
            x = b.randn(rows, length, dtype=dtype)
            y = b.torch.empty_like(x)
            yield Task(
                row="softmax",
                size=f"{dtype} {rows} x {length}",
                unit="TB/s",
                amount=2 * x.numel() * SIZE[dtype] / 1e12,
                sets=1,
                launches={"softmax": lambda i: (y, x), "softmax_long": lambda i: (y, x)},
                fits=lambda axes: (
                    axes["T"] == dtype
                    and (
                        axes["COLS"] == length
                        or (axes["COLS"] in (2048, 4096, 8192) and length >= 16384)
                    )
                ),
                vendors={"torch.softmax": lambda i: b.torch.softmax(x, 1, out=y)},
                reset=lambda: y.fill_(math.nan),
                found=lambda: [y],
                expected=lambda: [b.torch.softmax(x.float(), 1)],
            )


def norms(b: Bench, name: str) -> Iterator[Task]:
    """RMS norm, layer norm, and the sum with a residual and its RMS norm."""
    for length in (1024,) if b.small else (1024, 4096, 8192):
        rows = b.size((1 << 26) // length, 16)
        weight, bias = (b.randn(length, dtype="bf16") for _ in range(2))
        data = b.several(
            lambda: [b.randn(rows, length, dtype="bf16") for _ in range(4)]
        )  # of x, residual, y, total
        asked = [_norm(name, weight, bias, *each) for each in data]
        ways: dict[str, Callable[[Any], Any]] = {
            "torch eager": lambda given: _eager(b.torch.nn.functional, name, length, given)
        }
        if b.compiled:
            ways["torch.compile"] = b.compile(ways["torch eager"])
        yield Task(
            row=name,
            size=f"bf16 {rows} x {length}",
            unit="TB/s",
            amount=(4 if name == "add_rms_norm" else 2) * rows * length * 2 / 1e12,
            sets=len(data),
            launches={name: lambda i: asked[i][0]},
            fits=lambda axes: axes["COLS"] == length,
            vendors={way: lambda i, f=f: f(asked[i][1]) for way, f in ways.items()},
            reset=lambda: [each.fill_(math.nan) for each in asked[0][2]],
            found=lambda: asked[0][2],
            expected=lambda: [
                each.float() for each in _eager(b.torch.nn.functional, name, length, asked[0][1])
            ],
        )


def _norm(
    name: str, weight: Any, bias: Any, *data: Any
) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
    """What a launch gets, what torch gets, and the outputs."""
    x, residual, y, total = data
    if name == "rms_norm":
        return (y, x, weight, 1e-6), [x, weight], [y]
    if name == "layer_norm":
        return (y, x, weight, bias, 1e-5), [x, weight, bias], [y]
    return (y, total, x, residual, weight, 1e-6), [x, residual, weight], [y, total]


def _eager(functional: Any, name: str, length: int, data: Sequence[Any]) -> tuple[Any, ...]:
    if name == "rms_norm":
        return (functional.rms_norm(data[0], (length,), data[1], 1e-6),)
    if name == "layer_norm":
        return (functional.layer_norm(data[0], (length,), data[1], data[2], 1e-5),)
    added = data[0] + data[1]
    return functional.rms_norm(added, (length,), data[2], 1e-6), added


def gemm(b: Bench) -> Iterator[Task]:
    """Square matrices."""
    for dtype in ("bf16",) if b.small else ("bf16", "f16"):
        for n in (128,) if b.small else (2048, 4096, 8192, 16384):
            yield _gemm(b, "gemm", dtype, (n, n, n), n)


def gemm_ragged(b: Bench) -> Iterator[Task]:
    """Extents that no tile divides; rows begin at multiples of so many bytes. torch gets them so,
    and packed.
    """
    sizes = (
        (4104, 4088, 4120, 16),
        (4104, 4088, 4120, 128),
        (4095, 4095, 4095, 16),
        (8191, 4097, 2049, 16),
    )
    for m, n, k, aligned in ((72, 40, 104, 16),) if b.small else sizes:
        yield _gemm(
            b,
            "gemm_ragged",
            "bf16",
            (m, n, k),
            -(-max(m, n, k) * 2 // aligned) * aligned // 2,
            f", rows at {aligned} bytes",
        )


def _gemm(
    b: Bench, row: str, dtype: str, shape: tuple[int, int, int], pitch: int, note: str = ""
) -> Task:
    m, n, k = shape
    sets = b.sets((m * k + k * n + m * n) * 2)
    pitched = [
        [
            b.randn(rows, pitch, dtype=dtype)[:, :columns]
            for rows, columns in ((m, n), (m, k), (k, n))
        ]
        for _ in range(sets)
    ]
    packed = [[each.contiguous() for each in one] for one in pitched]
    arguments = pitched if row == "gemm_ragged" else packed
    ways = {"torch.matmul": packed} | (
        {"torch.matmul at that pitch": pitched} if row == "gemm_ragged" else {}
    )

    # Rows beyond a multiple of 256 by a launch of their own, where the pitch wants pairs of
    # multiprocessors.
    whole = m // 256 * 256
    parts = (slice(None, whole), slice(whole, None)) if pitch * SIZE[dtype] % 128 and whole else ()

    def multiplied(data: list[list[Any]]) -> Run:
        return lambda i: b.torch.matmul(data[i][1], data[i][2], out=data[i][0])

    return Task(
        row=row,
        size=f"{dtype} {m} x {n} x {k}{note}",
        unit="TFLOP/s",
        amount=2 * m * n * k / 1e12,
        sets=sets,
        launches={name: lambda i: tuple(arguments[i]) for name in ("gemm", "gemm_persistent")},
        steps=[
            Step(kernel="gemm_pairs", arguments=lambda i, at=at: _rows(arguments[i], at))
            for at in parts
        ],
        fits=lambda axes: axes["T"] == dtype,
        vendors={name: multiplied(data) for name, data in ways.items()},
        reset=lambda: arguments[0][0].fill_(math.nan),
        found=lambda: [arguments[0][0]],
        expected=lambda: [packed[0][1] @ packed[0][2]],
    )


def _rows(data: Sequence[Any], at: slice) -> tuple[Any, ...]:
    """Some rows of a product."""
    c, x, y = data
    return c[at], x[at], y


def fp8(b: Bench) -> Iterator[Task]:
    """c = a @ b.T of e4m3, into bf16."""
    for n in (128,) if b.small else (4096, 8192):
        sets = b.sets(4 * n * n)
        data = [
            [b.randn(n, n, dtype=dtype) for dtype in ("bf16", "f8e4m3", "f8e4m3")]
            for _ in range(sets)
        ]
        one = b.torch.ones((), device=b.device)

        def scaled(i: int, data: Any = data, one: Any = one) -> Any:
            c, x, y = data[i]
            return b.torch._scaled_mm(  # noqa: SLF001 - torch has no public name for it
                x, y.t(), scale_a=one, scale_b=one, out_dtype=c.dtype, use_fast_accum=True
            )

        yield Task(
            row="fp8",
            size=f"f8e4m3 {n} x {n} x {n}",
            unit="TFLOP/s",
            amount=2 * n**3 / 1e12,
            sets=sets,
            launches={
                name: lambda i, data=data: tuple(data[i])
                for name in ("linear", "linear_persistent")
            },
            steps=[
                Step(
                    kernel="linear",
                    arguments=lambda i, data=data: tuple(data[i]),
                    asked={"FAST": True},
                )
            ],  # as torch is asked to
            fits=lambda axes: True,
            vendors={} if b.small else {"torch._scaled_mm": scaled},
            reset=lambda data=data: data[0][0].fill_(math.nan),
            found=lambda data=data: [data[0][0]],
            expected=lambda data=data: [data[0][1].float() @ data[0][2].float().t()],
            tolerance=2e-2,
        )


def batched_gemm(b: Bench) -> Iterator[Task]:
    """A matrix product for each of a batch."""
    for batch, n in ((3, 64),) if b.small else ((64, 512), (32, 1024), (16, 2048)):
        sets = b.sets(6 * batch * n * n)
        data = [[b.randn(batch, n, n, dtype="bf16") for _ in range(3)] for _ in range(sets)]
        yield Task(
            row="batched_gemm",
            size=f"bf16 {batch} x {n}^3",
            unit="TFLOP/s",
            amount=2 * batch * n**3 / 1e12,
            sets=sets,
            launches={
                name: lambda i, data=data: tuple(data[i])
                for name in ("batched_gemm", "batched_gemm_persistent")
            },
            fits=lambda axes: True,
            vendors={
                "torch.bmm": lambda i, data=data: b.torch.bmm(
                    data[i][1], data[i][2], out=data[i][0]
                )
            },
            reset=lambda data=data: data[0][0].fill_(math.nan),
            found=lambda data=data: [data[0][0]],
            expected=lambda data=data: [b.torch.bmm(data[0][1], data[0][2])],
        )


def grouped_gemm(b: Bench) -> Iterator[Task]:
    """Rows of experts, as many for each, so that torch.bmm does the same work."""
    for experts, rows, n, k in (
        ((2, 128, 64, 64),) if b.small else ((8, 2048, 4096, 2048), (64, 256, 2048, 2048))
    ):
        x, w = b.randn(experts * rows, k, dtype="bf16"), b.randn(experts, k, n, dtype="bf16")
        c = b.torch.empty(experts * rows, n, device=b.device, dtype=x.dtype)
        groups = {
            tile: b.torch.arange(experts, device=b.device, dtype=b.torch.int32).repeat_interleave(
                rows // tile
            )
            for tile in (64, 128)
        }
        arguments = (c, x, w, groups[64 if b.small else 128])
        yield Task(
            row="grouped_gemm",
            size=f"bf16 {experts} x {rows} x {n} x {k}",
            unit="TFLOP/s",
            amount=2 * experts * rows * n * k / 1e12,
            sets=1,
            launches={
                name: lambda i, a=arguments: a
                for name in ("grouped_gemm", "grouped_gemm_persistent")
            },
            steps=[
                Step(kernel="grouped_gemm", arguments=lambda i, a=(*arguments[:3], groups[128]): a)
            ],
            fits=lambda axes: True,
            vendors={
                "torch.bmm": lambda i: b.torch.bmm(
                    x.view(experts, rows, k), w, out=c.view(experts, rows, n)
                )
            },
            reset=lambda: c.fill_(math.nan),
            found=lambda: [c],
            expected=lambda: [b.torch.bmm(x.view(experts, rows, k), w).view(experts * rows, n)],
        )


def attention(b: Bench) -> Iterator[Task]:
    """Causal, 16384 tokens of several sequences."""
    for d, heads, group in ((64, 4, 1),) if b.small else ((64, 32, 1), (128, 16, 1), (128, 16, 4)):
        for length in (96,) if b.small else (1024, 2048, 4096, 8192, 16384):
            yield _attention(b, d, heads, group, length)


def _attention(b: Bench, d: int, heads: int, group: int, length: int) -> Task:
    batch = b.size(16384, 96) // length
    q = b.randn(batch, heads, length, d, dtype="bf16")
    k, v = (b.randn(batch, heads // group, length, d, dtype="bf16") for _ in range(2))
    o = b.torch.empty_like(q)
    scale = d**-0.5
    flat = tuple(each.view(-1, length, d) for each in (o, q, k, v))
    functional, attend = b.torch.nn.functional, b.torch.nn.attention

    def backend(kind: Any) -> Run:
        def run(_: int) -> Any:
            with attend.sdpa_kernel(kind):
                return functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=group > 1
                )

        return run

    kinds = ("MATH",) if b.small else ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")
    return Task(
        row="attention",
        size=f"bf16 {batch} x {heads} x {length} x {d}, {group} per key head",
        unit="TFLOP/s",
        amount=2
        * batch
        * heads
        * length
        * length
        * d
        / 1e12,  # half of 4 n^2 d: what is masked is not counted
        sets=1,
        launches={"attention": lambda i: (*flat, scale)},
        fits=lambda axes: axes["D"] == d and axes["GROUP"] == group,
        vendors={f"sdpa {kind}": backend(getattr(attend.SDPBackend, kind)) for kind in kinds},
        reset=lambda: o.fill_(math.nan),
        found=lambda: [o],
        expected=lambda: [
            functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=group > 1)
        ],
        tolerance=2e-2,
    )


def swiglu(b: Bench) -> Iterator[Task]:
    """silu(gate) * up."""
    n = b.size(1 << 27, 4096)
    silu, data = (
        b.torch.nn.functional.silu,
        b.several(lambda: [b.randn(n, dtype="bf16") for _ in range(3)]),
    )
    z, gate, up = data[0]
    yield Task(
        row="swiglu",
        size=f"bf16 {n}",
        unit="TB/s",
        amount=6 * n / 1e12,
        sets=len(data),
        launches={"swiglu": lambda i: tuple(data[i])},
        fits=lambda axes: True,
        vendors=_both(b, lambda g, u: silu(g) * u, [each[1:] for each in data]),
        reset=lambda: z.fill_(math.nan),
        found=lambda: [z],
        expected=lambda: [silu(gate.float()) * up.float()],
    )


def rope(b: Bench) -> Iterator[Task]:
    """Heads of 128."""
    tokens, heads = b.size(16384, 4), 32
    x = b.randn(tokens, heads, 128, dtype="bf16")
    angle = b.torch.rand(tokens, 64, device=b.device) * 6.28
    cos, sin = angle.cos(), angle.sin()
    y = b.torch.empty_like(x)

    def turned() -> Any:
        first, second = x.float().chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return b.torch.cat((first * c - second * s, second * c + first * s), -1).to(x.dtype)

    yield Task(
        row="rope",
        size=f"bf16 {tokens} x {heads} x 128",
        unit="TB/s",
        amount=4 * x.numel() / 1e12,
        sets=1,
        launches={"rope": lambda i: (y, x, cos, sin)},
        fits=lambda axes: True,
        vendors=_both(b, turned, [()]),
        reset=lambda: y.fill_(math.nan),
        found=lambda: [y],
        expected=lambda: [turned()],
    )


def dropout(b: Bench) -> Iterator[Task]:
    """A tenth is dropped; which elements, is the generator's, so that means and zeros are compared."""
    n = b.size(1 << 28, 8192)
    for dtype in ("f32", "bf16"):
        x = b.randn(n, dtype=dtype)
        y = b.torch.empty_like(x)
        functional = b.torch.nn.functional

        def share(found: Any, x: Any = x) -> Any:
            kept = found != 0
            right = ((found.float() - x.float() / 0.9).abs() <= 1e-2 * x.float().abs()) | ~kept
            return b.torch.stack([kept.float().mean(), right.all().float()])

        yield Task(
            row="dropout",
            size=f"{dtype} {n}",
            unit="TB/s",
            amount=2 * n * SIZE[dtype] / 1e12,
            sets=1,
            launches={"dropout": lambda i: (y, x, 7, 0.9)},
            fits=lambda axes: axes["T"] == dtype,
            vendors={"torch.dropout": lambda i: functional.dropout(x, 0.1)},
            reset=lambda: y.fill_(math.nan),
            found=lambda: [share(y)],
            expected=lambda: [b.torch.tensor([0.9, 1.0], device=b.device)],
        )


def argmax(b: Bench) -> Iterator[Task]:
    """The first largest of each row."""
    for length in (4096,) if b.small else (4096, 32768):
        x = b.randn(b.size((1 << 27) // length, 8), length, dtype="bf16")
        y = b.torch.empty(len(x), device=b.device, dtype=b.torch.int32)
        yield Task(
            row="argmax",
            size=f"bf16 {len(x)} x {length}",
            unit="TB/s",
            amount=2 * x.numel() / 1e12,
            sets=1,
            launches={
                name: lambda i: (y, x)
                for name in (
                    ("argmax", "argmax_long") if length <= 4096 else ("argmax_long", "argmax")
                )
            },
            fits=lambda axes: axes["COLS"] == length or axes["COLS"] < length == 32768,
            vendors={"torch.argmax": lambda i: b.torch.argmax(x, 1)},
            reset=lambda: y.fill_(-1),
            found=lambda: [
                x.gather(1, y.long()[:, None])
            ],  # of equal elements torch may name another
            expected=lambda: [x.max(1, keepdim=True).values],
        )


def top_k(b: Bench) -> Iterator[Task]:
    """The 64 largest logits of a vocabulary: the largest of each group of a row, then those of the
    groups with the largest.
    """
    rows, length = b.size(64, 2), b.size(131072, 8192)
    x = b.randn(rows, length, dtype="f32")
    values, places = (
        b.torch.empty(rows, 64, device=b.device, dtype=dtype)
        for dtype in (b.torch.float32, b.torch.int32)
    )
    peaks = b.torch.empty(rows, length // 32, device=b.device, dtype=b.torch.float32)
    yield Task(
        row="top_k",
        size=f"f32 {rows} x {length}",
        unit="TB/s",
        amount=4 * x.numel() / 1e12,
        sets=1,
        launches={"top_k": lambda i: (values, places, x, peaks)},
        before={"top_k": ("group_peaks", lambda i: (peaks, x))},
        fits=lambda axes: axes["GROUP"] == 32,
        vendors={"torch.topk": lambda i: b.torch.topk(x, 64, 1)},
        reset=lambda: (values.fill_(math.nan), places.fill_(-1), peaks.fill_(math.nan)),
        found=lambda: [values, x.gather(1, places.long().clamp(0))],
        expected=lambda: [b.torch.topk(x, 64, 1).values] * 2,
    )


def embedding(b: Bench) -> Iterator[Task]:
    """Rows of a table."""
    table = b.randn(b.size(131072, 64), 4096, dtype="bf16")
    ids = b.torch.randint(0, len(table), (b.size(16384, 8),), device=b.device, dtype=b.torch.int32)
    y = b.torch.empty(len(ids), 4096, device=b.device, dtype=table.dtype)
    yield Task(
        row="embedding",
        size=f"bf16 {len(ids)} of {len(table)} x 4096",
        unit="TB/s",
        amount=4 * y.numel() / 1e12,
        sets=1,
        launches={"embedding": lambda i: (y, table, ids)},
        fits=lambda axes: True,
        vendors={"torch.embedding": lambda i: b.torch.nn.functional.embedding(ids, table)},
        reset=lambda: y.fill_(math.nan),
        found=lambda: [y],
        expected=lambda: [table[ids.long()]],
    )


def kv_append(b: Bench) -> Iterator[Task]:
    """One token of each of many sequences into its cache."""
    batch, length = b.size(512, 3), b.size(2048, 16)
    cache, new = b.randn(batch, length, 1024, dtype="bf16"), b.randn(batch, 1, 1024, dtype="bf16")
    start = b.torch.randint(0, length, (batch,), device=b.device, dtype=b.torch.int32)
    places = (b.torch.arange(batch, device=b.device), start.long())

    def put(_: int) -> Any:
        return cache.index_put_(places, new[:, 0])

    yield Task(
        row="kv_append",
        size=f"bf16 {batch} x {length} x 1024",
        unit="TB/s",
        amount=4 * new.numel() / 1e12,
        sets=1,
        launches={"kv_append": lambda i: (cache, new, start)},
        fits=lambda axes: True,
        vendors={"torch.index_put_": put},
        reset=lambda: cache.index_put_(places, b.torch.full_like(new[:, 0], math.nan)),
        found=lambda: [cache[places]],
        expected=lambda: [new[:, 0]],
    )


def _both(b: Bench, eager: Callable[..., Any], data: Sequence[Sequence[Any]]) -> dict[str, Run]:
    vendors: dict[str, Run] = {"torch eager": lambda i: eager(*data[i])}
    if b.compiled:
        fast = b.compile(eager)
        vendors["torch.compile"] = lambda i: fast(*data[i])
    return vendors


ROWS: dict[str, Callable[[Bench], Iterator[Task]]] = {
    "add": add,
    "saxpy": saxpy,
    "softmax": softmax,
    "rms_norm": lambda b: norms(b, "rms_norm"),
    "layer_norm": lambda b: norms(b, "layer_norm"),
    "add_rms_norm": lambda b: norms(b, "add_rms_norm"),
    "gemm": gemm,
    "gemm_ragged": gemm_ragged,
    "fp8": fp8,
    "batched_gemm": batched_gemm,
    "grouped_gemm": grouped_gemm,
    "attention": attention,
    "swiglu": swiglu,
    "rope": rope,
    "dropout": dropout,
    "argmax": argmax,
    "top_k": top_k,
    "embedding": embedding,
    "kv_append": kv_append,
}
