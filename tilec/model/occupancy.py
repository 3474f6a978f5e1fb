"""Occupancy: resident blocks of a kernel on one multiprocessor, and the limiting resource."""

from __future__ import annotations

import dataclasses

from tilec_runtime.model.arch import Arch

WARP = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
# Registers are allocated to warps in units of 256, from one of four equal parts of the register
# file; shared memory in units of 128 bytes (256 before compute capability 8.0).
_REGISTER_UNIT = 256
_PARTITIONS = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Occupancy:
    """Occupancy of one multiprocessor.

    Attributes:
        blocks_per_sm: resident blocks; 0 if a block does not fit at all.
        limiter: the limiting resource: `threads`, `blocks`, `registers` or `shared`.
        warps: resident warps.
        fraction: resident warps divided by the maximum, 0 to 1.
    """

    blocks_per_sm: int
    limiter: str
    warps: int
    fraction: float


def occupancy(
    arch: Arch,
    *,
    threads_per_block: int,
    registers: int,
    shared_static: int = 0,
    shared_dynamic: int = 0,
) -> Occupancy:
    """Return the resident blocks of a kernel on one multiprocessor.

    It assumes the largest carve-out of shared memory, and that barriers are no limit, as with one
    per block.

    Args:
        arch: the device's row of the table.
        threads_per_block: threads of one block, at least 1.
        registers: registers per thread.
        shared_static: static shared memory of a block in bytes.
        shared_dynamic: dynamic shared memory of a block in bytes.

    Raises:
        ValueError: an argument is negative, or there are no threads.
    """
    if threads_per_block < 1 or registers < 0 or shared_static < 0 or shared_dynamic < 0:
        raise ValueError(
            f"{threads_per_block} threads, {registers} registers, {shared_static} + {shared_dynamic} bytes: no such block"
        )
    warps = -(-threads_per_block // WARP)
    limits = {
        "threads": arch.warps // warps if threads_per_block <= MAX_THREADS_PER_BLOCK else 0,
        "blocks": arch.blocks,
        "registers": _register_limit(arch, warps, registers),
        "shared": _shared_limit(arch, shared_static + shared_dynamic),
    }
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    return Occupancy(
        blocks_per_sm=blocks,
        limiter=limiter,
        warps=blocks * warps,
        fraction=blocks * warps / arch.warps,
    )


def _register_limit(arch: Arch, warps: int, registers: int) -> int:
    if registers == 0:
        return arch.blocks
    if registers > MAX_REGISTERS_PER_THREAD:
        return 0
    per_warp = _round_up(registers * WARP, _REGISTER_UNIT)
    # The hardware counts a block's warps as if they were spread evenly over all parts.
    if per_warp * _round_up(warps, _PARTITIONS) > arch.registers:
        return 0
    return arch.registers // _PARTITIONS // per_warp * _PARTITIONS // warps


def _shared_limit(arch: Arch, shared: int) -> int:
    if shared > arch.shared_block:
        return 0
    needed = _round_up(shared + arch.shared_reserved, 128 if arch.cc >= (8, 0) else 256)
    return arch.shared // needed if needed else arch.blocks


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
