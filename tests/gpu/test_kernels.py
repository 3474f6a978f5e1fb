"""examples/kernels on a GPU, at real sizes, against torch. The package is built elsewhere:
TILEC_KERNELS_DIST, or examples/kernels/dist.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from pathlib import Path

import pytest

from tilec.case.cases import expand_cases
from tilec.case.device import ModuleDevice
from tilec.case.reference import References
from tilec.case.run import run_cases
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec_runtime import load
from tilec_runtime.device.driver import driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernels"


@pytest.fixture(scope="module")
def kernels(torch):
    folder = Path(os.environ.get("TILEC_KERNELS_DIST", str(EXAMPLE / "dist"))).resolve()
    if not (folder / "tilec_kernels" / "__init__.py").is_file():
        pytest.skip(
            f"there is no tilec_kernels in {folder}: build it with `tilec build` in examples/kernels, or set TILEC_KERNELS_DIST"
        )
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("tilec_kernels").load(0)
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def stream(torch):
    return torch.cuda.current_stream()


def randn(torch, *shape, dtype):
    return torch.randn(*shape, device="cuda").to(dtype)


def close(torch, found, expected, rtol=1e-2):
    """By the whole output: single elements near zero say little."""
    error = (found.float() - expected.float()).norm() / expected.float().norm()
    assert float(error) <= rtol


@pytest.mark.parametrize("size", [1 << 26, (1 << 26) - 3, 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_elementwise(kernels, torch, stream, dtype, size):
    x, y = (randn(torch, size, dtype=getattr(torch, dtype)) for _ in range(2))
    z = torch.full_like(x, math.nan)
    kernels.add(z, x, y, stream=stream)
    assert torch.equal(z, x + y)
    kernels.swiglu(z, x, y, stream=stream)
    close(torch, z, torch.nn.functional.silu(x.float()) * y.float())
    expected = 2.5 * x.float() + y.float()
    kernels.saxpy(y, x, 2.5, stream=stream)
    close(torch, y, expected)


@pytest.mark.parametrize("tokens", [1, 777, 8192])
def test_rope(kernels, torch, stream, tokens):
    x = randn(torch, tokens, 20, 128, dtype=torch.bfloat16)
    angle = torch.rand(tokens, 64, device="cuda") * 6.28
    y = torch.full_like(x, math.nan)
    kernels.rope(y, x, angle.cos(), angle.sin(), stream=stream)
    first, second = x.float().chunk(2, -1)
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    close(torch, y, torch.cat((first * c - second * s, second * c + first * s), -1))


def test_dropout_of_more_elements_than_blocks_along_an_axis(kernels, torch, stream):
    x = torch.ones(1 << 28, device="cuda", dtype=torch.bfloat16)
    y = torch.full_like(x, math.nan)
    kernels.dropout(y, x, 3, 0.75, stream=stream)
    assert abs(float((y != 0).float().mean()) - 0.75) < 1e-3


def test_dropout_is_replayed(kernels, torch, stream):
    x = torch.ones((1 << 24) + 5, device="cuda")
    found = []
    for seed in (3, 3, 4):
        found.append(torch.full_like(x, math.nan))
        kernels.dropout(found[-1], x, seed, 0.75, stream=stream)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert abs(float((found[0] != 0).float().mean()) - 0.75) < 1e-3
    assert float(found[0].max()) == pytest.approx(1 / 0.75)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("length", [512, 777, 1024, 4096, 8192, 20001, 32768])
def test_softmax(kernels, torch, stream, dtype, length):
    x = randn(torch, 1003, length, dtype=getattr(torch, dtype))
    y = torch.full_like(x, math.nan)
    kernels.softmax(y, x, stream=stream)
    close(torch, y, torch.softmax(x.float(), 1))
    long = torch.full_like(x, math.nan)
    kernels.softmax_long(long, x, stream=stream)
    close(torch, long, torch.softmax(x.float(), 1))


@pytest.mark.parametrize("length", [1000, 1024, 3000, 4096, 5000, 8192])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_norms(kernels, torch, stream, dtype, length):
    x, residual = (randn(torch, 2049, length, dtype=getattr(torch, dtype)) for _ in range(2))
    weight, bias = (randn(torch, length, dtype=x.dtype) for _ in range(2))
    y, total = torch.full_like(x, math.nan), torch.full_like(x, math.nan)
    functional = torch.nn.functional
    kernels.rms_norm(y, x, weight, 1e-6, stream=stream)
    close(torch, y, functional.rms_norm(x.float(), (length,), weight.float(), 1e-6))
    kernels.layer_norm(y, x, weight, bias, 1e-5, stream=stream)
    close(torch, y, functional.layer_norm(x.float(), (length,), weight.float(), bias.float(), 1e-5))
    kernels.add_rms_norm(y, total, x, residual, weight, 1e-6, stream=stream)
    assert torch.equal(total, x + residual)
    close(torch, y, functional.rms_norm(total.float(), (length,), weight.float(), 1e-6))


@pytest.mark.parametrize("length", [1024, 4096, 30001, 32768])
def test_argmax(kernels, torch, stream, length):
    x = randn(torch, 513, length, dtype=torch.float32)
    y = torch.full((513,), -1, device="cuda", dtype=torch.int32)
    kernels.argmax(y, x, stream=stream)
    assert torch.equal(y.long(), x.argmax(1))
    kernels.argmax_long(y.fill_(-1), x, stream=stream)
    assert torch.equal(y.long(), x.argmax(1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(4096, 4096, 4096), (2048, 1024, 512), (4104, 4088, 4120), (257, 131, 99)]
)
def test_gemm(kernels, torch, stream, dtype, m, n, k):
    a, b = (randn(torch, *shape, dtype=getattr(torch, dtype)) for shape in ((m, k), (k, n)))
    c = torch.full((m, n), math.nan, device="cuda", dtype=a.dtype)
    kernels.gemm(c, a, b, stream=stream)
    close(torch, c, a.float() @ b.float())
    info = kernels["gemm"].info
    open_axes = [name for name, values in info.axes if name != "T" and len(values) > 1]
    for point in dict.fromkeys(
        variant.axes
        for variant in info.variants
        if ("T", {"float16": "f16", "bfloat16": "bf16"}[dtype]) in variant.axes
    ):
        kernels.gemm(
            c.fill_(math.nan),
            a,
            b,
            **{name: value for name, value in point if name in open_axes},
            stream=stream,
        )
        close(torch, c, a.float() @ b.float())


@pytest.mark.parametrize(
    ("rows", "length"), [(4096, 512), (300, 1024), (64, 4096), (7, 8192), (16, 32768)]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_softmax_takes_what_tuning_found(kernels, torch, stream, dtype, rows, length):
    """Rows of the lengths that were measured, however many, on a device of the tuned one's
    architecture.
    """
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the table is of compute capability 9.0")
    x = randn(torch, rows, length, dtype=getattr(torch, dtype))
    y = torch.full_like(x, math.nan)
    why = kernels["softmax"].explain(y, x)
    assert set(dict(why.origins).values()) <= {"the tuning table's", "the dtype of the arguments"}
    assert dict(why.variant.axes)["COLS"] == length
    kernels.softmax(y, x, stream=stream)
    close(torch, y, torch.softmax(x.float(), 1))


def test_rows_of_odd_length_at_a_pitch_take_the_fast_variant(kernels, torch, stream):
    a, b, c = (randn(torch, 1031, 1032, dtype=torch.bfloat16)[:, :1031] for _ in range(3))
    assert kernels["gemm"].explain(c, a, b).variant.id.endswith("pitch16")
    kernels.gemm(c, a, b, stream=stream)
    close(torch, c, a.float() @ b.float())


def test_f8(kernels, torch, stream):
    a, b = (randn(torch, *shape, dtype=torch.float8_e4m3fn) for shape in ((1000, 512), (784, 512)))
    c = torch.full((1000, 784), math.nan, device="cuda", dtype=torch.bfloat16)
    kernels.linear(c, a, b, stream=stream)
    close(torch, c, a.float() @ b.float().t())
    kernels.linear(c.fill_(math.nan), a, b, FAST=True, stream=stream)
    close(torch, c, a.float() @ b.float().t())


def test_batches_and_groups(kernels, torch, stream):
    a, b = (
        randn(torch, 7, 520, 264, dtype=torch.bfloat16),
        randn(torch, 7, 264, 1000, dtype=torch.bfloat16),
    )
    c = torch.full((7, 520, 1000), math.nan, device="cuda", dtype=a.dtype)
    kernels.batched_gemm(c, a, b, stream=stream)
    close(torch, c, torch.bmm(a.float(), b.float()))
    group = torch.tensor([3, 0, 6, 6, 99, -5], device="cuda", dtype=torch.int32)
    rows = randn(torch, 6 * 128, 264, dtype=torch.bfloat16)
    out = torch.full((6 * 128, 1000), math.nan, device="cuda", dtype=a.dtype)
    kernels.grouped_gemm(out, rows, b, group, stream=stream)
    close(
        torch,
        out,
        torch.cat(
            [
                rows[128 * i : 128 * i + 128].float() @ b[min(max(int(g), 0), 6)].float()
                for i, g in enumerate(group)
            ]
        ),
    )


@pytest.mark.parametrize("length", [1, 300, 1024, 4096])
@pytest.mark.parametrize(("d", "group"), [(64, 1), (128, 1), (128, 4)])
def test_attention(kernels, torch, stream, d, group, length):
    q = randn(torch, 2, 8, length, d, dtype=torch.bfloat16)
    k, v = (randn(torch, 2, 8 // group, length, d, dtype=torch.bfloat16) for _ in range(2))
    o = torch.full_like(q, math.nan)
    kernels.attention(*(each.view(-1, length, d) for each in (o, q, k, v)), d**-0.5, stream=stream)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=True, enable_gqa=group > 1
    )
    close(torch, o, expected, 2e-2)


def test_lookups(kernels, torch, stream):
    table = randn(torch, 5000, 4096, dtype=torch.bfloat16)
    ids = torch.randint(-100, 5100, (3001,), device="cuda", dtype=torch.int32)
    y = torch.full((3001, 4096), math.nan, device="cuda", dtype=table.dtype)
    kernels.embedding(y, table, ids, stream=stream)
    known = (ids >= 0) & (ids < 5000)
    assert torch.equal(y, torch.where(known[:, None], table[ids.clamp(0, 4999).long()], 0.0))
    cache, new = (
        randn(torch, 64, 128, 1024, dtype=torch.float16),
        randn(torch, 64, 2, 1024, dtype=torch.float16),
    )
    start = torch.randint(-3, 130, (64,), device="cuda", dtype=torch.int32)
    expected = cache.clone()
    for i, first in enumerate(start.tolist()):
        for t in range(2):
            if 0 <= first + t < 128:
                expected[i, first + t] = new[i, t]
    kernels.kv_append(cache, new, start, stream=stream)
    assert torch.equal(cache, expected)


def test_top_k(kernels, torch, stream):
    x = randn(torch, 17, 100_000, dtype=torch.float32)
    peaks = torch.empty(17, 100_000 // 32, device="cuda")
    kernels.group_peaks(peaks, x, stream=stream)
    values, places = (
        torch.empty(17, 64, device="cuda", dtype=dtype) for dtype in (torch.float32, torch.int32)
    )
    kernels.top_k(values, places, x, peaks, stream=stream)
    expected = torch.topk(x, 64, 1)
    assert torch.equal(values, expected.values)
    assert torch.equal(x.gather(1, places.long()), expected.values)


def test_every_case_agrees_with_its_reference(kernels):
    manifest = open_project(EXAMPLE / "tilec.toml", ToolSearch()).manifest
    # A run of cases takes a loaded bundle, not a package's methods: that of the package, which lies
    # beside its code.
    module = load(
        next(Path(importlib.import_module("tilec_kernels").__path__[0]).glob("*.tilec")), 0
    )
    cases = [
        case
        for kernel in manifest.kernels
        for case in expand_cases(kernel, module.kernels[kernel.name].info, locate=manifest.locate)
    ]
    report = run_cases(
        cases, ModuleDevice(module, driver()), References(manifest.root), clock=time.perf_counter
    )
    assert [
        (r.case.name, str(r.error or r.outputs)) for r in report.results if r.status != "passed"
    ] == []
    assert len(report.results) == 68
