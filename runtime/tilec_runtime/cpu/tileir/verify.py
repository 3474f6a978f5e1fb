"""A verifier for modules; execution relies on its checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec_runtime.cpu.tileir import rules_memory, rules_numbers
from tilec_runtime.cpu.tileir.ir import (
    Block,
    Function,
    Global,
    Module,
    Op,
    Pointer,
    Scalar,
    Tile,
    Token,
    Type,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.rules import INTS, Rule, tile, tiles
from tilec_runtime.cpu.tileir.tables import FIX, damaged
from tilec_runtime.cpu.tileir.values import sizes
from tilec_runtime.errors import Location, TileIRError

_SHOWN = 8  # types to list in a message
_TERMINATORS = frozenset({"return", "yield", "break", "continue"})
# Terminators that may end the block of an operation. A block of an `if` may end with `yield` and
# with the terminators of the enclosing block; a block of a `loop` also with `return` if the
# enclosing block may.
_ENDS: dict[str, frozenset[str]] = {
    "for": frozenset({"continue"}),
    "loop": frozenset({"continue", "break"}),
    "reduce": frozenset({"yield"}),
    "scan": frozenset({"yield"}),
}
# Operations with side effects, or that may not end; the block of a reduction must not have them.
_EFFECTS = frozenset(
    {
        *(
            "for",
            "loop",
            "alloca",
            "assert",
            "assume",
            "print_tko",
            "gdc_wait_tko",
            "gdc_launch_dependents_tko",
            "memory_fence_alias_tko",
        ),
        *("load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko"),
        *("atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko"),
    }
)
_CONTROL: dict[str, tuple[Rule, ...]] = {
    "if": (tiles(frozenset({Scalar.I1}), "condition", rank=0),),
    "for": (tiles(INTS, "lower", "upper", "step", rank=0),),
    "loop": (),
    **dict.fromkeys(_TERMINATORS, ()),
}
RULES: Mapping[str, tuple[Rule, ...]] = {**rules_numbers.RULES, **rules_memory.RULES, **_CONTROL}


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """The context of a block.

    Attributes:
        function: its function.
        holder: operation that contains it, or None for a function's body.
        loop: target loop of its `break` and `continue`.
        ends: terminators that it may have.
        pure: whether side effects are forbidden.
    """

    function: Function
    holder: Op | None = None
    loop: Op | None = None
    ends: frozenset[str] = frozenset({"return"})
    pure: bool = False

    def inside(self, op: Op) -> _Place:
        """Return the context of an operation's block."""
        if op.name == "if":
            # A block of an `if` may leave the enclosing loop or function.
            return _Place(self.function, op, self.loop, self.ends | {"yield"}, self.pure)
        leaving = self.ends & {"return"} if op.name == "loop" else frozenset()
        return _Place(
            self.function,
            op,
            op if op.name in ("for", "loop") else None,
            _ENDS[op.name] | leaving,
            op.name in ("reduce", "scan"),
        )


def verify(module: Module) -> None:
    """Verify a module.

    Raises:
        TileIRError: a rule is violated; the message names function, operation and rule.
    """
    variables: dict[str, Global] = {}
    for variable in module.globals:
        _variable(variable)
        if variable.name in variables:
            raise damaged(f"there are two globals {variable.name}")
        variables[variable.name] = variable
    names: set[str] = set()
    for function in module.functions:
        if function.name in names:
            raise damaged(f"there are two functions {function.name}")
        names.add(function.name)
        _function(function, variables)


def _variable(variable: Global) -> None:
    if len(variable.type.shape) != 1 or len(variable.data) not in sizes(variable.type):
        raise damaged(
            f"the global {variable.name} has {len(variable.data)} bytes for {type_text(variable.type)}"
        )
    if variable.alignment & (variable.alignment - 1):
        raise damaged(f"the global {variable.name} has an alignment of {variable.alignment} bytes")


def _function(function: Function, variables: Mapping[str, Global]) -> None:
    for number, kind in enumerate(function.signature.params):
        if function.entry and (not isinstance(kind, Tile) or kind.shape):
            raise damaged(
                f"parameter {number} of {function.name} is {type_text(kind)}, not a number or a pointer"
            )
    if function.entry and function.signature.results:
        raise damaged(f"{function.name} is a kernel and has results")
    pending = [(function.body, _Place(function))]
    while pending:
        block, place = pending.pop()
        _ending(block, place)
        for op in block.ops:
            _operation(op, place, variables)
            pending.extend((region, place.inside(op)) for region in op.regions)


