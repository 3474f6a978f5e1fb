"""Machine code as nvdisasm and cuobjdump print it: one value per instruction, and its text without
addresses and register names.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_LINE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<predicate>!?U?P[T0-9]+)\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<modifiers>(?:\.[A-Za-z0-9_]+)*)\s*(?P<operands>[^;]*);"
)
# Labels, and the numbers that cuobjdump has in their place; then registers, but for those that hold
# a constant (RZ, PT and the like).
_PLACE = re.compile(r"`\((\.L[\w.$]*)\)|\.L_x_\d+")
_JUMP = re.compile(r"0x[0-9a-f]+")
_REGISTER = re.compile(r"\b(UR|UP|R|P|B|SB)\d+\b")
_JUMPS = {"BRA", "BSSY", "CALL", "BREAK", "BRX", "JMP", "WARPSYNC"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        address: bytes from the start of the function.
        predicate: `P0`, `!P1`, empty for none.
        opcode: its first word (`LDG`); `modifiers` what follows its dots (`E`, `128`).
        operands: the rest, as it was printed.
    """

    address: int
    predicate: str
    opcode: str
    modifiers: tuple[str, ...]
    operands: str

    @property
    def normal(self) -> str:
        """The instruction without what moves when code before it does: labels, jump targets,
        numbers of registers.
        """
        operands = _PLACE.sub("L", self.operands)
        if self.opcode in _JUMPS:
            operands = _JUMP.sub("L", operands)
        operands = _REGISTER.sub(r"\1", operands).strip()
        guard = "@" + _REGISTER.sub(r"\1", self.predicate) + " " if self.predicate else ""
        return f"{guard}{'.'.join((self.opcode, *self.modifiers))} {operands}".rstrip()


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a disassembly, in order; lines that are none are passed over."""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            yield Instruction(
                address=int(match["address"], 16),
                predicate=match["predicate"] or "",
                opcode=match["opcode"],
                modifiers=tuple(match["modifiers"].split(".")[1:]),
                operands=match["operands"].strip(),
            )
