"""Transfers on a GPU: every dtype, strides of all kinds, what waits and what does not while streams
are held up, graphs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tilec_runtime import CudaGraph, Stream, Tensor, api
from tilec_runtime.device.driver import driver
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
BIG = 7_343_000
# Cycles of a busy loop on the device: some tens of milliseconds.
LONG = 100_000_000


def sample(name: str, count: int = 4096) -> np.ndarray[Any, Any]:
    raw = np.random.default_rng(7).integers(0, 256, count * DTYPES[name].bytes, np.uint8)
    if name == "bool":
        return (raw & 1).astype(np.bool_)
    return (raw & 15 if DTYPES[name].packed else raw).view(numpy_dtype(name))


def same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> bool:
    return (
        found.shape == wanted.shape
        and found.dtype == wanted.dtype
        and found.tobytes() == wanted.tobytes()
    )


def hold(torch: Any, stream: Stream) -> Any:
    external = torch.cuda.ExternalStream(stream.handle)
    with torch.cuda.stream(external):
        torch.cuda._sleep(LONG)
    return external


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str) -> None:
    source = sample(name).reshape(16, 256)
    t = api.from_host(source).sync()
    assert (t.device, t.nbytes) == (0, DTYPES[name].size_of(4096))
    assert same(t.to_host(), source)
    assert same(t.dup().sync().to_host(), source)
    u = api.from_host(np.zeros_like(source)).sync()
    api.memcpy(u, t).sync()
    assert same(u.to_host(), source)
    with t[3:9, 4:64] as part:
        assert same(part.to_host(), np.ascontiguousarray(source[3:9, 4:64]))
        assert same(part.dup().sync().to_host(), np.ascontiguousarray(source[3:9, 4:64]))
        assert same(
            np.ascontiguousarray(api.to_host(part).sync()), np.ascontiguousarray(source[3:9, 4:64])
        )
    assert same(api.to_host(t).sync(), source)
    if not DTYPES[name].packed:
        assert same(api.to_host(t, out=api.pinned((16, 256), name)).sync(), source)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize(
    "index",
    [
        np.s_[1:3],
        np.s_[:, 2:5],
        np.s_[:, 1:5, 2:6],
        np.s_[..., 3:4],
        np.s_[..., 3],
        np.s_[:, 0, :, 2],
        np.s_[1:3, ::2, 2:6, ::3],
        np.s_[::3, ::3, ::3, ::3],
        np.s_[0, 1, 2, 3],
        np.s_[2:2],
    ],
)
def test_views_of_any_strides(dtype: str, index: Any) -> None:
    """Pitches and widths that no allocation of the driver would have."""
    source = np.arange(7 * 9 * 11 * 13).astype(dtype).reshape(7, 9, 11, 13)
    t = api.from_host(source).sync()
    with t[index] as view:
        for found in (view.to_host(), api.to_host(view).sync(), view.dup().sync().to_host()):
            assert np.array_equal(found, source[index])


def test_transposed_and_expanded_tensors_of_torch(torch: Any) -> None:
    matrix = torch.arange(300 * 70, device="cuda", dtype=torch.float32).reshape(300, 70)
    for theirs in (
        matrix.t(),
        matrix[::3, 1::2],
        matrix[:, :1].expand(300, 5),
        matrix.reshape(30, 10, 70).permute(2, 0, 1),
    ):
        t = Tensor.from_foreign(theirs)
        wanted = theirs.cpu().numpy()
        assert np.array_equal(t.dup().sync().to_host(), wanted)
        assert np.array_equal(t.to_host(), wanted)
        assert np.array_equal(api.to_host(t).sync(), wanted)
    into = torch.zeros(70, 300, device="cuda").t()
    api.memcpy(Tensor.from_foreign(into), Tensor.from_foreign(matrix)).sync()
    torch.cuda.synchronize()
    assert bool((into == matrix).all())


@pytest.mark.parametrize("count", [1000, BIG])
def test_from_host_does_not_wait_for_the_stream_and_reads_at_once(torch: Any, count: int) -> None:
    source = np.arange(count, dtype=np.float32)
    api.from_host(source).sync()  # the pool has memory
    with Stream(0) as stream:
        external = hold(torch, stream)
        t = api.from_host(source).enqueue_on(stream)
        busy = not external.query()
        source[:] = -1
        copy = t.dup().enqueue_on(stream)
        assert busy, "the stream was held up all the while"
        stream.sync()
        assert np.array_equal(copy.to_host(), np.arange(count, dtype=np.float32))


def test_to_host_as_an_op_waits_for_nothing(torch: Any) -> None:
    t = api.from_host(np.arange(BIG, dtype=np.float32)).sync()
    api.to_host(t).sync()  # pinned memory is there
    with Stream(0) as stream:
        external = hold(torch, stream)
        found = api.to_host(t).enqueue_on(stream)
        assert not external.query()
        stream.sync()
        assert np.array_equal(found, np.arange(BIG, dtype=np.float32))


def test_memcpy_and_to_host_in_a_graph() -> None:
    source = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
    t, u = api.from_host(source).sync(), api.from_host(np.zeros((6, 4), np.float32)).sync()
    out = api.pinned((6, 4), "f32")
    with Stream(0) as stream:
        with CudaGraph.scope(stream) as scope:
            with t[:, ::2] as view:
                scope.record(api.memcpy(u, view))
            scope.record(api.to_host(u, out=out))
        for step in (0, 1, 2):
            scope.graph.update(api.memcpy(t, source + step))
            scope.graph.launch().sync_on(stream)
            assert np.array_equal(out, (source + step)[:, ::2])


def test_pinned_memory_comes_back(torch: Any) -> None:
    t = api.from_host(np.arange(1 << 20, dtype=np.float32)).sync()
    places = set()
    for _ in range(20):
        found = api.to_host(t).sync()
        places.add(found.ctypes.data)
        del found
        time.sleep(0.01)  # a completion thread releases it
    assert len(places) <= 3
    known = driver().pointer_device(next(iter(places)))
    assert known is not None, "the driver knows it as its own"
