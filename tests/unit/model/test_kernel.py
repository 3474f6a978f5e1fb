"""What a kernel's row in the index says when it is asked: which outputs' partitions say an axis."""

from __future__ import annotations

from tilec_runtime.errors import Location
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.safety import Region, Safety

WHERE = Location(file="k.py", line=1)
CUT = Safety(
    regions=(
        Region(param="y", tile=("BM", "BN")),
        Region(param="z", tile=("64", "BN"), mapped=True),
    )
)


def test_the_outputs_that_say_an_axis_are_those_with_tiles_of_it() -> None:
    info = KernelInfo(name="k", language="tile", location=WHERE, safety=CUT)
    assert [info.tiled_by(axis) for axis in ("BM", "BN", "BK")] == [("y",), ("y", "z"), ()]


def test_a_kernel_that_divides_nothing_has_no_such_outputs() -> None:
    assert KernelInfo(name="k", language="cuda", location=WHERE).tiled_by("BM") == ()
    assert (
        KernelInfo(name="k", language="tile", location=WHERE, safety=Safety()).tiled_by("BM") == ()
    )
