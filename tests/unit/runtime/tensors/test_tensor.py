"""Tensors: metadata, moves, borrows, views and shared owners; who is in whose way is named with
where it was made.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable

import numpy as np
import pytest

from tests.waiting import at_once
from tilec_runtime.errors import (
    OwnershipError,
    TensorError,
    UseAfterMoveError,
)
from tilec_runtime.tensors.lease import Holder, Lease
from tilec_runtime.tensors.tensor import Tensor

Make = Callable[..., Tensor]
OP = Holder(name="the op")


# --- metadata
# ----------------------------------------------------------------------------------------------------------------------


def test_tensors_of_no_dimensions_and_of_no_elements(tensor: Make) -> None:
    scalar, empty = tensor(), tensor(0, 4)
    assert (scalar.shape, scalar.size, np.asarray(scalar).shape) == ((), 1, ())
    assert (empty.nbytes, empty.ptr, np.asarray(empty).shape) == (0, 0, (0, 4))
    with pytest.raises(TypeError, match="no length"):
        len(scalar)


# --- moves
# -------------------------------------------------------------------------------------------------------------------------


def test_of_threads_that_move_a_tensor_one_gets_it(tensor: Make) -> None:
    for _ in range(50):
        t, won = tensor(4), []

        def take(t: Tensor = t, won: list[Tensor] = won) -> None:
            with contextlib.suppress(UseAfterMoveError):
                won.append(t.share())

        at_once(*[take] * 4)
        assert len(won) == 1


def test_a_moved_tensor_says_where_it_went(tensor: Make) -> None:
    t = tensor(4, 8)
    moved = t.reshape(8, 4)
    assert (moved.shape, moved.storage) == ((8, 4), t.storage)
    with pytest.raises(UseAfterMoveError) as caught:
        t.share()
    assert caught.value.what.startswith("share (")
    assert f"cannot use the tensor: it was moved into reshape ({__file__}:" in caught.value.what
    assert caught.value.fix
    assert f"<Tensor f32[4, 8] on cpu, moved into reshape ({__file__}:" in repr(t)
    for use in (
        t.borrow,
        t.borrow_mut,
        lambda: t[0],
        lambda: t.view(32),
        lambda: t.partition(2, 2),
        lambda: t.move(OP),
        lambda: t.ptr,
    ):
        with pytest.raises(UseAfterMoveError):
            use()
    assert t.shape == (4, 8), "metadata stays"


def test_what_does_not_fit_moves_nothing(tensor: Make) -> None:
    t = tensor(4, 8)
    for refused in (
        lambda: t.reshape(5),
        lambda: t.reinterpret("f64", 5),
        lambda: t.partition(2),
        lambda: t.partition_mut(2, 0),
    ):
        with pytest.raises(TensorError):
            refused()
    assert t.move(OP).shape == (4, 8)


def test_reinterpret_is_the_same_bytes(tensor: Make) -> None:
    t = tensor(4, data=[0.0, 1.0, 2.0, -1.0]).reinterpret("i32")
    assert np.asarray(t).tolist() == [0, 0x3F800000, 0x40000000, -0x40800000]
    odd = Tensor.borrow_raw(t.ptr + 4, (2,), "f32", device="cpu", driver=t.storage.driver)
    with pytest.raises(TensorError, match=r"is not aligned to elements of 8 bytes \(f64\)"):
        odd.reinterpret("f64")


# --- views
# -------------------------------------------------------------------------------------------------------------------------


def test_views_share_the_memory(tensor: Make) -> None:
    t = tensor(4, 8)
    matrix = t.view(8, 4)
    assert np.asarray(matrix).tolist() == np.arange(32).reshape(8, 4).tolist()
    assert np.asarray(t.view(-1)).shape == (32,)
    block = t.slice((1, 3), (2, 6))
    assert np.asarray(block).tolist() == np.arange(32).reshape(4, 8)[1:3, 2:6].tolist()
    assert (
        np.asarray(t.slice(range(2), slice(4, None))).tolist()
        == np.arange(32).reshape(4, 8)[0:2, 4:].tolist()
    )
    assert np.asarray(block[1, 1:]).tolist() == [19, 20, 21]
    assert np.asarray(tensor(1024).slice((100, 200)).slice((10, 20))).tolist() == list(
        range(110, 120)
    )
    assert (
        np.asarray(t.slice([(1, 3), (2, 6)])).tolist()
        == np.asarray(t.slice([range(1, 3), slice(2, 6)])).tolist()
        == np.asarray(block).tolist()
    )
    assert t.slice([(1, 3)]).shape == t.slice((1, 3)).shape == t.slice([1, 3]).shape == (2, 8)
    for given in (3, "ab", b"\1\3", [(1, 3), 2], [1, 2, 3]):
        with pytest.raises(TensorError, match="is no range"):
            t.slice(given)
    with pytest.raises(TensorError, match="is not contiguous"):
        block.view(8)


# --- borrows
# -----------------------------------------------------------------------------------------------------------------------


def test_the_collector_may_end_claims_while_they_are_listed() -> None:
    class Cycle:
        me: object

    lease = Lease()
    kept = [
        lease.read(OP) for _ in range(25)
    ]  # too many for a tuple that the interpreter has ready
    threshold = gc.get_threshold()
    try:
        for later in range(8):  # allocations until the collector runs
            gc.collect()
            gc.disable()
            cycle = Cycle()
            cycle.me = (cycle, lease.read(OP))
            del cycle
            gc.enable()
            gc.set_threshold(gc.get_count()[0] + later)
            assert len(lease.claims) in (25, 26)
            gc.set_threshold(*threshold)
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(lease.claims) == len(kept)


# --- shared
# ------------------------------------------------------------------------------------------------------------------------


def test_a_shared_tensor_is_partitioned_by_its_single_owner(tensor: Make) -> None:
    shared = tensor(4, 8).share()
    with pytest.raises(TensorError):
        shared.try_partition(4)
    assert shared.owners == 1
    other = shared.clone()
    with pytest.raises(
        OwnershipError, match=r"^try_partition \(.*\) cannot take the tensor: it has 2 owners"
    ):
        shared.try_partition(2, 4)
    other.drop()
    assert shared.try_partition(2, 4).grid == (2, 2)
    with pytest.raises(UseAfterMoveError, match="it went into try_partition"):
        shared.try_unwrap()
    assert tensor(4).share().reinterpret("u32", 2, 2).shape == (2, 2)


# --- partitions
# --------------------------------------------------------------------------------------------------------------------


def test_a_partition_owns_and_gives_back(tensor: Make) -> None:
    t = tensor(5, 8)
    part = t.partition(2, 4)
    assert (part.grid, part.tile, part.tiles, part.shape, part.prefix) == (
        (3, 2),
        (2, 4),
        6,
        (5, 8),
        False,
    )
    assert repr(part) == "<Partition f32[5, 8] on cpu, tiles of (2, 4), grid (3, 2)>"
    back = part.unpartition()
    assert back.storage is t.storage
    with pytest.raises(UseAfterMoveError, match=r"it was moved into unpartition \("):
        part.unpartition()
    with back.partition((2, 4)) as owned:
        pass
    assert owned.unpartition().shape == (5, 8), "the end of a block gives up no tensor"


def test_a_prefix_bounds_the_grid_from_above(tensor: Make) -> None:
    part = tensor(8).partition_prefix(2)
    assert part.prefix
    assert repr(part).endswith("grid (4,) at most>")
    with pytest.raises(TensorError, match="a prefix is written cannot be mapped"):
        tensor(8).partition_prefix(2).map(2)


def test_tiles_are_dealt_out_to_blocks(tensor: Make) -> None:
    part = tensor(6, 4).partition(2, 2)
    for blocks in (0, 7):
        with pytest.raises(TensorError, match=f"^{blocks} blocks cannot share 6 tiles"):
            part.map(blocks)
    mapped = part.map(4)
    dealt = [list(mapped.tiles_of(block)) for block in range(4)]
    assert dealt == [[(0, 0), (2, 0)], [(0, 1), (2, 1)], [(1, 0)], [(1, 1)]]
    for block in (4, -1):
        with pytest.raises(
            TensorError,
            match=f"there is no block {block} of a partition that is dealt out to 4 blocks",
        ):
            mapped.tiles_of(block)
