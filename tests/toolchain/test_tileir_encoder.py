"""The reader against the encoder of the installed cuda-tile: every operation, in every version,
gives back what went in.
"""

from __future__ import annotations

import enum
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.toolchain.tile_encoder import (
    VERSIONS,
    Body,
    Encoder,
    Parameter,
    Writer,
    boolean,
    bounded,
    div_by,
    encoders,
    floating,
    hints,
    integer,
)
from tests.toolchain.tile_encoder import enum as encoder_enum
from tilec_runtime.cpu.tileir.ir import (
    Bounded,
    DivBy,
    FloatAttr,
    HintsAttr,
    IntegerAttr,
    Op,
    Pointer,
    Scalar,
    Tile,
    Token,
    Type,
    Version,
)
from tilec_runtime.cpu.tileir.ops import BY_CODE, OPS, Arity, OpSpec
from tilec_runtime.cpu.tileir.read import decode
from tilec_runtime.cpu.tileir.types import SCALARS
from tilec_runtime.errors import TileIRError

pytestmark = pytest.mark.toolchain

ENCODERS = {encoder.name: encoder for encoder in encoders()}
SAMPLES = 6
TYPES: tuple[Type, ...] = (
    Tile(Scalar.I32, ()),
    Tile(Scalar.F32, (4, 8)),
    Tile(Scalar.I1, (2,)),
    Token(),
    Tile(Pointer(Scalar.F64), (16,)),
)


class Sample:
    """Random arguments for one encoder and version, and what the reader has to give back, in the
    order of the signature.
    """

    def __init__(self, encoder: Encoder, version: Version, seed: int) -> None:
        self.encoder = encoder
        self.version = version
        self.random = random.Random(seed)
        self.results: list[Type] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Any] = []

    def arguments(self, body: Body) -> list[Any]:
        return [self._argument(parameter, body) for parameter in self.encoder.parameters]

    def _argument(self, parameter: Parameter, body: Body) -> Any:
        known = parameter.since <= max(self.version, self.encoder.since)
        kind = parameter.annotation
        if kind == "Sequence[TypeId]" or kind.endswith(("TypeId", "TypeId]")):
            return self._types(kind, known, body)
        if "Value" in kind:
            return self._values(kind, known, body)
        made, expected = self._attribute(kind, known, body)
        if parameter.since <= VERSIONS[-1]:
            self.attributes.append(expected)
        return made

    def _types(self, kind: str, known: bool, body: Body) -> Any:
        if kind.startswith("Optional") and not known:
            return None
        chosen = self.random.choices(
            TYPES, k=self.random.randrange(4) if kind.startswith("Sequence") else 1
        )
        self.results += chosen
        made = body.types(chosen)
        return made if kind.startswith("Sequence") else made[0]

    def _values(self, kind: str, known: bool, body: Body) -> Any:
        if kind.startswith("Sequence"):
            places = tuple(self.random.choices(range(len(TYPES)), k=self.random.randrange(4)))
            self.operands.append(places)
            return [body.values[place] for place in places]
        if kind.startswith("Optional") and (not known or self.random.random() < 0.5):
            self.operands.append(())
            return None
        place = self.random.randrange(len(TYPES))
        self.operands.append((place,))
        return body.values[place]

    def _attribute(self, kind: str, known: bool, body: Body) -> tuple[Any, Any]:
        pick = self.random
        optional, inner = kind.startswith("Optional["), kind.removeprefix("Optional[").rstrip("]")
        if optional and pick.random() < 0.5:
            return None, None
        if inner == "OptimizationHints":
            latency = pick.randrange(1, 10)
            expected = HintsAttr(
                {
                    "default": {"allow_tma": False, "latency": IntegerAttr(Scalar.I32, latency)},
                    "sm_90": {},
                }
            )
            return hints(
                {"default": {"latency": latency, "allow_tma": False}, "sm_90": {}}
            ), expected
        simple: dict[str, Callable[[], tuple[Any, Any]]] = {
            "bool": lambda: (flag := known and pick.random() < 0.5, flag),
            "int": lambda: (value := pick.choice([0, 1, 127, 128, 2**40]), value),
            "str": lambda: (text := pick.choice(["", "g", "100 %", "Ⅷ"]), text),
            "bytes": lambda: (data := pick.randbytes(pick.choice([1, 4, 200])), data),
            "Sequence[int]": lambda: (order := pick.sample(range(-3, 9), 3), tuple(order)),
            "Sequence[bool]": lambda: self._bools(known),
            "AssumePredicate": self._predicate,
            "Sequence[TaggedAttribute]": lambda: self._tagged(body),
        }
        if kind in simple:
            return simple[kind]()
        members = list(encoder_enum(inner))
        member = pick.choice(
            members if known else [m for m in members if m.name in ("FULL", "NONE")]
        )
        return member, member.value[0]

    def _bools(self, known: bool) -> tuple[Any, Any]:
        found = [known and self.random.random() < 0.5 for _ in range(3)]
        return found, tuple(found) if known else ()

    def _predicate(self) -> tuple[Any, Any]:
        pick = self.random
        some = [None, 0, 1, -1, 2**40, -(2**40)]
        if pick.random() < 0.5:
            low, high = pick.choice(some), pick.choice(some)
            return bounded(low, high), Bounded(low, high)
        divisor, every, along = pick.choice([1, 16, 2**62]), pick.choice(some), pick.choice(some)
        return div_by(divisor, every, along), DivBy(divisor, every, along)

    def _tagged(self, body: Body) -> tuple[Any, Any]:
        pick = self.random
        made, expected = [], []
        for _ in range(pick.randrange(4)):
            kind = pick.choice([kind for kind, since in SCALARS.values() if since <= self.version])
            if pick.random() < 0.2:
                made.append(boolean(True))
                expected.append(True)
            elif kind.is_float:
                attribute = floating(body, kind, pick.choice([1.0, 0.5, 2.0]))
                made.append(attribute)
                expected.append(FloatAttr(kind, attribute.value_bits))
            else:
                value = pick.choice([0, 1, -1])
                made.append(integer(body, kind, value))
                expected.append(IntegerAttr(kind, value & ((1 << kind.bits) - 1)))
        return made, tuple(expected)


