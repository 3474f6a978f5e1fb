"""Plans of launches: what a checked call leaves to later calls of its class, and the bounded table
of one launcher's plans.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.seam_types import FunctionHandle, LaunchCall, LaunchShape
from tilec_runtime.launch.conditions import SHAPE_OUTPUTS, Program
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.keys import Facts, Key, Slots, exact_key
from tilec_runtime.launch.packing import Block, Packing
from tilec_runtime.launch.program import packed, run
from tilec_runtime.values import value_class

# Binds launches of a shape on a stream.
Bind = Callable[[LaunchShape, int], LaunchCall]

# Keys that one launcher caches plans for, general and exact ones each; a miss beyond that starts
# over.
MOST_PLANS = 1024
# Plans of one key; the oldest leaves.
MOST_ALIKE = 16
# Bound launches that a plan keeps, by shape and stream.
MOST_BOUND = 64


class Plan:
    """A launch that is ready but for its stream and what its program reads.

    Attributes:
        variant: id of the variant it launches.
        function: the driver's handle of the entry point; None for an empty grid, which launches
            nothing.
        exact: why it is for the extents and strides of one call; empty for a general plan.
        steps: of its program. outputs: how many that has.
        template, offsets, patches: of the argument block (`Packing`).
        cluster, cooperative, programmatic: of its launches.
        lasting: whether later calls may use it.
        native: whether the launch core may launch it, which allocates no memory and takes plans up
            to its limits.
        bind: gives the driver's call that enqueues a shape on a stream, and remembers the last
            ones.
    """

    def __init__(
        self,
        *,
        variant: str,
        function: FunctionHandle,
        shape: LaunchShape,
        program: Program,
        exact: str,
        packing: Packing,
        bind: Bind,
        addresses: tuple[int, ...],
        scratch: bool = False,
    ) -> None:
        """Keep what a launch needs of a call that was checked; `addresses` are the slots of the
        tensors' addresses.
        """
        self.variant, self.function, self.exact = variant, function, exact
        self.cluster, self.cooperative, self.programmatic = (
            shape.cluster,
            shape.cooperative,
            shape.programmatic,
        )
        self.steps, self.outputs, self.lasting = program.steps, program.outputs, program.lasting
        self.native = self.lasting and not exact and not scratch
        self.template, self.offsets, self.patches = (
            packing.template,
            packing.offsets,
            packing.patches,
        )
        self.bind = functools.lru_cache(maxsize=MOST_BOUND)(bind)
        self._packing, self._addresses = packing, addresses

    @functools.cached_property
    def program(self) -> bytes:
        """The program's steps as bytes."""
        return packed(self.steps)

    def ready(self, slots: Slots) -> Ready | None:
        """This plan for a call; None where it does not apply."""
        outputs = run(self.steps, slots, self.outputs)
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
        """What enqueues a launch on a stream."""
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

    def fill(self, ready: Ready, values: tuple[Any, ...]) -> Block:
        """An argument block of one launch.

        Raises:
            Exception: one of `scalars.MISFITS`: a number does not fit.
        """
        return self._packing.pack(ready.addresses, ready.outputs, values)


@value_class(frozen=True, slots=True)
class Ready:
    """A plan for one call: with the outputs of its program and the tensors' addresses."""

    plan: Plan
    outputs: list[int]
    addresses: tuple[int, ...]


class Plans:
    """The plans of one launcher."""

    def __init__(self) -> None:
        """Start with none."""
        self._general: dict[Key, tuple[Plan, ...]] = {}
        self._exact: dict[Key, tuple[Plan, ...]] = {}

    def __len__(self) -> int:
        """How many plans are cached."""
        return sum(map(len, (*self._general.values(), *self._exact.values())))

    def find(self, contract: Contract, facts: Facts) -> Ready | None:
        """A cached plan for a call; None on a miss."""
        plans = self._general.get(facts.key, ())
        if self._exact:
            plans += self._exact.get(exact_key(contract, facts), ())
        return next(
            (ready for plan in plans if (ready := plan.ready(facts.slots)) is not None), None
        )

    def add(self, contract: Contract, facts: Facts, plan: Plan) -> None:
        """Cache a plan of a call, if it lasts."""
        if not plan.lasting:
            return
        plans, key = (
            (self._exact, exact_key(contract, facts)) if plan.exact else (self._general, facts.key)
        )
        if len(plans) >= MOST_PLANS and key not in plans:
            plans.clear()
        plans[key] = (plan, *plans.get(key, ())[: MOST_ALIKE - 1])

    def clear(self) -> None:
        """Forget all plans."""
        self._general.clear()
        self._exact.clear()
