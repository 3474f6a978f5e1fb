"""What a failed link means: what is defined nowhere, which file is defined twice, too new, or
damaged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilec.frontends.cuda.asked import Asked, Made
from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp.symbol import readable
from tilec.frontends.tools.nvjitlink import Piece
from tilec.model.link import LinkKind
from tilec_runtime.errors import CompileError, Diagnostic, Location

_UNDEFINED = re.compile(
    r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'"
)
_TWICE = re.compile(r"(?:Multiple definition of|globals named) '([^']+)'")
_TOO_NEW = re.compile(r"\((\d+)\) in LTOIR arch newer than target")
_VARIABLE = re.compile(r"\.extern\s+\.(?:global|const)\b[^;]*?([\w$]+)\s*(?:\[[^;]*\])?;")


def undefined_in(log: str) -> list[str]:
    """Return the symbols that a log calls undefined."""
    return _UNDEFINED.findall(log)


def undefined(asked: Asked, made: Made, log: str, command: str) -> CompileError | None:
    """Return the error for what nothing defines; None where the log tells of none, and no variable
    is left open.
    """
    # ptxas leaves variables to a linker: a driver would refuse the image.
    variables = [] if made.libraries else _VARIABLE.findall(made.text)
    missing = list(dict.fromkeys([*undefined_in(log), *variables]))
    if not missing:
        return None
    kernels = {symbol: expression for expression, symbol in made.symbols.items()}
    told = []
    for name in missing:
        callers = [kernels.get(user) or readable(user) for user in ptx.users(made.text, name)]
        by = (
            f", {'used' if name in variables else 'called'} by {' and '.join(callers)}"
            if callers
            else ""
        )
        shown = name if readable(name) == name else f"{readable(name)} ({name})"
        told.append(f"{shown} is declared and defined nowhere{by}")
    linked = ", ".join(entry.path for entry in asked.options.link)
    fix = 'include the file that defines it, or link it: link = ["act.cu"]'
    if linked:
        fix = f'none of the linked files ({linked}) defines it with these parameters, namespace and linkage (extern "C")'
    at = asked.found.decl.location
    return asked.error(
        f"the link has undefined symbols: {told[0]}{f', and {len(told) - 1} more' if told[1:] else ''}",
        diagnostics=tuple(Diagnostic(message=message, location=at, hint=fix) for message in told),
        cause="a declaration promises a function; its definition has to be in the source, what it includes, or what it is linked with",
        fix=fix,
        log=log,
        command=command,
    )


def refused(asked: Asked, pieces: Sequence[Piece], log: str, command: str) -> CompileError:
    """Return the error for a link that nvJitLink refuses."""
    target = asked.job.target
    first = next((line.strip() for line in log.splitlines() if line.strip()), "without a word")
    named = next(
        (
            piece
            for piece in pieces
            if re.search(rf"{re.escape(piece.name)}(?=$|[\s:'])", log, re.MULTILINE)
        ),
        None,
    )
    cause = fix = ""
    if twice := _TWICE.search(log):
        what = f"{readable(twice[1])} ({twice[1]}) is defined twice, {named.name if named else 'a linked file'} defines it again"
        fix = "leave one of the definitions out, or make it static or inline"
    elif new := _TOO_NEW.search(log):
        libraries = [entry.path for entry in asked.options.link if entry.kind is LinkKind.LIBRARY]
        what = f"{' or '.join(libraries) or 'a linked file'} was made for compute_{new[1]}, which is newer than {target}"
        fix = f"make it for the oldest target (compute_{target.cc[0]}{target.cc[1]}), or take {target} out of the targets"
    elif named:
        what = f"nvJitLink cannot read {named.name} for {target}: {first}"
        cause = "the file is cut short or damaged, holds code of another architecture alone, or was made by a newer toolkit"
        fix = f"make it anew, with code for {target} or LTO-IR for an older architecture"
    else:
        what = f"nvJitLink refuses to link {asked.job.spec.source.path} for {target}: {first}"
    place = Location(file=named.name, line=1) if named else asked.found.decl.location
    return asked.error(
        what,
        diagnostics=(Diagnostic(message=what, location=place, hint=fix),),
        cause=cause,
        fix=fix,
        log=log,
        command=command,
    )


def no_ltoir(asked: Asked, libraries: Sequence[Piece]) -> CompileError:
    """Return the error for machine code where PTX or LTO-IR is wanted."""
    names, wanted = (
        " and ".join(piece.name for piece in libraries),
        "LTO-IR" if asked.lto else "PTX",
    )
    what = f"{names} cannot be linked for {asked.job.target}: no LTO-IR in it, and machine code cannot become {wanted}"
    fix = "make it with LTO-IR (nvcc -dc -gencode arch=compute_80,code=lto_80), or give the kernel's cubin targets alone in [[override]]"
    place = Diagnostic(message=what, location=Location(file=libraries[0].name, line=1), hint=fix)
    return asked.error(what, diagnostics=(place,), fix=fix)


def dropped(asked: Asked, expression: str, symbol: str, log: str, command: str) -> CompileError:
    """Return the error for a link that succeeds without the kernel."""
    what = f"the link dropped the kernel {expression}: the result has no entry point {symbol or 'of it'}"
    cause = "the linker keeps entry points that it is told of; one of the linked files may define the same name as something else"
    return asked.error(
        what,
        cause=cause,
        fix="look at the kept command, and at what the linked files define",
        log=log,
        command=command,
    )
