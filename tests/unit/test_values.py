"""Value classes behave as the dataclasses that they stand for, apart from what defining them costs."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tilec_runtime.values import replace, value_class


@value_class(frozen=True, kw_only=True)
class Point:
    """A point."""

    most: ClassVar[int] = 7
    x: int
    y: float = 0.5
    name: str = ""

    def __str__(self) -> str:
        """Its name."""
        return self.name


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plain:
    """A point."""

    most: ClassVar[int] = 7
    x: int
    y: float = 0.5
    name: str = ""

    __str__ = Point.__str__


@value_class(frozen=True)
class Pair:
    """Two values."""

    first: Any
    second: Any


def refused(change: Callable[[], object]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"cannot (change|assign|delete)"):
        change()


@pytest.mark.parametrize(
    "use",
    [
        lambda value: repr(value).partition("(")[2],
        str,
        hash,
        dataclasses.is_dataclass,
        dataclasses.asdict,
        dataclasses.astuple,
        lambda value: value == dataclasses.replace(value),
        lambda value: value == dataclasses.replace(value, x=2),
        lambda value: dataclasses.replace(value, x=2).x,
        lambda value: [(field.name, field.default) for field in dataclasses.fields(value)],
        lambda value: len({value, copy.copy(value), copy.deepcopy(value)}),
        lambda value: value.most,
        lambda value: refused(lambda: setattr(value, "x", 2)),
        lambda value: refused(lambda: delattr(value, "x")),
    ],
)
def test_values_do_what_dataclasses_do(use: Callable[[Any], object]) -> None:
    value, plain = Point(x=1, name="a"), Plain(x=1, name="a")
    assert use(value) == use(plain)
    assert value != plain


def test_values_are_replaced_and_matched() -> None:
    assert replace(Point(x=1), x=2) == Point(x=2)
    match Pair(1, 2):
        case Pair(first, second):
            assert (first, second) == (1, 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_values_are_pickled(protocol: int) -> None:
    values = [Point(x=1, name="a"), Pair(1, "b")]
    assert pickle.loads(pickle.dumps(values, protocol)) == values


@pytest.mark.parametrize(
    "make",
    [
        lambda: Point(),  # type: ignore[call-arg]
        lambda: Point(x=1, z=2),  # type: ignore[call-arg]
        lambda: Point(y=1.0, name="", z=1),  # type: ignore[call-arg]
        lambda: Pair(1, 2, 3),  # type: ignore[call-arg]
    ],
)
def test_refuses_fields_that_do_not_fit(make: Any) -> None:
    with pytest.raises(TypeError, match=r"has the fields (x, y, name|first, second); got "):
        make()


def test_defining_values_imports_and_compiles_nothing() -> None:
    code = "from __future__ import annotations\nimport sys\n"
    code += "from tilec_runtime.values import value_class\n"
    code += "@value_class(frozen=True)\nclass A:\n    x: int\n"
    code += "print(A(1), 'dataclasses' in sys.modules)"
    root = str(Path(__file__).resolve().parents[2] / "runtime")
    done = subprocess.run(
        [sys.executable, "-Sc", code],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("A(x=1) False\n", "")
