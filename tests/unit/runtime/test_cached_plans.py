"""Launches whose plan is cached: nothing that changed since the plan was made is overlooked."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.runtime_samples import (
    ADD,
    SCALAR,
    TENSOR,
    bundle_of,
    fake_driver,
    image,
    kernel,
    loaded,
    slot,
)
from tests.unit.runtime import fake_torch
from tests.waiting import joined
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module, Tensor, load
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    BorrowError,
    DriverError,
    PlacementError,
    RequirementError,
    UseAfterMoveError,
)
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

# Launches before and after a change: the first misses, the others hit.
TIMES = 2


@pytest.fixture
def known() -> tuple[Module, FakeDriver, list[Tensor]]:
    """A launch that is known, of tensors of tilec's own."""
    driver = fake_driver(ADD)
    module = load(bundle_of(ADD), driver=driver)
    tensors = new(driver, 3)
    for _ in range(TIMES):
        module.add(*tensors, stream=5)
    driver.launches.clear()
    return module, driver, tensors


def new(driver: FakeDriver, count: int, shape: tuple[int, ...] = (1024,)) -> list[Tensor]:
    return [
        Tensor.uninitialized(shape, "f32", driver=driver, ordinal=0, stream=5) for _ in range(count)
    ]


def arguments(driver: FakeDriver) -> list[tuple[Any, ...]]:
    return [launch.arguments for launch in driver.launches]


