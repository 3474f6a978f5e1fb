"""Operations that ask where a block is, and those that only order: tokens and grid dependencies, which mean nothing on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilec_runtime.cpu.tileir.frame import Binder, Body, Frame, Step
from tilec_runtime.cpu.tileir.ir import Block, Op


def _block_id(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    results = op.results

    def step(frame: Frame) -> None:
        for result, place in zip(results, frame.launch.coordinates(frame.blocks), strict=True):
            held = place.astype(np.int32)
            # One row for all makes everything that hangs on it cheaper.
            frame.set(result, held[:1] if held[0] == held[-1] and (held == held[0]).all() else held)

    return step


def _grid_size(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    results = op.results

    def step(frame: Frame) -> None:
        for result, extent in zip(results, frame.launch.grid, strict=True):
            frame.set(result, np.array([extent], np.int32))

    return step


def _token(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    # The operations of a block run in the order of the text, each to its end, which every token already promises.
    results = op.results

    def step(frame: Frame) -> None:
        for result in results:
            frame.set(result, None)

    return step


BINDERS: dict[str, Binder] = {
    "get_tile_block_id": _block_id,
    "get_num_tile_blocks": _grid_size,
    **dict.fromkeys(("make_token", "join_tokens", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko"), _token),
}
