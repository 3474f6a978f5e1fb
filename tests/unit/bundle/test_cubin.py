"""The cubin reader over cubins that a test puts together byte by byte, and over damaged ones."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.cubin_samples import Attribute, build_cubin
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import BundleError


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(BundleError, match="the cubin has no kernel 'x'; it has: k"):
        read_cubin(build_cubin()).kernel("x")


def out_of_bounds() -> bytes:
    """A cubin whose first real section is larger than any file."""
    data = bytearray(build_cubin())
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<Q", data, table + 64 + 32, 1 << 40)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no cubin"),
        (b"\x7fELF", "no cubin"),
        (b"PK\x03\x04" + bytes(100), "no cubin"),
        (b"\x7fELF\x02\x01" + bytes(100), "made for machine 0"),
        (
            b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0" + bytes(100),
            "a program or library for x86-64 hosts, no cubin",
        ),
        (
            build_cubin(extra=(Attribute(0x17, struct.pack("<IHHI", 0, 7, 64, 4 << 18)),)),
            "not numbered in order",
        ),
        (build_cubin(extra=(Attribute(0x17, b"\0" * 4, stated=400),)), "cut short"),
        (out_of_bounds(), "out of bounds"),
    ],
)
def test_refuses_what_is_no_sound_cubin(data: bytes, says: str) -> None:
    with pytest.raises(BundleError, match=says):
        read_cubin(data)


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
