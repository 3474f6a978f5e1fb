"""Launches that are known take short ways; on none of them is anything overlooked that has changed since."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import pytest

from tests.runtime_samples import ADD, SCALAR, TENSOR, Array, bundle_of, fake_driver, image, kernel, loaded, slot
from tests.unit.runtime import fake_torch
from tests.unit.runtime.fake_torch import TensorGuards
from tests.waiting import joined
from tilec.errors import AliasError, ArgumentError, BorrowError, DriverError, PlacementError, RequirementError, UseAfterMoveError
from tilec.model.kernel import LaunchInfo, VariantInfo
from tilec.model.signature import Param
from tilec.runtime import Module, Tensor, load, torch_guard
from tilec.testing.fake_driver import FakeDriver

# As often as it takes until the shortest way is taken.
TIMES = 4


@pytest.fixture
def known() -> tuple[Module, FakeDriver, list[Tensor]]:
    """A launch that is known, of tensors of tilec's own."""
    driver = fake_driver(ADD)
    module = load(bundle_of(ADD), driver=driver)
    tensors = new(driver, 3)
    for _ in range(TIMES):
        module.add(5, *tensors)
    driver.launches.clear()
    return module, driver, tensors


def new(driver: FakeDriver, count: int, shape: tuple[int, ...] = (1024,)) -> list[Tensor]:
    return [Tensor.uninitialized(shape, "f32", driver=driver, ordinal=0, stream=5) for _ in range(count)]


def arguments(driver: FakeDriver) -> list[tuple[Any, ...]]:
    return [launch.arguments for launch in driver.launches]


