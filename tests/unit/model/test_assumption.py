"""What follows from an assumption: strides of contiguous tensors, as far as the extents behind them
are known.
"""

from __future__ import annotations

import pytest

from tilec_runtime.model.signature import Assumption

FREE = (None, None, None)


@pytest.mark.parametrize(
    ("assumption", "known", "strides"),
    [
        (Assumption(param="x"), (None, None, 1), (None, None, 1)),
        (Assumption(param="x", contiguous=True), FREE, (None, None, 1)),
        (Assumption(param="x", extent=(7, 5, 3)), FREE, FREE),
        (Assumption(param="x", extent=(7, 5, 3), contiguous=True), FREE, (15, 3, 1)),
        (Assumption(param="x", extent=(None, None, 3), contiguous=True), FREE, (None, 3, 1)),
        (Assumption(param="x", extent=(None, 5, None), contiguous=True), FREE, (None, None, 1)),
        (
            Assumption(param="x", extent=(2, 0, 4), contiguous=True),
            FREE,
            (4, 4, 1),
        ),  # as those of an empty array are
        (
            Assumption(param="x", extent=(None, None, 3), contiguous=True),
            (None, 3, 1),
            (None, 3, 1),
        ),
    ],
)
def test_strides_that_follow(
    assumption: Assumption, known: tuple[int | None, ...], strides: tuple[int | None, ...]
) -> None:
    assert assumption.strides(known) == strides
