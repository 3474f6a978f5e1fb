"""Launches of tilec's own tensors: leases are minded from the first launch on, streams are ordered,
and looks stay fast.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device
from tests.runtime_samples import ADD, bundle_of, fake_driver
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, Stream, api, load
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    BorrowError,
    FaultError,
    UseAfterMoveError,
)
from tilec_runtime.launch.plans import Plans, Ready
from tilec_runtime.tensors.tensor import Tensor

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def made() -> tuple[Module, FakeDriver]:
    driver = fake_driver(ADD)
    return load(bundle_of(ADD), driver=driver), driver


def tensors(
    driver: FakeDriver | CpuDriver, ordinal: int = 0, stream: int = 5, count: int = 3
) -> list[Tensor]:
    return [
        Tensor.uninitialized(64, "f32", driver=driver, ordinal=ordinal, stream=stream)
        for _ in range(count)
    ]


def steps(driver: FakeDriver) -> list[tuple[str, int | None]]:
    found = [(step.call, step.stream) for step in driver.steps]
    driver.steps.clear()
    return found


def test_launches_of_one_stream_cost_no_event(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    steps(driver)
    for _ in range(3):
        module.add(z, x, y, stream=5)
    assert steps(driver) == [("launch", 5)] * 3
    assert driver.launches[-1].arguments[:3] == (z.ptr, x.ptr, y.ptr)


def test_a_launch_on_another_stream_waits_for_what_it_conflicts_with(
    made: tuple[Module, FakeDriver],
) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    module.add(z, x, y, stream=5)
    steps(driver)
    w = tensors(driver, stream=6, count=1)[0]
    module.add(w, z, x, stream=6)
    found = steps(driver)
    assert found == [
        ("allocate", 6),
        ("record", 5),
        ("wait", 6),
        ("wait", 6),
        ("launch", 6),
    ], "one event for all uses before it"
    module.add(w, z, x, stream=6)
    module.add(y, x, x, stream=5)
    assert steps(driver) == [("launch", 6), ("launch", 5)], (
        "reads wait once, and readers do not wait for each other"
    )
    module.add(z, x, y, stream=5)
    assert steps(driver) == [("record", 6), ("wait", 5), ("launch", 5)], (
        "a write waits for the read of its old contents"
    )


def test_plans_may_be_forgotten_while_a_launch_looks_for_its_own(
    made: tuple[Module, FakeDriver],
) -> None:
    class Forgetful(Plans):
        def find(self, *call: Any) -> Ready | None:
            found = super().find(*call)
            self.clear()  # as a launch of one class too many does, on another thread
            return found

    module, driver = made
    z, x, y = tensors(driver)
    module.add(z, x, y, stream=5)
    launcher = module.kernels["add"]
    launcher.plans = Forgetful()
    for _ in range(2):
        module.add(z, x, y, stream=6)
    assert [launch.stream for launch in driver.launches] == [5, 6, 6]


def test_leases_are_minded_from_the_first_launch_on(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    for _ in range(2):  # first the slow path, then the fast one
        view = z[0:8]
        with pytest.raises(BorrowError) as caught:
            module.add(z, x, y, stream=5)
        assert caught.value.what.startswith(
            f"the tensor cannot be written by the launch of add ({__file__}:"
        )
        assert f"the slice ({__file__}:" in caught.value.what
        module.add(x, z, y, stream=5)  # reading it is fine
        view.release()
        with x.borrow_mut() as m:
            with pytest.raises(
                BorrowError,
                match=r"the tensor cannot be read by the launch of add .*: the mutable borrow .* still writes it",
            ):
                module.add(z, x, y, stream=5)
            module.add(m, z, y, stream=5)
            part = m.partition(256)
            with pytest.raises(BorrowError, match=r"the partition in place .* still writes it"):
                module.add(m, z, y, stream=5)
            module.add(part, z, y, stream=5)
        for gone in (m, part):
            with pytest.raises(BorrowError, match="has ended"):
                module.add(gone, z, y, stream=5)
        module.add(z, x, y, stream=5)
    assert len(driver.launches) == 8


def test_what_gives_no_right_to_write_is_not_written(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    shared = z.share()
    module.add(x, shared, y, stream=5)
    module.add(x, shared.clone(), shared, stream=5)
    with pytest.raises(
        BorrowError,
        match=r"the launch of add \(.*\) cannot write the shared tensor: it is there for reading only",
    ):
        module.add(shared, x, y, stream=5)
    with pytest.raises(
        BorrowError,
        match=r"the launch of add \(.*\) cannot write the view: it is there for reading only",
    ):
        module.add(x.view(64), y, y, stream=5)
    with pytest.raises(
        UseAfterMoveError,
        match=r"the launch of add \(.*\) cannot use the tensor: it was moved into share \(",
    ):
        module.add(x, z, y, stream=5)
    part = x.partition(256)
    with pytest.raises(UseAfterMoveError, match=r"it was moved into the partition \("):
        module.add(x, y, y, stream=5)
    module.add(part, y, y, stream=5)
    whole = part.unpartition()
    with pytest.raises(UseAfterMoveError, match=r"it was moved into unpartition \("):
        module.add(part, y, y, stream=5)
    module.add(whole, y, y, stream=5)
    assert len(driver.launches) == 4


def test_a_refused_launch_leaves_streams_alone(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    short = Tensor.uninitialized(32, "f32", driver=driver, ordinal=0, stream=5)
    steps(driver)
    with pytest.raises(ValueError, match="requires"):
        module.add(z, x, short, stream=6)
    with pytest.raises(ArgumentError):
        module.add(z, x, stream=6)
    cpu = tensors(CpuDriver(), -1, 0, 1)[0]
    module.add(z, x, y, stream=5)
    with pytest.raises(ArgumentError, match="is on the CPU"):
        module.add(z, x, cpu, stream=6)
    assert steps(driver) == [("launch", 5)]


def test_who_reads_what_a_failed_launch_should_have_written_is_told() -> None:
    def fails(run: object) -> None:
        raise FaultError("add: no")

    module, driver = device(fails)
    z, x, y = tensors(driver, -1, 0)
    module.add(z, x, y)
    for read in (np.asarray, np.from_dlpack):
        with pytest.raises(FaultError, match=r"^add: no"):
            read(z)
        module.add(z, x, y)
    with pytest.raises(FaultError, match=r"^add: no"):
        driver.synchronize(-1, 0)
    np.asarray(x)


def test_memory_of_a_failed_launch_is_freed_and_its_error_is_told_once() -> None:
    def fails(run: object) -> None:
        raise FaultError("add: no")

    module, driver = device(fails)
    with Stream("cpu", driver=driver) as one, Stream("cpu", driver=driver) as two:
        z, x, y = tensors(driver, -1, one.handle)
        x.storage.pass_through(two.handle, write=False)
        module.add(z, x, y, stream=one)
        with pytest.raises(FaultError):
            one.sync()
        module.add(z, x, y, stream=one)
        del x
        with pytest.raises(FaultError):
            one.sync()
        for queue in list(driver._queues.values()):
            queue.wait()
        assert driver.pool_stats(-1, driver.default_pool(-1)).used == 2 * z.nbytes


def test_values_are_right_across_streams_that_are_held_up() -> None:
    """Streams as threads, of which one is slow: every conflicting launch still sees what it must."""
    slow = threading.Event()
    slow.set()
    module, driver = device()
    driver._pace = lambda: slow.wait(0.02) and None
    with Stream("cpu", driver=driver) as one, Stream("cpu", driver=driver) as two:
        z, x, y = tensors(driver, -1, one.handle)
        for tensor, value in ((x, 1.0), (y, 2.0)):
            np.from_dlpack(tensor)[...] = value
        slow.clear()
        expected = 0.0
        x_value, y_value = 1.0, 2.0
        for number in range(12):
            stream = (one, two)[number % 2]
            module.add(z, x, y, stream=stream)  # z = x + y
            expected = x_value + y_value
            other = (two, one)[number % 3 == 0]
            module.add(x, y, z, stream=other)  # x = y + z: reads z, writes what was read
            x_value = y_value + expected
        assert np.asarray(z)[0] == expected
        assert np.asarray(x).tolist() == [x_value] * 64


def test_arguments_that_share_memory_are_told_with_what_they_are_and_where_they_were_made() -> None:
    """Of tensors of one memory, leases speak first; these are of two, and arrays of others have
    none.
    """
    module, cpu = device(lambda run: None)
    array = np.zeros(2048, np.float32)
    one, two = Tensor.from_foreign(array, driver=cpu), Tensor.from_foreign(array, driver=cpu)
    with one.borrow_mut() as z, two[512:1536] as x, pytest.raises(AliasError) as caught:
        module.add(z[0:1024], x, np.ones(1024, np.float32))
    words = r"'z' is the slice \(.*test_tensor_launches\.py:\d+\) and 'x' is the slice \(.*:\d+\), in the launch of add \(.*:\d+\)"
    assert re.fullmatch(words, caught.value.cause)
    with pytest.raises(AliasError) as caught:
        module.add(array[:1024], array[8:1032], two[1024:])
    assert re.fullmatch(
        r"'z' is a numpy ndarray and 'x' is a numpy ndarray, in the launch of add \(.*:\d+\)",
        caught.value.cause,
    )
    with Stream(Device("cpu", driver=cpu)) as stream, pytest.raises(AliasError) as caught:
        module.ops.add(
            Tensor.from_foreign(array[:1024], driver=cpu), array[8:1032], two[1024:]
        ).sync_on(stream)
    assert "'x' is a numpy ndarray" in caught.value.cause
    assert caught.value.op.startswith("launch of add, created at ")
    with pytest.raises(AliasError) as caught:
        api.memcpy(one, two)
    same = r"<Tensor f32\[2048\] on cpu>"
    assert re.fullmatch(
        rf"the source is {same} and the target {same}, in memcpy \(.*test_tensor_launches\.py:\d+\)",
        caught.value.cause,
    )
