"""Value classes behave as the dataclasses that they stand for, apart from what defining them costs."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
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


@value_class(frozen=True)
class Pair:
    """Two values."""

    first: Any
    second: Any


@value_class(frozen=True)
class Nothing:
    """No field at all."""


def test_values_are_equal_by_their_fields() -> None:
    assert Point(x=1) == Point(x=1, y=0.5) != Point(x=2)
    assert hash(Point(x=1)) == hash(Point(x=1)) == hash(Plain(x=1))
    other: Any = Plain(x=1)
    assert Point(x=1) != other
    assert len({Pair(1, 2), Pair(1, 2), Pair(2, 3)}) == 2
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())
    nan = float("nan")
    assert Pair(nan, 0) == Pair(nan, 0)  # as tuples compare


def test_values_show_their_fields() -> None:
    assert (
        repr(Point(x=1, name="a"))
        == repr(Plain(x=1, name="a")).replace("Plain", "Point")
        == "Point(x=1, y=0.5, name='a')"
    )
    assert str(Point(x=1, name="a")) == "a"
    assert repr(Pair(1, 2)) == "Pair(first=1, second=2)"
    assert repr(Nothing()) == "Nothing()"


def test_values_are_frozen() -> None:
    point: Any = Point(x=1)
    for change in (
        lambda: setattr(point, "x", 2),
        lambda: setattr(point, "other", 2),
        lambda: delattr(point, "x"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot change field"):
            change()
    assert Point.most == 7


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_values_are_pickled(protocol: int) -> None:
    values = [Point(x=1, name="a"), Pair(1, "b")]
    again = pickle.loads(pickle.dumps(values, protocol))
    assert again == values
    assert again[1].second == "b"


def test_functions_of_dataclasses_take_values() -> None:
    assert dataclasses.is_dataclass(Point)
    assert [(f.name, f.default) for f in dataclasses.fields(Point)] == [
        (f.name, f.default) for f in dataclasses.fields(Plain)
    ]
    assert dataclasses.replace(Point(x=1), y=2.0) == Point(x=1, y=2.0)
    assert dataclasses.replace(Pair(1, 2), first=3).second == 2
    assert dataclasses.asdict(Point(x=1)) == {"x": 1, "y": 0.5, "name": ""}
    assert replace(Point(x=1), x=2) == Point(x=2)


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
