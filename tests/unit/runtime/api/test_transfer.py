"""Transfers: contents to a device and back, copies on it, their order among streams, and who owns
what meanwhile.
"""

from __future__ import annotations

import array
import functools
import gc
import itertools
import random
import re
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.waiting import PATIENCE, Gate, at_once
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    CudaGraph,
    Device,
    Stream,
    Tensor,
    api,
    as_op,
    use_device,
)
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.errors import (
    AliasError,
    BorrowError,
    GraphCaptureError,
    TensorError,
    UseAfterMoveError,
)
from tilec_runtime.tensors.buffer import DeviceBuffer

CHUNK = 4 << 20
BIG = 6 * CHUNK + 4000


def counting(*shape: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


# --- to the device, and back
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        counting(4, 6),
        counting(4, 6).T,
        counting(9)[::-2],
        counting(4, 6).astype(">i4"),
        np.zeros((0, 3), np.int8),
        np.array(3.5),
        np.float16(2),
        np.frombuffer(b"read-only", np.uint8),
        counting(BIG // 4),
        counting(BIG // 4)[::2],
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_arrays_go_to_a_device_and_come_back(device: Device, source: Any) -> None:
    t = api.from_host(source).sync()
    assert (t.shape, t.device) == (source.shape, device.ordinal)
    for back in (
        t.to_host(),
        api.to_host(t).sync(),
        api.dup(t).to_host().sync(),
        t.dup().sync().to_host(),
    ):
        assert (back.dtype, back.shape) == (source.dtype.newbyteorder("="), source.shape)
        assert np.array_equal(back, source)
        assert back.flags.writeable


@pytest.mark.parametrize(
    "source", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")[1:3], array.array("d", [1, 2])]
)
def test_buffers(device: Device, source: Any) -> None:
    assert api.from_host(source).sync().to_host().tolist() == list(source)


def test_a_tensor_of_another_library_in_host_memory(device: Device) -> None:
    class Foreign:
        held = counting(3, 4).T
        __dlpack_device__ = held.__dlpack_device__
        __dlpack__ = held.__dlpack__

    assert np.array_equal(api.from_host(Foreign()).sync().to_host(), counting(3, 4).T)


class OnAGpu:
    device = type("Place", (), {"id": 0})()

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2,),
            "typestr": "<f4",
            "data": (4096, False),
            "strides": None,
            "version": 3,
        }


@pytest.mark.parametrize(
    ("source", "message", "fix"),
    [
        ([1, 2], "a list has no dtype to make a tensor of", "make a NumPy array of it first"),
        (3.0, "a float has no dtype", "make a NumPy array"),
        (None, "a NoneType has no dtype", "make a NumPy array"),
        (
            object(),
            "this is nothing that a tensor can be made of: got a object",
            "make a NumPy array",
        ),
        (
            np.ones(2, complex),
            "an array of complex128 cannot become a tensor: there is no such dtype",
            r"as in x.view\(np.float32\)",
        ),
        (
            np.array(["a"]),
            "an array of <U1 cannot become a tensor",
            r"as in x.astype\(np.float32\); tensors have bool, i8",
        ),
        (np.array([None]), "an array of object cannot become a tensor", "convert it"),
        (
            np.ma.masked_array([1], [True]),
            "a masked array cannot become a tensor, which has no masks",
            "pass its `data`",
        ),
        (
            DeviceBuffer((3,), "f32", "cpu"),
            "a DeviceBuffer is on a device already: from_host takes host memory",
            r"dup\(\)",
        ),
        (
            OnAGpu(),
            "the OnAGpu is on a GPU: from_host takes host memory",
            r"Tensor.from_foreign\(x\) takes it as it is",
        ),
    ],
)
def test_what_no_tensor_can_be_made_of(gpu: Device, source: Any, message: str, fix: str) -> None:
    with pytest.raises(TensorError, match=f"^{message}") as caught:
        api.from_host(source)
    assert re.search(fix, caught.value.fix)


@pytest.mark.parametrize("size", [100, CHUNK])
def test_an_array_is_read_while_the_op_is_enqueued(cpu: Device, pace: Gate, size: int) -> None:
    source = counting(size)
    op = api.from_host(source)
    source[0] = 7
    if size < CHUNK:  # more than is on its way at a time is waited for
        pace.open.clear()
    future = op.future()
    source[:] = -1
    pace.open.set()
    assert future.result(PATIENCE).to_host()[:3].tolist() == [7, 1, 2]


# --- to the host
# ---------------------------------------------------------------------------------------------------------------------


def test_to_host_waits_for_the_writer(cpu: Device, pace: Gate) -> None:
    t = api.from_host(counting(4)).sync()
    with Stream(cpu) as stream:
        pace.open.clear()
        api.memcpy(t, counting(4) + 10).enqueue_on(stream)
        threading.Timer(0.05, pace.open.set).start()
        assert t.to_host().tolist() == [10, 11, 12, 13]


def test_into_a_given_array(device: Device) -> None:
    t = api.from_host(counting(3, 4)).sync()
    out, wide = np.zeros((3, 4), np.float32), np.zeros((3, 8), np.float32)
    assert api.to_host(t, out=out).sync() is out
    assert t.to_host(out=wide[:, ::2]).base is wide
    pinned = api.pinned((3, 4), "f32")
    assert api.to_host(t, out=pinned).sync() is pinned
    for found in (out, wide[:, ::2], pinned):
        assert np.array_equal(found, counting(3, 4))
    for bad, message in (
        (
            np.zeros((4, 3), np.float32),
            r"out is an array of float32 and shape \(4, 3\), and the tensor of float32 and shape \(3, 4\)",
        ),
        (np.zeros((3, 4)), "out is an array of float64"),
        ([0], "out is a list, and contents go to a NumPy array"),
        (np.broadcast_to(np.float32(0), (3, 4)), "out cannot be written"),
    ):
        for use in (lambda bad=bad: api.to_host(t, out=bad), lambda bad=bad: t.to_host(out=bad)):
            with pytest.raises(TensorError, match=f"^{message}"):
                use()
    with pytest.raises(TensorError, match=r"^out is not C-contiguous"):
        api.to_host(t, out=wide[:, ::2])
    with t.borrow_mut():  # nothing that was refused has kept its claim
        pass


@pytest.mark.parametrize(
    "index",
    [np.s_[1:3], np.s_[:, 2:4], np.s_[::2, :, 1], np.s_[..., ::3], np.s_[0, 0, 0], np.s_[1:1]],
)
def test_views_of_any_strides(device: Device, index: Any) -> None:
    source = counting(4, 6, 50, 60, dtype="i2")
    t = api.from_host(source).sync()
    with t[index] as view:
        copies = [
            view.to_host(),
            api.to_host(view).sync(),
            api.dup(view).sync().to_host(),
            view.dup().to_host().sync(),
        ]
    assert all(np.array_equal(found, source[index]) for found in copies)
    d = api.dup(t[index]).sync()  # the view is gone; the op keeps what it needs
    assert d.is_contiguous
    assert np.array_equal(d.to_host(), source[index])
    with t.borrow_mut():
        pass


# --- ownership
# -----------------------------------------------------------------------------------------------------------------------


def test_a_tensor_is_claimed_until_the_op_has_run(device: Device) -> None:
    t, u = api.from_host(counting(4)).sync(), api.from_host(counting(4)).sync()
    for build in (
        lambda: api.to_host(t),
        lambda: api.dup(t),
        lambda: api.memcpy(u, t),
        lambda: api.convert(t, "f32"),
    ):
        op = build()
        with pytest.raises(
            BorrowError,
            match=r"^the tensor cannot be written by the mutable borrow .*: (to_host|dup|memcpy|convert) \(.*test_tr",
        ):
            t.borrow_mut()
        op.sync()
        t.borrow_mut().release()
    op = api.memcpy(u, t)
    with pytest.raises(
        BorrowError, match=r"^the tensor cannot be read by to_host .*: memcpy .* still writes it"
    ):
        u.to_host()
    del op
    assert u.to_host().tolist() == [0, 1, 2, 3]
    shared = t.share()
    with pytest.raises(BorrowError, match="it is there for reading only"):
        api.memcpy(shared, u)
    with pytest.raises(
        UseAfterMoveError, match=r"^dup .* cannot use the tensor: it was moved into share"
    ):
        t.dup()
    api.memcpy(u.partition(2), shared).sync()


def test_an_op_that_fails_keeps_nothing(gpu: Device) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    t, u = api.from_host(counting(40)).sync(), api.from_host(counting(40)).sync()
    errors = []
    for build, call in (
        (lambda: api.to_host(t), "copy_async"),
        (lambda: api.dup(t), "allocate"),
        (lambda: api.memcpy(t, u), "copy_box"),
        (lambda: api.memcpy(t, counting(40)), "copy_async"),
    ):
        op = build()
        driver.fail = {call: "CUDA_ERROR_INVALID_VALUE"}
        with pytest.raises(Exception, match="CUDA_ERROR_INVALID_VALUE") as caught:
            op.sync()
        driver.fail = {}
        errors.append(caught.value)  # with all the frames that it went through
        t.borrow_mut().release()
        u.borrow_mut().release()


# --- memcpy
# --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (
            lambda t: api.memcpy(t, np.zeros((3, 5), "f4")),
            TensorError,
            r"memcpy: the source is f32 of shape \(3, 5\), and the target f32 of",
        ),
        (
            lambda t: api.memcpy(t, np.zeros((3, 4), "i4")),
            TensorError,
            r"memcpy: the source is i32 of shape \(3, 4\), and the target f32",
        ),
        (
            lambda t: api.memcpy(t, t),
            AliasError,
            r"memcpy: the source <Tensor .*> shares memory with the target",
        ),
        (
            lambda t: api.memcpy(t, t[:]),
            AliasError,
            r"memcpy: the source <TensorView .*> shares memory with the target",
        ),
        (lambda t: api.memcpy(t, [1]), TensorError, "a list has no dtype"),
        (
            lambda t: api.memcpy(cast("Any", np.zeros(3)), t),
            TensorError,
            "memcpy takes a tensor, and got a ndarray",
        ),
        (
            lambda t: api.to_host(cast("Any", np.zeros(3))),
            TensorError,
            "to_host takes a tensor, and got a ndarray",
        ),
        (lambda t: api.dup(as_op(3)).sync(), TensorError, "dup takes a tensor, and got a int"),
        (
            lambda t: api.memcpy(t, as_op(3)).sync(),
            TensorError,
            "memcpy takes a tensor, and got a int",
        ),
    ],
)
def test_what_cannot_be_copied(
    cpu: Device, use: Callable[[Tensor], Any], kind: type[Exception], message: str
) -> None:
    t = api.from_host(counting(3, 4)).sync()
    with pytest.raises(kind, match=f"^{message}"):
        use(t)
    t.borrow_mut().release()