def test_a_tensor_that_moved_is_refused(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    shared = x.share()
    with pytest.raises(UseAfterMoveError, match="moved into share"):
        module.add(z, x, y, stream=5)
    module.add(z, shared, y, stream=5)
    assert arguments(driver) == [(z.ptr, shared.ptr, y.ptr, 1024, 1.0)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_claims_of_others_are_minded(
    known: tuple[Module, FakeDriver, list[Tensor]], place: int
) -> None:
    module, driver, tensors = known
    with tensors[place].borrow_mut(), pytest.raises(BorrowError, match="the mutable borrow"):
        module.add(*tensors, stream=5)
    with tensors[place].borrow():
        if place:
            module.add(*tensors, stream=5)
        else:
            with pytest.raises(BorrowError, match="still reads it"):
                module.add(*tensors, stream=5)
    module.add(*tensors, stream=5)
    assert len(driver.launches) == (2 if place else 1)


def test_another_stream_waits(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    driver.steps.clear()
    module.add(z, x, y, stream=6)
    found = [(step.call, step.stream) for step in driver.steps]
    assert found[-1] == ("launch", 6)
    assert ("wait", 6) in found
    driver.steps.clear()
    module.add(z, x, y, stream=5)  # back again, behind what the other one wrote
    assert ("wait", 5) in [(step.call, step.stream) for step in driver.steps]


def test_numbers_come_anew(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, tensors = known
    for alpha in (2.0, 2.0, 2.0, 2, True, 0.0, -0.0, 0.0, 0.0, -0.0, 1.0):
        module.add(*tensors, alpha, stream=5)
    assert [repr(found[4]) for found in arguments(driver)] == [
        *("2.0", "2.0", "2.0", "2.0", "1.0", "0.0", "-0.0", "0.0", "0.0", "-0.0", "1.0")
    ]
    with pytest.raises(ArgumentError, match="alpha"):
        module.add(*tensors, "2", stream=5)


def test_numbers_that_can_change_are_read_each_time(
    known: tuple[Module, FakeDriver, list[Tensor]],
) -> None:
    import numpy as np

    module, driver, tensors = known
    alpha = np.float32(3.0)
    for _ in range(TIMES):
        module.add(*tensors, alpha, stream=5)
    assert {found[4] for found in arguments(driver)} == {3.0}


def test_other_tensors_of_the_same_facts(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    others = new(driver, 3)
    expected = []
    for tensors in (
        (z, x, y),
        others,
        others,
        (z, x, y),
        (z, y, x),
        (z, y, x),
        (z, y, x),
        (others[0], x, y),
    ):
        module.add(*tensors, stream=5)
        expected.append(tuple(tensor.ptr for tensor in tensors))
    assert [found[:3] for found in arguments(driver)] == expected
    with pytest.raises(AliasError):
        module.add(z, z, y, stream=5)


def test_a_launch_that_the_driver_refuses_is_told_and_the_next_one_works(
    known: tuple[Module, FakeDriver, list[Tensor]],
) -> None:
    module, driver, tensors = known
    for _ in range(2):
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        with pytest.raises(DriverError, match=r"^add: .*CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
            module.add(*tensors, stream=5)
        driver.fail.clear()
        for _ in range(TIMES):
            module.add(*tensors, stream=5)
    assert len(driver.launches) == 2 * (TIMES + 1)  # the refused ones too


def test_threads_do_not_share_argument_memory_that_changes() -> None:
    module, driver = loaded(ADD)
    wrong: list[Any] = []

    def work(stream: int) -> None:
        z, x, y = (
            Tensor.uninitialized((1024,), "f32", driver=driver, ordinal=0, stream=stream)
            for _ in range(3)
        )
        for turn in range(200):
            alpha = float(turn // 4)
            module.add(z, x, y, alpha, stream=stream)
            mine = [launch.arguments for launch in driver.launches[-64:] if launch.stream == stream]
            if mine and mine[-1] != (z.ptr, x.ptr, y.ptr, 1024, alpha):
                wrong.append(mine[-1])

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (0x100, 0x200, 0x300)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert wrong == []
    assert len(driver.launches) == 600


# torch


def torch_tensors(shape: tuple[int, ...] = (1024,)) -> list[fake_torch.Tensor]:
    return [fake_torch.Tensor(shape, ptr=0x10000 * place) for place in (1, 2, 3)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"shape": (512,)}, RequirementError),
        ({"step": (2,)}, Exception),
        ({"dtype": "torch.float64"}, Exception),
        ({"index": -1}, PlacementError),
        ({"negative": True}, ArgumentError),
        ({"ptr": 0}, PlacementError),
        ({"ptr": 0x10002}, Exception),
        ({"ptr": 0x10000}, AliasError),
    ],
)
def test_what_changes_of_a_torch_tensor_is_seen(
    change: dict[str, Any], error: type[Exception]
) -> None:
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    for _ in range(TIMES):
        module.add(*tensors, stream=5)
    for name, content in change.items():
        setattr(tensors[1], name, content)
    for _ in range(TIMES):
        with pytest.raises(error, match=r"^add: "):
            module.add(*tensors, stream=5)
    assert len(driver.launches) == TIMES


def test_variants_follow_the_addresses_of_torch_tensors() -> None:
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    symbols = []
    for ptr in (0x20000, 0x20000, 0x20000, 0x20004, 0x20004, 0x20004, 0x20000, 0x20004):
        tensors[1].ptr = ptr
        module.add(*tensors, stream=5)
        symbols.append(driver.launches[-1].symbol)
    assert symbols == ["add_fast"] * 3 + ["add_any"] * 3 + ["add_fast", "add_any"]


def test_torch_and_other_tensors_in_one_launch() -> None:
    module, driver = loaded(ADD)
    z, x, y = torch_tensors()
    (own,) = new(driver, 1)
    for _ in range(TIMES):
        module.add(z, x, y, stream=5)
    for _ in range(TIMES):
        module.add(z, own, y, stream=5)
        module.add(own, x, y, stream=5)
    assert arguments(driver)[-2:] == [
        (z.ptr, own.ptr, y.ptr, 1024, 1.0),
        (own.ptr, x.ptr, y.ptr, 1024, 1.0),
    ]


def test_numbers_that_decide_are_part_of_the_key() -> None:
    abi = (slot("ptr", "z.ptr"), slot("i32", "n"))
    params = (
        Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="n", kind=SCALAR, dtype="i32"),
    )
    variant = VariantInfo(id="fill", abi=abi, images=(image("fill"),))
    module, driver = loaded(
        kernel("fill", params, (variant,), launch=LaunchInfo(grid=("n",), block=("32",)))
    )
    (z, *_) = torch_tensors()
    for count in (7, 7, 7, 8, 7, True, 1, 7):
        module.fill(z, count, stream=5)
    assert [launch.shape.grid[0] for launch in driver.launches] == [7, 7, 7, 8, 7, 1, 1, 7]
    assert [found[1] for found in arguments(driver)] == [7, 7, 7, 8, 7, 1, 1, 7]


def test_the_sign_of_zero_and_the_range_of_every_number_are_seen() -> None:
    """A number that decides is a constant of its plan; one without an argument of its dtype is
    packed by another, or not at all.
    """
    params = (
        Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="a", kind=SCALAR, dtype="f32"),
        Param(name="n", kind=SCALAR, dtype="i32"),
        Param(name="unused", kind=SCALAR, dtype="i32"),
    )
    variant = VariantInfo(
        id="fill",
        abi=(slot("ptr", "z.ptr"), slot("f32", "a"), slot("i64", "n")),
        images=(image("fill"),),
    )
    launch = LaunchInfo(grid=("1",), block=("32",), requires=("a <= 8",))
    module, driver = loaded(kernel("fill", params, (variant,), launch=launch))
    (z, *_) = torch_tensors()
    for a in (0.0, -0.0, 0.0):
        module.fill(z, a, 1, 1, stream=5)
    assert [repr(found[1]) for found in arguments(driver)] == ["0.0", "-0.0", "0.0"]
    for numbers in ((2**40, 1), (1, 2**40)):
        with pytest.raises(ArgumentError, match="which i32 cannot hold"):
            module.fill(z, 0.0, *numbers, stream=5)
