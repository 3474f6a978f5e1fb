"""Whole runs on a device that computes with NumPy: references, statuses, and their errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.case.conftest import At, FakeDevice, broken, case, info, kernel, made, tensor
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.functions import Functions
from tilec.case.report import case_json
from tilec.case.run import CaseResult, Repeats, run_case
from tilec.manifest.types import Tolerance
from tilec_runtime.errors import CaseError, Location

INFO = info(tensor("z", out=True), tensor("x"), tensor("y"), points=({"T": "f16"}, {"T": "f32"}))
REFERENCES = """
import case_helper

def add(x, y):
    return case_helper.wide(x) + case_helper.wide(y)

def wrong(x, y):
    return case_helper.wide(x) - case_helper.wide(y)

def misses(x, w):
    return x

def in_place(x, y):
    x += y
    return x

def divides(x, y):
    scale = 1 / 0
    return x * scale

def short(x, y):
    return x[:-1]

def nothing(x, y):
    pass

def text(x, y):
    return np.array(["a"] * x.size)

def positional(x, /, y):
    return x

def everything(**inputs):
    assert set(inputs) == {"x", "y", "z"}
    return inputs["x"] + inputs["y"]

def too_many(x, y):
    return {"z": x, "q": y}

import numpy as np

def unknown(x, y):
    return x * np.nan

def holes(x, y):
    return np.where(np.arange(x.size) < 2, np.nan, x + y)

def whole(x, y):
    return (x + y).astype(np.int64)

def coarse(x, y):
    return (x + y).astype(np.float16)

def leaves(x):
    raise SystemExit(0)
"""


def add(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    z[...] = x + y


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "reference.py").write_text(REFERENCES)
    (tmp_path / "refs" / "case_helper.py").write_text("def wide(x):\n    return x.astype('f8')\n")
    (tmp_path / "refs" / "syntax.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "refs" / "exits.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "refs" / "raises.py").write_text("x = 1\nraise KeyError('no')\n")
    return tmp_path


def cases(
    function: str = "add", file: str = "refs/reference.py", **more: Any
) -> tuple[BoundCase, ...]:
    inputs = (made("x", 33), made("y", 33, seed=1), made("z", "x.shape[0]", dist="empty"))
    place = Location(file="tilec.toml", line=9)
    reference = f"{file}:{function}" if function else ""
    return expand_cases(
        kernel(case("c", *inputs, reference=reference, **more)), INFO, locate=At(place)
    )


def run(
    project: Path, bound: BoundCase, ticks: Callable[[], float], code: Callable[..., None] = add
) -> CaseResult:
    return run_case(bound, FakeDevice({"add": code}), Functions(str(project)), clock=ticks)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("reference.py", "wide(x) + ", "wide(x) - "),
        ("case_helper.py", ".astype('f8')", "*2.0000000000"),
    ],
)
def test_a_reference_that_was_edited_is_read_anew(
    project: Path,
    ticks: Callable[[], float],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    old: str,
    new: str,
) -> None:
    """Python's cache of bytecode takes a file of the same size and second for the same file; so it
    does with a module next to it.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = project / "refs" / file
    assert run(project, cases()[1], ticks).status == "passed"
    monkeypatch.delitem(sys.modules, "case_helper")
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.read_text() != text) == (before.st_size, True)
    importlib.invalidate_caches()
    assert run(project, cases()[1], ticks).status == "failed"
    monkeypatch.delitem(sys.modules, "case_helper")


def test_an_output_that_was_not_written_fails(project: Path, ticks: Callable[[], float]) -> None:
    result = run(
        project, cases(tolerance=(Tolerance(rtol=1e9, atol=1e9),))[1], ticks, code=lambda **_: None
    )
    assert result.status == "failed"
    assert result.outputs[0].comparison.mismatches == 33