def test_a_tensor_that_moved_is_refused(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    shared = x.share()
    with pytest.raises(UseAfterMoveError, match="moved into share"):
        module.add(5, z, x, y)
    module.add(5, z, shared, y)
    assert arguments(driver) == [(z.ptr, shared.ptr, y.ptr, 1024, 1.0)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_claims_of_others_are_minded(known: tuple[Module, FakeDriver, list[Tensor]], place: int) -> None:
    module, driver, tensors = known
    with tensors[place].borrow_mut(), pytest.raises(BorrowError, match="the mutable borrow"):
        module.add(5, *tensors)
    with tensors[place].borrow():
        if place:
            module.add(5, *tensors)
        else:
            with pytest.raises(BorrowError, match="still reads it"):
                module.add(5, *tensors)
    module.add(5, *tensors)
    assert len(driver.launches) == (2 if place else 1)


def test_another_stream_waits(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    driver.steps.clear()
    module.add(6, z, x, y)
    found = [(step.call, step.stream) for step in driver.steps]
    assert found[-1] == ("launch", 6)
    assert ("wait", 6) in found
    driver.steps.clear()
    module.add(5, z, x, y)  # back again, behind what the other one wrote
    assert ("wait", 5) in [(step.call, step.stream) for step in driver.steps]


def test_numbers_come_anew(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, tensors = known
    for alpha in (2.0, 2.0, 2.0, 2, True, 0.0, -0.0, 0.0, 0.0, -0.0, 1.0):
        module.add(5, *tensors, alpha)
    assert [repr(found[4]) for found in arguments(driver)] == [
        *("2.0", "2.0", "2.0", "2.0", "1.0", "0.0", "-0.0", "0.0", "0.0", "-0.0", "1.0")
    ]
    with pytest.raises(ArgumentError, match="alpha"):
        module.add(5, *tensors, "2")


def test_numbers_that_can_change_are_read_each_time(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    import numpy as np

    module, driver, tensors = known
    alpha = np.float32(3.0)
    for _ in range(TIMES):
        module.add(5, *tensors, alpha)
    assert {found[4] for found in arguments(driver)} == {3.0}


def test_other_tensors_of_the_same_facts(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, (z, x, y) = known
    others = new(driver, 3)
    expected = []
    for tensors in ((z, x, y), others, others, (z, x, y), (z, y, x), (z, y, x), (z, y, x), (others[0], x, y)):
        module.add(5, *tensors)
        expected.append(tuple(tensor.ptr for tensor in tensors))
    assert [found[:3] for found in arguments(driver)] == expected
    with pytest.raises(AliasError):
        module.add(5, z, z, y)


def test_a_launch_that_the_driver_refuses_is_told_and_the_next_one_works(known: tuple[Module, FakeDriver, list[Tensor]]) -> None:
    module, driver, tensors = known
    for _ in range(2):
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        with pytest.raises(DriverError, match=r"^add: .*CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
            module.add(5, *tensors)
        driver.fail.clear()
        for _ in range(TIMES):
            module.add(5, *tensors)
    assert len(driver.launches) == 2 * (TIMES + 1)  # the refused ones too


def test_threads_do_not_share_argument_memory_that_changes() -> None:
    module, driver = loaded(ADD)
    wrong: list[Any] = []

    def work(stream: int) -> None:
        z, x, y = (Tensor.uninitialized((1024,), "f32", driver=driver, ordinal=0, stream=stream) for _ in range(3))
        for turn in range(200):
            alpha = float(turn // 4)
            module.add(stream, z, x, y, alpha)
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


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> type[TensorGuards]:
    """A torch that can test several tensors at once."""
    guards = type("TensorGuards", (TensorGuards,), {"made": 0})
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(guards))
    torch_guard._maker.cache_clear()
    return guards


def torch_tensors(shape: tuple[int, ...] = (1024,)) -> list[fake_torch.Tensor]:
    return [fake_torch.Tensor(shape, ptr=0x10000 * place) for place in (1, 2, 3)]


def test_torch_tensors_that_are_known_are_tested_at_once(torch: type[TensorGuards]) -> None:
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    for _ in range(TIMES):
        module.add(5, *tensors)
    before = [tensor.reads for tensor in tensors]
    module.add(5, *tensors)
    tensors[1].ptr = 0x70000
    module.add(5, *tensors, 2.0)
    assert [tensor.reads for tensor in tensors] == before
    assert arguments(driver)[-2:] == [(0x10000, 0x20000, 0x30000, 1024, 1.0), (0x10000, 0x70000, 0x30000, 1024, 2.0)]
    assert torch.made == 2  # one of them to see whether torch's can be trusted


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
@pytest.mark.usefixtures("torch")
def test_what_changes_of_a_torch_tensor_is_seen(change: dict[str, Any], error: type[Exception]) -> None:
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    for _ in range(TIMES):
        module.add(5, *tensors)
    for name, content in change.items():
        setattr(tensors[1], name, content)
    for _ in range(TIMES):
        with pytest.raises(error, match=r"^add: "):
            module.add(5, *tensors)
    assert len(driver.launches) == TIMES


@pytest.mark.usefixtures("torch")
def test_variants_follow_the_addresses_of_torch_tensors() -> None:
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    symbols = []
    for ptr in (0x20000, 0x20000, 0x20000, 0x20004, 0x20004, 0x20004, 0x20000, 0x20004):
        tensors[1].ptr = ptr
        module.add(5, *tensors)
        symbols.append(driver.launches[-1].symbol)
    assert symbols == ["add_fast"] * 3 + ["add_any"] * 3 + ["add_fast", "add_any"]


def test_shapes_in_turn_make_no_more_guards_than_there_is_use_for(torch: type[TensorGuards]) -> None:
    module, driver = loaded(ADD)
    small, large = torch_tensors(), torch_tensors((4096,))
    for _ in range(500):
        module.add(5, *small)
        module.add(5, *large)
        module.add(5, *large)
    assert torch.made <= 2 * 64 + 1
    assert {(found[3]) for found in arguments(driver)[0::3]} == {1024}
    assert {(found[3]) for found in arguments(driver)[1::3]} == {4096}


@pytest.mark.usefixtures("torch")
def test_torch_and_other_tensors_in_one_launch() -> None:
    module, driver = loaded(ADD)
    z, x, y = torch_tensors()
    (own,) = new(driver, 1)
    for _ in range(TIMES):
        module.add(5, z, x, y)
    for _ in range(TIMES):
        module.add(5, z, own, y)
        module.add(5, own, x, y)
    assert arguments(driver)[-2:] == [(z.ptr, own.ptr, y.ptr, 1024, 1.0), (own.ptr, x.ptr, y.ptr, 1024, 1.0)]


def test_numbers_that_decide_are_compared_behind_a_guard(torch: type[TensorGuards]) -> None:
    abi = (slot("ptr", "z.ptr"), slot("i32", "n"))
    params = (Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True), Param(name="n", kind=SCALAR, dtype="i32"))
    variant = VariantInfo(id="fill", abi=abi, images=(image("fill"),))
    module, driver = loaded(kernel("fill", params, (variant,), launch=LaunchInfo(grid=("n",), block=("32",))))
    (z, *_) = torch_tensors()
    for count in (7, 7, 7, 8, 7, True, 1, 7):
        module.fill(5, z, count)
    assert [launch.shape.grid[0] for launch in driver.launches] == [7, 7, 7, 8, 7, 1, 1, 7]
    assert [found[1] for found in arguments(driver)] == [7, 7, 7, 8, 7, 1, 1, 7]
    assert torch.made == 2


@pytest.mark.parametrize("blind", range(5))
def test_a_torch_whose_test_overlooks_something_is_read_by_attributes(torch: type[TensorGuards], blind: int) -> None:
    torch.sees = tuple(fact for fact in range(5) if fact != blind)
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    for _ in range(TIMES):
        module.add(5, *tensors)
    assert [tensor.reads for tensor in tensors] >= [TIMES] * 3
    tensors[1].negative = True
    with pytest.raises(ArgumentError, match="lazily negated"):
        module.add(5, *tensors)
    assert len(driver.launches) == TIMES


def test_warnings_of_torch_are_no_reason_to_do_without_its_test(torch: type[TensorGuards], monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["torch"]
    quiet = module.empty

    def warning(*args: Any, **kwargs: Any) -> Any:
        warnings.warn("a prototype", UserWarning, stacklevel=1)
        return quiet(*args, **kwargs)

    monkeypatch.setattr(module, "empty", warning)
    assert torch_guard.torch_guard(tuple(torch_tensors())) is not None  # warnings are errors here


def test_a_torch_without_such_a_test_is_read_by_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(None))
    torch_guard._maker.cache_clear()
    module, driver = loaded(ADD)
    tensors = torch_tensors()
    for _ in range(TIMES):
        module.add(5, *tensors)
    assert len(driver.launches) == TIMES
    monkeypatch.delitem(sys.modules, "torch")
    assert torch_guard.torch_guard(tuple(tensors)) is None


def test_the_first_launch_does_not_make_what_later_ones_take(monkeypatch):
    from tilec.runtime import fastpath as launching

    made = []
    real = launching.fast_path
    monkeypatch.setattr(
        launching, "fast_path", lambda contract, *args, **kwargs: made.append(contract.name) or real(contract, *args, **kwargs)
    )
    module, driver = loaded(ADD)
    values = tuple(Array(64, ptr=0x10000 * number) for number in (1, 2, 3))
    for launches, expected in ((1, []), (2, ["add"]), (3, ["add"])):
        module.add(3, *values)
        assert (len(driver.launches), made) == (launches, expected)
    assert len(module.add._plans) == 1, "the first one remembers its plan"
