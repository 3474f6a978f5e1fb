"""Plans that are cached launch what a plan that is made for the call launches, or refuse it in the
same words.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.amount import part
from tests.plan_samples import FAR, Calls, Plain, compare, launcher_of, plan_count, working
from tests.runtime_samples import ADD, SCALAR, Array, image, kernel, loaded, slot
from tests.unit.runtime import fake_torch
from tilec_runtime.errors import TilecError
from tilec_runtime.launch.plans import MOST_ALIKE
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param


@pytest.mark.parametrize("seed", range(part(10, 3)))
def test_random_kernels_launch_the_same_with_and_without_plans(seed: int) -> None:
    pick = random.Random(seed)
    kernels = [working(pick, f"k{number}") for number in range(10)]
    found = [compare(Calls(info, pick), 60, *launcher_of(info, Plain)) for info in kernels]
    launched, hits = map(sum, zip(*found, strict=True))
    assert launched > 150
    assert hits > launched // 3


# New extents at each call


def torch_tensors(
    *shapes: tuple[int, ...], steps: tuple[tuple[int, ...] | None, ...] = (None, None, None)
) -> list[Any]:
    dtype = "torch.float32" if len(shapes[0]) == 1 else "torch.float16"
    return [
        fake_torch.Tensor(shape, FAR * place, step, dtype)
        for place, (shape, step) in enumerate(zip(shapes, steps, strict=True), 1)
    ]


def test_a_thousand_new_shapes_need_a_handful_of_plans() -> None:
    module, driver = loaded(ADD)
    for size in range(1, 1001):
        module.add(*torch_tensors((size,), (size,), (size,)), stream=5)
    assert [launch.shape.grid[0] for launch in driver.launches] == [
        -(-size // 256) for size in range(1, 1001)
    ]
    assert [launch.arguments[3] for launch in driver.launches] == list(range(1, 1001))
    assert [launch.symbol for launch in driver.launches] == [
        "add_any" if size % 16 else "add_fast" for size in range(1, 1001)
    ]
    assert plan_count(module.add) == 2, "one of each variant"


def test_plans_of_one_class_are_bounded_and_the_oldest_leaves() -> None:
    """The driver counts resident blocks of one size: each has a plan."""
    launch = LaunchInfo(grid=("1",), block=("n",), cooperative=True)
    params = (*ADD.params[:3], Param(name="n", kind=SCALAR, dtype="i32"))
    abi = (*ADD.variants[0].abi[:3], slot("i32", "n"))
    variant = VariantInfo(id="many", abi=abi, images=(image("many"),))
    module, driver = loaded(kernel("many", params, (variant,), launch=launch))
    for size in range(1, 100):
        module.many(*torch_tensors((64,), (64,), (64,)), size, stream=5)
    assert plan_count(module.many) == MOST_ALIKE
    assert [launch.shape.block[0] for launch in driver.launches] == list(range(1, 100))


# Keys


def test_a_plan_is_not_kept_for_an_array_that_changed_meanwhile() -> None:
    module, driver = loaded(ADD)
    changing, bind = Array(1024, ptr=FAR), driver.bind_launch

    def changed(*values: Any) -> Any:  # as another thread may do while the driver works
        changing.interface = Array(1024, ptr=FAR, dtype="f16").interface
        return bind(*values)

    driver.bind_launch = changed
    others = [Array(1024, ptr=FAR * place) for place in (2, 3)]
    module.add(changing, *others)
    driver.bind_launch = bind
    with pytest.raises(TilecError, match="takes f32, got f16"):
        module.add(Array(1024, ptr=FAR, dtype="f16"), *others)
