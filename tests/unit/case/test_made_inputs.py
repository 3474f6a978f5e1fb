"""Inputs that distributions, functions of the project and files make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.case.conftest import made, tensor
from tests.unit.case.test_runner_inputs import bound, one
from tilec.case.cases import BoundCase
from tilec.case.inputs import environment, make_inputs, planned_inputs
from tilec.manifest.types import Input
from tilec_runtime.errors import CaseError


def test_more_distributions() -> None:
    ascending = one(made("x", 3, 50, dtype="i32", dist="sorted", high=9))
    assert (np.diff(ascending, axis=-1) >= 0).all()
    assert set(ascending.reshape(-1)) == set(range(9))
    shuffled = one(made("x", 4, 5, dtype="i64", dist="permutation", seed=1))
    assert sorted(shuffled.reshape(-1)) == list(range(20)) != shuffled.reshape(-1).tolist()
    assert one(made("x", 2, dtype="f16", dist="constant", value=0.5)).tolist() == [0.5, 0.5]


MAKERS = """
import numpy as np

def ids(shape, dtype, seed, x, T, rows=2):
    return np.full(shape, seed + len(x) * rows, dtype)

def plain(n):
    return np.arange(n, dtype=np.int32)

def wide(shape):
    return np.zeros(shape)

def raises():
    return {}["no"]

def asks(mask):
    return mask

def changes(x):
    x[:] = 0
    return x

def same(earlier):
    return earlier
"""


def made_by(root: Path, function: str, **more: Any) -> BoundCase:
    (root / "makers.py").write_text(MAKERS)
    item = Input(name="ids", make=f"makers.py:{function}", dtype="i32", seed=3, **more)
    first = (made("x", 5, dtype="f32"), Input(name="n", value=4))
    return bound(*first, item, axes=(("T", "i32"),), root=str(root))


def test_a_function_makes_an_input(tmp_path: Path) -> None:
    case = made_by(tmp_path, "ids", shape=("n", "x.size"))
    assert make_inputs(case)["ids"].tolist() == [[13] * 5] * 4  # type: ignore[union-attr]
    assert planned_inputs(case) == environment(case, make_inputs(case))
    assert make_inputs(made_by(tmp_path, "plain"))["ids"].tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]


def test_an_input_is_no_part_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "makers.py").write_text(MAKERS)
    item = Input(name="later", make="makers.py:same", dtype="f32")
    found = make_inputs(bound(made("earlier", 5, dtype="f32"), item, root=str(tmp_path)))
    assert np.array_equal(found["later"], found["earlier"])
    assert not np.shares_memory(found["later"], found["earlier"])
    assert found["later"].flags.writeable  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("wide", "tilec.toml:3: k/c: inputs.ids: makers.py:wide returned float64[2], and int32[2]"),
        ("raises", "makers.py:14: k/c: the function raised KeyError: 'no'"),
        ("asks", "makers.py:16: k/c: function 'asks' does not fit: it takes 'mask', which is no"),
        ("none", "tilec.toml:3: k/c: makers.py has no function 'none'"),
        ("changes", "makers.py:20: k/c: the function raised ValueError: assignment destination is"),
    ],
)
def test_functions_that_make_no_input_say_where(tmp_path: Path, function: str, said: str) -> None:
    with pytest.raises(CaseError) as caught:
        make_inputs(made_by(tmp_path, function, shape=("2",)))
    assert said in str(caught.value)


def test_files_of_the_manifest_are_the_projects(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.arange(3, dtype=np.float32))
    found = make_inputs(
        bound(
            Input(name="x", file="data.npz:x", dtype="f32"),
            params=(tensor("x", dtype="f32"),),
            root=str(tmp_path),
        )
    )
    assert found["x"].tolist() == [0, 1, 2]  # type: ignore[union-attr]
    with pytest.raises(
        CaseError, match=r"tilec.toml:3: k/c: x cannot be read from .*it has no array 'z'"
    ):
        make_inputs(
            bound(
                Input(name="x", file="data.npz:z", dtype="f32"),
                params=(tensor("x", dtype="f32"),),
                root=str(tmp_path),
            )
        )
