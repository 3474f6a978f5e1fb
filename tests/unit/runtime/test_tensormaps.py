"""Arguments beside values and addresses: maps of tensors, made for each address, and scratch memory
that each launch brings along.
"""

from __future__ import annotations

import struct

import pytest

from tests.runtime_samples import SCALAR, TENSOR, Array, image, kernel, loaded, slot
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.errors import LaunchError, LayoutError
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Param
from tilec_runtime.model.tensormap import TensorMap

MAP = TensorMap(element=6, swizzle=3, box=(64, 32))
SCRATCH = AbiSlot(type="scratch:96", expr="0", size=8, align=8)
ABI = (
    slot("f32", "a"),
    AbiSlot(type=str(MAP), expr="x.ptr", size=128, align=64),
    slot("i64", "x.stride[0]"),
    slot("ptr", "y.ptr"),
)
PARAMS = (
    Param(name="y", kind=TENSOR, dtype="f32", rank=1, out=True),
    Param(name="x", kind=TENSOR, dtype="f16", rank=2, stride=(None, None), align=16),
    Param(name="a", kind=SCALAR, dtype="f32"),
)
LAUNCH = LaunchInfo(grid=("cdiv(y.size, 256)", "2"), block=("256",))


def described(*more: AbiSlot):
    variant = VariantInfo(id="f", abi=(*ABI, *more), images=(image("f"),))
    return loaded(kernel("f", PARAMS, (variant,), launch=LAUNCH))


def numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack("16Q", data)


def test_a_map_holds_the_address_of_its_launch_and_is_made_once_for_each() -> None:
    module, driver = described()
    y = Array(700, ptr=0x5000)
    for start in (0x10000, 0x20000, 0x10000, 0x10000):
        module.f(y, Array(100, 48, dtype="f16", ptr=start, stride=(64, 1)), 2.5, stream=5)
        a, data, stride, out = driver.launches[-1].arguments
        assert (a, stride, out) == (2.5, 64, 0x5000)
        assert numbers(data)[:9] == (6, 3, start, 64, 100, 128, 32, 48, 2)
    assert driver.calls.count("tensor_map") == 2
    module.f(
        y, Array(90, 48, dtype="f16", ptr=0x10000, stride=(64, 1)), 2.5, stream=5
    )  # of another shape: another plan
    assert numbers(driver.launches[-1].arguments[1])[4] == 90


@pytest.mark.parametrize(
    ("x", "what"),
    [
        (Array(0, 48, dtype="f16"), "f: argument 'x' has no elements"),
        (
            Array(10, 48, dtype="f16", stride=(1, 16)),
            "f: argument 'x' is not contiguous in its last dimension",
        ),
        (
            Array(10, 48, dtype="f16", stride=(52, 1)),
            "f: argument 'x' has strides that are not multiples of 16 bytes",
        ),
        (Array(10, 48, dtype="f16", ptr=0x10008), "f: argument 'x' "),
    ],
)
def test_what_the_copy_engine_cannot_read_is_refused(x: Array, what: str) -> None:
    module, driver = described()
    with pytest.raises(LayoutError) as caught:
        module.f(Array(700, ptr=0x5000), x, 1.0, stream=5)
    assert caught.value.what.startswith(what)
    assert driver.launches == []


def test_scratch_memory_is_allocated_for_all_blocks_and_given_back() -> None:
    module, driver = described(SCRATCH)
    taken = []

    def allocate(ordinal: int, size: int, stream: int | None, _pool: object = None) -> int:
        taken.append((size, stream, FakeDriver.allocate(driver, ordinal, size, stream)))
        return taken[-1][-1]

    driver.allocate = allocate
    for count in range(3):
        module.f(Array(700, ptr=0x5000), Array(64, 32, dtype="f16"), 1.0, stream=5)
        address = driver.launches[-1].arguments[-1]
        assert taken[count] == (96 * 3 * 2, 5, address)
        assert driver.allocation(address) is None


def test_a_captured_stream_takes_no_launch_that_needs_scratch_memory() -> None:
    module, driver = described(SCRATCH)
    stream = driver.create_stream(0)
    driver.begin_capture(0, stream)
    with pytest.raises(
        LaunchError,
        match="f: needs scratch memory, which each launch allocates, and its stream is captured",
    ):
        module.f(Array(700, ptr=0x5000), Array(64, 32, dtype="f16"), 1.0, stream=stream)
    driver.end_capture(0, stream)
