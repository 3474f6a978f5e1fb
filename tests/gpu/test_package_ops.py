"""Functions of the generated package on a GPU: ops of tensors, torch arrays and partitions, and
what a refusal gives back.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tilec_runtime import Device, Tensor, use_device
from tilec_runtime.errors import RequirementError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

COUNT = 1 << 20


@pytest.fixture(autouse=True)
def device() -> Any:
    with use_device(Device(0)) as found:
        yield found


def test_memory_is_where_it_was(package: Any, device: Device) -> None:
    """Ops that are dropped, refused or run leave nothing behind."""
    driver = device.driver

    def tensors(count: int = COUNT) -> list[Tensor]:
        return [
            Tensor.uninitialized((count,), "f32", driver=driver, ordinal=0, stream=0)
            for _ in range(3)
        ]

    def once() -> None:
        package.ops.vector_add(*tensors()).sync()
        package.ops.vector_add(*tensors())
        with pytest.raises(RequirementError):
            package.ops.vector_add(*tensors()[:2], tensors(COUNT - 1)[0]).sync()

    from tilec_runtime.tensors.storage import Storage

    def alive() -> int:
        import gc

        gc.collect()
        device.sync()
        return sum(isinstance(found, Storage) for found in gc.get_objects())

    once()
    before = alive()
    for _ in range(50):
        once()
    ends = time.monotonic() + 10  # a completion thread releases it a moment after the device
    while alive() > before and time.monotonic() < ends:
        time.sleep(0.01)
    assert alive() <= before
