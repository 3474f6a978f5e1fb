"""Parts of mutable borrows: what writes while others may not, what may be there at once, and when
each ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilec_runtime.errors import BorrowError, TensorError
from tilec_runtime.tensors.tensor import Tensor

Make = Callable[..., Tensor]
HERE = __file__


def test_all_ways_to_a_part_write(tensor: Make) -> None:
    t = tensor(2, 4)
    with t.borrow_mut() as m:
        for number, make in enumerate(
            (lambda: m[0], lambda: m.slice((0, 1)), lambda: m.view(-1), lambda: m[...])
        ):
            np.from_dlpack(make())[...] = number
            assert np.asarray(m)[0].tolist() == [number] * 4
        for row in m:
            np.from_dlpack(row)[...] = 9
    assert np.asarray(t).tolist() == [[9] * 4] * 2


def test_while_a_part_is_there_its_borrow_cannot_be_used(tensor: Make) -> None:
    with tensor(8).borrow_mut() as m:
        part = m[0:4]
        for use, who in (
            (lambda: m.partition(2), "written by the partition in place"),
            (lambda: m.view(2, 4), "written by the view"),
            (m.borrow, "read by the borrow"),
            (lambda: np.asarray(m), "read by __array_interface__"),
        ):
            with pytest.raises(BorrowError) as caught:
                use()
            assert f"cannot be {who}" in caught.value.what
            assert f": the slice ({HERE}:" in caught.value.what
            assert caught.value.fix.startswith("release or drop that part first")
        part.release()
        part.release()
        assert m.view(2, 4).shape == (2, 4)


def test_parts_that_share_no_memory_are_there_at_once(tensor: Make) -> None:
    with tensor(4, 8).borrow_mut() as m:
        left, right = m[:, :4], m[:, 4:]
        np.from_dlpack(left)[...] = 1
        np.from_dlpack(right)[...] = 2
        for index in ((slice(None), slice(3, 5)), 0, (..., 7)):
            with pytest.raises(
                BorrowError,
                match=r"cannot be written by the slice .*: the slice .* still writes it",
            ):
                m[index]
        assert m[0:0].size == 0  # which is on no memory
        left.release()
        assert m[:, 0:4].shape == (4, 4)
        assert np.asarray(right).tolist() == [[2] * 4] * 4


def test_parts_have_parts(tensor: Make) -> None:
    with tensor(16).borrow_mut() as m, m[4:12] as part:
        inner = part[2:4]
        with pytest.raises(BorrowError, match=r"the slice .* still writes it"):
            np.asarray(part)
        np.from_dlpack(inner)[...] = 0
        with part[4:8].partition(2) as tiles:
            assert tiles.grid == (2,)
            with pytest.raises(BorrowError, match=r"the slice .* still writes it"):
                part[6:]
        part.release()
        for ended in (lambda: np.asarray(inner), lambda: inner.partition(1), lambda: part[0:1]):
            with pytest.raises(BorrowError, match=r"the slice .* has ended"):
                ended()
        assert np.asarray(m)[6:8].tolist() == [0, 0]


def test_a_part_cannot_outlive_its_borrow(tensor: Make) -> None:
    t = tensor(8)
    with t.borrow_mut() as m:
        part = m[0:4]
        inner = part[0:2]
    for late in (lambda: np.asarray(part), lambda: inner[0:1], lambda: m[0:4]):
        with pytest.raises(BorrowError, match=r"the mutable borrow .* has ended"):
            late()
    t.share()  # although parts are there


def test_an_index_that_does_not_fit_claims_nothing(tensor: Make) -> None:
    with tensor(8).borrow_mut() as m:
        for wrong in (
            lambda: m[0:9],
            lambda: m[0, 0],
            lambda: m.view(3),
            lambda: m[0:4].partition(2, 2),
        ):
            with pytest.raises(TensorError):
                wrong()
        assert not m.lease.taken
        with m[0:8:2] as even:
            assert (even.shape, even.strides) == ((4,), (2,))
