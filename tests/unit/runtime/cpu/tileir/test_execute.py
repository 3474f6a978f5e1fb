"""Launches: arguments, variables of a module, threads, interrupts, and failures of the interpreter
itself.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I1, I32, I64, TOKEN, Builder, module, program, tile
from tilec_runtime.cpu.tileir import program as programs
from tilec_runtime.cpu.tileir.execute import Options, execute, memory_of_variables, prepare
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Global,
    MemoryOrder,
    MemoryScope,
    Pointer,
    Scalar,
    Tile,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.errors import ArgumentError, FaultError, InternalError

POINTER = tile(Pointer(Scalar.F32))


def shows(*kinds: Tile):
    formats = {Scalar.F32: "%g", Scalar.BF16: "%g"}

    def fill(b: Builder, *args: Value) -> None:
        for arg in args:
            assert isinstance(arg.type, Tile)
            text = (
                formats.get(
                    arg.type.element, "%llx" if isinstance(arg.type.element, Pointer) else "%lld"
                )
                if arg.type
                else ""
            )
            b.op("print_tko", {"args": [arg]}, TOKEN, {"text": text + ";"})
        b.ret()

    return program(kinds, fill)


def given(kinds: list[Tile], arguments: list[Any]) -> str:
    texts: list[str] = []
    execute(shows(*kinds), arguments, (1, 1, 1), Memory(), Options(output=texts.append))
    return "".join(texts)


def test_arguments_are_numbers_and_addresses() -> None:
    assert (
        given([POINTER, I32, I64, I1], [0x7F00, -3, np.int64(2**40), True]) == f"7f00;-3;{2**40};1;"
    )
    assert given([tile(Scalar.F32), tile(Scalar.BF16)], [0.5, np.float32(1.25)]) == "0.5;1.25;"
    assert given([I32, tile(Scalar.I8)], [2**32 - 1, 255]) == "-1;-1;"
    assert given([POINTER], [2**64 - 16]) == "fffffffffffffff0;"


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (I32, 2**32, "does not fit 32 bits"),
        (I32, 1.5, "interpreted as an integer"),
        (tile(Scalar.F32), "x", "could not convert"),
        (I1, 2, "1 bits"),
    ],
)
def test_values_that_a_parameter_cannot_hold_are_refused(kind: Tile, value: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=r"^kernel: argument 0 is") as caught:
        given([kind], [value])
    assert why in str(caught.value)


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(ArgumentError, match=r"^kernel: 1 arguments for 2 parameters"):
        given([I32, I32], [1])


def bumping(b: Builder) -> None:
    """Adds one to a variable, and prints what it was."""
    pointer = b.op("get_global", {}, tile(Pointer(Scalar.I32)), {"name": "count"})
    more = {"order": MemoryOrder.RELAXED, "scope": MemoryScope.DEVICE, "mode": AtomicMode.ADD}
    old, _ = b.op(
        "atomic_rmw_tko", {"pointers": pointer, "value": b.constant(1)}, [I32, TOKEN], more
    )
    b.op("print_tko", {"args": [old]}, TOKEN, {"text": "%d;"})
    b.ret()


def test_variables_keep_their_values_where_the_caller_keeps_their_memory() -> None:
    variable = Global(
        name="count", type=Tile(Scalar.I32, ()), data=np.int32(5).tobytes(), alignment=0
    )
    code = module((), bumping, variables=[variable])
    texts: list[str] = []
    for made in (prepare(code), prepare(code, variables=memory_of_variables(code))):
        for _ in range(2):
            execute(made, [], (2, 1, 1), Memory(), Options(output=texts.append))
    assert texts == ["5;6;", "5;6;", "5;6;", "7;8;"]


def counting(b: Builder) -> None:
    x, _, _ = b.op("get_tile_block_id", {}, [I32] * 3)

    def body(counter: Value) -> None:
        b.op("print_tko", {"args": [counter]}, TOKEN, {"text": "%d"})
        b.op("continue")

    region = b.region([I32], body)
    b.op(
        "for",
        {"lower": b.constant(0), "upper": x, "step": b.constant(1), "init": ()},
        (),
        {},
        [region],
    )
    b.ret()


def test_a_program_runs_in_several_threads_at_once() -> None:
    made = program((), counting)

    def once(size: int) -> str:
        texts: list[str] = []
        execute(made, [], (size, 1, 1), Memory(), Options(output=texts.append, batch=3))
        return "".join(texts)

    wanted = {size: "".join(str(k) for x in range(size) for k in range(x)) for size in range(1, 10)}
    with ThreadPoolExecutor(4) as pool:
        sizes = [1 + place % 9 for place in range(60)]
        assert list(pool.map(once, sizes)) == [wanted[size] for size in sizes]


def test_an_interrupt_ends_a_launch_at_once_and_leaves_nothing() -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    variable = Global(name="table", type=Tile(Scalar.I32, (1,)), data=bytes(4), alignment=0)
    memory, before = Memory(), threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        execute(
            program((), counting, variables=[variable]),
            [],
            (9, 1, 1),
            memory,
            Options(output=interrupt),
        )
    assert memory.regions == ()
    assert threading.active_count() == before


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    def bind(op: Any, bodies: Any) -> Any:
        def step(frame: Any) -> None:
            raise error

        return step

    monkeypatch.setitem(programs.BINDERS, "iota", bind)
    return prepare(module((), lambda b: (b.op("iota", {}, tile(Scalar.I32, 4), line=8), b.ret())))


def test_a_bug_of_the_interpreter_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    made = failing(monkeypatch, ValueError("shapes (2,) and (3,)"))
    with pytest.raises(InternalError) as caught:
        execute(made, [], (1, 1, 1), Memory(), Options(kernel="gemm"))
    assert str(caught.value).startswith(
        "kernel.py:8:1: gemm: iota failed in the interpreter: ValueError: shapes (2,) and (3,)"
    )


def test_too_little_memory_is_a_fault_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = failing(monkeypatch, MemoryError())
    with pytest.raises(
        FaultError,
        match=r"kernel: no memory is left for iota\n  cause: 5 blocks run together.*\n  fix: let fewer",
    ):
        execute(made, [], (5, 1, 1), Memory())
