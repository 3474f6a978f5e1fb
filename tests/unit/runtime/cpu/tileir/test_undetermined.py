"""Undetermined elements are garbage, and can be varied: beyond an edge, and where a mask leaves
out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, run_op, tile
from tests.unit.runtime.cpu.tileir.undetermined import garbage
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.frame import Undetermined
from tilec_runtime.cpu.tileir.ir import (
    GatherScatterView,
    MemoryOrder,
    Padding,
    PartitionView,
    Scalar,
    TensorView,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import LAYOUTS, Array
from tilec_runtime.cpu.tileir.views import Tensor

NAN, BIG = np.nan, float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (Scalar.F16, [NAN, 65504, -65504]),
        (Scalar.BF16, [NAN, 3.3895313892515355e38, -3.3895313892515355e38]),
        (Scalar.F32, [NAN, BIG, -BIG]),
        (Scalar.TF32, [NAN, 3.4011621342146535e38, -3.4011621342146535e38]),
        (Scalar.F64, [NAN, np.finfo(np.float64).max, np.finfo(np.float64).min]),
        (Scalar.F8E4M3FN, [NAN, 448, -448]),
        (Scalar.F8E5M2, [NAN, 57344, -57344]),
        (Scalar.F8E8M0FNU, [NAN, 2.0**127, 2.0**-127]),
        (Scalar.F8E5M3FNU, [0xFF, 0xFE, 0]),
        (Scalar.F4E2M1FN, [6, 6, -6]),
        (Scalar.I1, [True, False, True]),
        (Scalar.I4, [7, -8, 7]),
        (Scalar.I8, [127, -128, 127]),
        (Scalar.I64, [2**63 - 1, -(2**63), 2**63 - 1]),
    ],
    ids=str,
)
def test_hostile_values(element: Scalar, values: list[Any]) -> None:
    form = LAYOUTS[element]
    found = form.decode(form.hostile())
    np.testing.assert_array_equal(
        found if found.dtype.kind in "ib" else found.astype(np.float64), values
    )


def load(
    view: PartitionView | GatherScatterView,
    array: Array,
    index: list[tuple[Any, Array]],
    **more: Any,
) -> Array:
    """Load a tile for each block."""
    held = Tensor(
        np.array([array.ctypes.data]),
        np.array([array.shape]),
        np.array([array.strides]) // array.itemsize,
    )
    results = [tile(view.tensor.element, *view.tile), TOKEN]
    attributes = {"order": MemoryOrder.WEAK, "inbounds": ()}
    found, _ = run_op(
        "load_view_tko",
        {"view": (view, held), "index": index},
        results,
        attributes,
        memory=Memory([MemoryRegion.of("x", array)]),
        **more,
    )
    return np.asarray(found)


def matrix(padding: Padding | None = None, element: Scalar = Scalar.F32) -> PartitionView:
    """Tiles of 2 x 4."""
    return PartitionView((2, 4), TensorView(element, (None, None), (None, None)), (0, 1), padding)


INDEX = [(I32, np.array([0, 1])), (I32, np.array([1]))]


@pytest.mark.parametrize("observer", [None, Watcher()], ids=["whole tiles", "one by one"])
@pytest.mark.parametrize("turn", [0, 1, 2, None])
def test_elements_beyond_the_edge(turn: int | None, observer: Watcher | None) -> None:
    array = np.ones((3, 6), np.float32)
    found = load(matrix(), array, INDEX, observer=observer, undetermined=Undetermined(turn=turn))
    other = (
        np.zeros((2, 4), np.float32) if turn is None else garbage(LAYOUTS[Scalar.F32], (2, 4), turn)
    )
    inside = np.zeros((2, 2, 4), np.bool_)
    inside[0, :, :2] = inside[1, :1, :2] = True
    np.testing.assert_array_equal(found, np.where(inside, np.float32(1), other))


def test_one_operation_and_some_blocks_can_be_filled() -> None:
    array = np.ones((3, 6), np.float32)
    for wish, filled in (
        (Undetermined(site=("kernel", 0)), [True, True]),
        (Undetermined(site=("kernel", 1)), [False, False]),
        (Undetermined(site=("other", 0)), [False, False]),
        (Undetermined(blocks=1), [True, False]),
        (Undetermined(blocks=0), [False, False]),
    ):
        found = load(matrix(), array, INDEX, undetermined=wish)
        assert [bool((tile_ != np.nan_to_num(tile_)).any()) for tile_ in found] == filled
        assert all(
            set(tile_.reshape(-1).tolist()) == {0, 1}
            for tile_, full in zip(found, filled, strict=True)
            if not full
        )
