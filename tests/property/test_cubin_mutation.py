"""A damaged cubin is an error of its own, never a crash."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.cubin_samples import build_cubin
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import BundleError

WHOLE = build_cubin()


@examples(300)
@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_cubin_is_refused(length: int) -> None:
    # The section table stands at the end: no cut leaves it whole.
    with contextlib.suppress(BundleError):
        read_cubin(WHOLE[:length])
        raise AssertionError(f"{length} bytes were taken for a whole cubin")


@examples(500)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
def test_a_changed_cubin_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    with contextlib.suppress(BundleError):
        cubin = read_cubin(bytes(data))
        assert all(k.shared >= 0 for k in cubin.kernels)
