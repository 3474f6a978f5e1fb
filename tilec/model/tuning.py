"""Tuning results: the record that a project commits, with its provenance, and the table that a
bundle ships.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from tilec_runtime.model.arch import Target, Version
from tilec_runtime.model.kernel import KernelInfo, ToolInfo
from tilec_runtime.model.signature import ParamKind
from tilec_runtime.model.table import Point, Range, TableDevice, TableEntry, TuningTable
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class TuningRecord:
    """A tuning file: `tilec tune` writes it, a project commits it, a build reads it.

    Attributes:
        kernel: its name in the manifest.
        kernel_digest: of the kernel's sources and options (`plan.tuning.kernel_digest`).
        space_digest: of the search space (`plan.tuning.space_digest`).
        toolchain: the candidates' compilers.
        sizes: expressions over the launcher's parameters by which entries are chosen.
        devices: sorted by name.
    """

    kernel: str
    kernel_digest: str
    space_digest: str
    toolchain: tuple[ToolInfo, ...]
    sizes: tuple[str, ...]
    devices: tuple[TunedDevice, ...]


class Status(enum.Enum):
    """Outcome of a candidate."""

    BEST = "best"
    MEASURED = "measured"
    PRUNED = "pruned"  # not measured, or not to the end: resources, budget, or it was behind; the reason says
    WRONG = "wrong"  # another answer than the reference
    FAILED = "failed"  # it did not compile, load or launch
    HUNG = "hung"  # it did not end in time


@value_class(frozen=True, kw_only=True)
class Candidate:
    """One measured point of the matrix.

    Attributes:
        point: every axis with its value.
        status: its outcome; `reason` explains it unless it is the best.
        median_us: of the launches, in microseconds; None if it was not measured.
        interval_us: 95 % interval of the median.
        samples: their number.
    """

    point: Point
    status: Status
    reason: str = ""
    median_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0


@value_class(frozen=True, kw_only=True)
class TunedEntry:
    """The variant for launches of some sizes on a device, and its measurements.

    Attributes:
        case: of the manifest, whose inputs were measured.
        ranges: per size expression of the record, the least and the greatest value covered.
        at: per size expression, the measured value.
        point: every axis with its value, dtypes included.
        variant: id of the variant that ran, with its assumptions.
        code: digest of the images of the point's variants (`tune.record.code_of`).
        hints: compiler hints of its image.
        median_us, interval_us, samples: of the winner, as in `Candidate`.
        candidates: all measured points, the winner first.
    """

    case: str
    ranges: tuple[Range, ...]
    at: tuple[int, ...]
    point: Point
    variant: str
    code: str = ""
    hints: tuple[tuple[str, int], ...] = ()
    median_us: float
    interval_us: tuple[float, float]
    samples: int
    candidates: tuple[Candidate, ...] = ()


@value_class(frozen=True, kw_only=True)
class Clocks:
    """Clocks in MHz during a measurement: least and greatest, of multiprocessors and memory."""

    sm: Range
    memory: Range


@value_class(frozen=True, kw_only=True)
class TunedDevice:
    """A device with its measured entries.

    Attributes:
        name: product name.
        cc: compute capability.
        multiprocessors: how many it has.
        driver: its version, such as `580.95.05`; empty for the cpu device.
        clocks: None if they cannot be read.
        target: of the images that ran on it.
        entries: at most one for each ranges and dtypes.
    """

    name: str
    cc: Version
    multiprocessors: int
    driver: str = ""
    clocks: Clocks | None = None
    target: Target
    entries: tuple[TunedEntry, ...]


def bucket_of(value: int) -> Range:
    """Return the range of a size between powers of two: (4096, 8191) for 4096 and 5000.

    The range of 0 is (0, 0).

    Raises:
        ValueError: the size is negative.
    """
    if value < 0:
        raise ValueError(f"a size is not negative: {value}")
    low = 1 << (value.bit_length() - 1) if value else 0
    return low, 2 * low - 1 if low else 0


def size_expressions(kernel: KernelInfo) -> tuple[str, ...]:
    """Return the expressions by which entries of a table are chosen: extents of tensors.

    Extents that a requirement makes equal to an earlier one are left out.
    """
    expressions: list[str] = []
    tensors = {
        param.name: param.rank
        for param in kernel.params
        if param.kind is ParamKind.TENSOR and not param.optional
    }
    ties: dict[str, set[str]] = {}
    for text in kernel.launch.requires:
        for left, right in _equal(text, tensors):
            ties.setdefault(left, {left}).add(right)
            ties.setdefault(right, {right}).add(left)
    known: set[str] = set()
    for name, rank in tensors.items():
        for text in (
            [f"{name}.shape[{dim}]" for dim in range(rank)] if rank >= 0 else [f"{name}.size"]
        ):
            if text not in known:
                expressions.append(text)
                _reach(text, ties, known)
    return tuple(expressions)


def table_of(record: TuningRecord, source: str, targets: Sequence[Target]) -> TuningTable:
    """Return the part of a record that a bundle with images for these targets ships."""
    devices = tuple(
        TableDevice(
            name=device.name,
            cc=device.cc,
            multiprocessors=device.multiprocessors,
            entries=tuple(
                TableEntry(ranges=entry.ranges, point=entry.point) for entry in device.entries
            ),
        )
        for device in record.devices
        if device.target in targets
    )
    return TuningTable(source=source, sizes=record.sizes, devices=devices)


_EXTENT = re.compile(r"\s*(\w+)\.(shape\[(\d+)\]|shape|size)\s*")


def _equal(text: str, tensors: dict[str, int]) -> list[tuple[str, str]]:
    """Return the pairs of extents that a requirement makes equal."""
    sides = [_EXTENT.fullmatch(side) for side in text.split("==")]
    if len(sides) != 2 or sides[0] is None or sides[1] is None:
        return []
    left, right = (_extents(side[1], side[2], tensors) for side in sides if side is not None)
    return list(zip(left, right, strict=True)) if len(left) == len(right) else []


def _extents(name: str, part: str, tensors: dict[str, int]) -> list[str]:
    rank = tensors.get(name, 0)
    if rank < 0:
        return [f"{name}.size"] if part == "size" else []
    if part == "size":
        return [f"{name}.shape[0]"] if rank == 1 else []
    return (
        [f"{name}.shape[{dim}]" for dim in range(rank)] if part == "shape" else [f"{name}.{part}"]
    )


def _reach(text: str, ties: dict[str, set[str]], known: set[str]) -> None:
    """Add an extent, and all extents that are equal to it, to `known`."""
    waiting = [text]
    while waiting:
        here = waiting.pop()
        if here not in known:
            known.add(here)
            waiting.extend(ties.get(here, ()))
