"""What users bring, on a GPU: every case of tests/samples/corpus_cuda, corpus_triton and
corpus_simt agrees with its reference.

The bundles are built elsewhere, with the compilers; where the tests run, the driver is enough:
`tilec -C tests/samples/corpus_cuda build`, and the same for the others. TILEC_CORPUS_DIST names a
folder that has `corpus_cuda/dist` and so on instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpus_projects import CORPORA, SAMPLES, Corpus, results
from tilec_runtime import DeviceBuffer, Module, Stream, errors, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

NAMES = [
    (corpus, kernel.name)
    for corpus in CORPORA
    for kernel in corpus.manifest().kernels
    if kernel.name not in corpus.without_case
]
_loaded: dict[str, Module] = {}


def on_gpu(corpus: Corpus) -> Module:
    """The corpus' bundle on the first device."""
    path = Path(
        os.environ.get("TILEC_CORPUS_DIST", str(SAMPLES)), f"corpus_{corpus.name}", corpus.bundle
    )
    if not path.is_file():
        pytest.skip(
            f"{path} is not there: build it first, with `tilec build` in {corpus.root}, or set TILEC_CORPUS_DIST"
        )
    try:
        return _loaded.get(corpus.name) or _loaded.setdefault(
            corpus.name, load(Bundle.open(path), 0)
        )
    except errors.NoDeviceError as error:
        pytest.skip(error.what)


@pytest.mark.parametrize(
    ("corpus", "name"), NAMES, ids=[f"{corpus.name}-{name}" for corpus, name in NAMES]
)
def test_every_case_agrees_with_its_reference(corpus: Corpus, name: str) -> None:
    module = on_gpu(corpus)
    cases = tuple(case for case in corpus.cases(module) if case.kernel == name)
    assert cases
    assert [
        (r.case.name, str(r.error or r.outputs))
        for r in results(corpus, cases, module, driver())
        if r.status != "passed"
    ] == []


def test_products_wherever_their_matrices_lie() -> None:
    """Tables of addresses, which no case can give."""
    module, stream = (
        on_gpu(next(corpus for corpus in CORPORA if corpus.name == "triton")),
        Stream(0),
    )
    rng = np.random.default_rng(5)
    sizes = np.array([[100, 70, 33], [64, 64, 64], [1, 200, 17]], np.int32)
    host = [
        (rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16))
        for m, n, k in sizes
    ]
    a, b = ([DeviceBuffer.from_host(pair[side], 0) for pair in host] for side in (0, 1))
    c = [DeviceBuffer.from_host(np.zeros((m, n), np.float16), 0) for m, n, _ in sizes]
    tables = [
        DeviceBuffer.from_host(np.array([matrix.ptr for matrix in matrices], np.int64), 0)
        for matrices in (c, a, b)
    ]
    strides = np.array([[k, n, n] for _, n, k in sizes], np.int32)
    module.grouped_by_address(
        *tables, DeviceBuffer.from_host(sizes, 0), DeviceBuffer.from_host(strides, 0), stream=stream
    )
    stream.sync()
    for (left, right), made in zip(host, c, strict=True):
        wanted = left.astype(np.float32) @ right.astype(np.float32)
        np.testing.assert_allclose(made.to_host().astype(np.float32), wanted, rtol=1e-2, atol=5e-2)


def test_running_sums_of_any_length_by_three_launches() -> None:
    """As the sample teaches them: sums of blocks, sums of these sums, and the offsets added."""
    module, stream = on_gpu(next(corpus for corpus in CORPORA if corpus.name == "cuda")), Stream(0)
    x = np.random.default_rng(3).integers(-9, 9, 60_001).astype(np.int32)
    blocks = -(-x.size // 256)
    given: Any = DeviceBuffer.from_host(x, 0)
    y, sums, upto, rest = (DeviceBuffer((size,), "i32") for size in (x.size, blocks, blocks, 1))
    module.scan_blocks(y, sums, given, BLOCK=256, stream=stream)
    module.scan_blocks(upto, rest, sums, BLOCK=1024, stream=stream)
    module.add_offsets(y, upto, stream=stream)
    stream.sync()
    assert np.array_equal(y.to_host(), np.cumsum(x))
