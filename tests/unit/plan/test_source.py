"""What a source says of its own launch, safety and axes, brought together with the manifest."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tilec.manifest.types import Kernel, Launch, Matrix
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec.plan.source import (
    unfollowed_note,
    with_source,
)
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.safety import Fact, Guarantee, Region, Safety

HERE = Location(file="k.py", line=7, column=5)
DECL = KernelDecl(
    name="k",
    location=HERE,
    params=(
        ParamDecl(name="z", type="tl.Mut[T, (BM,)]", kind="tensor", dtype="T", rank=1, out=True),
        ParamDecl(name="BK", type="tl.Const[int]", kind="constant", default=16),
    ),
    axes=(
        AxisUse(name="T", dtype=True, where="z: tl.Mut[T, (BM,)]"),
        AxisUse(name="BM", dtype=False, where="z: tl.Mut[T, (BM,)]"),
    ),
    grid=("cdiv(z.shape[0], BM)",),
    requires=("z.shape[0] % BK == 0", "BKX > BM"),
    safety=Safety(
        facts=(
            Fact(guarantee=Guarantee.KERNEL, what="a"),
            Fact(guarantee=Guarantee.LAUNCH, what="b"),
            Fact(guarantee=Guarantee.CONSTRUCTION, what="c"),
        ),
        regions=(Region(param="z", tile=("BM",)),),
    ),
    unproven=(
        Diagnostic(message="x.load_tile is checked inside of the kernel: why", location=HERE),
    ),
)


def kernel(**changes: Any) -> Kernel:
    base = Kernel(
        name="k",
        source="k.py",
        function="k",
        language="tile",
        matrix=Matrix(axes=(("T", ("f32",)), ("BM", (64,)))),
    )
    return dataclasses.replace(base, **changes)


class Reports(list[tuple[str, tuple[str | int, ...]]]):
    def __call__(self, what: str, path: tuple[str | int, ...], column: int = 0) -> None:
        self.append((what, path))


def test_the_grid_and_the_requirements_of_the_source() -> None:
    reports = Reports()
    found = with_source(kernel(launch=Launch(requires=("z.size > 0",))), DECL, reports)
    assert (found.launch.grid, reports) == (DECL.grid, [])
    assert found.launch.requires == ("z.size > 0", "z.shape[0] % 16 == 0", "BKX > BM"), (
        "a default stands for a constant that is no axis"
    )
    axes = Matrix(axes=(("T", ("f32",)), ("BM", (64,)), ("BK", (32,))))
    assert (
        with_source(kernel(matrix=axes), DECL, reports).launch.requires[0] == "z.shape[0] % BK == 0"
    )


def test_requirements_name_what_args_pass() -> None:
    found = with_source(kernel(args=("out.ptr",)), DECL, Reports())
    assert found.launch.requires[0] == "out.shape[0] % 16 == 0"


@pytest.mark.parametrize(
    ("requires", "checks", "axes"),
    [
        ((), "on", "x.shape[0], x.shape[1]"),
        (("x.shape[-1] == 4",), "", "x.shape[0]"),
        (("x.shape[0] == x.shape[1]",), "", ""),
        ((), "off", ""),
    ],
)
def test_extents_that_no_launch_compares_are_noted(
    requires: tuple[str, ...], checks: str, axes: str
) -> None:
    x = ParamDecl(name="x", type="tl.Ref[T, 2]", kind="tensor", dtype="T", rank=2)
    places = (("x", "k.py:9:5: x.load_tile"), ("x", "k.py:10:5: x.load_tile"))
    decl = dataclasses.replace(DECL, params=(*DECL.params, x), unfollowed=places)
    note = unfollowed_note(kernel(launch=Launch(requires=requires), checks=checks), decl)
    start = (
        "k.py:9:5: x.load_tile; k.py:10:5: x.load_tile cannot be followed, so no launch compares "
    )
    end = ': elements outside are read as 0; checks = "deny" makes this an error'
    assert note == (f"{start}{axes}{end}" if axes else "")
