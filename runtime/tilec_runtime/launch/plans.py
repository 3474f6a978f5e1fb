"""Launch plans, which later calls of the same key repeat, and the bounded table of one launcher's
plans.
"""

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

# Keys that one launcher caches plans for; a miss beyond that starts over.
MOST_PLANS = 1024
# Plans of one key; the oldest leaves.
MOST_ALIKE = 16
# Bound launches that a plan keeps, by shape and stream.
MOST_BOUND = 64


class LaunchPlan:
    """A launch that is ready but for its stream and what its program reads.

    Attributes:
        variant: id of the variant it launches.
        function: the driver's handle of the entry point; None for an empty grid, which launches
            nothing.
        steps: of its program.
        packing: how it packs arguments.
        cluster, cooperative, programmatic: of its launches.
        native: whether the launch core may launch it, which allocates no memory, makes no tensor
            maps and takes plans up to its limits.
        bind: gives the driver's call that enqueues a shape on a stream, and remembers the last
            ones.
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
        """Keep what a launch needs of a call that was checked; `addresses` are the slots of the
        tensors' addresses.
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
        """This plan for a call; None where it does not apply."""
        outputs = run(self.steps, slots, self._packing.outputs)
        return (
            None
            if outputs is None
            else Ready(
                plan=self,
                outputs=outputs,
                addresses=tuple([slots[place] for place in self._addresses]),
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
        """An argument block of one launch.

        Raises:
            Exception: one of `scalars.MISFITS`: a number does not fit.
        """
        return self._packing.pack(ready.addresses, ready.outputs, values)


@value_class(frozen=True)
class Ready:
    """A plan for one call: with the outputs of its program and the tensors' addresses."""

    plan: LaunchPlan
    outputs: list[int]
    addresses: tuple[int, ...]


class Plans:
    """The plans of one launcher, by the keys of calls."""

    def __init__(self) -> None:
        """Start with none."""
        self._plans: dict[Key, tuple[LaunchPlan, ...]] = {}

    def __len__(self) -> int:
        """How many plans are cached."""
        return sum(map(len, self._plans.values()))

    def find(self, facts: CallFacts) -> Ready | None:
        """Return a cached plan for a call; None on a miss."""
        ready = (plan.ready(facts.slots) for plan in self._plans.get(facts.key, ()))
        return next((each for each in ready if each is not None), None)

    def add(self, facts: CallFacts, plan: LaunchPlan) -> None:
        """Cache a plan of a call."""
        if len(self._plans) >= MOST_PLANS and facts.key not in self._plans:
            self._plans.clear()
        self._plans[facts.key] = (plan, *self._plans.get(facts.key, ())[: MOST_ALIKE - 1])

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
