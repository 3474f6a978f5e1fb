"""Memory that goes to other libraries and comes from them, without a copy: who keeps it, and which
stream waits for which.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime_samples import steps
from tests.waiting import PATIENCE, becomes
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import DeviceBuffer
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.lines import line_of
from tilec_runtime.errors import ArgumentError, BorrowError, TensorError, UseAfterMoveError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors import dlpack
from tilec_runtime.tensors.lease import Holder
from tilec_runtime.tensors.storage import freeing_stream
from tilec_runtime.tensors.tensor import Tensor

Make = Callable[..., Tensor]


# --- out
# ---------------------------------------------------------------------------------------------------------------------------


def test_numpy_shares_the_memory_and_keeps_it(cpu: CpuDriver, tensor: Make) -> None:
    for make in (np.asarray, np.from_dlpack):
        t = tensor(4, 8)
        part = make(t[1:3, 2:6])
        whole = make(t)
        alive = weakref.ref(t.storage)
        del t
        gc.collect()
        assert alive() is not None
        whole[1, 2] = 99
        assert part.tolist() == [[99, 11, 12, 13], [18, 19, 20, 21]]
        assert not part.flags.writeable
        assert whole.flags.writeable
        del part, whole
        assert alive() is None
    cpu.synchronize(-1, 0)
    assert cpu.pool_stats(-1, cpu.default_pool(-1)).used == 0


@given(
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.sampled_from(["i16", "f64", "bool"]),
    st.booleans(),
    st.booleans(),
)
def test_a_capsule_says_what_the_tensor_is(
    shape: tuple[int, ...], dtype: str, versioned: bool, part: bool
) -> None:
    driver = CpuDriver()
    t = Tensor.uninitialized(shape, dtype, driver=driver, ordinal=-1, stream=0)
    source: Any = t[..., ::2] if part and shape and versioned else t

    class Exporter:
        def __dlpack__(self, *, stream: Any, max_version: Any = None) -> Any:
            return source.__dlpack__(max_version=max_version if versioned else None)

    view = dlpack.view(Exporter(), stream=None)
    assert (view.shape, view.stride, view.address) == (source.shape, source.strides, source.ptr)
    assert (view.dtype, view.device, view.readonly) == (
        DTYPES[dtype].dlpack,
        (dlpack.CPU, 0),
        source.readonly,
    )


class Unversioned:
    """A consumer's view of a tensor by DLPack before version 1."""

    def __init__(self, tensor: Tensor) -> None:
        self.__dlpack_device__ = tensor.__dlpack_device__
        self.__dlpack__ = lambda **_: tensor.__dlpack__()


def test_a_consumer_of_unversioned_capsules_gives_the_memory_back(tensor: Make) -> None:
    t = tensor(4)
    array, alive = np.from_dlpack(Unversioned(t)), weakref.ref(t.storage)
    del t
    assert alive() is not None, "the consumer holds it now"
    del array
    assert alive() is None


def test_what_is_not_given_out(tensor: Make) -> None:
    t = tensor(4)
    view = t[1:]
    with pytest.raises(
        BufferError, match="for reading only, and this consumer's DLPack knows none"
    ):
        view.__dlpack__()
    assert view.__dlpack__(max_version=(1, 0)) is not None
    for options in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="without a copy and on its own device"):
            t.__dlpack__(**options)
    assert t.__dlpack__(dl_device=(1, 0), copy=False) is not None
    with pytest.raises(BufferError, match="has no streams that others know, and stream is 5"):
        t.__dlpack__(stream=5)
    view.release()
    with pytest.raises(BorrowError, match="has ended"):
        np.from_dlpack(view)
    moved = t.move(Holder(name="the op"))
    for read in (np.from_dlpack, np.asarray):
        with pytest.raises(UseAfterMoveError, match="it was moved into the op"):
            read(t)
    with (
        moved.borrow_mut(),
        pytest.raises(BorrowError, match=r"the mutable borrow .* still writes it"),
    ):
        np.asarray(moved)


