"""Launches of tilec's own tensors: leases are minded from the first launch on, streams are ordered,
and looks stay fast.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cpu_samples import device
from tests.runtime_samples import ADD, bundle_of, fake_driver, steps
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module, api, load
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.errors import (
    AliasError,
    BorrowError,
)
from tilec_runtime.tensors.tensor import Tensor


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
    module.add(y, z, x, stream=5)
    assert steps(driver) == [("launch", 6), ("launch", 5)], (
        "reads wait once, and readers do not wait for each other"
    )
    module.add(z, x, y, stream=5)
    assert steps(driver) == [("record", 6), ("wait", 5), ("launch", 5)], (
        "a write waits for the read of its old contents"
    )


def test_leases_are_minded_from_the_first_launch_on(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = tensors(driver)
    for _ in range(2):  # first the slow path, then the fast one
        with z[0:8]:
            with pytest.raises(BorrowError) as caught:
                module.add(z, x, y, stream=5)
            assert caught.value.what.startswith(
                f"the tensor cannot be written by the launch of add ({__file__}:"
            )
            assert f"the slice ({__file__}:" in caught.value.what
            module.add(x, z, y, stream=5)  # reading it is fine
        with x.borrow_mut() as m:
            with pytest.raises(BorrowError, match=r"the mutable borrow .* still writes it"):
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


def test_arguments_that_share_memory_are_told_with_what_they_are_and_where_they_were_made() -> None:
    """Of tensors of one memory, leases speak first; these are of two, and arrays of others have
    none.
    """
    module, cpu = device(lambda run: None)
    array = np.zeros(2048, np.float32)
    one, two = Tensor.from_foreign(array, driver=cpu), Tensor.from_foreign(array, driver=cpu)
    part, ones = two[512:1536], np.ones(1024, np.float32)
    place, same = r"\(.*test_tensor_launches\.py:\d+\)", r"<Tensor f32\[2048\] on cpu>"
    for call, words in (
        (
            lambda: module.add(one.borrow_mut()[0:1024], part, ones),
            rf"'z' is the slice {place} and 'x' is the slice {place}, in the launch of add {place}",
        ),
        (
            lambda: module.add(array[:1024], array[8:1032], part),
            rf"'z' is a numpy ndarray and 'x' is a numpy ndarray, in the launch of add {place}",
        ),
        (
            lambda: api.memcpy(one, Tensor.from_foreign(array, driver=cpu)),
            rf"the source is {same} and the target {same}, in memcpy {place}",
        ),
    ):
        with pytest.raises(AliasError) as caught:
            call()
        assert re.fullmatch(words, caught.value.cause)
