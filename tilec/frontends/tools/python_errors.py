"""Make compile errors with locations in a user's Python module."""

from __future__ import annotations

import ast
import functools
import re
import traceback
from collections.abc import Mapping, Sequence
from types import FunctionType, TracebackType

from tilec.model.job import Source
from tilec_runtime.errors import CompileError, Diagnostic, Location, TilecError
from tilec_runtime.model.suggest import suggestion

IMPORTS = "a kernel module is executed when it is built: what only a launch needs (torch, say) is imported inside functions"


# As cuda.tile, and as Triton and numba say it.
_UNDEFINED = re.compile(r"Undefined variable (\w+)|\b(\w+)'? is not defined")


def import_error(
    exc: BaseException, source: Source, texts: Mapping[str, str], output: str
) -> CompileError:
    """Return the error for a module whose import failed.

    Location and frames are those of the user's files; frames of libraries are left out.

    Args:
        exc: the exception.
        source: the module.
        texts: texts of the project files that were read.
        output: what the module printed.
    """
    if isinstance(exc, CompileError):
        return exc
    frames = _user_frames(exc.__traceback__, texts)
    own = isinstance(exc, SyntaxError) and (exc.filename in texts or not frames)
    location, excerpt = (
        _syntax_location(source, texts, exc)
        if own and isinstance(exc, SyntaxError)
        else _frame_location(source, texts, frames)
    )
    name = type(exc).__name__
    text = (exc.msg if isinstance(exc, SyntaxError) else str(exc)) or "no message"
    message = f"{name}: {text}"
    if isinstance(exc, SystemExit):
        message = f"the module calls exit ({exc.code!r}) when it is imported"
    hint = _hint(exc, encoding=own and "encod" in text)
    log = "".join(traceback.format_list(frames) + traceback.format_exception_only(exc))
    return CompileError(
        f"{source.path} cannot be {'read' if own else 'imported'}: {message}",
        diagnostics=(Diagnostic(message=message, location=location, excerpt=excerpt, hint=hint),),
        log=log + (f"--- printed before ---\n{output}" if output else ""),
    )


def _hint(exc: BaseException, *, encoding: bool) -> str:
    """Return a hint at the fix of an exception, or an empty string.

    Args:
        exc: the exception.
        encoding: whether a syntax error is about the encoding of the user's file.
    """
    if isinstance(exc, ModuleNotFoundError):
        package = (exc.name or "").partition(".")[0]
        return f"install {package} where you build, or: {IMPORTS}"
    if encoding:
        return "save the file as UTF-8, or name its encoding in its first line"
    if isinstance(exc, AttributeError) and exc.name:
        return suggestion(exc.name, dir(exc.obj))
    # A TilecError has its own hint.
    plain = isinstance(exc, SyntaxError | TilecError | NameError | TypeError)
    return "" if plain else IMPORTS


def undefined_hint(message: str, function: FunctionType) -> str:
    """Return a similar name for an undefined one in a compiler's message, or an empty string."""
    match = _UNDEFINED.search(message)
    names = (*function.__code__.co_varnames, *function.__globals__)
    return suggestion(match[1] or match[2], names) if match else ""


def _user_frames(
    trace: TracebackType | None, texts: Mapping[str, str]
) -> list[traceback.FrameSummary]:
    return [f for f in traceback.extract_tb(trace) if f.filename in texts]


def _frame_location(
    source: Source, texts: Mapping[str, str], frames: Sequence[traceback.FrameSummary]
) -> tuple[Location, str]:
    if not frames:
        return Location(file=source.path), ""
    last = frames[-1]
    line = line_of(texts, last.filename, last.lineno or 0)
    # Frames have columns from Python 3.11 on; before that, take the statement's first character.
    offset = getattr(last, "colno", None)
    column = len(line) - len(line.lstrip()) if offset is None else characters(line, offset)
    return Location(file=last.filename, line=last.lineno or 0, column=column + 1), line


def _syntax_location(
    source: Source, texts: Mapping[str, str], exc: SyntaxError
) -> tuple[Location, str]:
    file = exc.filename if exc.filename and exc.filename in texts else source.path
    line = line_of(texts, file, exc.lineno or 0) or (exc.text or "").rstrip("\n")
    return Location(file=file, line=exc.lineno or 0, column=max(exc.offset or 0, 0)), line


def located(
    texts: Mapping[str, str], at: Location, message: str, *, hint: str = "", severity: str = "error"
) -> Diagnostic:
    """Return a diagnostic with the source line of its location."""
    excerpt = line_of(texts, at.file, at.line)
    return Diagnostic(message=message, location=at, severity=severity, excerpt=excerpt, hint=hint)


def traced(
    texts: Mapping[str, str], locations: Sequence[tuple[Location, str]], message: str, hint: str
) -> tuple[Diagnostic, ...]:
    """Return the diagnostic of an error, followed by a note for each call that leads to it.

    Args:
        texts: texts of the project's files.
        locations: locations with the names of their functions (empty if unknown), innermost first.
        message: message of the error.
        hint: hint of the error.
    """
    calls = (
        located(texts, at, f"called from here{f', in {name}' if name else ''}", severity="note")
        for at, name in locations[1:]
    )
    return (located(texts, locations[0][0], message, hint=hint), *calls)


def node_location(
    texts: Mapping[str, str], file: str, node: ast.AST, offset: int = 0
) -> tuple[Location, str]:
    """Return the location of a node, plus `offset` characters, and its source line."""
    number = getattr(node, "lineno", 0)
    line = line_of(texts, file, number)
    column = characters(line, getattr(node, "col_offset", 0)) + 1 + offset
    return Location(file=file, line=number, column=column), line


def parameter_nodes(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """Return all parameters of a function, `*args` and `**kwargs` last."""
    spec = node.args
    rest = [arg for arg in (spec.vararg, spec.kwarg) if arg is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest]


def written_parameters(
    texts: Mapping[str, str], file: str, node: ast.FunctionDef | None
) -> dict[str, tuple[Location, str]]:
    """Return location and annotation, as written, of each parameter of a function."""
    return {
        arg.arg: (
            node_location(texts, file, arg)[0],
            ast.unparse(arg.annotation) if arg.annotation else "",
        )
        for arg in (parameter_nodes(node) if node is not None else ())
    }


def parameter_place(texts: Mapping[str, str], at: Location, name: str) -> Location:
    """Return the location of parameter `name` of the function defined at `at`, or `at`."""
    function = function_node(texts.get(at.file, ""), at.line)
    return written_parameters(texts, at.file, function).get(name, (at, ""))[0]


def function_node(text: str, line: int) -> ast.FunctionDef | None:
    """Return the function with its `def` or a decorator on a line, or None."""
    return _functions(text).get(line)


@functools.lru_cache(maxsize=32)
def _functions(text: str) -> dict[int, ast.FunctionDef]:
    """Return functions by the lines of `def` and decorators; the outermost wins a line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    functions: dict[int, ast.FunctionDef] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for line in (node.lineno, *(d.lineno for d in node.decorator_list)):
                functions.setdefault(line, node)
    return functions


def line_of(texts: Mapping[str, str], file: str, number: int) -> str:
    """Return line `number` (from 1) of a project file, or an empty string."""
    lines = texts.get(file, "").split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def characters(line: str, offset: int) -> int:
    """Convert an offset in UTF-8 bytes to one in characters."""
    return len(line.encode()[:offset].decode("utf-8", "ignore"))
