"""Turn errors of Triton into compile errors with the user's location and the calls."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import line_of, located, traced, undefined_hint
from tilec.frontends.triton import api
from tilec.frontends.triton.declare import HOW, TritonKernel
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.suggest import suggestion

_MESSAGE = re.compile(
    r'^(?:(?:loc\()?"?([^"\n:]+)"?:(\d+):(\d+)\)?: |<unknown>:0: |loc\(unknown\): )?'
    r"(error|warning): (.*)$",
    re.MULTILINE,
)
# Python errors inside of Triton arrive as their repr.
_REPR = re.compile(r"\w+\(('|\")(.*)\1\)")
_FATAL = re.compile(r"^LLVM ERROR: (.*)$", re.MULTILINE)
_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")
_EMPTY = re.compile(r"Failures have been detected while processing|A signal was caught")
# Messages that do not name the problem in the kernel, and their replacements.
_SPELLED = (
    (
        re.compile(r"failed to legalize operation 'tt\.return'.*"),
        "a kernel returns nothing, and this one returns a value",
    ),
    (re.compile(r"\d+ active drivers .*"), "a kernel cannot be launched from within a kernel"),
)
_HINTS = (
    (
        re.compile(r"Cannot access global variable (\w+)"),
        "make it a tl.constexpr parameter, or a global tl.constexpr(value); a function becomes one of kernels by @triton.jit",
    ),
    (re.compile(r"kernel returns nothing"), "store results through a pointer"),
    (
        re.compile(r"(\w+) is not defined"),
        "kernels see their parameters, tl.constexpr globals, and other @triton.jit functions",
    ),
    (re.compile(r"no attribute '?(load|store|gather|scatter)\b"), HOW),
    (
        re.compile(r"num_ctas > 1 requires"),
        "clusters need sm_90 or newer: give num_ctas by target, as in hints.sm_90 = { num_ctas = 2 }",
    ),
    (re.compile(r"power of (?:2|two)"), "extents of tl.arange and num_warps are powers of two"),
)
_UNKNOWN = re.compile(r"module '(triton\.language(?:\.\w+)*)' has no attribute '(\w+)'")


def kernel_error(
    exc: Exception, *, module: LoadedModule, kernel: TritonKernel, summary: str
) -> CompileError:
    """Return the error for a kernel that Triton refused; `summary` starts its first line."""
    if isinstance(exc, api.StageError):
        return _stage_error(exc, module=module, kernel=kernel, summary=summary)
    at = kernel.decl.location
    frames = api.complaints(exc)
    first = (
        _first_line(frames[-1].message if frames else "")
        or _first_line(str(exc))
        or type(exc).__name__
    )
    locations = list(_locations(frames, module, kernel))[::-1] or [(at, "")]
    hint = undefined_hint(first, api.function_of(kernel.kernel)) or _hint(first)
    diagnostics = traced(module.texts, locations, first, hint)
    return CompileError(
        f"{summary}: {first}", diagnostics=diagnostics, log=f"{type(exc).__name__}: {exc}"
    )


def native_diagnostics(
    log: str, texts: Mapping[str, str], *, severity: str
) -> tuple[Diagnostic, ...]:
    """Return the messages of Triton's native code of one severity as diagnostics.

    A diagnostic has a location if the message names a file of the project.
    """
    diagnostics = []
    for match in _MESSAGE.finditer(log):
        if match[4] == severity:
            message, file = _spelled(match[5].strip()), (match[1] or "").strip()
            diagnostic = Diagnostic(message=message, severity=severity, hint=_hint(message))
            if file in texts:
                at = Location(file=file, line=int(match[2]), column=int(match[3]))
                diagnostic = located(texts, at, message, severity=severity, hint=diagnostic.hint)
            diagnostics.append(diagnostic)
    return tuple(dict.fromkeys(diagnostics))


def _stage_error(
    exc: api.StageError, *, module: LoadedModule, kernel: TritonKernel, summary: str
) -> CompileError:
    at = kernel.decl.location
    diagnostics = native_diagnostics(exc.log, module.texts, severity="error")
    words = [match[1].strip() for match in _FATAL.finditer(exc.log)] + [
        d.message for d in diagnostics if not _EMPTY.match(d.message)
    ]
    failed = _PASS.search(exc.log)
    by = f"Triton's pass {failed[1]}" if failed else "Triton's compiler"
    first = words[0] if words else f"{by} failed in its stage {exc.stage}"
    # A location without a message of its own gets the first message.
    placed = tuple(
        dataclasses.replace(d, message=first) if _EMPTY.match(d.message) else d
        for d in diagnostics
        if d.location
    )
    placed = tuple(dict.fromkeys(placed))
    other = located(module.texts, at, first, hint=_hint(first))
    diagnostics = placed or (other,)
    if words and failed:
        by = f"{by}, in stage {exc.stage}, does not take it"
        diagnostics = tuple(dataclasses.replace(d, hint=d.hint or by) for d in diagnostics)
    return CompileError(f"{summary}: {first}", diagnostics=diagnostics, log=exc.log)


def _locations(
    frames: Iterable[api.Complaint], module: LoadedModule, kernel: TritonKernel
) -> Iterator[tuple[Location, str]]:
    """Yield the locations of frames in files of the project."""
    for frame in frames:
        function = next(
            (f for f in _functions(module, kernel) if api.text_of(f) == frame.text), None
        )
        file = api.function_of(function).__code__.co_filename if function is not None else ""
        if function is None or file not in module.texts:
            continue  # a function of Triton's library; the frame before has the user's call
        line = api.definition_line(function) + frame.line - 1
        excerpt = line_of(module.texts, file, line)
        text = frame.text.split("\n")[frame.line - 1 : frame.line]
        # Columns count in the function's text, which has the indentation of `def` removed.
        shift = max(excerpt.find(text[0]), 0) if text and text[0] else 0
        yield Location(file=file, line=line, column=shift + frame.column + 1), ""


def _functions(module: LoadedModule, kernel: TritonKernel) -> Iterator[object]:
    yield kernel.kernel
    for loaded in list(module.modules.values()):
        for value in list(vars(loaded).values()):
            function = api.kernel_of(value)
            if function is not None:
                yield function


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    match = _REPR.fullmatch(lines[0]) if lines else None
    return _spelled(match[2] if match else lines[0] if lines else "")


def _spelled(message: str) -> str:
    return next((words for pattern, words in _SPELLED if pattern.fullmatch(message)), message)


def _hint(message: str) -> str:
    unknown = _UNKNOWN.search(message)
    if unknown:
        return suggestion(
            unknown[2],
            [name for name in dir(sys.modules.get(unknown[1])) if not name.startswith("_")],
        )
    return next((hint for pattern, hint in _HINTS if pattern.search(message)), "")
