"""Reads what Nsight Compute prints of a launch, in the layouts of several versions, and says in words what holds the launch up."""

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

# What a warp waits for, and what helps.
STALLS: dict[str, tuple[str, str]] = {
    "long_scoreboard": ("data from global or local memory", "load earlier, load wider, or keep more warps resident"),
    "short_scoreboard": ("shared memory and special functions", "look for bank conflicts, and for exp, sin or division in loops"),
    "barrier": ("other warps at a barrier of the block", "smaller blocks, or fewer barriers"),
    "membar": ("a memory fence", "fewer or narrower fences"),
    "lg_throttle": ("room in the queue of global memory", "fewer and wider accesses"),
    "mio_throttle": ("room in the queue of shared memory and special functions", "fewer and wider accesses of shared memory"),
    "tex_throttle": ("room in the queue of the texture unit", "fewer accesses through it"),
    "math_pipe_throttle": ("a busy arithmetic unit", "another unit, such as tensor cores, or fewer operations"),
    "gmma": ("tensor cores of its warp group", "nothing, where they are busy; else more of their work in flight"),
    "wait": ("a fixed number of cycles between dependent instructions", "more independent work in a thread"),
    "no_instruction": ("instructions to be fetched", "shorter code: less unrolling"),
    "no_instructions": ("instructions to be fetched", "shorter code: less unrolling"),
    "imc_miss": ("constants that are not in their cache", "fewer different constants at a time"),
    "branch_resolving": ("a branch to be decided", "fewer branches in loops"),
    "sleeping": ("its own nanosleep", "shorter sleeps"),
    "drain": ("its stores to leave at the end", "fewer or wider stores"),
    "dispatch_stall": ("the dispatcher", "nothing: it is seldom much"),
    "not_selected": ("its turn: others were ready too", "nothing: there are warps enough"),
    "misc": ("other things", "nothing"),
}
_NO_WAIT = {"selected"}  # the warp issued
NEAR = 60.0  # percent of what the hardware can do, from which on it is a limit
_SECONDS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "s": 1.0}


class Bound(enum.Enum):
    """What holds a launch up."""

    MEMORY = "memory"
    COMPUTE = "compute"
    BOTH = "memory and compute"
    GRID = "the size of its grid"
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
        return Bound.GRID if self.waves is not None and self.waves < 1 else Bound.LATENCY


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
            if value is not None and "__" in names[place][0]:
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
    )


def words(found: Summary) -> tuple[str, ...]:
    """A summary in sentences: what bounds the launch, its occupancy, and what its warps wait for."""
    return tuple(filter(None, (_bound_words(found), _occupancy_words(found), _stall_words(found))))


def to_json(found: Summary) -> dict[str, Any]:
    """A summary as JSON values."""
    plain = dataclasses.asdict(found)
    return {
        **plain,
        "levels": dict(found.levels),
        "stalls": dict(found.stalls),
        "bound": found.bound.name.lower(),
        "words": list(words(found)),
    }


def _bound_words(found: Summary) -> str:
    if found.compute is None or found.memory is None:
        return "what bounds it is unknown: ncu gave no shares of compute and memory"
    shares = f"compute {found.compute:.0f} %, memory {found.memory:.0f} % of what the GPU can do"
    level = found.levels[0][0] if found.levels else "memory"
    match found.bound:
        case Bound.MEMORY:
            helps = {
                "DRAM": "fewer bytes help: smaller dtypes, fusing with what comes before or after, keeping what is read twice",
                "L2": "fewer reads of the same data help: larger tiles, or an order of blocks that shares them",
            }.get(level, "wider accesses help, and fewer conflicts of banks")
            return f"memory bounds it, {level} most ({shares}): {helps}"
        case Bound.COMPUTE:
            return f"compute bounds it ({shares}): fewer or cheaper operations help, such as those of tensor cores"
        case Bound.BOTH:
            return f"memory and compute are both near what they can do ({shares}): little is left to gain"
        case Bound.GRID:
            blocks = f"{found.blocks:.0f} blocks" if found.blocks is not None else "its blocks"
            return f"the grid is too small ({shares}): {blocks} fill {found.waves:.2f} of the GPU once; more and smaller blocks help"
        case _:
            return f"it waits ({shares}): neither is near its limit, so what its warps wait for counts"


def _occupancy_words(found: Summary) -> str:
    if found.achieved is None or found.theoretical is None:
        return ""
    limit = f", which {found.limiter} allow" if found.limiter else ""
    said = f"occupancy {found.achieved:.0f} % of at most {found.theoretical:.0f} %{limit}"
    if found.achieved < 0.7 * found.theoretical:
        said += ": blocks of unequal length, or too few of them, leave the rest empty"
    return said


def _stall_words(found: Summary) -> str:
    top = [(reason, share) for reason, share in found.stalls if share >= 5 and reason != "not_selected"][:3]
    if not top:
        return ""
    said = "; ".join(f"{stall_text(reason)} ({share:.0f} %)" for reason, share in top)
    return f"warps wait for {said}: {STALLS.get(top[0][0], ('', 'see the report'))[1]}"


def stall_text(reason: str) -> str:
    """What a warp waits for, by ncu's name of it."""
    return STALLS.get(reason, (reason.replace("_", " "), ""))[0]


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
