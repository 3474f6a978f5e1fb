"""Errors as text and JSON: located problems, groups of failures, bugs of tilec."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from tilec.cli.app import App, StoppedError, print_document
from tilec.cli.style import echo, style
from tilec.cli.tables import listed, plural, terminal_width, wrapped
from tilec_runtime.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    Location,
    ManifestError,
    OutputError,
    TilecError,
    UsageError,
)

Show = Callable[[str], str]
JOBS_SHOWN = 6
DIAGNOSTICS_SHOWN = 8
LOG_LINES = 12
_FIXES = {
    errno.ENOSPC: "make room on that disk and run again",
    errno.EDQUOT: "make room in your quota and run again",
    errno.EACCES: "check the permissions of that path",
    errno.EPERM: "check the permissions of that path",
    errno.EROFS: "that file system is read-only; choose another path",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Failures with the same message, printed once with their jobs and kept inputs.

    Attributes:
        failure: the first failure.
        locations: locations of the others, if different.
        jobs, kept: jobs and kept inputs of all.
    """

    failure: TilecError
    locations: tuple[Location, ...]
    jobs: tuple[str, ...]
    kept: tuple[str, ...]


def group(failures: Sequence[TilecError]) -> list[Group]:
    """Put failures with the same message together, in the order of their first job."""
    groups: dict[tuple[object, ...], list[TilecError]] = {}
    for failure in failures:
        groups.setdefault(_identity(failure), []).append(failure)
    return [
        Group(
            failure=members[0],
            locations=tuple(
                location
                for location in dict.fromkeys(map(_location, members[1:]))
                if location and location != _location(members[0])
            ),
            jobs=tuple(dict.fromkeys(name for name in map(_job_name, members) if name)),
            kept=tuple(
                dict.fromkeys(m.kept for m in members if isinstance(m, CompileError) and m.kept)
            ),
        )
        for members in groups.values()
    ]


def _identity(failure: TilecError) -> tuple[object, ...]:
    if isinstance(failure, CompileError) and failure.diagnostics:
        # One mistake, such as in a shared header's name, may be reported at several locations.
        words = tuple((each.severity, each.message, each.hint) for each in failure.diagnostics)
        return (CompileError, words, failure.cause, failure.fix)
    message = failure.what
    for word in (_job_name(failure), failure.kernel, failure.target):  # messages often name the job
        message = message.replace(word, "") if word else message
    log = failure.log if isinstance(failure, CompileError) else ""
    return (type(failure), message, failure.location, failure.cause, failure.fix, log)


def _location(failure: TilecError) -> Location | None:
    diagnostics = failure.diagnostics if isinstance(failure, CompileError) else ()
    return diagnostics[0].location if diagnostics else failure.location


def _job_name(failure: TilecError) -> str:
    if failure.target and failure.kernel.endswith(f"-{failure.target}"):
        return failure.kernel
    return "-".join(part for part in (failure.kernel, failure.target) if part)


def report(app: App | None, exc: BaseException, *, json: bool = False) -> int:
    """Print an error on standard error, with `json` also as the run's document.

    Returns:
        The exit code.
    """
    error = _as_error(exc)
    if json:
        code, command = error.exit_code, app.command if app else ""
        body = {**as_json(error), "type": type(exc if is_bug(exc) else error).__name__}
        with contextlib.suppress(OSError):  # standard output may be what failed
            print_document(
                "error", {"command": command, "ok": False, "exit_code": code, "error": body}
            )
    text = render(error)
    if app is not None:
        text = render(error, verbose=app.verbose, command=app.command, show=app.show)
    color = None if app is None else app.colored(sys.stderr)
    echo(wrapped(text, terminal_width(err=True)), err=True, color=color)
    return error.exit_code


def is_bug(exc: BaseException) -> bool:
    """Return whether an error that reached the user is a mistake of tilec's."""
    return not isinstance(exc, TilecError | click.ClickException | OSError)


