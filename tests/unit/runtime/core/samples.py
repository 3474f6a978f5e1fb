"""The launch core for its tests, which skip where it was not built unless the gate asks for it; and
plans that are written by hand.
"""

from __future__ import annotations

import ctypes
import os
import struct
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.launch import native
from tilec_runtime.launch import program as op
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts

core: Any = native.CORE
if core is None and os.environ.get("TILEC_NATIVE_STRICT", "0") in ("", "0"):
    pytest.skip("the launch core was not built, or is turned off", allow_module_level=True)

SHAPE = (4, 2, 1, 32, 1, 1, 64)


NUMBERS = {name: number for number, name in enumerate(DTYPES)}


def by_python(value: Any) -> Any:
    return tensor_facts(value, lambda _address: None)


def expected(value: Any) -> tuple[Any, ...] | None:
    """What C should say of an array that Python reads."""
    try:
        facts = by_python(value)
    except UnreadableError:
        return None
    if facts.dtype not in NUMBERS:
        return None
    return (
        facts.ptr,
        facts.shape,
        facts.stride,
        NUMBERS[facts.dtype],
        facts.device,
        facts.readonly,
        facts.contiguous,
    )


def program(steps: Sequence[tuple[int, int]] = (), shape: Sequence[int] = SHAPE) -> bytes:
    """A program that gives this launch shape, behind some steps of its own."""
    whole = [
        *steps,
        *(
            step
            for output, number in enumerate(shape)
            for step in ((op.CONST, number), (op.OUT, output))
        ),
    ]
    return struct.pack(f"<{2 * len(whole)}q", *(number for step in whole for number in step))


class Plan(types.SimpleNamespace):
    """A plan as Python gives it to the core: of no arguments, unless it is given any."""

    def __init__(self, steps: Sequence[tuple[int, int]] = (), **changed: Any) -> None:
        facts = {
            "program": program(steps),
            "template": b"",
            "offsets": (),
            "patches": (),
            "cluster": (1, 1, 1),
            "cooperative": False,
            "programmatic": False,
            "function": 0x77,
        }
        super().__init__(**(facts | changed))
        self.native = tuple(getattr(self, name) for name in facts)


class Recorder:
    """A double of the driver: it notes launches with their bytes, and answers what it is told."""

    def __init__(self, answer: Any = 0, then: Callable[[], None] = lambda: None) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.answer, self.then = answer, then

    def __call__(
        self, plan: Any, grid: Any, block: Any, shared: int, stream: int, parameters: int
    ) -> Any:
        self.launches.append((grid, block, shared, stream, arguments(plan, parameters)))
        self.then()
        return self.answer


def arguments(plan: Any, parameters: int) -> bytes:
    """The argument block that a launch reads: from the first argument's address on."""
    if not plan.offsets:
        return b""
    first = ctypes.c_void_p.from_address(parameters).value or 0
    return ctypes.string_at(first - plan.offsets[0], len(plan.template))


def table(
    target: Any,
    *,
    tensors: Sequence[int] = (),
    others: Sequence[int] = (0,),
    keyed: Sequence[int] = (),
    **changed: Any,
) -> Any:
    """A table for launches of one scalar, unless told otherwise."""
    facts = {
        "parameters": len(tensors) + len(others),
        "read": by_python,
        "recordings": {},
        "lines": {},
        "adopts": True,
        "outs": (),
    }
    return core.Table(
        tensors=tensors, others=others, keyed=keyed, target=target, **(facts | changed)
    )


class Counting(FakeDriver):
    """A driver that counts launches of the core."""

    hits = 0

    def launch_target(self, ordinal: int) -> Any:
        launch = super().launch_target(ordinal)

        def counted(*args: Any) -> str:
            self.hits += 1
            return launch(*args)

        return counted


class Plain(FakeDriver):
    """A driver whose launches take Python's path."""

    def launch_target(self, ordinal: int) -> Any:
        return None
