"""Control flow of batches: loops with bounds of their own, early exits, and what damaged control
flow is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, I64, Builder, program, tile
from tilec_runtime.cpu.tileir.execute import Options, execute
from tilec_runtime.cpu.tileir.ir import Scalar, Signedness, Value
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import FaultError


def printed(made: Program, blocks: int = 4, arguments: tuple[Any, ...] = (), **options: Any) -> str:
    texts: list[str] = []
    execute(made, arguments, (blocks, 1, 1), Memory(), Options(output=texts.append, **options))
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
