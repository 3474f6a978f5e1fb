"""What a failed link means: who calls what is defined nowhere, which file is defined twice, too new, or damaged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.nvjitlink import Piece
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.link import LinkKind

if TYPE_CHECKING:
    from tilec.frontends.cuda.program import Asked, Made

_UNDEFINED = re.compile(r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'")
_TWICE = re.compile(r"(?:Multiple definition of|globals named) '([^']+)'")
_TOO_NEW = re.compile(r"\((\d+)\) in LTOIR arch newer than target")
_LENGTH = re.compile(r"\d+")
_EXTERN = re.compile(r"\.extern\s+\.func\s*(?:\([^)]*\))?\s*([\w$]+)|\.extern\s+\.(?:global|const)\b[^;]*?([\w$]+)\s*(?:\[[^;]*\])?;")
# What drivers and ptxas define themselves.
_RUNTIME = ("vprintf", "malloc", "free", "__assertfail", "__cuda_syscall", "cudaDeviceSynchronize")


def undefined_in(log: str) -> list[str]:
    """The symbols that a log calls undefined."""
    return _UNDEFINED.findall(log)


def undefined(asked: Asked, made: Made, log: str, command: str) -> CompileError | None:
    """The error for what nothing defines, None where the log of assembling a program tells of none and no variable is left open."""
    text, symbols = made.text, {symbol: expression for expression, symbol in made.symbols.items()}
    linked = [entry.path for entry in asked.options.link if entry.kind is LinkKind.CUDA]
    # ptxas leaves variables to a linker: a driver would refuse the image.
    variables = [] if made.libraries else [b for _, b in _EXTERN.findall(text) if b]
    told = [*undefined_in(log), *variables]
    if not told:
        return None
    # ptxas stops at the first; of a linker's libraries nobody knows what they bring.
    declared = [] if made.libraries else [a or b for a, b in _EXTERN.findall(text)]
    missing = [*told, *(name for name in declared if not name.startswith(_RUNTIME) and _is_users(asked, name))]
    found = []
    for name in dict.fromkeys(missing):
        plain = readable(name)
        callers = [symbols.get(user) or readable(user) for user in ptx.users(text, name)]
        by = f", {'used' if name in variables else 'called'} by {' and '.join(callers)}" if callers else ""
        where = _place(asked, sources(asked), plain)
        also = _place(asked, linked, plain)
        if name in variables:
            where, also = where or also, None
        shown = plain if plain == name else f"{plain} ({name})"
        hint = _advice(asked, plain, also)
        found.append(
            Diagnostic(
                message=f"{shown} is declared and defined nowhere{by}",
                location=where or asked.found.decl.location,
                excerpt=_line(asked, where),
                hint=hint,
            )
        )
    found.sort(key=lambda d: (d.location.file, d.location.line) if d.location else ("", 0))
    first = found[0]
    rest = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return asked.error(
        f"the link has undefined symbols: {first.message}{rest}",
        diagnostics=tuple(found),
        cause="a declaration promises a function; its definition has to be in the source, what it includes, or what it is linked with",
        fix=first.hint,
        log=log,
        command=command,
    )


def refused(asked: Asked, pieces: Sequence[Piece], log: str, command: str) -> CompileError:
    """The error for a link that nvJitLink refuses."""
    target = asked.job.target
    twice = _TWICE.search(log)
    new = _TOO_NEW.search(log)
    named = next((piece for piece in pieces if re.search(rf"{re.escape(piece.name)}(?=$|[\s:'])", log, re.MULTILINE)), None)
    libraries = [entry.path for entry in asked.options.link if entry.kind is LinkKind.LIBRARY]
    cause = fix = ""
    if twice:
        plain = readable(twice[1])
        others = [entry.path for entry in asked.options.link if entry.kind is LinkKind.CUDA]
        places = [str(place) for other in others if (place := _place(asked, [other], plain))]
        what = f"{plain} ({twice[1]}) is defined twice, {named.name if named else 'a linked file'} defines it again"
        cause = f"named in {' and '.join(places)}" if places else "two of the linked files define it"
        fix = "leave one of the definitions out, or make it static or inline"
    elif new:
        what = f"{_listed(libraries) or 'a linked file'} was made for compute_{new[1]}, which is newer than {target}"
        fix = f"make it for the oldest target (compute_{target.cc[0]}{target.cc[1]}), or take {target} out of the targets"
    elif named:
        what = f"nvJitLink cannot read {named.name} for {target}: {_first(log)}"
        cause = "the file is cut short or damaged, holds code of another architecture alone, or was made by a newer toolkit"
        fix = f"make it anew, with code for {target} or LTO-IR for an older architecture"
    else:
        what = f"nvJitLink refuses to link {asked.job.spec.source.path} for {target}: {_first(log)}"
    at = named.name if named else ""
    place = Location(file=at, line=1) if at else asked.found.decl.location
    if twice and at.endswith(".cu"):
        place = _place(asked, [at], readable(twice[1])) or place
    diagnostic = Diagnostic(message=what, location=place, hint=fix)
    return asked.error(what, diagnostics=(diagnostic,), cause=cause, fix=fix, log=log, command=command)


def no_ltoir(asked: Asked, libraries: Sequence[Piece]) -> CompileError:
    """The error for machine code where PTX or LTO-IR is wanted."""
    names = _listed([piece.name for piece in libraries])
    wanted = "LTO-IR" if asked.lto else "PTX"
    what = f"{names} cannot be linked for {asked.job.target}: no LTO-IR in it, and machine code cannot become {wanted}"
    fix = "make it with LTO-IR (nvcc -dc -gencode arch=compute_80,code=lto_80), or give the kernel's cubin targets alone in [[override]]"
    place = Diagnostic(message=what, location=Location(file=libraries[0].name, line=1), hint=fix)
    return asked.error(what, diagnostics=(place,), fix=fix)


def dropped(asked: Asked, expression: str, symbol: str, log: str, command: str) -> CompileError:
    """The error for a link that succeeds without the kernel."""
    what = f"the link dropped the kernel {expression}: the result has no entry point {symbol or 'of it'}"
    cause = "the linker keeps entry points that it is told of; one of the linked files may define the same name as something else"
    return asked.error(what, cause=cause, fix="look at the kept command, and at what the linked files define", log=log, command=command)


def readable(symbol: str) -> str:
    """`ns::act` of `_ZN2ns3actEf`: the name without its parameters; other symbols as they are."""
    if not symbol.startswith("_Z"):
        return symbol
    rest = symbol[2:].removeprefix("L")
    nested = rest.startswith("N")
    rest = rest[1:].lstrip("rVK") if nested else rest
    parts = []
    while size := _LENGTH.match(rest):
        end = size.end() + int(size[0])
        parts.append(rest[size.end() : end])
        rest = rest[end:]
        if not nested:
            break
    return "::".join(parts) or symbol


def _is_users(asked: Asked, name: str) -> bool:
    """Whether an external name is one that a source or a header of the project has, and not the toolkit's."""
    return _place(asked, sources(asked), readable(name)) is not None


