"""The random programs of test_programs.py as a state machine of Hypothesis: a rule for each step,
the model as what is compared.

A failure is told as the steps that lead to it, in order, with the numbers that they chose by.
TILEC_PROGRAMS says how many programs to try.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.programs import tensor_steps
from tests.programs.programs import WEIGHTS, Step, end, one_step, watched
from tests.programs.world import Numbers, World
from tests.property.test_programs import CpuSite
from tilec_runtime import use_device

_NUMBERS = st.integers(0, 8**4 - 1)


class Programs(RuleBasedStateMachine):
    """A program that grows step by step, on the device and in the model."""

    site: CpuSite

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None

    @initialize(pace=st.integers(0, 1000))
    def begin(self, pace: int) -> None:
        self.site.delays.seed(pace)
        self.owners = len(self.site.driver._owners)

        def made() -> World:
            with use_device(self.site.device):
                world = World(self.site)
                for number in range(3):
                    tensor_steps.make(world, Numbers(0, number, number, 0))
                return world

        self.world = watched(made)

    def take(self, step: Step, number: int) -> None:
        """Carry out a step; where device and model part, the program ends there."""
        world, self.world = self.world, None
        assert world is not None

        def taken() -> None:
            with use_device(self.site.device):
                one_step(world, step, number)

        watched(taken)
        self.world = world

    def teardown(self) -> None:
        if self.world is not None:
            world, self.world = self.world, None

            def ended() -> None:
                with use_device(self.site.device):
                    end(world)

            watched(ended)
            assert len(self.site.driver._owners) == self.owners, (
                "memory that nobody has was not given back"
            )


def _as_rule(step: Step) -> Any:
    @rule(number=_NUMBERS)
    @functools.wraps(step)
    def taken(self: Programs, number: int) -> None:
        self.take(step, number)

    return taken


def _machine(steps: Iterable[Step]) -> type[Programs]:
    """The machine of these steps, with a device of its own."""
    rules = {
        f"{step.__module__.rpartition('.')[2]}_{step.__name__}": _as_rule(step) for step in steps
    }
    return type("Programs", (Programs,), {"site": CpuSite(), **rules})


def _settings(programs: int) -> settings:
    return settings(
        max_examples=programs,
        stateful_step_count=50,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_programs_give_what_they_give_one_step_at_a_time() -> None:
    run_state_machine_as_test(
        _machine(WEIGHTS), settings=_settings(int(os.environ.get("TILEC_PROGRAMS", "50")))
    )


def test_the_machine_sees_what_is_wrong() -> None:
    """The same, on a device that reads one argument twice and another one never."""
    machine = _machine([tensor_steps.launch])
    launch = machine.site.launch
    machine.site.launch = lambda stream, z, x, _: launch(stream, z, x, x)  # type: ignore[method-assign]
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine, settings=settings(_settings(20), phases=[Phase.generate])
        )
