"""Programs: every operation has one owner, kernels are found by name, and tiles are freed when
nothing needs them.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, Builder, module, program
from tilec_runtime.cpu.tileir import program as programs
from tilec_runtime.cpu.tileir.execute import Options, execute, prepare
from tilec_runtime.cpu.tileir.ir import Overflow, Tile
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.ops import OPS
from tilec_runtime.errors import TileIRError


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
