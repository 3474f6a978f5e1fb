"""What an image's machine code consists of: instructions by class, widths of its memory accesses,
and what to look at.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tilec.inspection.sass import Instruction
from tilec_runtime.model.arch import Version

# Classes in the order in which they are shown; opcodes by their beginnings, the longest that fits
# decides.
CLASSES: dict[str, tuple[str, ...]] = {
    "tensor core, warp group (wgmma)": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "tensor core, tensor memory (tcgen05)": (
        "UTCHMMA",
        "UTCQMMA",
        "UTCIMMA",
        "UTCOMMA",
        "UTCMXQMMA",
    ),
    "tensor core, warp (mma.sync)": ("HMMA", "QMMA", "IMMA", "BMMA", "DMMA", "OMMA"),
    "bulk copies (TMA)": ("UTMA", "UBLK", "UTMACMDFLUSH"),
    "asynchronous copies (cp.async)": ("LDGSTS", "LDGDEPBAR"),
    "global memory": ("LDG", "STG", "LD", "ST", "LDGMC"),
    "shared memory": ("LDS", "STS", "LDSM", "STSM"),
    "local memory": ("LDL", "STL"),
    "tensor memory": ("LDTM", "STTM", "UTCCP", "UTCATOMSWS", "UTCSHIFT"),
    "constant memory": ("LDC", "ULDC", "LDCU"),
    "atomics": ("ATOM", "RED"),
    "barriers and fences": (
        "BAR",
        "SYNCS",
        "MEMBAR",
        "DEPBAR",
        "FENCE",
        "WARPGROUP",
        "WARPSYNC",
        "UCGABAR",
        "UTCBAR",
        "ERRBAR",
        "B2R",
        "ARRIVES",
    ),
    "warp exchange": ("SHFL", "VOTE", "MATCH", "REDUX", "CREDUX", "ELECT"),
    "double precision": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "special functions": ("MUFU",),
    "floating point": (
        "FADD",
        "FMUL",
        "FFMA",
        "FSETP",
        "FMNMX",
        "FSEL",
        "FCHK",
        "FSET",
        "HADD",
        "HMUL",
        "HFMA",
        "HSETP",
        "HMNMX",
        "HSET",
    ),
    "conversions": ("F2", "I2", "FRND", "UF2", "UI2"),
    "control flow": (
        "BRA",
        "BRX",
        "BSSY",
        "BSYNC",
        "BREAK",
        "CALL",
        "RET",
        "EXIT",
        "JMP",
        "BMOV",
        "NANOSLEEP",
        "YIELD",
        "BPT",
    ),
}
OTHER = "integers, moves and the rest"
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_BY_BEGINNING = sorted(
    ((begin, name) for name, begins in CLASSES.items() for begin in begins),
    key=lambda pair: -len(pair[0]),
)
# Padding behind the last branch is no work.
PADDING = {"NOP"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mix:
    """What a function consists of. Counts are of instructions in the code, not of those executed.

    Attributes:
        total: instructions, padding left out.
        classes: (class, count), in the order of CLASSES; those that do not occur are left out.
        opcodes: (opcode, count), most frequent first.
        loads, stores: of global memory, (bytes per thread, count), widest first.
        warnings: what to look at, each one sentence.
    """

    total: int
    classes: tuple[tuple[str, int], ...]
    opcodes: tuple[tuple[str, int], ...]
    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]
    warnings: tuple[str, ...]


def mix(code: Iterable[Instruction], cc: Version, *, double: bool = True) -> Mix:
    """Count a function's instructions.

    Args:
        code: its instructions.
        cc: what it was compiled for.
        double: whether f64 is among the kernel's dtypes, so that double precision is no surprise.
    """
    work = [one for one in code if one.opcode not in PADDING]
    opcodes = collections.Counter(one.opcode for one in work)
    classes: collections.Counter[str] = collections.Counter()
    for opcode, count in opcodes.items():
        classes[class_of(opcode)] += count
    loads, stores = _widths(work, ("LDG", "LD")), _widths(work, ("STG", "ST"))
    return Mix(
        total=len(work),
        classes=tuple((name, classes[name]) for name in (*CLASSES, OTHER) if classes[name]),
        opcodes=tuple(sorted(opcodes.items(), key=lambda pair: (-pair[1], pair[0]))),
        loads=loads,
        stores=stores,
        warnings=tuple(_warnings(opcodes, cc, double=double)),
    )


def class_of(opcode: str) -> str:
    """The class of an opcode."""
    return next((name for begin, name in _BY_BEGINNING if opcode.startswith(begin)), OTHER)


def _width(one: Instruction) -> int:
    """Bytes that each thread moves."""
    return next((_WIDTHS[modifier] for modifier in one.modifiers if modifier in _WIDTHS), 4)


def _widths(work: Sequence[Instruction], opcodes: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    found = collections.Counter(_width(one) for one in work if one.opcode in opcodes)
    return tuple(sorted(found.items(), reverse=True))


def _warnings(opcodes: collections.Counter[str], cc: Version, *, double: bool) -> list[str]:
    def count(*names: str) -> int:
        return sum(opcodes[name] for name in names)

    found = []
    if local := count("LDL", "STL"):
        accesses = f"{local} access{'es' if local > 1 else ''} of local memory"
        found.append(
            f"{accesses}: registers are spilled, or an array is indexed by what only the run knows"
        )
    if count("HMMA", "QMMA", "IMMA"):
        here = f"sm_{cc[0]}{cc[1]}"
        if cc == (9, 0) and not count("HGMMA", "QGMMA", "IGMMA", "BGMMA"):
            found.append(
                f"matrix products of single warps (mma.sync), none of warp groups (wgmma): much less than {here}'s tensor cores do"
            )
        if cc[0] == 10 and not any(name.startswith("UTC") and "MMA" in name for name in opcodes):
            found.append(
                f"matrix products of single warps (mma.sync), none of tcgen05: much less than {here}'s tensor cores do"
            )
    doubles = count("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
    if doubles and not double:
        found.append(
            f"double precision ({doubles} of the instructions), and no f64 in the signature: a literal such as 1.0 for 1.0f?"
        )
    return found
