"""Running whole kernels: arguments, variables, printing, what is freed when, and how runs end."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import (
    I1,
    I32,
    I64,
    TOKEN,
    Builder,
    module,
    program,
    run_op,
    tile,
)
from tilec_runtime.cpu.tileir import program as programs
from tilec_runtime.cpu.tileir.execute import Options, execute, memory_of_variables, prepare
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Global,
    MemoryOrder,
    MemoryScope,
    Overflow,
    Pointer,
    Scalar,
    Tile,
    Type,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.errors import ArgumentError, FaultError, InternalError, TileIRError

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


def show(text: str, *args: tuple[Type, Any], blocks: int = 1) -> str:
    texts: list[str] = []
    operands = {"args": [(kind, np.asarray(held)[None]) for kind, held in args]}
    run_op("print_tko", operands, TOKEN, {"text": text}, output=texts.append, blocks=blocks)
    return "".join(texts)


I8 = tile(Scalar.I8)


F32, BF16 = tile(Scalar.F32), tile(Scalar.BF16)


@pytest.mark.parametrize(
    ("text", "kind", "value", "wanted"),
    [
        ("%d", I32, np.int32(-7), "-7"),
        ("%i|", I32, np.int32(7), "7|"),
        ("%5d|%%", I32, np.int32(7), "    7|%"),
        ("%-5d|", I32, np.int32(7), "7    |"),
        ("%05d", I32, np.int32(-7), "-0007"),
        ("%+lld", I64, np.int64(2**62), f"+{2**62}"),
        ("%u", I32, np.int32(-1), str(2**32 - 1)),
        ("%hhx", I8, np.int8(-1), "ff"),
        ("%#X", I32, np.int32(255), "0XFF"),
        ("%o", I32, np.int32(8), "10"),
        ("%d", I1, np.bool_(True), "1"),
        ("%f", F32, np.float32(0.5), "0.500000"),
        ("%.2e", F32, np.float32(1234.5), "1.23e+03"),
        ("%10.3g|", F32, np.float32(np.pi), "      3.14|"),
        ("%lf", BF16, np.asarray(1.5, ml_dtypes.bfloat16), "1.500000"),
        ("%f", F32, np.float32(np.nan), "nan"),
        ("%a", F32, np.float32(1.5), "0x1.8p+0"),
        ("%A", F32, np.float32(-1), "-0X1P+0"),
        ("%10a|", F32, np.float32(0.5), "    0x1p-1|"),
        ("%.2a", F32, np.float32(1.00390625), "0x1.01p+0"),
        ("%.1a", F32, np.float32(1.53125), "0x1.8p+0"),
        ("%a", F32, np.float32(np.inf), "inf"),
    ],
)
def test_formats_are_those_of_c(text: str, kind: Type, value: Any, wanted: str) -> None:
    assert show(text, (kind, value)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%d %d", "has more places for values than its 1 values"),
        ("none", "has 0 places for its 1 values"),
        ("%s", "has the format %s, which is for neither integers nor floating point numbers"),
    ],
)
def test_formats_that_do_not_fit_are_refused(text: str, wanted: str) -> None:
    with pytest.raises(TileIRError, match=wanted):
        show(text, (I32, np.int32(1)))


def test_every_operation_has_exactly_one_owner() -> None:
    names = [name for owner in programs._OWNERS for name in owner.BINDERS]
    assert sorted([*names, "if", "for", "loop", "yield", "continue", "break", "return"]) == sorted(
        OPS
    )


def empty(name: str) -> object:
    return module((), lambda b: b.ret(), name=name)


def test_kernels_are_found_by_name() -> None:
    one, two = (module((), lambda b: b.ret(), name=name) for name in ("one", "two"))
    both = dataclasses.replace(one, functions=(*one.functions, *two.functions))
    assert prepare(both, "two").name == "two"
    assert prepare(one).name == "one"
    with pytest.raises(
        TileIRError,
        match=r"2 kernels in this Tile IR, and no name says which\n  fix: kernels that it has: one, two",
    ):
        prepare(both)
    with pytest.raises(TileIRError, match="no kernel three in this Tile IR"):
        prepare(both, "three")


def test_tiles_are_freed_behind_their_last_use() -> None:
    held: list[set[int]] = []
    large = Tile(I32.element, (4,))

    def fill(b: Builder) -> None:
        first = b.op("iota", {}, large)
        second = b.op("addi", {"lhs": first, "rhs": first}, large, {"overflow": Overflow.NONE})
        b.op("print_tko", {"args": [second]}, TOKEN, {"text": "%d"})
        b.ret()

    made = program((), fill)
    run = made.code.run

    class Spy:
        def run(self, frame):
            yield from ()
            found = yield from run(frame)
            held.append(set(frame.values))
            return found

    texts: list[str] = []
    execute(
        dataclasses.replace(made, code=Spy()), [], (2, 1, 1), Memory(), Options(output=texts.append)
    )
    assert texts == ["[0, 2, 4, 6]" * 2]
    assert held == [{2}]  # the token; both tiles are gone
