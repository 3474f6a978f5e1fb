"""Launch plans, which later calls with the same key repeat, and their cache."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.seam_types import FunctionHandle, LaunchCall, LaunchShape
from tilec_runtime.launch.keys import CallFacts, Key, Slots
from tilec_runtime.launch.packing import ArgumentBlock, Packing
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


class LaunchPlan:
    """A launch that lacks only its stream and the numbers that its program reads.

    Attributes:
        variant: id of the variant it launches.
        function: the driver's handle of the entry point; None for an empty grid, which launches
            nothing.
        steps: the steps of its program.
        packing: how it packs arguments.
        cluster, cooperative, programmatic: as in `LaunchShape`.
        native: whether the launch core may repeat it. The core allocates no memory, makes no tensor
            maps and limits the size of plans.
        bind: returns the driver's call that enqueues a shape on a stream; caches the last ones.
    """

    def __init__(
        self,
        *,
        variant: str,
        function: FunctionHandle,
        shape: LaunchShape,
        steps: tuple[Step, ...],
        packing: Packing,
        bind: Bind,
        addresses: tuple[int, ...],
        native: bool,
    ) -> None:
        """Keep the results of `prepare`.

        `addresses` are the slots of the tensors' addresses.
        """
        self.variant, self.function, self.steps, self.native = variant, function, steps, native
        self.cluster, self.cooperative = shape.cluster, shape.cooperative
        self.programmatic = shape.programmatic
        self.template, self.offsets = packing.template, packing.offsets  # the launch core reads it
        self.patches = packing.patches
        self.bind = functools.lru_cache(maxsize=MOST_BOUND)(bind)
        self._packing, self._addresses = packing, addresses

    @functools.cached_property
    def program(self) -> bytes:
        """The program's steps as bytes."""
        return packed(self.steps)

    def ready(self, slots: Slots) -> Ready | None:
        """Return this plan for a call, or None if a guard of its program fails."""
        outputs = run(self.steps, slots, self._packing.outputs)
        return (
            None
            if outputs is None
            else Ready(
                plan=self,
                outputs=outputs,
                addresses=tuple([slots[index] for index in self._addresses]),
            )
        )

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

    def fill(self, ready: Ready, values: tuple[Any, ...]) -> ArgumentBlock:
        """Return the argument block of one launch.

        Raises:
            Exception: a number does not fit; the error is one of `scalars.MISFITS`.
        """
        return self._packing.pack(ready.addresses, ready.outputs, values)


@value_class(frozen=True)
class Ready:
    """A plan for one call, with the outputs of its program and the tensors' addresses."""

    plan: LaunchPlan
    outputs: list[int]
    addresses: tuple[int, ...]


class Plans:
    """The plan cache of one launcher, by the keys of calls."""

    def __init__(self) -> None:
        """Start empty."""
        self._plans: dict[Key, tuple[LaunchPlan, ...]] = {}

    def __len__(self) -> int:
        """Return the number of cached plans."""
        return sum(map(len, self._plans.values()))

    def find(self, facts: CallFacts) -> Ready | None:
        """Return a cached plan for a call, or None on a miss."""
        ready = (plan.ready(facts.slots) for plan in self._plans.get(facts.key, ()))
        return next((each for each in ready if each is not None), None)

    def add(self, facts: CallFacts, plan: LaunchPlan) -> None:
        """Cache the plan of a call."""
        if len(self._plans) >= MOST_PLANS and facts.key not in self._plans:
            self._plans.clear()
        self._plans[facts.key] = (plan, *self._plans.get(facts.key, ())[: MOST_ALIKE - 1])

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()
