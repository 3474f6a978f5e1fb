"""Random arguments of a kernel of any strides: shapes, strides, offsets; and whether what a variant
assumed holds of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilec_runtime.launch.prepare import Explanation
from tilec_runtime.model.kernel import VariantInfo

# Multiples of 16 and of 64 are where assumptions begin to hold; 0 and 1 are where strides mean
# nothing.
TO_SIXTEEN = -1  # rows begin at multiples of 16 elements, whatever their extent is
EXTENT = st.one_of(st.sampled_from([0, 1, 16, 32, 64, 64]), st.integers(2, 90))


@dataclasses.dataclass(frozen=True)
class Cut:
    """How an array is cut out of a larger one: steps of rows and columns, elements in front, and
    whether rows are columns.
    """

    rows: int
    columns: int
    offset: int
    turned: bool


CUT = st.one_of(
    st.just(Cut(1, 1, 0, False)),  # as arrays usually are
    st.builds(
        Cut, st.just(1), st.just(1), st.sampled_from([0, 0, 1, 4]), st.just(False)
    ),  # the same, anywhere
    st.builds(
        Cut,
        st.sampled_from([1, 1, 2]),
        st.sampled_from([1, 1, 1, 2, 3]),
        st.sampled_from([0, 0, 1, 4, 16]),
        st.booleans(),
    ),
)


@st.composite
def arguments(draw: st.DrawFn) -> tuple[tuple[int, int], tuple[Cut, Cut, Cut], int, int]:
    """(shape, cuts, elements between rows beyond those needed or TO_SIXTEEN, seed)."""
    shape = draw(EXTENT), draw(EXTENT)
    return (
        shape,
        (draw(CUT), draw(CUT), draw(CUT)),
        draw(st.sampled_from([0, 0, TO_SIXTEEN, 5, 16])),
        draw(st.integers(0, 1000)),
    )


def cut(
    shape: tuple[int, int], how: Cut, more: int, seed: int
) -> tuple[np.ndarray[Any, Any], tuple[int, int, int, int]]:
    """A flat array of small integers as floats, and (rows, columns, row stride, column stride) of
    the view that `how` says.
    """
    m, n = shape
    inner = m if how.turned else n
    outer = n if how.turned else m
    wide = (
        -(-max(inner * how.columns, 1) // 16) * 16
        if more == TO_SIXTEEN
        else max(inner * how.columns + more, 1)
    )
    base = (
        np.random.default_rng(seed)
        .integers(-4, 5, how.offset + max(outer * how.rows, 1) * wide + 64)
        .astype(np.float32)
    )
    strides = (how.columns, wide * how.rows) if how.turned else (wide * how.rows, how.columns)
    return base, (m, n, *strides)


def holds(
    variant: VariantInfo, tensors: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]]
) -> bool:
    """Whether all that a variant assumed is so: of each tensor's shape, strides and address, worked
    out here once more.
    """
    for fact in variant.assume:
        shape, stride, address = tensors[fact.param]
        if any(
            wanted is not None and wanted != has
            for wanted, has in zip(fact.extent, shape, strict=False)
        ):
            return False
        if (
            any(extent % divisor for divisor, extent in zip(fact.shape, shape, strict=False))
            or address % fact.align
        ):
            return False
        # The stride of a dimension with one element or none is used by no access.
        used = [0 not in shape and extent > 1 for extent in shape]
        if any(
            on and step % divisor
            for on, divisor, step in zip(used, fact.stride, stride, strict=False)
        ):
            return False
        dense = [int(np.prod(shape[dim + 1 :])) for dim in range(len(shape))]
        if fact.contiguous and any(
            on and step != wanted for on, step, wanted in zip(used, stride, dense, strict=True)
        ):
            return False
    return True


def check_choice(
    why: Explanation, tensors: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]]
) -> None:
    """What is taken has assumptions that hold; nothing that holds is passed over, where every
    stride is one that accesses use.
    """
    assert holds(why.variant, tensors), f"{why}\n{tensors}"
    used = all(extent > 1 for shape, _, _ in tensors.values() for extent in shape)
    for passed in why.considered[:-1] if used else ():
        assert not holds(passed.variant, tensors), f"{why}\n{tensors}"