def _as_error(exc: BaseException) -> TilecError:
    """Convert an exception of Python's or of a library into a TilecError."""
    if isinstance(exc, TilecError):
        return exc
    if isinstance(exc, click.ClickException):
        ctx = exc.ctx if isinstance(exc, click.UsageError) else None
        fix = f"see `{ctx.command_path} --help`" if ctx is not None else ""
        return UsageError(exc.format_message(), fix=fix)
    if isinstance(exc, OSError):
        where = f"{exc.filename}: " if exc.filename else "cannot write output: "
        return OutputError(f"{where}{exc.strerror or exc}", fix=_FIXES.get(exc.errno or 0, ""))
    words = traceback.format_exception_only(type(exc), exc)[-1].strip()
    fix = "please report it with the traceback above"
    return TilecError(f"this is a bug in tilec: {words}", fix=fix)


def render(exc: TilecError, *, verbose: bool = False, command: str = "", show: Show = str) -> str:
    """Return the whole text of an error.

    Args:
        exc: the error.
        verbose: omit nothing.
        command: the command that failed.
        show: shortens a path.
    """
    if isinstance(exc, StoppedError):
        return f"\n{exc.what}"  # terminals show ^C before it
    if isinstance(exc, ManifestError):
        lines = _problem_lines(exc.problems, verbose=verbose, show=show)
        lines += [f"{_red('error:')} {_count(exc)}"]
        return "\n".join([*lines, f"  fix: {exc.fix}"] if exc.fix else lines)
    if isinstance(exc, BuildError):
        blocks = [_render_group(one, verbose=verbose, show=show) for one in group(exc.failures)]
        kept = "; nothing was written, earlier outputs are unchanged" if command == "build" else ""
        return "\n\n".join([*blocks, f"{_red('error:')} {exc.what}{kept}"])
    if isinstance(exc, CompileError):
        return _render_group(group([exc])[0], verbose=verbose, show=show)
    return f"{_red('error:')} {located_text(exc, show)}"


def _problem_lines(problems: Sequence[Diagnostic], *, verbose: bool, show: Show) -> list[str]:
    """Return the text of each problem; equal problems share a text."""
    same: dict[tuple[str, str], list[Diagnostic]] = {}
    for problem in problems:
        path, _, message = problem.message.partition(": ")
        key = (
            (problem.message, "") if verbose or " " in path else (path.rpartition(".")[2], message)
        )
        same.setdefault(key, []).append(problem)
    lines = []
    for first, *rest in same.values():
        lines.append(diagnostic_text(first, show))
        lines += _more([f"line {each.location.line}" for each in rest if each.location])
    return lines


def _more(locations: Sequence[str]) -> list[str]:
    """Return the line with the other locations of a problem."""
    shown = listed(list(dict.fromkeys(locations)), 6)
    return [f"  {len(locations)} more of this: {shown}"] if locations else []


def located_text(exc: TilecError, show: Show) -> str:
    """Return an error's own text, with its location shortened by `show`."""
    text = str(exc)
    if exc.location is None or not text.startswith(f"{exc.location}: "):
        return text
    location = dataclasses.replace(exc.location, file=show(exc.location.file))
    return f"{location}{text.removeprefix(str(exc.location))}"


def _count(exc: ManifestError) -> str:
    errors = sum(problem.severity == "error" for problem in exc.problems)
    return f"{plural(errors, 'problem')} in the manifest and its files"


def _render_group(one: Group, *, verbose: bool, show: Show) -> str:
    failure, lines = one.failure, list[str]()
    diagnostics = failure.diagnostics if isinstance(failure, CompileError) else ()
    shown = diagnostics if verbose else diagnostics[:DIAGNOSTICS_SHOWN]
    lines += [diagnostic_text(diagnostic, show) for diagnostic in shown]
    if len(shown) < len(diagnostics):
        lines.append(
            f"  … and {len(diagnostics) - len(shown)} more messages (--verbose shows them)"
        )
    if not diagnostics:
        location = ""
        if failure.location:
            location = (
                f"{dataclasses.replace(failure.location, file=show(failure.location.file))}: "
            )
        lines.append(f"{style(location, bold=True)}{_red('error:')} {failure.what}")
        if isinstance(failure, CompileError):
            lines += _log_lines(failure.log, verbose=verbose)
    fix = "" if failure.fix in {diagnostic.hint for diagnostic in diagnostics} else failure.fix
    lines += [
        f"  {name}: {text}" for name, text in (("cause", failure.cause), ("fix", fix)) if text
    ]
    locations = (
        dataclasses.replace(location, column=0, file=show(location.file))
        for location in one.locations
    )
    lines += _more([str(location) for location in locations])
    return "\n".join([*lines, *_jobs(one, verbose=verbose, show=show)])