def test_the_consumers_stream_waits(gpu: FakeDriver, on_gpu: Make) -> None:
    t = on_gpu(4, 8)
    assert t.__dlpack_device__() == (dlpack.CUDA, 0)
    steps(gpu)
    t.__dlpack__(stream=7)
    assert steps(gpu) == [("record", 5), ("wait", 7)]
    t.__dlpack__(stream=-1)
    assert steps(gpu) == []
    t.__dlpack__(stream=1)
    assert steps(gpu) == [("record", 7), ("wait", 0)], (
        "1 is what DLPack calls the legacy default stream"
    )
    t.__dlpack__()
    assert steps(gpu) == []
    del t
    gc.collect()  # nobody took the capsules
    assert becomes(lambda: gpu.steps, collect=False)
    assert steps(gpu) == [("free", 0)]


def test_the_array_interface_names_the_stream_to_wait_for(gpu: FakeDriver, on_gpu: Make) -> None:
    t = on_gpu(4, 8)
    interface = t.__cuda_array_interface__
    assert interface == {
        "shape": (4, 8),
        "typestr": "<f4",
        "data": (t.ptr, False),
        "version": 3,
        "strides": None,
        "stream": 5,
    }
    view = t[:, 1:3]
    interface = view.__cuda_array_interface__
    assert (interface["strides"], interface["data"], interface["shape"]) == (
        (32, 4),
        (t.ptr + 4, True),
        (4, 2),
    )
    t.storage.pass_through(6, write=False)
    steps(gpu)
    stream = view.__cuda_array_interface__["stream"]
    assert stream == freeing_stream(gpu, 0)
    assert steps(gpu) == [("wait", stream)]
    with pytest.raises(AttributeError):
        Tensor.from_foreign(np.ones(3)).__cuda_array_interface__  # noqa: B018
    assert on_gpu(2, dtype="bf16").__cuda_array_interface__["typestr"] == "|V2"


# --- in
# ----------------------------------------------------------------------------------------------------------------------------


def test_an_array_is_a_tensor_and_lives_with_it(cpu: CpuDriver) -> None:
    array = np.zeros((3, 4))
    gone: list[str] = []
    t = Tensor.from_foreign(array[:, 1:3], driver=cpu)
    assert (t.dtype, t.shape, t.strides, t.device, t.ptr) == (
        "f64",
        (3, 2),
        (4, 1),
        -1,
        array.ctypes.data + 8,
    )
    weakref.finalize(array, gone.append, "gone")
    np.asarray(t)[0, 0] = 50
    assert array[0, 1] == 50
    del array
    gc.collect()
    assert gone == []
    del t
    assert COMPLETIONS.drain(PATIENCE)
    assert gone == ["gone"]


def test_read_only_arrays_stay_so() -> None:
    array = np.ones(4, np.int8)
    array.flags.writeable = False
    t = Tensor.from_foreign(array)
    assert t.readonly
    assert not np.asarray(t).flags.writeable
    for refused in (t.borrow_mut, lambda: t.partition(2), lambda: t.partition_mut(2)):
        with pytest.raises(
            BorrowError, match=r"cannot write the tensor: it is there for reading only"
        ):
            refused()
    assert t.share().try_unwrap().reshape(2, 2).reinterpret("u8").readonly


def test_jax_is_never_asked_for_no_synchronisation(gpu: FakeDriver, on_gpu: Make) -> None:
    """It takes -1 for the handle of a stream; and its arrays of small floats have no other
    protocol.
    """

    def refuse(self: Exporter, *, stream: Any = None, max_version: Any = None) -> Any:
        if stream == -1:
            raise RuntimeError("INTERNAL: CUDA error: : CUDA_ERROR_INVALID_HANDLE")
        return Exporter.__dlpack__(self, stream=stream, max_version=max_version)

    exporter = type("ArrayImpl", (Exporter,), {"__module__": "jaxlib._jax", "__dlpack__": refuse})(
        on_gpu(4, 8, dtype="bf16")
    )
    t = Tensor.from_foreign(exporter, stream=7, driver=gpu)
    assert (t.dtype, t.readonly, exporter.streams) == ("bf16", True, [None, 7])


