"""LLVM and PTX text of numba, made to depend on the kernel alone: names that count compiles, order of modules, what nothing reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

_MANGLED = re.compile(r"_Z[A-Za-z0-9_]+")
_TAG = re.compile(r"B(\d+)v(\d+)")
_COUNTED = re.compile(r"\b(_cudapy_[a-z]mem)_(\d+)")
_DEFINED = re.compile(r'^define [^@\n]*@"?([\w$.]+)"?', re.MULTILINE)
_DECLARED = re.compile(r'^declare [^@\n]*@"?([\w$.]+)"?', re.MULTILINE)
# A function ends behind an empty line: a brace alone may be one of inline assembly.
_FUNCTION = re.compile(r"^\.(?:visible|weak) \.func\s+(?:\([^)]*\)\s*)?([\w$]+).*?\n\n}\n", re.MULTILINE | re.DOTALL)
_EXTERNAL = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
_GLOBAL = re.compile(r"^\.(?:visible|weak) \.(?:global|const|shared) [^;]*?([\w$]+)(?:\[\d*\])?(?: = [^;]*)?;\n", re.MULTILINE)
_WORD = re.compile(r"[\w$]+")
_ENVIRONMENT = re.compile(r"^[^\n]*\.global [^\n;]*?(_ZN08NumbaEnv[\w$]+)\s*;\n", re.MULTILINE)


def canonical(modules: Sequence[str]) -> list[str]:
    """The modules, each once, the first one in front and each behind one that calls it, with names counted from one.

    numba numbers every function of a process, and keeps the modules of called functions in a set. A module that nothing in front of it
    calls is of no use to libNVVM.
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
    """A mangled name with other numbers in its tags `B2v7`: length, then `v` and the number of the function."""
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


def without_environments(ptx: str) -> str:
    """PTX without the variables in which numba keeps functions' surroundings on a CPU, where no code names them."""

    def keep(match: re.Match[str]) -> str:
        return match[0] if ptx.count(match[1]) > 1 else ""

    return _ENVIRONMENT.sub(keep, ptx)


def symbol_of(name: str) -> str:
    """A Python name as an entry can be called: other characters than those of C become their code points."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"_u{ord(c):x}_" for c in name)


def external(ptx: str) -> set[str]:
    """The functions that PTX declares as external."""
    return {match[1] for match in _EXTERNAL.finditer(ptx)}


def functions(library: str) -> set[str]:
    """The functions that PTX defines."""
    return {match[1] for match in _FUNCTION.finditer(library)}


def spliced(ptx: str, library: str, names: Mapping[str, str]) -> str:
    """PTX with functions that it declares as external taken from the text of another, where they are called `names`."""
    for name, own in names.items():
        ptx = re.sub(rf"^\.extern \.func[^;]*?\b{re.escape(name)}\b[^;]*;\n", "", ptx, count=1, flags=re.MULTILINE)
        ptx = re.sub(rf"\b{re.escape(name)}\b", own, ptx)
    head = re.search(r"^\.address_size 64\n", ptx, re.MULTILINE)
    assert head is not None
    return f"{ptx[: head.end()]}\n{_needed(library, names.values())}{ptx[head.end() :]}"


def _needed(library: str, names: Iterable[str]) -> str:
    """The functions of these names, and what they name of the rest of the text: headers leave much behind that nothing reads."""
    parts = {found[1]: found[0] for found in (*_FUNCTION.finditer(library), *_GLOBAL.finditer(library))}
    order = list(parts)
    kept: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in parts and name not in kept:
            kept.add(name)
            waiting += _WORD.findall(parts[name])
    return "\n".join(parts[name] for name in sorted(kept, key=lambda name: (parts[name].endswith("}\n"), order.index(name))))
