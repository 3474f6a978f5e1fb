"""Brings the toolkit's disassembly of Tile IR and tilec's own text into one form, so that they can
be compared as they are.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.toolchain.projects import tool
from tilec_runtime.cpu.tileir.ir import NumberAttr, Scalar
from tilec_runtime.cpu.tileir.values import STORAGE, scalar

_NAME = re.compile(r"%([\w$.-]+)(?:#(\d+))?")
_SEVERAL = re.compile(r"^%([\w$.-]+):(\d+) = ")
_NUMBER = r"(?:0x[0-9A-F]+|-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan))"
_KINDS = {kind.text: kind for kind in Scalar}


@functools.cache
def _tool() -> str:
    return tool("tileirdisasm")


def disassembled(data: bytes) -> str:
    """What tileirdisasm prints for a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.tilebc"
        path.write_bytes(data)
        command = [_tool(), str(path)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout


def canonical(text: str) -> list[str]:
    """Lines without comments and layout: values numbered in the order of their definition, numbers
    as five digits.
    """
    known: dict[str, str] = {}
    lines = [_numbers(_renamed(line, known)) for line in _joined(text)]
    # A branch that does nothing is written by one of the two only.
    return [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if (line, after) != ("} else {", "}")
    ]


def _joined(text: str) -> Iterator[str]:
    """Lines of one operation each: the arguments of a reduction's block stand on a line of their
    own in one of the two texts.
    """
    held = ""
    for raw in text.splitlines():
        line = re.sub(r"\s+", " ", re.sub(r"\s+//.*|^//.*| loc\(.*\)$", "", raw)).strip()
        if not line or line.startswith("#"):
            continue
        if re.search(r"= (reduce|scan) ", line) and not line.endswith("{"):
            held = line
            continue
        yield f"{held} {line}".strip() if held else line.replace(" :", " :")
        held = ""


def _renamed(line: str, known: dict[str, str]) -> str:
    several = _SEVERAL.match(line)
    if several:
        names = ", ".join(f"%{several[1]}#{number}" for number in range(int(several[2])))
        line = f"{names} = {line[several.end() :]}"
    defined = re.match(r"^((?:%[\w$.#-]+(?:, )?)+) = ", line)
    parts = re.findall(r"%[\w$.#-]+", defined[1]) if defined else []
    parts += re.findall(r"(?<=[(\s])(%[\w$.-]+)(?=: )", line) + re.findall(
        r"\bfor (?:unsigned )?(%[\w$.-]+)", line
    )
    if carried := re.search(r"iter_values\((.*?)\)", line):
        parts += re.findall(r"(%[\w$.-]+) =", carried[1])
        # What a loop begins with has the names from before it.
        line = re.sub(r"= (%[\w$.#-]+)", lambda found: "= " + known.get(found[1], found[1]), line)
    for part in parts:
        known[part] = f"v{_fresh(known)}"
    return _NAME.sub(lambda found: known.get(found[0], found[0]), line)


def _fresh(known: dict[str, str]) -> int:
    known["next"] = str(int(known.get("next", "-1")) + 1)
    return int(known["next"])


def _numbers(line: str) -> str:
    def constant(found: re.Match[str]) -> str:
        kind = _KINDS[found[1]]
        if not kind.is_float:
            return found[0]
        return (
            f"<{kind.text}: "
            + re.sub(_NUMBER, lambda number: _short(number[0], kind), found[2])
            + ">"
        )

    line = re.sub(r"<(\w+): ([^<>\"]*)>", constant, line)
    return re.sub(
        rf"({_NUMBER}) : (\w+)",
        lambda m: f"{_short(m[1], _KINDS[m[2]])} : {m[2]}" if m[2] in _KINDS else m[0],
        line,
    )


def _short(number: str, kind: Scalar) -> str:
    if not kind.is_float:
        return number
    value = float(
        scalar(NumberAttr(kind, int(number, 16)))
        if number.startswith("0x")
        else np.array(float(number)).astype(STORAGE[kind])
    )
    return "nan" if np.isnan(value) else f"{value:.4e}"
