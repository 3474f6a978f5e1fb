"""Tuning tables and assumptions: what decides for a launch."""

from __future__ import annotations

import pytest

from tilec.model.tuning import size_expressions
from tilec_runtime.errors import Location
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.table import (
    Point,
    TableDevice,
    TableEntry,
    TuningTable,
    look_up,
    same_point,
)


def entry(low: int, high: int, size: int) -> TableEntry:
    return TableEntry(ranges=((low, high),), point=(("T", "f16"), ("BM", size)))


TABLE = TuningTable(
    source="tuning/gemm.json",
    sizes=("a.shape[0]",),
    devices=(
        TableDevice(
            name="H100 PCIe",
            cc=(9, 0),
            multiprocessors=114,
            entries=(entry(1, 1023, 16), entry(1024, 2047, 32)),
        ),
        TableDevice(name="H200", cc=(9, 0), multiprocessors=132, entries=(entry(1024, 2047, 64),)),
        TableDevice(
            name="B200", cc=(10, 0), multiprocessors=148, entries=(entry(1024, 2047, 128),)
        ),
    ),
)


def look(
    device: str, cc: tuple[int, int], count: int, size: int, **axes: str | int
) -> tuple[Point | None, str]:
    def fits(point: Point) -> bool:
        return same_point(point, axes)

    return look_up(TABLE, device=device, cc=cc, multiprocessors=count, sizes=(size,), fits=fits)


@pytest.mark.parametrize(
    ("device", "cc", "count", "size", "taken", "reason"),
    [
        (
            "H200",
            (9, 0),
            132,
            1024,
            64,
            "tuning/gemm.json has it for a.shape[0] 1024 to 2047 on H200",
        ),
        ("H200", (9, 0), 132, 2047, 64, "on H200"),
        (
            "H20",
            (9, 0),
            78,
            1500,
            32,
            "on H100 PCIe, the nearest tuned device of the same architecture (114 multiprocessors, this one has 78)",
        ),
        ("H100 SXM", (9, 0), 132, 1500, 64, "on H200, the nearest tuned device"),
        # A device without an entry for the size leaves it to the next of the architecture.
        ("H200", (9, 0), 132, 7, 16, "a.shape[0] 1 to 1023 on H100 PCIe"),
        (
            "H200",
            (9, 0),
            132,
            4096,
            None,
            "tuning/gemm.json has no entry for a.shape[0] = 4096 on H200, H100 PCIe",
        ),
        (
            "A100",
            (8, 0),
            108,
            1024,
            None,
            "speaks of H100 PCIe, H200, B200, none of which is A100 or of its architecture",
        ),
    ],
)
def test_entry_of_a_device_and_size(
    device: str, cc: tuple[int, int], count: int, size: int, taken: int | None, reason: str
) -> None:
    point, why = look(device, cc, count, size, T="f16")
    assert (dict(point)["BM"] if point else None) == taken
    assert reason in why


def test_entries_of_other_axes_are_said_to_be_there() -> None:
    point, why = look("H200", (9, 0), 132, 1024, T="f16", BM=99)
    assert point is None
    assert "for other dtypes or axes than those of this call" in why


def kernel(ranks: dict[str, int], *requires: str) -> KernelInfo:
    params = tuple(
        Param(name=name, kind=ParamKind.TENSOR, dtype="f32", rank=rank)
        for name, rank in ranks.items()
    )
    scalar = Param(name="eps", kind=ParamKind.SCALAR, dtype="f32")
    launch = LaunchInfo(grid=("1",), requires=requires)
    return KernelInfo(
        name="k",
        language="tile",
        location=Location(file="k.py"),
        params=(*params, scalar),
        launch=launch,
    )


@pytest.mark.parametrize(
    ("ranks", "requires", "sizes"),
    [
        ({"x": 1}, (), ("x.shape[0]",)),
        ({"z": 1, "x": 1}, ("z.shape[0] == x.shape[0]",), ("z.shape[0]",)),
        ({"z": 1, "x": 1, "y": 1}, ("x.size == z.size", "y.size == x.size"), ("z.shape[0]",)),
        ({"z": 2, "x": 2}, ("x.shape == z.shape",), ("z.shape[0]", "z.shape[1]")),
        (
            {"c": 2, "a": 2, "b": 2},
            (
                "a.shape[1] == b.shape[0]",
                "c.shape[0] == a.shape[0]",
                "c.shape[1] == b.shape[1]",
                "a.shape[1] % 16 == 0",
            ),
            ("c.shape[0]", "c.shape[1]", "a.shape[1]"),
        ),
        ({"x": -1, "y": -1}, ("x.size == y.size",), ("x.size",)),
        (
            {"x": 2, "y": 2},
            ("x.shape[0] == y.shape[1] + 1",),
            ("x.shape[0]", "x.shape[1]", "y.shape[0]", "y.shape[1]"),
        ),
    ],
)
def test_sizes_that_tell_launches_apart(
    ranks: dict[str, int], requires: tuple[str, ...], sizes: tuple[str, ...]
) -> None:
    assert size_expressions(kernel(ranks, *requires)) == sizes


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
