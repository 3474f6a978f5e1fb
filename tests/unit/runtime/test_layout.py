"""Strides, extents in memory, overlap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec_runtime.device.layout import (
    TensorFacts,
    byte_range,
    may_overlap,
    overlaps_itself,
    settled_stride,
)


def facts(shape, stride=None, ptr=0x1000, dtype="f32"):
    return TensorFacts(
        ptr=ptr, shape=shape, stride=settled_stride(shape, stride), dtype=dtype, device=0
    )


def touched(tensor):
    places = set()
    for index in itertools.product(*(range(extent) for extent in tensor.shape)):
        start = (
            tensor.ptr
            + sum(i * s for i, s in zip(index, tensor.stride, strict=True)) * tensor.itemsize
        )
        places.update(range(start, start + tensor.itemsize))
    return places


@pytest.mark.parametrize(
    ("shape", "given_stride", "settled"),
    [
        ((2, 3, 4), None, (12, 4, 1)),
        ((), None, ()),
        ((5, 1), (1, 77), (1, 1)),
        ((1, 5), (99, 1), (5, 1)),
        ((1, 5), (99, 2), (10, 2)),
        ((3, 0), (7, 7), (1, 1)),
        ((2, 1, 3), (3, 100, 1), (3, 3, 1)),
    ],
)
def test_strides_that_no_access_uses_are_settled(shape, given_stride, settled):
    assert settled_stride(shape, given_stride) == settled


TENSORS = st.builds(
    facts,
    shape=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    stride=st.tuples(st.integers(-6, 12), st.integers(-3, 3)),
    ptr=st.integers(0x1000 // 4, 0x1000 // 4 + 40).map(lambda word: word * 4),
    dtype=st.sampled_from(["f32", "f16", "f64"]),
)


@examples(400)
@given(TENSORS, TENSORS)
def test_overlap_is_never_missed(a, b):
    if touched(a) & touched(b):
        assert may_overlap(a, b)
        assert may_overlap(b, a)


@examples(200)
@given(TENSORS)
def test_byte_range_is_exact_at_its_ends(tensor):
    places = touched(tensor)
    low, high = byte_range(tensor)
    assert (tensor.ptr + low, tensor.ptr + high) == (
        (min(places), max(places) + 1) if places else (tensor.ptr, tensor.ptr)
    )


def test_tensors_that_write_one_place_twice():
    assert not overlaps_itself(facts((4, 0), (0, 1)))
    assert overlaps_itself(facts((2, 9, 5), (100, -2, 3)))


@examples(200)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(-8, 8)), max_size=2))
def test_two_dimensions_that_write_one_place_twice_are_found_exactly(dims):
    tensor = facts(tuple(extent for extent, _ in dims), tuple(stride for _, stride in dims))
    assert overlaps_itself(tensor) == (len(touched(tensor)) < tensor.nbytes)
