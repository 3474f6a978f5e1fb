"""Names and order of numba's LLVM modules, made to depend on the kernel alone: numba counts the
compiles of a process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_MANGLED = re.compile(r"_Z[A-Za-z0-9_]+")
_TAG = re.compile(r"B(\d+)v(\d+)")
_COUNTED = re.compile(r"\b(_cudapy_[a-z]mem)_(\d+)")
_DEFINED = re.compile(r'^define [^@\n]*@"?([\w$.]+)"?', re.MULTILINE)
_DECLARED = re.compile(r'^declare [^@\n]*@"?([\w$.]+)"?', re.MULTILINE)


def canonical(modules: Sequence[str]) -> list[str]:
    """The modules, each once, the first one in front and each behind one that calls it, with names
    counted from one.

    numba numbers every function of a process, and keeps the modules of called functions in a set. A
    module that nothing in front of it calls is of no use to libNVVM.
    """
    waiting = list(dict.fromkeys(modules))
    maker = {name: module for module in waiting for name in _DEFINED.findall(module)}
    ordered: dict[str, None] = {}
    stack = waiting[:1]
    while stack:
        module = stack.pop()
        if module not in ordered:
            ordered[module] = None
            stack += [maker[name] for name in reversed(_DECLARED.findall(module)) if name in maker]
    tags: dict[str, int] = {}
    memory: dict[str, int] = {}
    return [_renumbered(module, tags, memory) for module in ordered]


def _renumbered(module: str, tags: dict[str, int], memory: dict[str, int]) -> str:
    def tag(number: str) -> str:
        return str(tags.setdefault(number, len(tags) + 1))

    named = _MANGLED.sub(lambda m: _tagged(m[0], tag), module)
    return _COUNTED.sub(lambda m: f"{m[1]}_{memory.setdefault(m[2], len(memory) + 1)}", named)


def _tagged(name: str, number: Callable[[str], str]) -> str:
    """A mangled name with other numbers in its tags `B2v7`: length, then `v` and the number of the
    function.
    """
    out, end = [], 0
    for match in _TAG.finditer(name):
        digits = int(match[1]) - 1
        if match.start() < end or not 0 < digits <= len(match[2]):
            continue
        stop = match.start(2) + digits
        new = number(match[2][:digits])
        out += [name[end : match.start()], f"B{len(new) + 1}v{new}"]
        end = stop
    return "".join((*out, name[end:]))


def symbol_of(name: str) -> str:
    """A Python name as an entry can be called: other characters than those of C become their code
    points.
    """
    return "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"_u{ord(c):x}_" for c in name
    )
