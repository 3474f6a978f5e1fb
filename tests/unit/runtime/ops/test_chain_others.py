"""Steps of a chain whose launches are known, while somebody else does something with its tensors, or watches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tests.waiting import joined
from tilec_runtime import Device, Stream, use_device
from tilec_runtime.errors import BorrowError, UseAfterMoveError
from tilec_runtime.tensors.tensor import Tensor


@pytest.mark.parametrize("way", ["thread", "partition"])
@pytest.mark.parametrize("at", range(9))
def test_tensors_that_went_elsewhere_meanwhile_are_not_taken_for_those_of_the_chain(gpu: Gpu, at: int, way: str) -> None:
    """What comes back has other owners, with all that launches tell tensors by."""
    module, driver = gpu
    kept: list[Tensor] = []
    count = iter(range(100))
    stream = Stream(0, driver=driver)  # of all: no order is lost, which would be seen as well

    def in_a_thread(found: tuple[Any, ...]) -> Any:
        got: list[Any] = []

        def run() -> None:
            with use_device(Device(0, driver=driver)):
                got.append(module.lazy.add(*found).enqueue_on(stream))

        thread = threading.Thread(target=run)
        thread.start()
        joined(thread)
        return got[0]

    def step(found: tuple[Any, ...]) -> Any:
        if next(count) == at:
            found = in_a_thread(found) if way == "thread" else (found[0].partition(512).unpartition(), *found[1:])
            kept.append(found[0])
        return module.lazy.add(*found)

    tensors = [Tensor.uninitialized((512,), "f32", driver=driver, ordinal=0, stream=stream.handle) for _ in range(3)]
    found = chained(module.lazy.add(*tensors), 12, step).sync_on(stream)
    assert len(driver.launches) == (14 if way == "thread" else 13)
    assert found[0] is not kept[0]
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        kept[0].borrow_mut()
    assert owned(*found[:3])


@pytest.mark.parametrize("at", range(9))
def test_a_claim_that_a_step_makes_is_in_the_way_of_its_launch(gpu: Gpu, at: int) -> None:
    module, driver = gpu
    kept: list[Any] = []
    count = iter(range(100))

    def claims(found: tuple[Any, ...]) -> bool:
        if next(count) == at:
            kept.append(found[1].view(512))
        return True

    before = module.lazy.add(*on(driver, 512, 512, 512)).sync()
    with pytest.raises(BorrowError, match="the view"):
        chained(module.lazy.add(*before), 12, lambda found: claims(found) and module.lazy.add(*found)).sync()
    kept.clear()
    assert owned(*before[:3])
