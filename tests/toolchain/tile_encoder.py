"""Writes Tile IR with the encoder inside the installed cuda-tile, the only place that touches its
private modules.

The encoder is pinned: `encoders()` says so if a release moves it. Operations are written by name
and by signature, so that a test learns from the encoder, and not from tilec, what an operation
stores.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cuda.tile as ct
from cuda.tile import _bytecode as bytecode
from cuda.tile._bytecode import attribute, code_builder, encodings, version

from tilec_runtime.cpu.tileir.ir import (
    Padding,
    Pointer,
    Scalar,
    Signature,
    TensorView,
    Tile,
    Token,
    Type,
    Version,
    View,
)

PINNED = ("1.7",)
VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
# Not operations of a function's body: the file's own parts, and what only later versions have.
_NOT_IN_BODIES = {"EntryOp", "GlobalOp", "ModuleOp", "PreviewCallOp"}
_SIMPLE = {
    kind: name
    for name, kind in {**Scalar.__members__, "FNV8E5M3FNU": Scalar.F8E5M3FNU}.items()
    if name != "F8E5M3FNU"
}
_DYNAMIC = bytecode.DYNAMIC_SHAPE


@dataclasses.dataclass(frozen=True, slots=True)
class Encoder:
    """What writes one operation. `code` is the operation's number as its source has it."""

    name: str
    code: int
    annotations: tuple[str, ...]


def encoders() -> Iterator[Encoder]:
    """Every operation that the installed encoder writes into a function's body for the versions
    that tilec reads.
    """
    assert ct.__version__.startswith(PINNED), (
        f"cuda-tile {ct.__version__}: look at its encoder, then add it to PINNED"
    )
    for full, function in vars(encodings).items():
        if not full.startswith("encode_") or not full.endswith("Op") or full[7:] in _NOT_IN_BODIES:
            continue
        source = inspect.getsource(function)
        since = re.search(r"# since (\d+)\.(\d+)", source.split("\n", 1)[0])
        if since and (int(since[1]), int(since[2])) > VERSIONS[-1]:
            continue
        code = re.search(r"encode_varint\((\d+), _buf\)", source)
        assert code, full
        parameters = inspect.signature(function).parameters.values()
        annotations = (inspect.formatannotation(p.annotation) for p in parameters)
        yield Encoder(full[7:-2], int(code[1]), tuple(annotations))


class Writer:
    """Writes one module with one function. `types` are taken as `ir` values; values are numbered as
    the file does.
    """

    def __init__(self, at: Version = (13, 4)) -> None:
        self.version = version.BytecodeVersion[f"V_{at[0]}_{at[1]}"]

    def module(
        self,
        params: Sequence[Type],
        fill: Callable[[Body], None],
        *,
        variables: Sequence[tuple[str, Type, bytes]] = (),
    ) -> bytes:
        """A module whose only function `k` has the operations that `fill` writes."""
        buffer = bytearray()
        with bytecode.write_bytecode(1, buffer, self.version) as writer:
            for variable, kind, data in variables:
                writer.global_section.define_global(
                    variable, self.type(writer.type_table, kind), data
                )
            types = [self.type(writer.type_table, kind) for kind in params]
            with writer.function("k", types, [], True, {}, bytecode.MISSING_DEBUG_ATTR_ID) as (
                builder,
                values,
            ):
                fill(Body(self, writer, builder, list(values)))
        return bytes(buffer)

    def type(self, table: Any, kind: Type) -> Any:
        """The number of a type in the file."""
        attribute_of = bytecode.PtrAttr
        match kind:
            case Scalar():
                return table.simple(bytecode.SimpleType[_SIMPLE[kind]])
            case Token():
                return table.Token
            case Pointer(pointee, mark):
                return table.pointer(
                    self.type(table, pointee),
                    attribute_of.Missing if mark is None else attribute_of.Default,
                )
            case Tile(element, shape):
                return table.tile(self.type(table, element), shape)
            case TensorView(element, shape, strides, mark):
                extents, steps = (
                    [_DYNAMIC if n is None else n for n in numbers] for numbers in (shape, strides)
                )
                return table.tensor_view(
                    self.type(table, element),
                    extents,
                    steps,
                    attribute_of.Missing if mark is None else attribute_of.Default,
                )
            case View(name=name, tile=tile):
                of, beyond = self.type(table, kind.tensor), _padding(kind.padding)
                if name == "gather_scatter_view":
                    return table.gather_scatter_view(tile, of, kind.sparse, beyond)
                if name == "strided_view":
                    return table.strided_view(tile, kind.steps, of, kind.dims, beyond)
                return table.partition_view(tile, of, kind.dims, beyond)
            case Signature(params, results):
                return table.function(
                    [self.type(table, p) for p in params], [self.type(table, r) for r in results]
                )


def _padding(padding: Padding | None) -> Any:
    names = {None: "Missing", Padding.ZERO: "Zero", Padding.NEG_ZERO: "NegZero", Padding.NAN: "Nan"}
    names |= {Padding.POS_INF: "PosInf", Padding.NEG_INF: "NegInf"}
    return bytecode.PaddingValue[names[padding]]


class Body:
    """Writes operations into a function or a nested block."""

    def __init__(self, writer: Writer, module: Any, builder: Any, values: list[Any]) -> None:
        self.values = values
        self.builder = builder
        self.module = module
        self._writer = writer

    def types(self, kinds: Sequence[Type]) -> list[Any]:
        """Numbers of types."""
        return [self._writer.type(self.module.type_table, kind) for kind in kinds]

    def write(
        self,
        name: str,
        *args: Any,
        regions: Sequence[tuple[Sequence[Type], Callable[[Body], None]]] = (),
        **named: Any,
    ) -> list[Any]:
        """Write an operation by the encoder's name, arguments as the encoder takes them (see
        `types`); gives its results.
        """
        made = getattr(encodings, f"encode_{name}Op")(self.builder, *args, **named)
        if isinstance(made, code_builder.NestedBlockBuilder):
            for params, fill in regions:
                with made.new_block(self.types(params)) as inner:
                    fill(Body(self._writer, self.module, self.builder, [*self.values, *inner]))
            made = made.done()
        results = [] if made is None else list(made) if isinstance(made, tuple | list) else [made]
        self.values += results
        return results


def enum(name: str) -> Any:
    """An enum of the encoder, such as `RoundingMode`."""
    return getattr(encodings, name)


def hints(by_arch: Mapping[str, Mapping[str, int]]) -> Any:
    """Hints of a load or a store: `latency`, `allow_tma`."""
    return attribute.make_load_store_hints(
        {arch: attribute.LoadStoreHints(**values) for arch, values in by_arch.items()}
    )


def div_by(divisor: int, every: int | None = None, along: int | None = None) -> Any:
    """The assumption `div_by`."""
    return attribute.DivBy(divisor, every, along)


def bounded(lower: int | None, upper: int | None) -> Any:
    """The assumption `bounded`."""
    return attribute.Bounded(lower, upper)


def integer(body: Body, kind: Scalar, value: int) -> Any:
    """An integer attribute with its type."""
    return attribute.Integer(body.types([kind])[0], kind.bits, value)


def floating(body: Body, kind: Scalar, value: float) -> Any:
    """A floating point attribute with its type."""
    return attribute.Float(value, bytecode.SimpleType[_SIMPLE[kind]], body.module.type_table)