def regions_of(sample: Sample) -> list[tuple[list[Type], Callable[[Body], None]]]:
    """A block with one operation for each region that the operation has."""
    number = BY_CODE[sample.encoder.code].regions
    return [([TYPES[place]] * place, _yield) for place in range(number)]


def _yield(body: Body) -> None:
    body.write("Yield", [body.values[0]])


def decoded(sample: Sample) -> Op:
    def fill(body: Body) -> None:
        body.write(sample.encoder.name, *sample.arguments(body), regions=regions_of(sample))

    module = decode(Writer(sample.version).module(TYPES, fill))
    assert module.version == sample.version
    [op] = module.functions[0].body.ops
    return op


def attribute_values(op: Op, spec: OpSpec) -> list[Any]:
    """Attributes in the order of the encoder's signature: those that are stored, then the flags
    that stand for themselves.
    """
    own = [a.name for a in spec.attributes]
    operands = [o.name for o in spec.operands]
    found = [
        op.attributes.get(name)
        for name in [*own, *(f for f in spec.flags if f not in own and f not in operands)]
    ]
    return [
        item.value if isinstance(item, enum.Enum) and not isinstance(item, Scalar) else item
        for item in found
    ]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{v[0]}.{v[1]}")
@pytest.mark.parametrize("name", ENCODERS)
def test_the_reader_gives_back_what_the_encoder_was_given(name: str, version: Version) -> None:
    encoder = ENCODERS[name]
    spec = BY_CODE[encoder.code]
    for number in range(SAMPLES):
        sample = Sample(encoder, version, zlib.crc32(f"{name} {version} {number}".encode()))
        if encoder.since > version:
            with pytest.raises(
                TileIRError, match=rf"{spec.name} is not part of version 13\.{version[1]}"
            ):
                decoded(sample)
            continue
        op = decoded(sample)
        assert op.name == spec.name
        assert [result.type for result in op.results] == sample.results
        assert [
            tuple(v.index for v in op.operands[o.name]) for o in spec.operands
        ] == sample.operands
        assert attribute_values(op, spec) == sample.attributes
        assert [[arg.type for arg in region.args] for region in op.regions] == [
            kinds for kinds, _ in regions_of(sample)
        ]
        assert all([inner.name for inner in region.ops] == ["yield"] for region in op.regions)


def test_the_table_has_exactly_what_the_encoder_writes() -> None:
    assert {encoder.code: encoder.since for encoder in ENCODERS.values()} == {
        spec.code: spec.since for spec in OPS.values()
    }
    for encoder in ENCODERS.values():
        spec = BY_CODE[encoder.code]
        assert spec.name.replace("_", "") == encoder.name.lower()
        optional = [o.name for o in spec.operands if o.arity is Arity.OPTIONAL]
        assert sum("Optional[Value]" in p.annotation for p in encoder.parameters) in (
            len(optional),
            len(optional) + 1,
        )
