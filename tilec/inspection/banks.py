"""Shared memory accesses in which threads of a warp meet in one bank, as far as addresses follow from the thread's number alone.

Registers are followed along the code as it stands, branches as if they fell through: what a first pass of a loop does is looked at.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

from tilec.inspection.sass import Instruction

LANES, BANKS, WORD = 32, 32, 4
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_ADDRESS = re.compile(r"\[(?P<base>U?R(?:\d+|Z))(?:\.X(?P<scale>4|8|16))?(?:\+UR(?:\d+|Z))?(?:\+-?0x[0-9a-f]+)?\]")
_REGISTER = re.compile(r"R(\d+|Z)")
_ENDS = {"BRA", "EXIT", "RET", "BRX", "JMP"}
_AND = "0xc0"


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What a register holds in each lane: `lanes`, and to all the same number, which is a multiple of `unit` (0 where it is 0)."""

    lanes: tuple[int, ...]
    unit: int = 0

    @property
    def uniform(self) -> bool:
        """Whether all lanes hold the same."""
        return len(set(self.lanes)) == 1

    @property
    def number(self) -> int | None:
        """What all lanes hold, where it is known."""
        return self.lanes[0] if self.uniform and not self.unit else None

    @property
    def apart(self) -> bool:
        """Whether the bits of `lanes` and those of the common number do not meet, so that they may be cut off and shifted by themselves."""
        return min(self.lanes) >= 0 and (not self.unit or max(self.lanes) < self.lowest)

    @property
    def lowest(self) -> int:
        """The lowest bit that the common number may have; 0 where it has none."""
        return self.unit & -self.unit


SAME = Value((0,) * LANES, 1)
_THREAD = Value(tuple(range(LANES)), LANES)
_SPECIAL = {"SR_TID.X": _THREAD, "SR_LANEID": Value(tuple(range(LANES)))}
State = dict[str, Value | None]


def conflicts(code: Iterable[Instruction]) -> list[int]:
    """For each access of shared memory that can be told: how many turns it takes where one would do, 1 for no conflict.

    Args:
        code: of a function whose blocks have rows of whole warps.
    """
    state: State = {}
    found = []
    for one in code:
        if one.opcode in ("LDS", "STS"):
            turns = _turns(one, state)
            if turns is not None:
                found.append(turns)
        if one.opcode in _ENDS and not one.predicate:
            state.clear()  # what follows is come to from elsewhere
        else:
            _step(one, state)
    return found


def _turns(one: Instruction, state: State) -> int | None:
    match = _ADDRESS.search(one.operands)
    if match is None:
        return None
    base = SAME if match["base"].startswith("U") else _register(match["base"], state)
    if base is None:
        return None
    scale = int(match["scale"] or 1)
    width = next((_WIDTHS[modifier] for modifier in one.modifiers if modifier in _WIDTHS), WORD)
    return turns_of([scale * lane for lane in base.lanes], width)


