"""How batches of blocks run: control flow, their order, and waits for each other."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.unit.runtime.cpu.tileir.build import I32, I64, TOKEN, Builder, program, region_of, tile
from tilec_runtime.cpu.tileir.blocks import batches
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import (
    MemoryOrder,
    MemoryScope,
    Pointer,
    Predicate,
    Scalar,
    Signedness,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import FaultError, UsageError


def printed(
    made: Program,
    blocks: int = 4,
    arguments: tuple[Any, ...] = (),
    memory: Memory | None = None,
    **options: Any,
) -> str:
    texts: list[str] = []
    more = Options(output=texts.append, **options)
    execute(made, arguments, (blocks, 1, 1), memory or Memory(), more)
    return "".join(texts)


def counted(
    lower: int, upper: int, step: int, element: Scalar = Scalar.I32, unsigned: bool = False
) -> Program:
    kind = tile(element)

    def fill(b: Builder) -> None:
        ends = [b.constant(np.array(end).astype(np.int64), element) for end in (lower, upper, step)]

        def body(counter: Value) -> None:
            b.show(counter)
            b.op("continue")

        region = b.region([kind], body)
        b.op(
            "for",
            {"lower": ends[0], "upper": ends[1], "step": ends[2], "init": ()},
            (),
            {"unsigned_cmp": unsigned},
            [region],
        )
        b.ret()

    return program((), fill)


def test_a_for_ends_where_its_counter_would_wrap() -> None:
    assert printed(counted(2**31 - 4, 2**31 - 1, 2), blocks=1) == "2147483644;2147483646;"
    top = 2**63 - 1
    assert printed(counted(top - 3, top, 2, Scalar.I64), blocks=1) == f"{top - 3};{top - 1};"


def test_a_for_compares_unsigned_where_it_says_so() -> None:
    assert printed(counted(1, -2, 2**31 - 2, unsigned=True), blocks=1) == f"1;{2**31 - 1};{-3};"
    assert printed(counted(1, -2, 1), blocks=1) == ""
    assert printed(counted(0, -1, -4, unsigned=True), blocks=1) == "0;-4;"
    assert printed(counted(-2, -1, 1, Scalar.I64, unsigned=True), blocks=1) == "-2;"


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_that_leads_nowhere_is_a_fault(step: int) -> None:
    with pytest.raises(
        FaultError,
        match=rf"^kernel.py:6:1: kernel: for in block \(0, 0, 0\): the step of the loop is {step}",
    ):
        printed(counted(0, 3, step))


def unlike_loop() -> Program:
    """A `loop` whose result has another type than what it carries: block x breaks after x passes,
    and gives a 64-bit number.
    """

    def fill(b: Builder) -> None:
        x, zero, one = b.block(), b.constant(0), b.constant(1)

        def body(count: Value) -> None:
            def out() -> None:
                wide = b.op("exti", {"source": count}, I64, {"signedness": Signedness.SIGNED})
                b.op("break", {"values": [wide]})

            b.op(
                "if",
                {"condition": b.compare(count, x)},
                (),
                {},
                [b.region((), lambda: b.op("yield")), b.region((), out)],
            )
            b.op("continue", {"values": [b.add(count, one)]})

        result = b.op("loop", {"init": [zero]}, [I64], {}, [b.region([I32], body)], line=7)
        b.show(x, result)
        b.ret()

    return program((), fill)


def test_divergence_does_not_pile_up() -> None:
    # One block leaves in each of 3000 passes: frames upon frames would be too deep for Python.
    assert printed(unlike_loop(), blocks=3000).endswith("2998 2998;2999 2999;")


def forever() -> Program:
    def fill(b: Builder) -> None:
        b.op("loop", {"init": ()}, (), {}, [b.region((), lambda: b.op("continue"))], line=42)
        b.ret()

    return program((), fill)


def test_an_endless_loop_is_a_fault_that_names_its_line() -> None:
    with pytest.raises(FaultError) as caught:
        printed(forever(), steps=100)
    error = caught.value
    assert str(error).startswith(
        "kernel.py:42:1: kernel: loop in block (0, 0, 0): still running after 100 passes of its loops"
    )
    assert "fix: look at the loop's condition" in str(error)
    assert (error.kernel, error.block, error.location and error.location.line) == (
        "kernel",
        (0, 0, 0),
        42,
    )


def test_a_run_stops_when_somebody_asks() -> None:
    asked = iter([False] * 50 + [True] * 9)
    with pytest.raises(FaultError, match="kernel: stopped on request"):
        printed(forever(), cancelled=lambda: next(asked))


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


def run(made: Program, blocks: int, **options: Any) -> tuple[str, int]:
    """What is printed, and what the counter comes to."""
    counter = np.zeros(1, np.int32)
    memory = Memory([region_of("counter", counter)])
    arguments = (counter.ctypes.data,)
    return printed(made, blocks, arguments, memory=memory, **options), int(counter[0])


@pytest.mark.parametrize("order", ["forward", "reverse", 3])
def test_blocks_wait_for_the_one_before(order: str | int) -> None:
    assert run(in_turn(), 400, order=order) == ("".join(f"{x};" for x in range(400)), 400)


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


GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5))


@given(GRIDS, st.integers(1, 200), st.sampled_from(["forward", "reverse"]) | st.integers(0, 99))
def test_every_block_runs_once_in_batches_of_bounded_size(
    grid: tuple[int, int, int], size: int, order: str | int
) -> None:
    parts = list(batches(grid, size, order))
    assert max(len(part) for part in parts) <= size
    numbers = np.concatenate(parts).tolist()
    count = math.prod(grid)
    assert sorted(numbers) == list(range(count))
    if not isinstance(order, int):
        assert numbers == list(range(count))[:: 1 if order == "forward" else -1]


def test_random_orders_differ_and_come_again() -> None:
    first, again, other = (
        np.concatenate(list(batches((500, 1, 1), 64, seed))).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(UsageError, match="no order of blocks is called 'sideways'"):
        list(batches((4, 1, 1), 4, "sideways"))
