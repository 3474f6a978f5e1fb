"""Turns what goes wrong in a user's Python module, in cuda.tile and in tileiras into located compile errors."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pkgutil
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType

from tilec.frontends import _tile_api as api
from tilec_runtime.errors import CompileError, Diagnostic, Location, TilecError
from tilec_runtime.model.job import Source
from tilec_runtime.model.suggest import did_you_mean

IMPORTS = "a kernel module is executed when it is built: what only a launch needs (torch, say) is imported inside functions"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImportFailure:
    """Where an exception came up: the source, the texts of the project files read so far, and what the module had printed."""

    source: Source
    texts: Mapping[str, str]
    output: str = ""


def import_error(where: ImportFailure, exc: BaseException) -> CompileError:
    """The error of a module that could not be executed: the user's own place, frames and words, no frame of anything else."""
    if isinstance(exc, CompileError):
        return exc
    frames = _user_frames(exc.__traceback__, where.texts)
    own = isinstance(exc, SyntaxError) and (exc.filename in where.texts or not frames)
    location, excerpt = _syntax_place(where, exc) if own and isinstance(exc, SyntaxError) else _frame_place(where, frames)
    name = type(exc).__name__
    text = (exc.msg if isinstance(exc, SyntaxError) else str(exc)) or "no message"
    message = f"{name}: {text}"
    if isinstance(exc, SystemExit):
        message = f"the module calls exit ({exc.code!r}) when it is imported"
    hint = ""
    if isinstance(exc, ModuleNotFoundError):
        hint = _missing(exc.name or "")
    elif isinstance(exc, SyntaxError | UnicodeError) and own and "encod" in text:
        hint = "save the file as UTF-8, or name its encoding in its first line"
    elif not isinstance(exc, SyntaxError | TilecError):  # what tilec itself refuses in a module, it says
        hint = IMPORTS
    log = "".join(traceback.format_list(frames) + traceback.format_exception_only(exc))
    return CompileError(
        f"{where.source.path} cannot be {'read' if own else 'imported'}: {message}",
        diagnostics=(Diagnostic(message=message, location=location, excerpt=excerpt, hint=hint),),
        log=log + (f"--- printed before ---\n{where.output}" if where.output else ""),
    )