def _log_lines(log: str, *, verbose: bool) -> list[str]:
    words = [line.rstrip() for line in log.strip().splitlines() if line.strip()]
    shown = words if verbose else words[-LOG_LINES:]
    lines = [f"    | {line}" for line in shown]
    if len(shown) < len(words):
        left = len(words) - len(shown)
        lines.insert(0, f"    | … {left} lines before these (--verbose shows them)")
    return lines


def _jobs(one: Group, *, verbose: bool, show: Show) -> Iterator[str]:
    """Yield lines with the jobs of a failure and the paths of their kept inputs."""
    if len(one.jobs) == 1:
        yield f"  in job {one.jobs[0]}"
    elif one.jobs:
        most = len(one.jobs) if verbose else JOBS_SHOWN
        yield f"  in {len(one.jobs)} jobs: {listed(one.jobs, most)}"
    if one.kept:
        more = f" (and {len(one.kept) - 1} more)" if len(one.kept) > 1 else ""
        yield f"  input, command and full log kept in {show(one.kept[0])}{more}"
    elif isinstance(one.failure, CompileError) and one.failure.command and verbose:
        yield f"  command: {one.failure.command}"


def diagnostic_text(diagnostic: Diagnostic, show: Show = str) -> str:
    """Return a diagnostic with colours; `show` shortens the file's path."""
    if diagnostic.location:
        located = dataclasses.replace(diagnostic.location, file=show(diagnostic.location.file))
        diagnostic = dataclasses.replace(diagnostic, location=located)
    head, *rest = diagnostic.render().split("\n")
    prefix = f"{diagnostic.location}: " if diagnostic.location else ""
    severity = f"{diagnostic.severity}:"
    color = {"error": "red", "warning": "yellow"}.get(diagnostic.severity, "cyan")
    text = head.removeprefix(prefix).removeprefix(severity)
    lead = style(prefix, bold=True) if prefix else ""
    lines = [f"{lead}{style(severity, fg=color, bold=True)}{text}"]
    carets = (style(line, fg="green", bold=True) if line.strip() == "^" else line for line in rest)
    return "\n".join((*lines, *carets))


def as_json(exc: TilecError) -> dict[str, Any]:
    """Return an error as JSON values, without empty texts."""
    body: dict[str, Any] = {"type": type(exc).__name__, "what": exc.what}
    names = ["cause", "fix", "kernel", "target"]
    names += ["log", "command", "kept"] if isinstance(exc, CompileError) else []
    body.update({name: text for name in names if (text := getattr(exc, name))})
    if exc.location:
        body["location"] = dataclasses.asdict(exc.location)
    if isinstance(exc, ManifestError):
        body["what"] = _count(exc)
        body["problems"] = [diagnostic_json(problem) for problem in exc.problems]
    if isinstance(exc, CompileError):
        body["diagnostics"] = [diagnostic_json(diagnostic) for diagnostic in exc.diagnostics]
    if isinstance(exc, BuildError):
        body["total"] = exc.total
        body["failures"] = [
            as_json(one.failure)
            | {"jobs": list(one.jobs), "kept": list(one.kept)}
            | ({"places": [dataclasses.asdict(p) for p in one.locations]} if one.locations else {})
            for one in group(exc.failures)
        ]
    return body


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as JSON values."""
    location = dataclasses.asdict(diagnostic.location) if diagnostic.location else None
    body: dict[str, Any] = {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "location": location,
    }
    body.update({name: text for name in ("excerpt", "hint") if (text := getattr(diagnostic, name))})
    return body


def _red(text: str) -> str:
    return style(text, fg="red", bold=True)