class CudaArray:
    """A tensor of another library with the array interface alone."""

    def __init__(self, address: int, stream: int | None = None, **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4, 8),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "strides": None,
            "stream": stream,
        } | more


def test_the_array_interface_of_others(gpu: FakeDriver) -> None:
    gpu.own(0x1000, 0)
    t = Tensor.from_foreign(CudaArray(0x1000, stream=9), driver=gpu)
    home = freeing_stream(gpu, 0)
    assert (t.device, t.dtype, t.ptr, t.nbytes) == (0, "f32", 0x1000, 128)
    assert steps(gpu) == [("record", 9), ("wait", home)]
    del t
    assert steps(gpu) == [("record", home)], "its owner is kept until that is reached"
    t = Tensor.from_foreign(CudaArray(0x1000, stream=1), stream=7, driver=gpu)
    assert steps(gpu) == [("record", 0), ("wait", 7)]
    assert t.uses.sole is line_of(t.storage.driver, 0, 7)
    del t
    assert "free" not in gpu.calls


def test_who_names_no_stream_is_taken_to_work_on_the_legacy_default_stream(
    gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba's copies and kernels run there, and its arrays name none."""
    gpu.own(0x1000, 0)
    t = Tensor.from_foreign(CudaArray(0x1000), stream=7, driver=gpu)
    assert steps(gpu) == [("record", 0), ("wait", 7)]
    assert t.uses.sole is line_of(t.storage.driver, 0, 7)
    del t
    steps(gpu)
    monkeypatch.setattr(
        gpu, "capturing", lambda _ordinal, stream: stream == 0
    )  # somebody's capture would break by an event there
    t = Tensor.from_foreign(CudaArray(0x1000), stream=7, driver=gpu)
    assert steps(gpu) == []
    assert t.uses.sole is line_of(t.storage.driver, 0, 7)


class Exporter:
    """A tensor of another library with DLPack alone, on a GPU."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=-1, max_version=max_version)


def test_an_exporter_is_asked_to_let_our_stream_wait(gpu: FakeDriver, on_gpu: Make) -> None:
    exporter = Exporter(on_gpu(4, 8))
    t = Tensor.from_foreign(exporter, stream=7, driver=gpu)
    assert exporter.streams == [-1, 7]
    assert t.shape == (4, 8)
    assert t.uses.sole is line_of(t.storage.driver, 0, 7)
    Tensor.from_foreign(exporter, driver=gpu)
    assert exporter.streams[2:] == [-1, freeing_stream(gpu, 0)]
    Tensor.from_foreign(exporter, stream=0, driver=gpu)
    assert exporter.streams[4:] == [-1, 1], "0 has no meaning in DLPack"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.arange(4)[::-1], r"a tensor with strides \(-1,\) runs backwards"),
        (np.ones(3, np.complex64), "a tensor of complex64 cannot be used: known dtypes are bool"),
        (7, "this is no tensor that can be used: got a int"),
    ],
)
def test_what_cannot_be_used(source: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        Tensor.from_foreign(source)


def test_a_tensor_ends_where_its_allocation_does(gpu: FakeDriver, on_gpu: Make) -> None:
    t = on_gpu(4, 8)
    Tensor.from_foreign(CudaArray(t.ptr), driver=gpu)
    with pytest.raises(
        TensorError,
        match=r"^a tensor of shape \(4, 8\) .* needs 128 bytes, and its allocation ends after 96",
    ):
        Tensor.from_foreign(CudaArray(t.ptr + 32), driver=gpu)
    with pytest.raises(TensorError, match=r"^the tensor has elements and no memory"):
        Tensor.from_foreign(CudaArray(0), driver=gpu)


# --- at an address
# -----------------------------------------------------------------------------------------------------------------


def test_memory_at_an_address(gpu: FakeDriver) -> None:
    owner = CudaArray(0x1000)
    t = Tensor.borrow_raw(
        0x1000, (4, 8), "f32", strides=(16, 1), owner=owner, nbytes=(3 * 16 + 8) * 4, driver=gpu
    )
    assert (t.ptr, t.strides, t.nbytes, t.storage.nbytes) == (0x1000, (16, 1), 128, 224)
    alive = weakref.ref(owner)
    del owner
    assert alive() is not None
    del t
    assert alive() is None
    for arguments, message in (
        (
            {"pointer": 0x1000, "shape": (4, 8), "strides": (16, 1), "nbytes": 223},
            "needs 224 bytes, and there are 223",
        ),
        (
            {"pointer": 0x1002, "shape": (4,)},
            "address 0x1002 is not aligned to elements of 4 bytes",
        ),
        ({"pointer": 0, "shape": (4,)}, "the address is null"),
        ({"pointer": 0x1000, "shape": (4,), "strides": (-1,)}, "runs backwards"),
        ({"pointer": 0x1000, "shape": (2**62,)}, "reaches beyond all addresses"),
    ):
        with pytest.raises(TensorError, match=message):
            Tensor.borrow_raw(dtype="f32", driver=gpu, **arguments)  # type: ignore[arg-type]
    assert Tensor.borrow_raw(0, (0, 4), "f32", driver=gpu).ptr == 0


# --- what is off
# ------------------------------------------------------------


def test_numpy_reads_buffers_of_dtypes_that_it_has_not() -> None:
    buffer = DeviceBuffer.from_host(np.array([0x3F80, 0xC000], "u2"), "cpu", dtype="bf16")
    array = np.asarray(buffer)
    assert array.dtype == ml_dtypes.bfloat16
    array[0] = 3.0
    assert buffer.to_host().tolist() == [3.0, -2.0], "it shares the buffer's memory"
    with pytest.raises(
        AttributeError, match=r"no word for bf16: np.asarray gives an array of ml_dtypes"
    ):
        buffer.__array_interface__  # noqa: B018


def test_numpy_is_told_why_it_gets_nothing() -> None:
    with pytest.raises(TensorError, match=r"(?s)cannot read the memory of a GPU.*to_host\(\)"):
        np.asarray(DeviceBuffer((4,), "f32", 0, driver=FakeDriver()))
    with pytest.raises(TensorError, match=r"(?s)elements of f4e2m1 share a byte.*to_host\(\)"):
        np.asarray(DeviceBuffer((4,), "f4e2m1", "cpu"))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"shape": (-4,)}, r"shape \(-4,\) has a negative extent"),
        ({"shape": (4, -1)}, r"shape \(4, -1\) has a negative extent"),
        ({"data": (0x10001, False)}, "address 0x10001 is not aligned to elements of 4 bytes"),
        ({"data": (-4, False)}, "address -0x4 is not aligned"),
        ({"stream": "x"}, "names the stream 'x', which is none"),
        ({"stream": -1}, "names the stream -1, which is none"),
    ],
)
def test_tensors_that_describe_themselves_wrongly(
    gpu: FakeDriver, on_gpu: Make, said: dict[str, Any], words: str
) -> None:
    t = on_gpu(64)
    with pytest.raises(TensorError, match=words) as caught:
        Tensor.from_foreign(CudaArray(t.ptr, **said), driver=gpu)
    assert caught.value.fix


def test_a_stream_that_is_none_is_refused_by_dlpack_too(on_gpu: Make) -> None:
    for stream, words in (("x", "a builtins.str is no stream"), (-5, "the stream's handle is -5")):
        with pytest.raises(ArgumentError, match=f"__dlpack__: {words}"):
            on_gpu(4).__dlpack__(stream=stream)
