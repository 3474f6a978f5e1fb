"""Bundles whose bytes were changed are refused, or give the same."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.bundle_samples import Sample, members_from, plain_index, write_sample
from tilec_runtime.bundle.format import from_members, index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError


@functools.cache
def good() -> tuple[bytes, dict[str, bytes]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.tilec"
        sample, _, _ = write_sample(path)
        return path.read_bytes(), sample.images


def use(data: bytes) -> None:
    _, images = good()
    with contextlib.suppress(BundleError):
        bundle = Bundle.open(data)
        assert bundle.info == Sample().info()
        for digest, expected in images.items():
            with contextlib.suppress(BundleError):
                assert bundle.image(digest) == expected
    with contextlib.suppress(BundleError):
        bundle = Bundle.open(data, whole=False)
        for name in bundle.kernels:
            with contextlib.suppress(BundleError):
                assert bundle.kernel(name) in Sample().info().kernels


@examples(150)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[float, int]]) -> None:
    data = bytearray(good()[0])
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    use(bytes(data))


@examples(100)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_moved_and_missing_pieces(start: float, end: float, to: float, keep: bool) -> None:
    data = good()[0]
    low, high = sorted((int(start * len(data)), int(end * len(data))))
    rest = data if keep else data[:low] + data[high:]
    at = int(to * len(rest))
    use(rest[:at] + data[low:high] + rest[at:])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@examples(200)
@given(st.data())
def test_changed_indexes(data: st.DataObject) -> None:
    """Any value of the index replaced by any other: read as what was written, or refused."""
    plain: Any = plain_index(Sample().info())
    place = plain
    while True:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        place = inner
    place[key] = data.draw(VALUES)
    changed = members_from(plain)
    with contextlib.suppress(BundleError):
        assert index_members(from_members(changed)) == changed
