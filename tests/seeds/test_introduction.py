"""cuTile Rust, "Introduction": the first kernel, its arguments and launches, on the cpu device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli
from tests.seeds.conftest import Built
from tilec_runtime import DeviceOp, Stream, Tensor, api

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

KERNEL = """
import tilec.lang as tl

S0, S1 = tl.size("S0"), tl.size("S1")


@tl.kernel
def add(z: tl.Mut[tl.float32, (S0, S1)], x: tl.Ref[tl.float32, 2], y: tl.Ref[tl.float32, 2]) -> None:
    tile_x = tl.load_tile_like(x, z)
    tile_y = tl.load_tile_like(y, z)
    z.store(tile_x + tile_y)
"""
MANIFEST = """
edition = 1

[package]
name = "my_module"
version = "0.1.0"

[targets]
default = ["tileir"]

[kernel.add]
source = "kernels.py"
matrix = { S0 = [4, 8], S1 = [4] }

"""


@pytest.fixture(scope="module")
def my_module(built: Built) -> ModuleType:
    return built("my_module", kernels__py=KERNEL, tilec__toml=MANIFEST)


def ones(stream: Stream) -> Tensor:
    return api.ones((32, 32)).sync_on(stream)


def whole(tensor: Any) -> bool:
    return bool((tensor.to_host() == 2).all())


def test_a_first_kernel(my_module: ModuleType, stream: Stream) -> None:
    x, y = ones(stream), ones(stream)
    z = api.zeros((32, 32)).sync_on(stream)

    _ = my_module.ops.add(z.partition_mut(4, 4), x.borrow(), y.borrow()).sync_on(stream)
    assert whole(z)  # z was written in place, and the borrows ended with their op
    _ = my_module.ops.add(z.borrow_mut().partition(4, 4), x.borrow(), y.borrow()).sync_on(stream)
    assert whole(z.share())  # word by word: (&mut z).partition([4, 4])


def test_borrowed_arguments_keep_their_owner(my_module: ModuleType, stream: Stream) -> None:
    x, y = ones(stream), ones(stream)
    z = api.zeros((32, 32)).sync_on(stream)
    with z.partition_mut(4, 4) as parts, x.borrow() as bx, y.borrow() as by:
        my_module.ops.add(parts, bx, by).sync_on(stream)
    assert whole(z)
    assert x.to_host().sum() == 32 * 32


def test_lazy_arguments(my_module: ModuleType, stream: Stream) -> None:
    z = api.zeros((32, 32)).partition(4, 4)
    z, _x, _y = my_module.ops.add(z, api.ones((32, 32)), api.ones((32, 32))).sync()
    assert whole(z.unpartition())


def test_shared_and_owned_inputs(my_module: ModuleType, stream: Stream) -> None:
    x = ones(stream).share()
    z, x2, y = my_module.ops.add(api.zeros((32, 32)).partition(4, 4), x, ones(stream)).sync_on(
        stream
    )
    assert whole(z.unpartition())
    assert (type(x2), type(y)) == (type(x), Tensor)


def test_the_partition_says_which_tile(my_module: ModuleType, stream: Stream) -> None:
    for rows in (4, 8):
        z, *_ = my_module.ops.add(
            api.zeros((32, 32)).partition(rows, 4), api.ones((32, 32)), api.ones((32, 32))
        ).sync_on(stream)
        assert z.grid == (32 // rows, 8)
        assert whole(z.unpartition())


def test_a_chain(my_module: ModuleType, stream: Stream) -> None:
    def fill(buffer: Tensor) -> DeviceOp[Tensor]:
        return api.fill(buffer, 1.0)

    def process(buffer: Tensor) -> DeviceOp[Tensor]:
        return (
            my_module.ops.add(api.zeros((32, 32)).partition(4, 4), buffer, api.ones((32, 32)))
            .first()
            .unpartition()
        )  # type: ignore[no-any-return]

    assert whole(api.empty((32, 32)).then(fill).then(process).sync())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "z.store(x + y)",
            "k.py:9:13: error: Unsupported operand types for +: tl.Ref[float32] and tl.Ref[float32]",
        ),
        (
            "x.store(tl.load_tile_like(y, z))",
            "k.py:9:5: error: 'Ref' object has no attribute 'store'",
        ),
    ],
)
def test_what_tensors_do_not_do_is_refused_with_its_line(
    cli: Cli, tmp_path: Any, body: str, message: str
) -> None:
    text = KERNEL[: KERNEL.index("    tile_x")] + f"    {body}\n"
    (tmp_path / "k.py").write_text(text)
    (tmp_path / "tilec.toml").write_text(MANIFEST.replace("kernels.py", "k.py"))
    done = cli(tmp_path, "build", "-j", "1")
    assert done.code == 1
    assert message in done.err


def test_tiles_are_numpys_numbers(my_module: ModuleType, stream: Stream) -> None:
    rng = np.random.default_rng(0)
    x, y = (
        rng.normal(size=(30, 18)).astype(np.float32) for _ in range(2)
    )  # the last tiles hang over
    z, *_ = my_module.ops.add(
        api.zeros((30, 18)).partition(8, 4), api.from_host(x), api.from_host(y)
    ).sync_on(stream)
    np.testing.assert_array_equal(z.unpartition().to_host(), x + y)
