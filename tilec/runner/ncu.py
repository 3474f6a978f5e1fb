"""Reads what Nsight Compute prints of a launch, in the layouts of several versions, and tells from its counters what holds it up."""

from __future__ import annotations

import csv
import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Metrics by what they say, under the names that versions and architectures have for them; the first that is there counts.
_TIME = ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum")
_COMPUTE = ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)
_MEMORY = ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",)
_LEVELS = {
    "DRAM": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    "L2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed",),
    "L1 and shared memory": ("l1tex__throughput.avg.pct_of_peak_sustained_active", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"),
}
ISSUE = "the issue of instructions"
# Units of a multiprocessor that compute, and the one that feeds them; shares of the time in which they are busy.
_UNITS = {
    "tensor cores": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    ),
    "f32 and integer multiply-adds": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",),
    "integer and logic units": ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed",),
    "f64 units": ("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed",),
    "special functions and conversions": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",),
    "the issue of instructions": (
        "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
        "sm__issue_active.avg.pct_of_peak_sustained_elapsed",
    ),
}
_CLOCK = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
# What accesses cost, and what they would if neighbouring threads took neighbouring elements.
_SHARED = ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal")
_GLOBAL = ("memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal")
_ACHIEVED = ("sm__warps_active.avg.pct_of_peak_sustained_active",)
_THEORETICAL = ("sm__maximum_warps_per_active_cycle_pct", "sm__maximum_warps_avg_per_active_cycle_pct")
_LIMIT = re.compile(r"launch__occupancy_limit_(\w+)")
_LIMITS = {"registers": "registers", "shared_mem": "shared memory", "warps": "warps of a block", "blocks": "blocks", "barriers": "barriers"}
_WAVES = ("launch__waves_per_multiprocessor",)
_BLOCKS = ("launch__grid_size",)
_REGISTERS = ("launch__registers_per_thread",)
_STALL = re.compile(r"smsp__average_warps?(?:_latency)?_issue_stalled_(?P<reason>[a-z_]+?)(?:_per_issue_active)?\.ratio")
_SAMPLED = re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>[a-z_]+)")
_SAMPLES = re.compile(r"(?:warp stall sampling|sampling data) \(all|#? ?samples$", re.IGNORECASE)

_NO_WAIT = {"selected"}  # the warp issued
_ON_MEMORY = {"long_scoreboard", "lg_throttle", "drain", "membar"}  # stalls that end when memory answers
ENOUGH = 0.75  # of a wave of blocks: from there on more of them would help little
NEAR = 60.0  # percent of what the hardware can do, from which on it is a limit
_SECONDS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "s": 1.0}


class Bound(enum.Enum):
    """What holds a launch up."""

    MEMORY = "memory"
    COMPUTE = "compute"
    BOTH = "memory and compute"
    GRID = "the size of its grid"
    MEMORY_LATENCY = "waiting for memory"
    LATENCY = "waiting"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One profiled launch.

    Attributes:
        kernel: its entry point, as ncu calls it.
        metrics: (value, unit) by name; those without a number are left out.
    """

    kernel: str
    metrics: Mapping[str, tuple[float, str]]

    def value(self, names: Sequence[str]) -> float | None:
        """The first of these metrics that is there."""
        return next((self.metrics[name][0] for name in names if name in self.metrics), None)

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        value, unit = next((self.metrics[name] for name in _TIME if name in self.metrics), (None, ""))
        scale = _SECONDS.get(unit[:1].lower()) if unit[:1] else 1e-9  # without a unit it is in base units
        return None if value is None or scale is None else value * scale


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What the counters of a launch say. Shares are percent of what the hardware can do; None for what was not measured.

    Attributes:
        kernel: its entry point.
        seconds: how long it took.
        compute, memory: shares.
        levels: of memory, by level, the busiest first.
        achieved, theoretical: occupancy; `limiter` says what allows no more of it.
        waves: how often the grid fills the GPU; `blocks` how many there are.
        registers: per thread.
        stalls: (reason, percent of the time between two instructions of a warp), longest first.
        units: (unit that computes, share), the busiest first.
        hertz: of the multiprocessors' clock.
        shared_cost, global_cost: how often as many passes of shared memory, and sectors of global memory, as accesses in a row would take.
    """

    kernel: str
    seconds: float | None
    compute: float | None
    memory: float | None
    levels: tuple[tuple[str, float], ...]
    achieved: float | None
    theoretical: float | None
    limiter: str
    waves: float | None
    blocks: float | None
    registers: float | None
    stalls: tuple[tuple[str, float], ...]
    units: tuple[tuple[str, float], ...] = ()
    hertz: float | None = None
    shared_cost: float | None = None
    global_cost: float | None = None

    @property
    def level(self) -> str:
        """The level of memory whose share is that of memory: the busiest may have been busy with more than the launch's accesses."""
        if not self.levels or self.memory is None:
            return "memory"
        memory = self.memory
        return min(self.levels, key=lambda pair: abs(pair[1] - memory))[0]

    @property
    def bound(self) -> Bound:
        """What holds it up."""
        if self.compute is None or self.memory is None:
            return Bound.UNKNOWN
        high, low = max(self.compute, self.memory), min(self.compute, self.memory)
        if high >= NEAR:
            if low >= NEAR and high - low < 10:
                return Bound.BOTH
            return Bound.MEMORY if self.memory > self.compute else Bound.COMPUTE
        if self.waves is not None and self.waves < ENOUGH:
            return Bound.GRID
        on_memory = sum(share for reason, share in self.stalls if reason in _ON_MEMORY)
        return Bound.MEMORY_LATENCY if on_memory >= 50 else Bound.LATENCY


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """One instruction of the source page: its text, how often a warp was seen at it, and what it waited for there."""

    text: str
    samples: float
    stalls: Mapping[str, float]