def test_as_many_elements_in_another_shape(cpu: Device) -> None:
    """As a token goes to a row of a batch: in the order of the elements, where neither side has
    gaps.
    """
    t = api.from_host(counting(2, 6)).sync()
    api.memcpy(t, api.from_host(counting(12) + 1).sync()).sync()
    assert np.array_equal(t.to_host(), counting(2, 6) + 1)
    api.memcpy(t, np.asfortranarray(counting(3, 4) + 2)).sync()
    assert np.array_equal(t.to_host(), counting(2, 6) + 2)
    with t.borrow_mut() as m:
        api.memcpy(m[1], api.from_host(counting(3, 2)).sync()).sync()
    assert np.array_equal(t.to_host()[1], counting(6))
    wide = api.from_host(counting(3, 8)).sync()
    with (
        wide[:, ::2] as gaps,
        pytest.raises(
            TensorError,
            match=r"^memcpy: the source is f32 of shape \(3, 4\), and .* of shape \(2, 6\)",
        ) as e,
    ):
        api.memcpy(t, gaps)
    assert "neither side has gaps" in e.value.cause


def test_memory_is_not_copied_onto_itself(cpu: Device) -> None:
    source = counting(8)
    a, b = (Tensor.from_foreign(part, driver=cpu.driver) for part in (source[:6], source[2:]))
    with pytest.raises(
        AliasError,
        match=r"^memcpy: the source <Tensor f32\[6\] on cpu> shares memory with the target",
    ):
        api.memcpy(a, b)
    wide = Tensor.borrow_raw(
        source.ctypes.data, (3, 4), "f32", device="cpu", strides=(0, 1), driver=cpu.driver
    )
    with pytest.raises(
        AliasError, match=r"^memcpy: strides \(0, 1\) of the target name elements more than once"
    ):
        api.memcpy(wide, api.from_host(counting(3, 4)).sync())
    gaps = Tensor.from_foreign(counting(3, 8)[:, ::2], driver=cpu.driver)
    with pytest.raises(TensorError, match=r"^memcpy from the host takes a contiguous target"):
        api.memcpy(gaps, counting(3, 4))
    api.from_host(counting(3, 4)).then(lambda t: api.memcpy(gaps, t)).sync()
    assert np.array_equal(gaps.to_host(), counting(3, 4))


