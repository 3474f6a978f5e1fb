"""Running whole kernels: arguments, variables, printing, what is freed when, and how runs end."""

from __future__ import annotations

import dataclasses
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
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import (
    Global,
    Pointer,
    Scalar,
    Tile,
    Type,
    Value,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import memory_of_variables, prepare
from tilec_runtime.errors import FaultError, InternalError, TileIRError

POINTER = tile(Pointer(Scalar.F32))
I8, F32, BF16 = tile(Scalar.I8), tile(Scalar.F32), tile(Scalar.BF16)


def given(kinds: list[Tile], arguments: list[Any], text: str = "") -> str:
    """What a kernel prints that shows its arguments."""

    def fill(b: Builder, *args: Value) -> None:
        b.show(*args, text=text)
        b.ret()

    texts: list[str] = []
    made = program(kinds, fill)
    execute(made, arguments, (1, 1, 1), Memory(), Options(output=texts.append))
    return "".join(texts)


def test_arguments_are_numbers_and_addresses() -> None:
    kinds = [POINTER, I32, I64, I1]
    shown = given(kinds, [0x7F00, -3, np.int64(2**40), True], "%llx %d %lld %d")
    assert shown == f"7f00 -3 {2**40} 1"
    assert given([F32, BF16], [0.5, np.float32(1.25)], "%g %g") == "0.5 1.25"
    assert given([I32, I8], [2**32 - 1, 255]) == "-1 -1;"
    assert given([POINTER], [2**64 - 16], "%llx") == "fffffffffffffff0"


def test_variables_keep_their_values_between_launches() -> None:
    def count(b: Builder) -> None:
        pointer = b.op("get_global", {}, tile(Pointer(Scalar.I32)), {"name": "count"})
        b.show(b.atomic_add(pointer, b.constant(1)))
        b.ret()

    variable = Global(
        name="count", type=Tile(Scalar.I32, ()), data=np.int32(5).tobytes(), alignment=0
    )
    code = module((), count, variables=[variable])
    texts: list[str] = []
    shared = memory_of_variables(code)
    one, other, third = prepare(code, "", shared), prepare(code, "", shared), prepare(code)
    for made in (one, other, third, third):
        execute(made, [], (2, 1, 1), Memory(), Options(output=texts.append))
    assert texts == ["5;6;", "7;8;", "5;6;", "7;8;"]


def test_a_program_runs_in_several_threads_at_once() -> None:
    def count(b: Builder) -> None:
        def body(counter: Value) -> None:
            b.show(counter)
            b.op("continue")

        ends = {"lower": b.constant(0), "upper": b.block(), "step": b.constant(1), "init": ()}
        b.op("for", ends, (), {}, [b.region([I32], body)])
        b.ret()

    made = program((), count)

    def once(size: int) -> str:
        texts: list[str] = []
        execute(made, [], (size, 1, 1), Memory(), Options(output=texts.append, batch=3))
        return "".join(texts)

    sizes = [1 + place % 9 for place in range(60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(once, sizes)) == [
            "".join(f"{k};" for x in range(size) for k in range(x)) for size in sizes
        ]


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
        ("%a", F32, np.float32(1.5), "0x1.8000000000000p+0"),
        ("%A", F32, np.float32(-1), "-0X1.0000000000000P+0"),
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
