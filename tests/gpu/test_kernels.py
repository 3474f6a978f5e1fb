"""examples/kernels on a GPU, at real sizes, against torch. The package is built elsewhere:
TILEC_KERNELS_DIST, or examples/kernels/dist.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from pathlib import Path

import pytest

from tests.gpu.built import failing
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec_runtime import load

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


def test_dropout_of_more_elements_than_blocks_along_an_axis(kernels, torch, stream):
    x = torch.ones(1 << 28, device="cuda", dtype=torch.bfloat16)
    y = torch.full_like(x, math.nan)
    kernels.dropout(y, x, 3, 0.75, stream=stream)
    assert abs(float((y != 0).float().mean()) - 0.75) < 1e-3


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


def test_every_case_agrees_with_its_reference(kernels):
    manifest = open_project(EXAMPLE / "tilec.toml", ToolSearch()).manifest
    # A run of cases takes a loaded bundle, not a package's methods: that of the package, which lies
    # beside its code.
    module = load(
        next(Path(importlib.import_module("tilec_kernels").__path__[0]).glob("*.tilec")), 0
    )
    failures = [failing(kernel.name, manifest, module) for kernel in manifest.kernels]
    assert failures == [[]] * len(failures)