def _operation(op: Op, place: _Place, variables: Mapping[str, Global]) -> None:
    for rule in RULES[op.name]:
        if fault := rule(op):
            raise _misfit(op, place, fault)
    if place.pure and op.name in _EFFECTS:
        raise _misfit(op, place, "it has effects, which the block of a reduction may not have")
    match op.name:
        case "get_global":
            _global(op, place, variables)
        case "if" if any(region.args for region in op.regions):
            raise _misfit(op, place, "its blocks have arguments")
        case "for" | "loop" if fault := _moves(op):
            raise _misfit(op, place, fault)
        case "for":
            bound = op.operand("lower").type
            if op.operand("upper").type != bound or op.operand("step").type != bound:
                raise _misfit(op, place, "its bounds and step differ in type")
            _carried(op, place, (bound, *op.operands["init"]))
            _same(op, place, "results", op.results, op.operands["init"])
        case "loop":
            _carried(op, place, op.operands["init"])


def _carried(op: Op, place: _Place, expected: Sequence[Value | Type]) -> None:
    _same(op, place, "arguments of its block", op.regions[0].args, expected)


def _moves(op: Op) -> str:
    """Check that values carried around or out of a loop are tiles or tokens."""
    for value in (*op.operands["init"], *op.results):
        if not isinstance(value.type, Tile | Token):
            return f"{type_text(value.type)} cannot be carried around a loop"
    return ""


def _global(op: Op, place: _Place, variables: Mapping[str, Global]) -> None:
    name = op.attributes["name"]
    variable = variables.get(name)
    if variable is None:
        raise _misfit(op, place, f"there is no global {name}")
    element = tile(op, ">result").element
    assert isinstance(element, Pointer)
    if element.pointee is not variable.type.element:
        raise _misfit(
            op, place, f"{type_text(element)} does not point to {type_text(variable.type)}"
        )


def _ending(block: Block, place: _Place) -> None:
    """Check that only the last operation is a terminator, with valid values."""
    where = f"a block of {place.holder.name}" if place.holder else "the body"
    last = block.ops[-1] if block.ops else None
    if last is None or last.name not in _TERMINATORS:
        raise damaged(f"{where} in {place.function.name} ends without a terminator")
    for op in block.ops[:-1]:
        if op.name in _TERMINATORS:
            raise _misfit(op, place, "operations follow it in its block")
    if last.name not in place.ends:
        raise _misfit(last, place, f"it cannot end {where}")
    _same(last, place, "values", last.operands["values"], _wanted(last, place))


def _wanted(last: Op, place: _Place) -> Sequence[Value | Type]:
    """Return the values or types that a terminator must pass on."""
    loop, holder = place.loop, place.holder
    match last.name:
        case "return":
            return place.function.signature.results
        case "continue":
            assert loop is not None
            return loop.operands["init"]
        case "break":
            assert loop is not None
            return loop.results
    assert holder is not None
    if holder.name == "if":
        return holder.results
    return [
        Tile(value.type.element, ())
        for value in holder.operands["operands"]
        if isinstance(value.type, Tile)
    ]


def _same(
    op: Op,
    place: _Place,
    subject: str,
    actual: Sequence[Value | Type],
    expected: Sequence[Value | Type],
) -> None:
    if len(actual) != len(expected) or any(
        _type(a) != _type(b) for a, b in zip(actual, expected, strict=True)
    ):
        raise _misfit(
            op, place, f"the {subject} are ({_listed(actual)}) instead of ({_listed(expected)})"
        )


def _type(item: Value | Type) -> Type:
    return item.type if isinstance(item, Value) else item


def _listed(values: Sequence[Value | Type]) -> str:
    shown = ", ".join(type_text(_type(item)) for item in values[:_SHOWN])
    return f"{shown} and {len(values) - _SHOWN} more" if len(values) > _SHOWN else shown


def _misfit(op: Op, place: _Place, fault: str) -> TileIRError:
    at = Location(file=op.loc.file, line=op.loc.line, column=op.loc.column + 1) if op.loc else None
    return TileIRError(
        f"Tile IR does not fit together: operation {op.number} of {place.function.name}, {op.name}: {fault}",
        cause="the compiler that wrote it has a fault (tileiras and drivers refuse this too), or the file is damaged",
        fix=FIX,
        kernel=place.function.name,
        location=at,
    )
