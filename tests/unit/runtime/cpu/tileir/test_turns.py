"""Blocks that wait for each other: which loops make them take turns, and how waiting ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, Builder, program, tile
from tilec_runtime.cpu.tileir.execute import Options, execute
from tilec_runtime.cpu.tileir.ir import (
    MemoryOrder,
    MemoryScope,
    Pointer,
    Predicate,
    Scalar,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import FaultError

POINTER = tile(Pointer(Scalar.I32))


def either(b: Builder, condition: Value, then: str, otherwise: str) -> None:
    b.op(
        "if",
        {"condition": condition},
        (),
        {},
        [b.region((), lambda: b.op(then)), b.region((), lambda: b.op(otherwise))],
    )


def in_turn(first: int = 0) -> Program:
    """Each block waits until a counter has come to its number, prints, and counts on."""

    def fill(b: Builder, pointer: Value) -> None:
        x = b.block()
        wanted = b.add(x, b.constant(first))

        def body() -> None:
            seen = b.atomic_add(pointer, b.constant(0))
            either(b, b.compare(seen, wanted, Predicate.EQUAL), "break", "yield")
            b.op("continue")

        b.op("loop", {"init": ()}, (), {}, [b.region((), body)], line=33)
        b.show(x)
        b.atomic_add(pointer, b.constant(1))
        b.ret()

    return program([POINTER], fill)


def run(made: Program, blocks: int, counter: Any = None, **options: Any) -> str:
    texts: list[str] = []
    held = np.zeros(1, np.int32) if counter is None else counter
    memory = Memory([MemoryRegion.of("counter", held)])
    execute(
        made, [held.ctypes.data], (blocks, 1, 1), memory, Options(output=texts.append, **options)
    )
    return "".join(texts)


@pytest.mark.parametrize("order", ["forward", "reverse", 3])
def test_blocks_wait_for_the_one_before(order: str | int) -> None:
    counter = np.zeros(1, np.int32)
    assert run(in_turn(), 400, counter, order=order) == "".join(f"{x};" for x in range(400))
    assert counter[0] == 400


def test_a_wait_that_never_ends_is_found() -> None:
    with pytest.raises(FaultError) as caught:
        run(in_turn(first=1), 5)
    assert str(caught.value).startswith(
        "kernel.py:33:1: kernel: block (0, 0, 0) and 4 more wait in a loop for what no block in flight does\n  cause: a lock"
    )
    assert caught.value.block == (0, 0, 0)


def test_an_ordered_load_can_be_waited_for_and_a_weak_one_cannot() -> None:
    def loads(order: MemoryOrder) -> bool:
        def fill(b: Builder, pointer: Value) -> None:
            def body() -> None:
                seen, _ = b.op(
                    "load_ptr_tko",
                    {"source": pointer},
                    [I32, TOKEN],
                    {"order": order, "scope": MemoryScope.DEVICE},
                )
                either(b, b.compare(seen, b.constant(0), Predicate.NOT_EQUAL), "break", "continue")
                b.op("continue")

            b.op("loop", {"init": ()}, (), {}, [b.region((), body)])
            b.ret()

        return bool(program([POINTER], fill).waits)

    assert loads(MemoryOrder.ACQUIRE)
    assert loads(MemoryOrder.RELAXED)
    assert not loads(MemoryOrder.WEAK)