def test_many_parts_in_random_order_give_what_numpy_gives(cpu: Device) -> None:
    numbers, expected = random.Random(7), np.zeros((6, 8), np.float32)
    ranges = [slice(*pair) for pair in itertools.combinations(range(7), 2)]
    with Stream(cpu) as other:
        t = api.zeros((6, 8)).sync()
        with t.borrow_mut() as m:
            for number in range(60):
                index = (numbers.choice(ranges), numbers.choice(ranges))
                array = np.full(expected[index].shape, number, np.float32)
                op = api.memcpy(m[index], api.from_host(array))
                op.sync() if number % 2 else op.sync_on(other)
                expected[index] = array
            assert np.array_equal(m.to_host(), expected)


# --- graphs
# --------------------------------------------------------------------------------------------------------------------------


def test_a_graph_holds_copies_between_tensors_and_to_a_given_array(cpu: Device) -> None:
    t, u, out = (
        api.from_host(counting(4)).sync(),
        api.from_host(counting(4)).sync(),
        api.pinned(4, "f32"),
    )
    with Stream(cpu) as stream:
        with CudaGraph.scope(stream) as scope:
            scope.record(api.memcpy(u, t))
            scope.record(api.to_host(u, out=out))
        for step in (1, 2):
            scope.graph.update(api.memcpy(t, counting(4) + step))
            scope.graph.launch().sync_on(stream)
            assert out.tolist() == (counting(4) + step).tolist()
    for make, name in (
        (lambda: api.from_host(counting(4)), "from_host"),
        (lambda: api.from_host(counting(CHUNK)), "from_host"),
        (lambda: api.to_host(t), "to_host without out"),
        (lambda: api.memcpy(t, counting(4)), "memcpy from the host"),
    ):
        with pytest.raises(GraphCaptureError, match=f"^{name} cannot be captured into a graph"):
            make().graph()


