"""What is no function, launcher, block, shape or address is refused where it is given, in words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import LazyLauncher, Tensor, api, as_op
from tilec_runtime.errors import TensorError, UsageError

NO_SHAPE: Any = True
NO_FUNCTION: Any = 3


async def later(number: int) -> int:
    return number


@pytest.mark.parametrize("verb", ["then", "map", "inspect"])
def test_what_is_no_function_is_refused_when_the_op_is_built(held: Held, verb: str) -> None:
    op = as_op(1)
    with pytest.raises(UsageError, match=rf"^{verb} takes a function, and this is a int\n  fix: "):
        getattr(op, verb)(NO_FUNCTION)
    with pytest.raises(
        UsageError,
        match=rf"^{verb} takes a function, and later is a coroutine function\n  cause: .* nobody would await\n  fix: ",
    ):
        getattr(op, verb)(later)
    assert op.sync() == 1  # it was not used up


def test_a_lazy_launcher_is_of_a_launcher(held: Held) -> None:
    with pytest.raises(UsageError, match=r"^LazyLauncher takes a launcher, got a int\n  fix: "):
        LazyLauncher(NO_FUNCTION)
    assert (
        LazyLauncher(held.module.kernels["add"])(ones(4), ones(4), ones(4)).first().sync().tolist()
        == [2.0] * 4
    )


def test_blocks_that_are_not_there_have_no_tiles(held: Held) -> None:
    part = Tensor.from_foreign(ones(8), driver=held.driver).partition(2).map(3)
    assert list(part.tiles_of(2)) == [(2,)]
    for block in (3, 99, -1):
        with pytest.raises(
            TensorError,
            match=re.escape(f"block {block} of a partition that is dealt out to 3 blocks"),
        ):
            part.tiles_of(block)


def test_a_bool_is_no_extent(held: Held) -> None:
    for shape in (NO_SHAPE, (2, NO_SHAPE)):
        with pytest.raises(TensorError, match="is no shape"):
            api.zeros(shape)


def test_the_null_address_is_named(held: Held) -> None:
    with pytest.raises(TensorError, match=r"^the address is null"):
        Tensor.borrow_raw(0, 4, "f32", device="cpu", driver=held.driver)
    assert Tensor.borrow_raw(0, 0, "f32", device="cpu", driver=held.driver).size == 0
