"""Counting, even steps and conversions of any arguments on the cpu device: NumPy's numbers, or a
typed error when the op is built.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.amount import examples
from tests.unit.runtime.api.creation_samples import CONVERTED
from tilec_runtime import api, use_device
from tilec_runtime.errors import TensorError, UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

MOST = 5000
REAL = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-100, 100),
)
DTYPE = st.sampled_from(CONVERTED)


def contents(op):
    with use_device("cpu"):
        return op.then(api.to_host).sync()


def made(make, *words):
    """An op, or None where it is refused with a text that starts with one of the words."""
    try:
        return make()
    except (TensorError, UsageError) as error:
        text = str(error)
    assert text.startswith(words)
    return None


@examples(300)
@given(start=REAL, stop=REAL, step=REAL, dtype=DTYPE)
def test_arange_counts_or_says_why_not(start, stop, step, dtype):
    op = made(lambda: api.arange(start, stop, step, dtype=dtype), "arange")
    if op is None:
        return
    exact = all(isinstance(number, int) for number in (start, stop, step))
    count = len(range(start, stop, step)) if exact else max(0, math.ceil((stop - start) / step))
    assume(count <= MOST)
    found = contents(op)
    assert len(found) == count
    if count and DTYPES[dtype].kind != "float":
        assert found.tolist() == list(range(start, stop, step))
    elif count and dtype in ("f32", "f64"):
        wanted = (np.arange(count) * np.float64(step) + np.float64(start)).astype(found.dtype)
        assert np.array_equal(found, wanted)


@examples(300)
@given(start=REAL, stop=REAL, num=st.integers(-3, MOST), dtype=DTYPE)
def test_linspace_is_numpys_or_says_why_not(start, stop, num, dtype):
    op = made(lambda: api.linspace(start, stop, num, dtype=dtype), "linspace", "shape")
    if op is None:
        return
    found = contents(op)
    assert found.shape == (num,)
    if dtype in ("f32", "f64") and num:
        with np.errstate(all="ignore"):
            step = (float(stop) - float(start)) / max(num - 1, 1)
            assume(
                step != 0 or start == stop
            )  # NumPy goes another way where the step is below all numbers
            assert np.array_equal(
                found, np.linspace(float(start), float(stop), num).astype(found.dtype)
            )
    if num and DTYPES[dtype].kind == "float":
        assert found[0] == numpy_dtype(dtype).type(float(start))