def sources(asked: Asked) -> list[str]:
    """The kernel's source, then the project's headers that it includes."""
    source, options = asked.job.spec.source, asked.options
    files = includes.closure(source.root, source.path, options.include, [value for _, value in options.define])
    return [source.path, *(file.name for file in files if file.name != source.path)]


def _place(asked: Asked, files: Iterable[str], name: str) -> Location | None:
    """Where a function is declared, as far as the text shows; else where it is called, else where its name stands."""
    best: tuple[int, Location] | None = None
    pattern = re.compile(rf"(?P<type>[\w>*&][*&\s]*[\s*&])?\b{re.escape(name.rpartition('::')[2])}\b\s*(?P<call>\()?")
    for file in files:
        try:
            lines = Path(asked.job.spec.source.root, file).read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            for match in pattern.finditer(line.partition("//")[0]):
                before = line[: match.start()].rpartition(" ")[2] + (match["type"] or "")
                declares = match["call"] and match["type"] and before.split()[-1:] != ["return"]
                rank = 0 if declares else 1 if match["call"] else 2
                if best is None or rank < best[0]:
                    start = match.end("type") if match["type"] else match.start()
                    best = (rank, Location(file=file, line=number, column=start + 1))
    return best[1] if best else None


def _advice(asked: Asked, name: str, also: Location | None) -> str:
    if also:
        return f'{also} names {name} too: its parameters, namespace or extern "C" differ, or it is a template or static there'
    if asked.options.link:
        return f"none of the linked files ({', '.join(entry.path for entry in asked.options.link)}) defines it: add the one that does"
    return 'include the file that defines it, or link it: link = ["act.cu"]'


def _line(asked: Asked, place: Location | None) -> str:
    """The source line of a place that `_place` gave."""
    if place is None:
        return ""
    text = Path(asked.job.spec.source.root, place.file).read_text(encoding="utf-8", errors="replace")
    return text.split("\n")[place.line - 1].rstrip("\r")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}" if names else ""


def _first(log: str) -> str:
    return next((line.strip() for line in log.splitlines() if line.strip()), "without a word")