def test_of_many_threads_none_gets_the_contents_of_another(cpu: Device) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        with use_device(cpu):
            for size in (7, 3000, CHUNK // 4 + 5, 40_000):
                source = np.full(size, number, np.int32)
                op = api.from_host(source).then(lambda t: api.dup(t)).to_host()
                if not np.array_equal(op.sync(), source):
                    wrong.append(number)

    at_once(*(functools.partial(work, number) for number in range(8)))
    assert wrong == []


# --- pinned memory of the host
# ------------------------------------------------------------


def test_pinned_memory_is_used_again(gpu: Device) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    t = api.from_host(counting(1000)).sync()
    first = api.to_host(t).sync()
    where = first.ctypes.data
    before = driver.calls.count("allocate")
    second = api.to_host(t).sync()
    assert second.ctypes.data != where
    view = first[3:5]
    del first, second
    gc.collect()
    COMPLETIONS.drain(10)
    third = [api.to_host(t).sync() for _ in range(20)]
    assert where not in [found.ctypes.data for found in third], "a part of it is alive"
    assert view.tolist() == [3, 4]
    del view, third
    gc.collect()
    COMPLETIONS.drain(10)
    again = [api.to_host(t).sync() for _ in range(22)]
    assert len({found.ctypes.data for found in again}) == 22
    assert driver.calls.count("allocate") == before, (
        "blocks are cut out of larger ones, and come back"
    )


def test_blocks_beyond_the_bound_are_as_large_as_they_must_be_and_go_at_the_next_call(
    gpu: Device,
) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    array = api.pinned((64 << 20) + 5, "u8")
    place = array.ctypes.data
    assert driver.allocation(place) == (place, 65 << 20)
    del array
    assert driver.allocation(place) is not None, "the collector calls no driver"
    api.pinned(10, "u8")
    assert driver.allocation(place) is None


def test_without_pinned_memory_any_other_will_do(gpu: Device) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    t = api.from_host(counting(CHUNK // 4)).sync()
    driver.fail = {"allocate": "CUDA_ERROR_OUT_OF_MEMORY"}
    assert np.array_equal(api.to_host(t).sync(), counting(CHUNK // 4))
    with pytest.raises(Exception, match="CUDA_ERROR_OUT_OF_MEMORY"):
        api.pinned(CHUNK // 4, "f32")
