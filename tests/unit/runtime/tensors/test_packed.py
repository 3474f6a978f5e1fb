"""Elements of four bits, two in a byte: shapes in elements, memory in bytes, and what would cut a
byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cpu_samples import PacedCpu
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, DeviceBuffer, Tensor, api, use_device
from tilec_runtime.device.layout import TensorFacts, byte_range, may_overlap
from tilec_runtime.errors import TensorError

F4 = ml_dtypes.float4_e2m1fn
EVERY = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    found = (
        Device("cpu", driver=PacedCpu())
        if request.param == "cpu"
        else Device(0, driver=FakeDriver())
    )
    with use_device(found):
        yield found


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    return (
        np.array([(EVERY[n % 8] * (-1 if n % 3 else 1)) for n in range(count)])
        .reshape(shape)
        .astype(F4)
    )


def same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> bool:
    return bool(
        found.dtype == wanted.dtype
        and found.view("u1").tolist() == np.ascontiguousarray(wanted).view("u1").tolist()
    )


def test_pairs_share_bytes_the_first_in_the_low_half(device: Device) -> None:
    source = numbers(3, 8)
    t = api.from_host(source).sync()
    assert (t.dtype, t.shape, t.strides, t.size, t.itemsize, t.nbytes, t.storage.nbytes) == (
        "f4e2m1",
        (3, 8),
        (8, 1),
        24,
        1,
        12,
        12,
    )
    assert same(t.to_host(), source)
    codes = source.view("u1")
    assert (
        t.reinterpret("u8", 3, 4).to_host().tolist()
        == (codes[:, ::2] | codes[:, 1::2] << 4).tolist()
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t[:, 1:],
        lambda t: t[:, :3],
        lambda t: t[:, ::2],
        lambda t: t[:, 2],
        lambda t: t[0, 0],
        lambda t: t.view(8, 3),
        lambda t: t.reshape(8, 3),
        lambda t: t.share().reshape(8, 3),
        lambda t: t.partition(1, 3),
        lambda t: t.partition_mut(1, 3),
    ],
)
def test_what_would_cut_a_byte_is_refused(device: Device, use: Callable[[Tensor], Any]) -> None:
    t = api.from_host(numbers(3, 8)).sync()
    with pytest.raises(
        TensorError,
        match=r"^a tensor of f4e2m1 (and shape .* does not fill its bytes: 2 elements share one|with strides)",
    ):
        use(t)


def test_an_odd_last_dimension_is_refused(device: Device) -> None:
    for make in (
        lambda: api.from_host(numbers(2, 3)).sync(),
        lambda: api.from_host(np.array(1, F4)).sync(),
        lambda: Tensor.uninitialized(
            (2, 3), "f4e2m1", driver=device.driver, ordinal=device.ordinal, stream=0
        ),
        lambda: DeviceBuffer((2, 3), "f4e2m1", device),
        lambda: Tensor.borrow_raw(0x1000, (2, 3), F4, device=device, driver=device.driver),
        lambda: Tensor.borrow_raw(
            0x1000, (2, 4), F4, strides=(5, 1), device=device, driver=device.driver
        ),
    ):
        with pytest.raises(TensorError, match=r"^a tensor of f4e2m1 ") as caught:
            make()
        assert "2" in caught.value.fix


def test_bytes_become_elements_and_back(device: Device) -> None:
    t = (
        api.from_host(np.array([[0x21, 0x43], [0x65, 0xF7]], np.uint8))
        .sync()
        .reinterpret("f4e2m1", 2, 4)
    )
    assert t.to_host().astype(np.float32).tolist() == [[0.5, 1, 1.5, 2], [3, 4, 6, -6]]
    assert t.reinterpret("i16").to_host().tolist() == [0x4321, 0xF765 - 0x10000]
    partition = api.from_host(numbers(4, 8)).sync().partition(2, 4)
    assert partition.grid == (2, 2)
    raw = Tensor.borrow_raw(
        0x1000, (4, 8), "f4e2m1", nbytes=16, device=device, driver=device.driver
    )
    assert (raw.nbytes, raw.storage.nbytes) == (16, 16)
    with pytest.raises(TensorError, match="needs 16 bytes, and there are 15"):
        Tensor.borrow_raw(0x1000, (4, 8), "f4e2m1", nbytes=15, device=device, driver=device.driver)


def test_numpy_and_pinned_memory_take_the_bytes(device: Device) -> None:
    t = api.from_host(numbers(3, 8)).sync()
    words = r"^elements of f4e2m1 share bytes"
    with pytest.raises(TensorError, match=words) as caught:
        api.to_host(t, out=numbers(3, 8))
    assert 't.reinterpret("u8")' in caught.value.fix
    with pytest.raises(TensorError, match=words):
        api.pinned((2, 2), F4)
    with pytest.raises(TensorError, match=r"share a byte|NumPy cannot read the memory of a GPU"):
        np.asarray(t)


def test_buffers_are_packed_too(device: Device) -> None:
    source = numbers(3, 8)
    buffer = DeviceBuffer.from_host(source, device, driver=device.driver)
    assert (buffer.dtype, buffer.shape, buffer.nbytes) == ("f4e2m1", (3, 8), 12)
    assert same(buffer.to_host(0), source)


def test_layouts_count_bytes() -> None:
    def facts(ptr: int, *shape: int, stride: tuple[int, ...] | None = None) -> TensorFacts:
        return TensorFacts(
            ptr=ptr, shape=shape, stride=stride or (shape[-1], 1), dtype="f4e2m1", device=0
        )

    assert byte_range(facts(0x1000, 3, 8)) == (0, 12)
    assert byte_range(facts(0x1000, 3, 4, stride=(16, 1))) == (0, 18)
    assert not may_overlap(facts(0x1000, 3, 8), facts(0x100C, 3, 8))
    assert may_overlap(facts(0x1000, 3, 8), facts(0x100B, 3, 8))
    left, right = facts(0x1000, 3, 4, stride=(8, 1)), facts(0x1002, 3, 4, stride=(8, 1))
    assert not may_overlap(left, right), "side by side columns"
