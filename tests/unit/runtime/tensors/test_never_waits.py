"""Metadata, shapes and ownership of tensors ask no device: held against a driver that refuses every
wait, while work is on its way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    Tensor,
)

# Every call of the driver that waits for a device, or asks it how far it is.
WAITS = (
    "synchronize",
    "synchronize_device",
    "synchronize_event",
    "event_reached",
    "event_failure",
    "copy_in",
    "copy_out",
)


class WaitedError(Exception):
    """The driver was asked to wait."""


@pytest.fixture
def busy(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Tensor]]:
    """Makes tensors with work on its way, on a device that refuses to be waited for."""

    def make() -> Tensor:
        t = Tensor.uninitialized((4, 6), "f32", driver=gpu, ordinal=0, stream=5)
        t.storage.pass_through(6, write=True)
        return t

    def refuse(*_: Any, **__: Any) -> None:
        raise WaitedError

    gpu.pending = set(range(0x1000, 0x9000))  # no event is reached
    with monkeypatch.context() as patch:
        for name in WAITS:
            patch.setattr(gpu, name, refuse)
        yield make
        gc.collect()
    gpu.pending.clear()


def properties(kind: type) -> list[str]:
    """All that a kind says of itself; the interfaces for other libraries give memory out, and are
    looked at below.
    """
    found = {
        name
        for base in kind.__mro__
        for name, held in vars(base).items()
        if isinstance(held, property)
    }
    return sorted(name for name in found if "interface__" not in name)


def kinds(make: Callable[[], Tensor]) -> list[Any]:
    mutable, viewed = make(), make()
    return [
        make(),
        mutable.borrow_mut(),
        viewed[1:3, 2:4],
        make().share(),
        make().partition(2, 3),
        make().partition(2, 3).map(3),
        make().partition_mut(2, 3),
    ]


def test_metadata(busy: Callable[[], Tensor]) -> None:
    for t in kinds(busy):
        for name in properties(type(t)):
            getattr(t, name)
        assert len(t) == t.shape[0]
        assert "f32" in repr(t)
        assert t.__dlpack_device__()[1] == 0


def test_shapes_and_ownership(busy: Callable[[], Tensor]) -> None:
    t = busy().reshape(6, 4).reinterpret("u8").reshape(6, 16)
    with t.borrow() as view, t[1:3, ::2] as part, t.view(-1) as flat:
        assert [found.shape for found in (view, part, flat, part[0], *part)] == [
            (6, 16),
            (2, 8),
            (96,),
            (8,),
            (8,),
            (8,),
        ]
    with t.borrow_mut() as mutable, mutable.partition(2, 16) as tiles:
        assert tiles.grid == (3, 1)
    shared = t.share()
    other = shared.clone().reshape(96).reinterpret("f32")
    other.drop()
    gc.collect()
    p = shared.try_partition(2, 16)
    back = p.map(2).unpartition()
    assert back.share().try_unwrap().partition_prefix(3, 16).unpartition().shape == (6, 16)