def turns_of(addresses: Sequence[int], width: int) -> int:
    """The most different words that one bank has to give in one go; wide accesses are made by so many lanes at a time as fill all banks.

    Args:
        addresses: of each lane, in bytes.
        width: bytes of each.
    """
    together = LANES * WORD // max(width, WORD)
    most = 1
    for start in range(0, LANES, together):
        words: dict[int, set[int]] = {}
        for address in addresses[start : start + together]:
            for word in range(address // WORD, (address + width - 1) // WORD + 1):
                words.setdefault(word % BANKS, set()).add(word)
        most = max(most, *map(len, words.values()))
    return most


def _step(one: Instruction, state: State) -> None:
    """What an instruction leaves in its register."""
    operands = [part.strip() for part in one.operands.split(",")]
    match = re.fullmatch(r"R(\d+)(?:\.64)?", operands[0])
    if match is None:
        return
    number, name = int(match[1]), f"R{match[1]}"
    value = _result(one, operands[1:], state)
    if one.predicate:
        value = _either(state.get(name), value)
    state[name] = value
    wide = {"64", "WIDE", "128"}.intersection(one.modifiers)
    for more in range(1, 4 if "128" in wide else 2 if wide else 1):
        state[f"R{number + more}"] = None


def _result(one: Instruction, operands: Sequence[str], state: State) -> Value | None:
    """The value of a 32-bit operation on addresses; None for what is not followed."""
    form = (one.opcode, *one.modifiers)
    if one.opcode in ("S2R", "S2UR"):
        # Rows of blocks are whole warps: the other numbers of threads are the same in all lanes.
        return _SPECIAL.get(operands[0], SAME)
    if one.opcode == "LDC":
        return SAME if not {"64", "128"}.intersection(one.modifiers) else None
    given = [_operand(text, state) for text in operands if not re.fullmatch(r"!?U?P(?:T|\d+)", text)]
    high = "HI" in form and form[:2] != ("SHF", "R")
    if None in given or not given or high or {"WIDE", "X"}.intersection(form):
        return None
    values = [value for value in given if value is not None]
    match form[:2]:
        case ("MOV", *_) | ("IMAD", "MOV"):
            return values[-1]
        case ("IADD3", *_) | ("VIADD", *_) | ("IADD", *_):
            return _sum(values)
        case ("IMAD", "SHL" | "IADD" | "U32") | ("IMAD",):
            return _sum((_product(values[0], values[1]), *values[2:]))
        case ("LEA", *_) if len(values) >= 3:
            return _sum((_product(values[0], _power(values[2])), values[1]))
        case ("SHF", "L") if len(values) >= 2:
            return _product(values[0], _power(values[1]))
        case ("SHF", "R") if len(values) >= 3:
            return _cut(values[2], shift=values[1].number)
        case ("LOP3", "LUT") if len(operands) >= 4 and operands[3] == _AND:
            return _both(values[0], values[1])
    return None


def _operand(text: str, state: State) -> Value | None:
    text = text.removesuffix(".reuse")
    if text.startswith("-"):
        return _product(_operand(text[1:], state), _constant(-1))
    if text.startswith(("0x", "c[", "UR")) or text.isdecimal():
        return _constant(int(text, 0)) if text.startswith("0x") or text.isdecimal() else SAME
    return _register(text, state) if _REGISTER.fullmatch(text) else None


def _register(name: str, state: State) -> Value | None:
    return _constant(0) if name == "RZ" else state.get(name)


def _constant(number: int) -> Value:
    return Value((number,) * LANES)


def _sum(values: Iterable[Value | None]) -> Value | None:
    total = _constant(0)
    for value in values:
        if value is None:
            return None
        lanes = tuple(a + b for a, b in zip(total.lanes, value.lanes, strict=True))
        total = Value(lanes, math.gcd(total.unit, value.unit))
    return total


def _product(one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return None
    for value, by in ((one, other.number), (other, one.number)):
        if by is not None:
            return Value(tuple(lane * by for lane in value.lanes), value.unit * abs(by))
    return SAME if one.uniform and other.uniform else None


def _power(value: Value) -> Value | None:
    by = value.number
    return None if by is None or not 0 <= by < LANES else _constant(1 << by)


def _cut(value: Value, *, shift: int | None) -> Value | None:
    """A value shifted right."""
    if shift is None or not 0 <= shift < LANES:
        return None
    if value.uniform and value.unit:
        return SAME
    if not value.apart or (value.unit and value.lowest < 1 << shift):
        return None
    return Value(tuple(lane >> shift for lane in value.lanes), value.lowest >> shift)


def _both(one: Value, other: Value) -> Value | None:
    """The bits that two values share, where one of them is known, or both are the same in all lanes."""
    for value, mask in ((one, other.number), (other, one.number)):
        if mask is not None and value.apart:
            # What is common to all lanes lies in the bits above, of which the mask leaves some.
            rest = value.lowest if mask < 0 or mask >= value.lowest else 0
            return Value(tuple(lane & mask for lane in value.lanes), rest)
    return SAME if one.uniform and other.uniform else None


def _either(before: Value | None, now: Value | None) -> Value | None:
    """What a register holds behind an instruction that may have been passed over, by all lanes or none."""
    if before is None or now is None:
        return None
    first, second = (tuple(lane - value.lanes[0] for lane in value.lanes) for value in (before, now))
    return Value(first, 1) if first == second else None
