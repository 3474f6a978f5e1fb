"""Where pointers come from: through arithmetic, loops and branches, and where that cannot be known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.cpu.tileir.build import I64, TOKEN, Builder, module, tile
from tilec_runtime.cpu.tileir.check.provenance import Provenance
from tilec_runtime.cpu.tileir.ir import MemoryOrder, Op, Pointer, Scalar, Value

POINTER = tile(Pointer(Scalar.I32))
WEAK = {"order": MemoryOrder.WEAK}


def store(b: Builder, pointer: Value) -> None:
    b.op("store_ptr_tko", {"destination": pointer, "value": b.constant(1)}, TOKEN, WEAK)


def load(b: Builder, pointer: Value, kind: Any = POINTER) -> Value:
    found: Value = b.op("load_ptr_tko", {"source": pointer}, [kind, TOKEN], WEAK)[0]
    return found


def provenance(fill: Callable[..., object]) -> tuple[Provenance, dict[str, Op]]:
    """Of a kernel with pointers x and y; and its operations by name."""

    def whole(b: Builder, *args: Value) -> None:
        fill(b, *args)
        b.ret()

    function = module([POINTER, POINTER], whole).functions[0]
    return Provenance(function, ["x", "y"]), {op.name: op for op in function.walk()}


def test_loops_hand_pointers_on() -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        def body(at: Value, pointer: Value) -> None:
            store(b, pointer)
            b.op("continue", {"values": [y]})

        bounds = {name: b.constant(n) for name, n in (("lower", 0), ("upper", 4), ("step", 1))}
        b.op(
            "for",
            {**bounds, "init": [x]},
            [POINTER],
            {},
            [b.region([b.constant(0).type, POINTER], body)],
        )

    found, _ = provenance(fill)
    assert set(found.written or ()) == {"x", "y"}


def test_branches_yield_pointers() -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        both = [
            b.region((), lambda: b.op("yield", {"values": [y]})),
            b.region((), lambda: b.op("yield", {"values": [y]})),
        ]
        store(b, b.op("if", {"condition": b.constant(True, Scalar.I1)}, [POINTER], {}, both))

    found, _ = provenance(fill)
    assert set(found.written or ()) == {"y"}


@pytest.mark.parametrize(
    "source",
    [
        lambda b, x: load(b, x, POINTER),
        lambda b, x: b.op("int_to_ptr", {"source": b.constant(64, Scalar.I64)}, POINTER),
        lambda b, x: b.op(
            "int_to_ptr", {"source": b.op("ptr_to_int", {"source": x}, I64)}, POINTER
        ),
        lambda b, x: b.op("get_global", {}, POINTER, {"name": "table"}),
    ],
)
def test_pointers_out_of_memory_and_numbers_are_anybodys(source: Callable[..., Value]) -> None:
    def fill(b: Builder, x: Value, y: Value) -> None:
        store(b, source(b, x))

    found, ops = provenance(fill)
    assert found.of(ops["store_ptr_tko"]) is None
    assert found.written is None
