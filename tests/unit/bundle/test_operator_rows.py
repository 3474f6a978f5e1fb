"""Operators in the index: they round-trip, other kernels have no key for them, and damaged ones are
refused.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.runtime_samples import ADD
from tilec_runtime.bundle.format import from_members, index_members
from tilec_runtime.errors import BundleError
from tilec_runtime.model.kernel import BundleInfo, PackageInfo
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo, OutputInfo

OUTPUT = OutputInfo(param="z", like="x", dtype="f32")
BACKWARD = BackwardInfo(kernel="add", args=(("z", "grad_x"), ("x", "grad_z"), ("y", "y")))


def info(op: OperatorInfo | None) -> BundleInfo:
    return BundleInfo(
        package=PackageInfo(name="p", version="1", module="p"),
        kernels=(dataclasses.replace(ADD, op=op),),
    )


@pytest.mark.parametrize(
    "op",
    [
        OperatorInfo(),
        OperatorInfo(outputs=(OUTPUT,), backward=BACKWARD),
        OperatorInfo(outputs=(OutputInfo(param="z", shape=("x.size",), dtype="x.dtype"),)),
    ],
)
def test_operators_round_trip(op: OperatorInfo) -> None:
    assert from_members(index_members(info(op))) == info(op)


def test_other_kernels_are_written_as_before() -> None:
    (row,) = [data for name, data in index_members(info(None)).items() if name != "bundle.json"]
    assert "op" not in json.loads(row)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"param": "w"}, "'w' is no tensor that the kernel writes"),
        ({"param": "x"}, "'x' is no tensor that the kernel writes"),
        ({"like": "z"}, "'z' is no tensor among the inputs"),
        ({"dtype": "alpha.dtype"}, "'alpha' is no tensor among the inputs"),
    ],
)
def test_outputs_that_no_call_can_allocate_are_refused(
    changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(BundleError, match=expected):
        index_members(info(OperatorInfo(outputs=(dataclasses.replace(OUTPUT, **changes),))))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kernel": "sub"}, "'sub' is no operator of the bundle"),
        ({"args": (("w", "x"),)}, "'add' has no parameter 'w'"),
        ({"args": (("x", "grad_w"),)}, "'grad_w' is neither a parameter nor the gradient of one"),
    ],
)
def test_backwards_that_name_nothing_are_refused(changes: dict[str, Any], expected: str) -> None:
    backward = dataclasses.replace(BACKWARD, **changes)
    with pytest.raises(BundleError, match=expected):
        index_members(info(OperatorInfo(outputs=(OUTPUT,), backward=backward)))
