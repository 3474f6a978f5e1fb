"""The rules of the reader against the toolkit's verifier: what one refuses, the other refuses."""

from __future__ import annotations

import dataclasses
import enum as enums
import random
from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="needs cuda-tile")

from tests.amount import part
from tests.toolchain import tile_samples as samples
from tests.toolchain.tile_disassembly import disassemble
from tests.toolchain.tile_encoder import bounded, div_by, encoders
from tests.toolchain.tile_samples import (
    F16,
    FLAG,
    I1,
    I4,
    INT,
    MATRIX,
    PARTS,
    SAMPLES,
    TOKEN,
    Call,
    module,
    pointers,
    tile,
)
from tilec_runtime.cpu.tileir.ir import Scalar, TensorView, Tile, Token, Type
from tilec_runtime.cpu.tileir.ops import BY_CODE, OPS, Arity
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.errors import TileIRError

pytestmark = pytest.mark.toolchain

CHANGES = part(10, least=2)
ENCODERS = tuple(encoders())
VIEWS = (
    MATRIX,
    PARTS,
    samples.TURNED,
    samples.STEPS,
    samples.ROWS,
    samples.COLUMNS,
    TensorView(F16, (None, 64), (64, 1)),
    INT,
    TOKEN,
)


def changed_type(pick: random.Random, kind: Type) -> Type:
    """Another type that is not too far from one."""
    if isinstance(kind, Token):
        return pick.choice([INT, FLAG, MATRIX])
    if not isinstance(kind, Tile):
        return pick.choice(VIEWS)
    element, shape = kind.element, kind.shape
    match pick.randrange(6):
        case 0:
            return Tile(pick.choice(list(Scalar)), shape)
        case 1:
            return pointers(pick.choice([scalar for scalar in Scalar if scalar is not I4]), *shape)
        case 2:
            return Tile(element, (*shape, pick.choice([1, 2, 4])))
        case 3 if shape:
            return Tile(element, shape[:-1])
        case 4 if shape:
            place = pick.randrange(len(shape))
            return Tile(
                element, (*shape[:place], pick.choice([1, 2, 4, 8, 16]), *shape[place + 1 :])
            )
        case 5:
            return pick.choice([TOKEN, MATRIX, PARTS])
    return Tile(pick.choice([Scalar.F32, Scalar.I32, Scalar.I64, Scalar.F16, Scalar.I1]), shape)


def changed_given(pick: random.Random, given: Any) -> Any:
    if given is None:
        return pick.choice([TOKEN, tile(I1, 4), tile(Scalar.F32, 4)])
    if not isinstance(given, list):
        return changed_type(pick, given)
    place = pick.randrange(len(given)) if given else 0
    match pick.randrange(3) if given else 2:
        case 0:
            return [*given[:place], changed_type(pick, given[place]), *given[place + 1 :]]
        case 1:
            return [*given[:place], *given[place + 1 :]]
    return [*given, pick.choice([INT, TOKEN, tile(Scalar.F32, 4)])]


def changed_attribute(pick: random.Random, value: Any) -> Any:
    match value:
        case enums.Enum():
            return pick.choice(list(type(value)))
        case bool():
            return not value
        case int():
            return pick.choice([0, 1, 2, 3, 4, 7, 8, 2**20])
        case str():
            return pick.choice(["", "%d", "%d %f", "table", "100%"])
        case bytes():
            return pick.choice([b"\1", b"\1\0\0\0", bytes(16), b"\0\0"])
        case list():
            flags = all(isinstance(item, bool) for item in value)
            return [
                *value[:-1],
                *(
                    []
                    if pick.random() < 0.3
                    else [pick.random() < 0.5 if flags else pick.randrange(-1, 4)]
                ),
            ]
    is_predicate = type(value) in (type(div_by(1)), type(bounded(0, 0)))
    return (
        pick.choice([div_by(4), div_by(3), bounded(0, 3), bounded(4, 3), div_by(2, 2, 0)])
        if is_predicate
        else value
    )


def changed(pick: random.Random, use: Call) -> Call:
    """The same with one or two parts changed."""
    for _ in range(pick.choice([1, 1, 2])):
        fields = [
            (name, place)
            for name in ("results", "operands", "attributes")
            for place in range(len(getattr(use, name)))
        ]
        if not fields:
            return use
        name, place = pick.choice(fields)
        parts = list(getattr(use, name))
        parts[place] = (changed_attribute if name == "attributes" else changed_given)(
            pick, parts[place]
        )
        use = dataclasses.replace(use, **{name: tuple(parts)})
    return use


def accepted(data: bytes) -> bool:
    try:
        read_module(data)
    except TileIRError:
        return False
    return True


@pytest.mark.parametrize(
    "place", range(len(SAMPLES)), ids=lambda place: f"{place}-{SAMPLES[place].name}"
)
def test_tilec_refuses_what_the_toolkit_refuses(place: int) -> None:
    assert accepted(module(SAMPLES[place]))
    for seed in range(CHANGES):
        use = changed(random.Random(1000 * place + seed), SAMPLES[place])
        try:
            data = module(use)
        except (AssertionError, AttributeError, TypeError, ValueError):
            continue  # the encoder has no place for such arguments
        assert accepted(data) == (disassemble(data) is not None), use


def test_the_table_has_exactly_what_the_encoder_writes() -> None:
    assert {encoder.code: encoder.since for encoder in ENCODERS} == {
        spec.code: spec.since for spec in OPS.values()
    }
    for encoder in ENCODERS:
        spec = BY_CODE[encoder.code]
        assert spec.name.replace("_", "") == encoder.name.lower()
        optional = [o.name for o in spec.operands if o.arity is Arity.OPTIONAL]
        assert sum("Optional[Value]" in p.annotation for p in encoder.parameters) in (
            len(optional),
            len(optional) + 1,
        )
