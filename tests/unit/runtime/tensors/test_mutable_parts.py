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