def read_raw(text: str) -> tuple[Launch, ...]:
    """The launches in what `--csv --page raw` (or `details`) prints; what stands before the table is passed over."""
    head, rows = _table(text, "ID")
    if "Metric Name" in head and "Metric Value" in head:
        return _long(head, rows)
    names = [_name_and_unit(title) for title in head]
    units = rows[0] if rows and not rows[0][0].strip() else []
    found = []
    for row in rows[1:] if units else rows:
        cells = dict(zip(head, row, strict=False))
        metrics = {}
        for place, cell in enumerate(row):
            value = _number(cell)
            if value is not None and ("__" in names[place][0] or names[place][0].startswith("memory_")):
                metrics[names[place][0]] = (value, units[place].strip() if place < len(units) else names[place][1])
        found.append(Launch(kernel=cells.get("Kernel Name", ""), metrics=metrics))
    return tuple(found)


def read_source(text: str) -> tuple[Sampled, ...]:
    """The instructions in what `--csv --page source` prints of a launch; none where it has no samples."""
    head, rows = _table(text, "Source")
    samples = next(
        (i for i, title in enumerate(head) if re.match(r"(?i)(warp stall sampling|sampling data) \(all|#? ?samples$", title)), -1
    )
    if samples < 0:
        return ()
    where = head.index("Source")
    stalls = {i: title.removeprefix("stall_") for i, title in enumerate(head) if re.fullmatch(r"stall_\w+", title)}
    # Columns of the same name tell of samples at which nothing was issued: those stand last.
    first = {reason: i for i, reason in sorted(stalls.items(), reverse=True)}
    return tuple(
        Sampled(
            text=row[where].strip(),
            samples=_number(row[samples]) or 0.0,
            stalls={reason: value for reason, i in first.items() if i < len(row) and (value := _number(row[i]))},
        )
        for row in rows
        if len(row) > max(where, samples) and row[where].strip()
    )


def summarize(launch: Launch) -> Summary:
    """What the counters of a launch say."""
    levels = [(name, value) for name, metrics in _LEVELS.items() if (value := launch.value(metrics)) is not None]
    levels.sort(key=lambda pair: -pair[1])
    memory = launch.value(_MEMORY)
    units = [(name, value) for name, metrics in _UNITS.items() if (value := launch.value(metrics)) is not None]
    units.sort(key=lambda pair: -pair[1])
    limits = [(launch.metrics[name][0], match[1]) for name in launch.metrics if (match := _LIMIT.fullmatch(name))]
    limiter = min(limits)[1] if limits else ""
    return Summary(
        kernel=launch.kernel,
        seconds=launch.seconds,
        compute=launch.value(_COMPUTE),
        memory=memory if memory is not None else (levels[0][1] if levels else None),
        levels=tuple(levels),
        achieved=launch.value(_ACHIEVED),
        theoretical=launch.value(_THEORETICAL),
        limiter=_LIMITS.get(limiter, limiter.replace("_", " ")),
        waves=launch.value(_WAVES),
        blocks=launch.value(_BLOCKS),
        registers=launch.value(_REGISTERS),
        stalls=_stalls(launch),
        units=tuple(units),
        hertz=launch.value(_CLOCK),
        shared_cost=_cost(launch, *_SHARED),
        global_cost=_cost(launch, *_GLOBAL),
    )


def to_json(found: Summary) -> dict[str, Any]:
    """A summary as JSON values."""
    plain = dataclasses.asdict(found)
    return {
        **plain,
        "levels": dict(found.levels),
        "stalls": dict(found.stalls),
        "units": dict(found.units),
        "bound": found.bound.name.lower(),
    }


def _cost(launch: Launch, real: str, ideal: str) -> float | None:
    """How often as much as it would need; None where that was not measured."""
    least = launch.value((ideal,))
    spent = launch.value((real,))
    return spent / least if spent is not None and least else None


def _stalls(launch: Launch) -> tuple[tuple[str, float], ...]:
    for pattern in (_STALL, _SAMPLED):
        found = {match["reason"]: value for name, (value, _) in launch.metrics.items() if (match := pattern.fullmatch(name))}
        found = {reason: value for reason, value in found.items() if not reason.endswith("_not_issued")}
        whole = sum(found.values())
        if whole > 0:
            shares = [(reason, 100 * value / whole) for reason, value in found.items() if reason not in _NO_WAIT and value > 0]
            return tuple(sorted(shares, key=lambda pair: (-pair[1], pair[0])))
    return ()


def _table(text: str, title: str) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of the table that has a column of this title, wherever it begins."""
    lines = [line for line in text.splitlines() if line.strip()]
    rows = list(csv.reader(lines))
    for number, row in enumerate(rows):
        if title in row and len(row) > 1:
            head = [cell.strip() for cell in row]
            return head, [one for one in rows[number + 1 :] if len(one) > 1 and one != row]
    return [], []


def _long(head: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[Launch, ...]:
    """A table with one metric in each row."""
    found: dict[str, tuple[str, dict[str, tuple[float, str]]]] = {}
    for row in rows:
        cells = dict(zip(head, row, strict=False))
        value = _number(cells.get("Metric Value", ""))
        _, metrics = found.setdefault(cells.get("ID", ""), (cells.get("Kernel Name", ""), {}))
        if value is not None:
            metrics[cells.get("Metric Name", "")] = (value, cells.get("Metric Unit", "").strip())
    return tuple(Launch(kernel=kernel, metrics=metrics) for kernel, metrics in found.values())


def _name_and_unit(title: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)(?: \[(.*)\])?", title.strip())
    assert match is not None
    return match[1], match[2] or ""


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "").strip())
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None