def _missing(name: str) -> str:
    """What to do about a module that is not there: install its package, or spell it as the package does."""
    parent = name.rpartition(".")[0]
    package = sys.modules.get(parent)
    if package is None:
        return f"install {name.partition('.')[0]} where you build, or: {IMPORTS}"
    known = [module.name for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{parent}.")]
    return f"the package {parent} is installed, and has no such module{did_you_mean(name, known)}"


def _user_frames(trace: TracebackType | None, texts: Mapping[str, str]) -> list[traceback.FrameSummary]:
    return [f for f in traceback.extract_tb(trace) if f.filename in texts]


def _frame_place(where: ImportFailure, frames: Sequence[traceback.FrameSummary]) -> tuple[Location, str]:
    if not frames:
        return Location(file=where.source.path), ""
    last = frames[-1]
    line = line_of(where.texts, last.filename, last.lineno or 0)
    # Python tells columns from 3.11 on; before that the statement's first character will do.
    offset = getattr(last, "colno", None)
    column = len(line) - len(line.lstrip()) if offset is None else characters(line, offset)
    return Location(file=last.filename, line=last.lineno or 0, column=column + 1), line


def _syntax_place(where: ImportFailure, exc: SyntaxError) -> tuple[Location, str]:
    file = exc.filename if exc.filename and exc.filename in where.texts else where.source.path
    line = line_of(where.texts, file, exc.lineno or 0) or (exc.text or "").rstrip("\n")
    return Location(file=file, line=exc.lineno or 0, column=max(exc.offset or 0, 0)), line


def export_error(exc: Exception, *, source: Source, texts: Mapping[str, str], kernel: str, at: Location) -> CompileError:
    """The error of a kernel that cuda.tile refused; `at` is where it is defined, for errors without a place of their own."""
    told = api.tile_error(exc)
    if told is None:
        return _other_error(exc, texts=texts, kernel=kernel, at=at)
    message, frames = told
    # What it says about a place that it does not know tells a reader nothing: the place is here.
    lines = [line.strip() for line in message.strip().splitlines()]
    first, *more = [_ARRAY.sub(r"tl.\1[\2]", line) for line in lines if line != "Unknown location"] or [type(exc).__name__]
    user = [f for f in frames if f.file in texts]
    diagnostics = []
    if user:
        location, excerpt = _place(user[0], texts)
        diagnostics.append(Diagnostic(message=first, location=location, excerpt=excerpt, hint=" ".join(more) or _hint(first)))
        for frame in dict.fromkeys(user[1:]):  # a function that calls itself without end is in there a thousand times
            location, excerpt = _place(frame, texts)
            diagnostics.append(
                Diagnostic(message=f"called from here, in {frame.function}", location=location, severity="note", excerpt=excerpt)
            )
    else:
        diagnostics.append(Diagnostic(message=first, location=at, excerpt=line_of(texts, at.file, at.line), hint=_hint(first)))
    return CompileError(
        f"{source.path}: kernel {kernel!r} does not compile: {first}",
        diagnostics=tuple(diagnostics),
        log=f"{type(exc).__name__}: {_told(exc, message)}",
        cause="cuda.tile calls this an error of its own" if api.is_bug(exc) else "",
    )


def _told(exc: Exception, message: str) -> str:
    """An error's text with its places; the message alone where cuda.tile cannot write down its own place."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - it is about to be told as an error anyway
        return message


def _other_error(exc: Exception, *, texts: Mapping[str, str], kernel: str, at: Location) -> CompileError:
    name, text = type(exc).__name__, str(exc).strip()
    where = re.search(r"kernel parameter '(\w+)'", text)
    location = parameter_place(texts, at, where[1]) if where and isinstance(exc, TypeError) else at
    known = isinstance(exc, TypeError | ValueError) and bool(where)
    message = text if known else f"{name}: {text or 'no message'}"
    frames = traceback.format_list(traceback.extract_tb(exc.__traceback__)[-3:])
    return CompileError(
        f"kernel {kernel!r} does not compile: {message}",
        diagnostics=(Diagnostic(message=message, location=location, excerpt=line_of(texts, location.file, location.line)),),
        log=f"{name}: {text}" if known else "".join((*frames, f"{name}: {text}\n")),
        cause="" if known else "cuda.tile failed without a place in the source: an unusual construct, or a bug of it",
    )


def _hint(message: str) -> str:
    if "not supported" in message.lower() and "sm_" in message:
        return "leave this target out for the kernel with an [[override]], or choose another dtype"
    unknown = re.search(r"Module 'cuda\.tile' has no attribute '(\w+)'", message)
    if unknown:
        return did_you_mean(unknown[1], [name for name in dir(api.cuda_tile()) if not name.startswith("_")]).removeprefix("; ")
    unknown = re.search(r"Module 'tilec\.lang' has no attribute '(\w+)'", message)
    if unknown:
        close = did_you_mean(unknown[1], [name for name in dir(api.lang()) if not name.startswith("_")]).removeprefix("; ")
        return close or "tilec.lang has the operations that know no memory: import cuda.tile as ct for others, which take a tl.Ptr"
    if re.search(r"'Ref' object has no attribute '(store|load)'", message):
        return "a tl.Ref is only read, by tiles: declare it tl.Mut[T, (BM, BN)] to write it, and read with load_tile(index, shape)"
    if "'Ref' object has no attribute 'index'" in message:
        return "load_tile_like takes what a block writes, a tl.Mut, for its place: of a tl.Ref, take load_tile(index, shape)"
    if message.startswith("Maximum recursion depth"):
        return "what a kernel calls becomes a part of it, so no function can call itself: write a loop"
    if re.search(r"Unsupported operand types.*\b(Ref|Mut|MappedMut|SpanMut)\[", message):
        return "arrays are loaded before they are computed with: x.load_tile_like(z), x.load_tile(index, shape), z.load()"
    word = re.match(r"(static_\w+)\(\) must be used directly by name", message)
    if word:
        return f"from tilec.lang import {word[1]}, and call it without tl in front"
    if "cannot implicitly cast" in message:
        return "cast it where it is stored: value.astype(array.dtype)"
    return ""


def _place(frame: api.Frame, texts: Mapping[str, str]) -> tuple[Location, str]:
    line = line_of(texts, frame.file, frame.line)
    column = characters(line, frame.column) + 1 if frame.column >= 0 else 0
    return Location(file=frame.file, line=frame.line, column=column), line


def parameter_place(texts: Mapping[str, str], at: Location, name: str) -> Location:
    """Where parameter `name` of the function defined at `at` stands, or `at`."""
    function = function_node(texts.get(at.file, ""), at.line)
    if function is not None:
        for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if arg.arg == name:
                line = line_of(texts, at.file, arg.lineno)
                return Location(file=at.file, line=arg.lineno, column=characters(line, arg.col_offset) + 1)
    return at


def function_node(text: str, line: int) -> ast.FunctionDef | None:
    """The function whose `def`, or first decorator, stands on a line."""
    return _functions(text).get(line)


@functools.lru_cache(maxsize=32)
def _functions(text: str) -> dict[int, ast.FunctionDef]:
    """Functions by the lines of their `def` and decorators: of several on one line, the outermost."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, ast.FunctionDef] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for line in (node.lineno, *(d.lineno for d in node.decorator_list)):
                found.setdefault(line, node)
    return found


# An array of the safe language as cuda.tile shows it: with its fields.
_NESTED = r"(?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*"
_ARRAY = re.compile(rf"\b(\w+)\[_tl_array: Array\[(\w+){_NESTED}\]{_NESTED}\]")
_TILEIRAS = re.compile(r'loc\((?:[^)]*?\[)?"([^"]+)"(?::(\d+):(\d+))?\]?\):\s*(error|warning|remark|note):\s*(.*)', re.IGNORECASE)
_PLAIN = re.compile(r"^\s*(?:tileiras:\s*)?(?:ptxas\s+)?(fatal|error|warning)\s*:\s*(.*)", re.IGNORECASE)


def tileiras_diagnostics(stderr: str, texts: Mapping[str, str], *, severity: str = "error") -> tuple[Diagnostic, ...]:
    """What tileiras wrote, as diagnostics of one severity; its own places become the user's where they are in a project file."""
    found: list[Diagnostic] = []
    for raw in stderr.splitlines():
        located, plain = _TILEIRAS.search(raw), _PLAIN.match(raw)
        if located:
            kind, message = located[4].lower(), located[5].strip()
            line = int(located[2] or 0)
            place = Location(file=located[1], line=line, column=int(located[3] or 0)) if located[1] in texts else None
            excerpt = line_of(texts, located[1], line)
        elif plain:
            kind, message, place, excerpt = plain[1].lower(), plain[2].strip(), None, ""
        else:
            continue
        if kind.replace("fatal", "error") == severity and message:
            found.append(Diagnostic(message=message, location=place, severity=severity, excerpt=excerpt))
    return tuple(dict.fromkeys(found))


def line_of(texts: Mapping[str, str], file: str, number: int) -> str:
    """Line `number` (from 1) of a project file, empty where there is none."""
    lines = texts.get(file, "").split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def characters(line: str, offset: int) -> int:
    """A column in UTF-8 bytes as one in characters."""
    return len(line.encode()[:offset].decode("utf-8", "ignore"))
