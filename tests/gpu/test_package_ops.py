"""Functions of the generated package on a GPU: ops of tensors, torch arrays and partitions, and
what a refusal gives back.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tilec_runtime import Device, Partition, Tensor, use_device, zip_ops
from tilec_runtime.errors import LaunchLimitError, RequirementError

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


def of(array: Any) -> Tensor:
    return Tensor.from_foreign(array)


def back(torch: Any, tensor: Any) -> Any:
    found = torch.from_dlpack(tensor)
    torch.cuda.synchronize()
    return found


@pytest.fixture
def arrays(torch: Any) -> tuple[Any, Any, Any]:
    made = (
        torch.zeros(COUNT, device="cuda"),
        torch.randn(COUNT, device="cuda"),
        torch.randn(COUNT, device="cuda"),
    )
    torch.cuda.synchronize()
    return made


def test_every_kind_of_argument(package: Any, torch: Any, arrays: Any) -> None:
    z, x, y = arrays
    out, same, shared = package.ops.vector_add(of(z), x, of(y).share()).sync()
    assert same is x
    torch.testing.assert_close(back(torch, out), x + y)
    with out.borrow_mut() as borrowed, shared[:COUNT] as view:
        package.ops.vector_add(borrowed, view, shared).sync()
    torch.testing.assert_close(back(torch, out), 2 * y)


def test_partitions_give_the_grid(package: Any, torch: Any, arrays: Any) -> None:
    z, x, y = arrays
    tile = package.load(0)["vector_add"].explain(z, x, y).shape.grid[0]
    part, _, _ = package.ops.vector_add(of(z).partition(COUNT // tile), x, y).sync()
    assert type(part) is Partition
    torch.testing.assert_close(back(torch, part.unpartition()), x + y)
    cut = of(torch.zeros_like(z)).partition(COUNT // (2 * tile))
    for launch in (
        package.ops.vector_add(cut, x, y).sync,
        lambda: package.load(0).vector_add(cut, x, y),
    ):
        with pytest.raises(LaunchLimitError, match=rf"the partition z gives \({2 * tile}, 1, 1\)"):
            launch()
    assert cut.unpartition().shape == (COUNT,)


def test_a_refusal_loses_nothing(package: Any, torch: Any, arrays: Any) -> None:
    z, x, y = map(of, arrays)
    other, short = of(torch.zeros(COUNT, device="cuda")), of(torch.zeros(COUNT - 1, device="cuda"))
    good = package.ops.vector_add(z, x, y)
    with pytest.raises(RequirementError):
        zip_ops(good, package.ops.vector_add(other, short, of(arrays[2].clone()))).sync()
    torch.testing.assert_close(back(torch, z), arrays[1] + arrays[2])
    z, x, y = package.ops.vector_add(z, x, y).sync()
    other.share()
    short.share()


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
