"""Whole host programs against a package that was built, as its users write them: one kernel, and
everything around it.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli
from tests.waiting import joined
from tilec_runtime import (
    CudaGraph,
    Device,
    Partition,
    SharedTensor,
    Stream,
    Tensor,
    TensorView,
    api,
    use_device,
    value,
    zip_ops,
)
from tilec_runtime.errors import BorrowError, UseAfterMoveError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

KERNEL = """
import tilec.lang as tl

T = tl.dtype("T")
BM, BN = tl.size("BM"), tl.size("BN")


@tl.kernel
def add(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]) -> None:
    z.store(tl.load_tile_like(x, z) + tl.load_tile_like(y, z))
"""
MANIFEST = """edition = 1

[package]
name = "acme_kernels"
version = "1.0.0"

[targets]
default = ["tileir"]

[kernel.add]
source = "add.py"
matrix = { T = ["f32", "f16"], BM = [4, 8], BN = [4] }
dispatch = { default = { BM = 4 } }
"""
SIDE = 32


@pytest.fixture(scope="module")
def acme(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("acme")
    (root / "add.py").write_text(KERNEL)
    (root / "tilec.toml").write_text(MANIFEST)
    done = cli(root, "build")
    assert done.code == 0, done.err
    sys.path.insert(0, str(root / "dist"))
    try:
        yield importlib.import_module("acme_kernels")
    finally:
        sys.path.remove(str(root / "dist"))
        del sys.modules["acme_kernels"]


@pytest.fixture(autouse=True)
def stream() -> Iterator[Stream]:
    with use_device("cpu"), Device("cpu").new_stream() as stream:
        yield stream


def square(number: float) -> Any:
    return api.full((SIDE, SIDE), number)


def everywhere(tensor: Any, number: float) -> bool:
    return tensor.shape == (SIDE, SIDE) and bool((tensor.to_host() == number).all())


def test_the_first_program(acme: Any, stream: Stream) -> None:
    x, y = api.ones((SIDE, SIDE)).sync_on(stream), api.ones((SIDE, SIDE)).sync_on(stream)
    z = api.zeros((SIDE, SIDE)).sync_on(stream)
    with z.borrow_mut() as target:
        acme.add(target.partition(4, 4), x.borrow(), y.borrow()).sync_on(stream)
    acme.add(x.partition_mut(8, 4), y.borrow(), z.borrow()).variant(BM=8).sync_on(stream)
    assert everywhere(z, 2)
    assert everywhere(x, 3)
    assert everywhere(y, 1)


def test_arguments_that_are_ops(acme: Any) -> None:
    z, x, y = acme.add(square(0).partition(4, 4), square(1), square(2)).sync()
    assert (type(z), type(x), type(y)) == (Partition, Tensor, Tensor)
    assert everywhere(z.unpartition(), 3)
    host = acme.add(square(0).partition(4, 4), x, y).first().unpartition().to_host().sync()
    assert (host == 3).all()


def test_you_get_back_what_you_put_in(acme: Any, stream: Stream) -> None:
    owned, shared, lent = square(1).sync(), square(2).sync().share(), square(3).sync()
    with lent.borrow() as view:
        z, x, y = acme.add(square(0), owned, shared).sync()
        total, same, seen = acme.add(x, z, view).sync()
        assert (type(z), type(y), type(total), type(seen)) == (
            Tensor,
            SharedTensor,
            Tensor,
            TensorView,
        )
        assert everywhere(total, 6)
        assert total is owned
        late = acme.add(total, same, view)
        with pytest.raises(UseAfterMoveError, match="launch of add"):
            acme.add(owned, same, y)
    with pytest.raises(BorrowError, match="has ended"):
        late.sync_on(stream)
    assert everywhere(total, 6)


def test_layers_on_one_stream_and_branches_on_several(acme: Any) -> None:
    def layer(found: Any) -> Any:
        return acme.add(square(0), found, square(1)).first()

    assert everywhere(square(0).then(layer).then(layer).then(layer).sync(), 3)
    left, right = zip_ops(square(1), square(2)).unzip(2)
    futures = [branch.then(layer).future() for branch in (left, right)]
    assert everywhere(
        acme.add(square(0), *(future.result() for future in futures)).first().sync(), 5
    )


def test_what_is_shared_runs_once(acme: Any) -> None:
    calls: list[Any] = []
    once = square(1).inspect(calls.append).shared()
    found: list[Any] = []
    made = Device("cpu").new_stream()
    threads = [
        threading.Thread(
            target=lambda: found.append(acme.add(square(0), once, once).first().sync_on(made))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert len(calls) == 1
    assert [everywhere(tensor, 2) for tensor in found] == [True] * 4
    one = api.ones(4).shared().sync()
    assert value(one).unwrap_arc().partition(2).sync().grid == (2,)


def test_requests_of_a_service(acme: Any) -> None:
    async def main() -> list[Any]:
        weights = (await square(1)).share()

        async def answer(number: int) -> float:
            host = np.full((SIDE, SIDE), number, np.float32)
            made = (
                await acme.add(
                    api.zeros((SIDE, SIDE)).partition(4, 4), api.from_host(host), weights
                )
                .first()
                .unpartition()
                .to_host()
            )
            return float(made[0, -1])

        return list(await asyncio.gather(*(answer(number) for number in range(50))))

    assert asyncio.run(main()) == [number + 1.0 for number in range(50)]


def test_a_graph_of_the_forward_pass(acme: Any, stream: Stream) -> None:
    x, hidden, out, weights = (
        square(0).sync(),
        square(0).sync(),
        square(0).sync(),
        square(1).sync().share(),
    )
    forward = (
        acme.add(hidden, x.borrow(), weights)
        .first()
        .then(lambda h: acme.add(out.partition(4, 4), h, weights).first().unpartition())
    )
    with forward.graph_on(stream) as graph:
        output = graph.take_output()
        for token in range(3):
            graph.update(api.memcpy(x, square(token).sync()))
            graph.launch().sync_on(stream)
            assert everywhere(output, token + 2)


def test_a_graph_step_by_step(acme: Any, stream: Stream) -> None:
    output, weights = square(0).sync(), square(2).sync()
    with CudaGraph.scope(stream) as scope:
        scope.record(acme.add(output.partition_mut(4, 4), weights.borrow(), weights.borrow()))
        scope.record(api.memcpy(weights, output))
    for _ in range(3):
        scope.graph.launch().sync_on(stream)
    assert everywhere(output, 16)
