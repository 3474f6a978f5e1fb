"""Launch plans, which later calls with the same key repeat, and their cache."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.seam import FunctionHandle, LaunchCall, LaunchShape, dim3
from tilec_runtime.launch.keys import CallFacts, Key, Slots
from tilec_runtime.launch.packing import Packing
from tilec_runtime.launch.program import SHAPE_OUTPUTS, Step, packed, run
from tilec_runtime.values import value_class

# Binds launches of a shape on a stream.
Bind = Callable[[LaunchShape, int], LaunchCall]

# Most keys in a launcher's cache; a miss beyond that empties it first.
MOST_PLANS = 1024
# Most plans of one key; the oldest is dropped.
MOST_ALIKE = 16
# Most bound launches that a plan caches, by shape and stream.
MOST_BOUND = 64


@value_class(frozen=True, kw_only=True)
class LaunchPlan:
    """A launch that lacks only its stream and the numbers that its program reads.

    Attributes:
        variant: id of the variant it launches.
        function: the driver's handle of the entry point; None for an empty grid, which launches
            nothing.
        cluster, cooperative, programmatic: as in `LaunchShape`.
        steps: the steps of its program.
        packing: how it packs arguments.
        bind: returns the driver's call that enqueues a shape on a stream.
        repeats: whether the launch core may repeat it. The core allocates no memory and makes no
            tensor maps.
    """

    variant: str
    function: FunctionHandle
    cluster: tuple[int, ...]
    cooperative: bool
    programmatic: bool
    steps: tuple[Step, ...]
    packing: Packing
    bind: Bind
    repeats: bool

    @functools.cached_property
    def native(self) -> tuple[Any, ...]:
        """What the launch core copies of the plan (`plan_new` in _core/plan.c)."""
        packing = self.packing
        return (
            packed(self.steps),
            packing.template,
            packing.offsets,
            packing.patches,
            dim3(self.cluster),
            self.cooperative,
            self.programmatic,
            self.function,
        )

    def outputs(self, slots: Slots) -> list[int] | None:
        """Return the outputs of its program for a call, or None if a guard fails."""
        return run(self.steps, slots, self.packing.outputs)

    def call(self, stream: int, outputs: list[int]) -> LaunchCall:
        """Return the driver's call that enqueues the launch on a stream."""
        x, y, z, block_x, block_y, block_z, shared = outputs[:SHAPE_OUTPUTS]
        shape = LaunchShape(
            grid=(x, y, z),
            block=(block_x, block_y, block_z),
            shared=shared,
            cluster=self.cluster,
            cooperative=self.cooperative,
            programmatic=self.programmatic,
        )
        return self.bind(shape, stream)


class Plans:
    """The plan cache of one launcher, by the keys of calls."""

    def __init__(self) -> None:
        """Start empty."""
        self._plans: dict[Key, tuple[LaunchPlan, ...]] = {}

    def find(self, facts: CallFacts) -> tuple[LaunchPlan, list[int]] | None:
        """Return a cached plan for a call and its program's outputs, or None on a miss."""
        for plan in self._plans.get(facts.key, ()):
            outputs = plan.outputs(facts.slots)
            if outputs is not None:
                return plan, outputs
        return None

    def add(self, facts: CallFacts, plan: LaunchPlan) -> None:
        """Cache the plan of a call."""
        if len(self._plans) >= MOST_PLANS and facts.key not in self._plans:
            self._plans.clear()
        self._plans[facts.key] = (plan, *self._plans.get(facts.key, ())[: MOST_ALIKE - 1])
