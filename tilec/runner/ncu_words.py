"""What the counters of a launch mean, in sentences: what bounds it, what it wastes, its occupancy, and what its warps wait for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilec.runner.ncu import ISSUE, NEAR, Bound, Summary

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
_UNIT_HELPS = {
    "tensor cores": "little is left to gain, but by fewer or narrower (f8) products",
    "f32 and integer multiply-adds": "fewer operations help; products of matrices belong on tensor cores",
    "integer and logic units": "fewer index computations, comparisons and conversions help",
    "f64 units": "f32 helps, where it is precise enough",
    "special functions and conversions": "fewer or approximate exp, log, sin, division and conversions help",
    ISSUE: "fewer instructions help: wider accesses, more work in a thread, less arithmetic on indices",
}
WASTEFUL = 1.5  # times what accesses need, from which on it is said
_WAITS = {Bound.MEMORY_LATENCY, Bound.LATENCY}


def words(found: Summary) -> tuple[str, ...]:
    """A summary in sentences: what bounds the launch, what it wastes, its occupancy, and what its warps wait for."""
    return tuple(
        filter(None, (_bound_words(found), *_waste_words(found), _occupancy_words(found), _wave_words(found), _stall_words(found)))
    )


def stall_text(reason: str) -> str:
    """What a warp waits for, by ncu's name of it."""
    return STALLS.get(reason, (reason.replace("_", " "), ""))[0]


def _bound_words(found: Summary) -> str:
    if found.compute is None or found.memory is None:
        return "what bounds it is unknown: ncu gave no shares of compute and memory"
    shares = f"compute {found.compute:.0f} %, memory {found.memory:.0f} % of what the GPU can do"
    level = found.level
    match found.bound:
        case Bound.MEMORY:
            helps = {
                "DRAM": "fewer bytes help: smaller dtypes, fusing with what comes before or after, keeping what is read twice",
                "L2": "fewer reads of the same data help: larger tiles, or an order of blocks that shares them",
            }.get(level, "wider accesses help, and fewer conflicts of banks")
            return f"memory bounds it, {level} most ({shares}): {helps}"
        case Bound.COMPUTE:
            busy = [unit for unit, share in found.units if share >= NEAR]
            if busy:  # a unit that computes says more than the issue of what it is given
                unit = next((unit for unit in busy if unit != ISSUE), ISSUE)
                return f"compute bounds it, {unit} most ({shares}): {_UNIT_HELPS[unit]}"
            return f"compute bounds it ({shares}): fewer or cheaper instructions help"
        case Bound.BOTH:
            return f"memory and compute are both near what they can do ({shares}): little is left to gain"
        case Bound.GRID:
            blocks = f"{found.blocks:.0f} blocks" if found.blocks is not None else "its blocks"
            return f"the grid is too small ({shares}): {blocks} fill {found.waves:.2f} of the GPU once; more and smaller blocks help"
        case Bound.MEMORY_LATENCY:
            return (
                f"it waits for memory ({shares}): answers take long, and too little is asked for meanwhile; more bytes under way help: "
                "wider loads, several independent ones in a thread, more warps"
            )
        case _:
            return f"it waits ({shares}): neither is near its limit, so what its warps wait for counts"


def _waste_words(found: Summary) -> Iterator[str]:
    if found.shared_cost is not None and found.shared_cost >= WASTEFUL:
        yield (
            f"shared memory takes {found.shared_cost:.1f} times as many passes as its accesses need: threads of a warp meet in its banks; "
            "pad the rows, or swizzle the index"
        )
    if found.global_cost is not None and found.global_cost >= WASTEFUL:
        yield (
            f"global memory moves {found.global_cost:.1f} times as many sectors as its accesses need: "
            "let neighbouring threads take neighbouring elements"
        )


def _occupancy_words(found: Summary) -> str:
    if found.achieved is None or found.theoretical is None:
        return ""
    limit = ""
    if found.limiter and found.theoretical < 100:
        limit = f", which {found.limiter} {'allows' if found.limiter == 'shared memory' else 'allow'}"
    said = f"occupancy {found.achieved:.0f} % of at most {found.theoretical:.0f} %{limit}"
    if found.achieved < 0.7 * found.theoretical:
        said += ": blocks of unequal length, or too few of them, leave the rest empty"
    elif found.theoretical <= 25 and found.bound in _WAITS:
        said += ": so few warps cannot fill the time in which each of them waits"
    return said


def _wave_words(found: Summary) -> str:
    """A last wave that leaves much of the GPU empty, where there are so few that it counts."""
    waves = found.waves
    if waves is None or waves <= 1 or math.ceil(waves) > 4 or waves / math.ceil(waves) >= 0.8:
        return ""
    last = 100 * (waves - math.floor(waves))
    return f"its last wave of blocks fills {last:.0f} % of the GPU: a grid whose waves come out even would lose less"


def _stall_words(found: Summary) -> str:
    top = [(reason, share) for reason, share in found.stalls if share >= 5 and reason != "not_selected"][:3]
    if not top:
        return ""
    said = "warps wait for " + "; ".join(f"{stall_text(reason)} ({share:.0f} %)" for reason, share in top)
    # Where a unit is busy all the time, or most of the GPU is empty, shorter waits would change nothing; what helps memory is said already.
    return f"{said}: {STALLS.get(top[0][0], ('', 'see the report'))[1]}" if found.bound in (Bound.LATENCY, Bound.UNKNOWN) else said