@pytest.mark.parametrize(
    ("function", "status", "note"),
    [
        (
            "unknown",
            "passed",
            "every element is NaN, in the reference too: so nothing was compared",
        ),
        ("holes", "passed", "2 of 33 elements are NaN, in the reference too"),
        (
            "whole",
            "failed",
            "the reference gives int64, which has no fractions, for an output of f32",
        ),
        ("coarse", "failed", "the reference gives float16, which is coarser than the output's f32"),
        ("add", "passed", ""),
    ],
)
def test_notes_nan_and_coarse_references(
    project: Path, ticks: Callable[[], float], function: str, status: str, note: str
) -> None:
    """NaN on both sides fits whatever it ought to be: a kernel that writes nothing leaves such an
    output.
    """

    def code(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        z[...] = x + y
        z[: {"unknown": 33, "holes": 2}.get(function, 0)] = np.nan

    result = run(project, cases(function)[1], ticks, code)
    (output,) = result.outputs
    assert (result.status, output.notes) == (status, (note,) if note else ())
    assert case_json(result)["outputs"][0].get("notes", []) == list(output.notes)


@pytest.mark.parametrize(
    ("function", "words", "place"),
    [
        ("ad", "refs/reference.py has no function 'ad'; did you mean 'add'", "tilec.toml:9"),
        (
            "misses",
            "reference 'misses' does not fit: it takes 'w', which is no input of the case and no axis; it has x, y, z, T",
            "refs/reference.py:10",
        ),
        ("positional", "its parameter 'x' cannot be given by name", "refs/reference.py:30"),
        (
            "in_place",
            "the reference raised ValueError: output array is read-only",
            "refs/reference.py:14",
        ),
        (
            "divides",
            "the reference raised ZeroDivisionError: division by zero",
            "refs/reference.py:18",
        ),
        ("leaves", "the reference raised SystemExit: 0", "refs/reference.py:55"),
        ("short", "z has shape [32]; the kernel's has [33]", "tilec.toml:9"),
        ("nothing", "it returned None for z: nothing is compared", "tilec.toml:9"),
        ("text", "z has dtype <U1; the kernel's has float32", "tilec.toml:9"),
        ("too_many", "it returned z, q; the kernel writes z", "tilec.toml:9"),
    ],
)
def test_references_that_do_not_fit(
    project: Path, ticks: Callable[[], float], function: str, words: str, place: str
) -> None:
    result = run(project, cases(function)[1], ticks)
    assert result.status == "error"
    assert isinstance(result.error, CaseError)
    assert words in str(result.error)
    assert str(result.error.location) == place


@pytest.mark.parametrize(
    ("file", "words", "place"),
    [
        ("refs/none.py", "there is no file 'refs/none.py' for the reference", "tilec.toml:9"),
        ("refs/syntax.py", "the reference's file is not valid Python", "refs/syntax.py:2:7"),
        ("refs/exits.py", "importing the reference's file raised SystemExit: 0", "refs/exits.py:2"),
        (
            "refs/raises.py",
            "importing the reference's file raised KeyError: 'no'",
            "refs/raises.py:2",
        ),
    ],
)
def test_reference_files_that_cannot_be_loaded(
    project: Path, ticks: Callable[[], float], file: str, words: str, place: str
) -> None:
    result = run(project, cases("f", file)[1], ticks)
    assert words in str(result.error)
    assert result.error
    assert str(result.error.location) == place


@pytest.mark.parametrize(
    ("result", "compared"), [("(x, None)", "a"), ("{'a': None, 'b': VEC * x}", "b")]
)
def test_an_output_that_the_reference_leaves_out_is_not_compared(
    project: Path, ticks: Callable[[], float], result: str, compared: str
) -> None:
    (project / "two.py").write_text(f"def some(x, VEC):\n    return {result}\n")
    two = info(
        tensor("a", out=True), tensor("b", out=True), tensor("x"), points=({"T": "f32", "VEC": 2},)
    )

    def split(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> None:
        a[...], b[...] = x, 2 * x

    inputs = (made("x", 5), made("a", 5, dist="empty"), made("b", 5, dist="empty"))
    (bound,) = expand_cases(kernel(case("c", *inputs, reference="two.py:some")), two)
    found = run(project, bound, ticks, code=split)
    assert (found.status, [output.name for output in found.outputs]) == ("passed", [compared])


def nearly(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    add(z, x, y)
    z[3] = np.nextafter(z[3], np.float32(np.inf))


def wrong(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    add(z, x, y)
    z[5] += 1


@pytest.mark.parametrize(
    ("launches", "status", "repeats"),
    [
        ([add] * 5, "passed", Repeats(runs=5, wanted=5)),
        (
            [add, nearly, add, nearly, nearly],
            "passed",
            Repeats(runs=5, wanted=5, varied=(("z", 3),)),
        ),
        ([add, nearly, wrong], "failed", Repeats(runs=3, wanted=5, varied=(("z", 2),))),
        ([wrong], "failed", Repeats(runs=1, wanted=5)),
        ([add, broken], "error", Repeats(runs=2, wanted=5)),
    ],
)
def test_repeated_runs_compare_with_the_first(
    project: Path, launches: list[Callable[..., None]], status: str, repeats: Repeats
) -> None:
    left, saved, bound = list(launches), [], cases()[1]
    result = run_case(
        bound,
        FakeDevice({"add": lambda **arguments: left.pop(0)(**arguments)}),
        Functions(str(project)),
        times=5,
        clock=lambda: 0.0,
        save=lambda _, name, __: saved.append(name),
    )
    assert (result.status, result.repeats, saved, left) == (status, repeats, ["z"], [])
    assert result.case == bound
    assert case_json(result)["varied"] == dict(repeats.varied)


def test_a_case_that_cannot_be_run_ends_in_its_first_run(project: Path) -> None:
    bound, functions = cases("ad")[1], Functions(str(project))
    device = FakeDevice({"add": add})
    result = run_case(bound, device, functions, times=5, clock=lambda: 0.0)
    assert (result.status, result.repeats) == ("error", Repeats(runs=1, wanted=5))
