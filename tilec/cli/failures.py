"""How errors look: located problems, grouped build failures, and the last words of an unexpected
one; as text or JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from tilec.cli.app import App, print_document
from tilec.cli.style import echo, style
from tilec.model.inside import contained
from tilec_runtime.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    ManifestError,
    TilecError,
    UsageError,
)

Show = Callable[[str], str]
JOBS_SHOWN = 6
DIAGNOSTICS_SHOWN = 8
LOG_LINES = 12


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Failures that say the same: shown once, with the jobs they happened in."""

    failure: TilecError
    jobs: tuple[str, ...]
    kept: tuple[str, ...]
    variants: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def group(failures: Sequence[TilecError]) -> list[Group]:
    """Put failures with the same message together, in the order of their first job."""
    found: dict[tuple[object, ...], list[TilecError]] = {}
    for failure in failures:
        found.setdefault(_sameness(failure), []).append(failure)
    return [
        Group(
            failure=members[0],
            jobs=tuple(dict.fromkeys(name for name in map(job_name, members) if name)),
            kept=tuple(
                dict.fromkeys(m.kept for m in members if isinstance(m, CompileError) and m.kept)
            ),
            variants=tuple(dict.fromkeys(m.kernel for m in members if m.kernel)),
            targets=tuple(dict.fromkeys(m.target for m in members if m.target)),
        )
        for members in found.values()
    ]


def _sameness(failure: TilecError) -> tuple[object, ...]:
    if isinstance(failure, CompileError) and failure.diagnostics:
        return (CompileError, failure.diagnostics, failure.cause, failure.fix)
    # The message of one job often names it; what is left decides.
    what = failure.what
    for word in (job_name(failure), failure.kernel, failure.target):
        what = what.replace(word, "") if word else what
    log = failure.log if isinstance(failure, CompileError) else ""
    return (type(failure), what, failure.location, failure.cause, failure.fix, log)


def job_name(failure: TilecError) -> str:
    """`gemm-f16-sm_90`, or as much of it as the error knows."""
    if failure.target and failure.kernel.endswith(f"-{failure.target}"):
        return failure.kernel
    return "-".join(part for part in (failure.kernel, failure.target) if part)


def print_failure(app: App | None, exc: TilecError, *, json: bool = False) -> None:
    """Say on standard error what went wrong; with `--json` also as the run's document on standard
    output.
    """
    if json:
        _document(app, exc.exit_code, as_json(exc))
    _echo(
        app,
        render(exc)
        if app is None
        else render(exc, verbose=app.verbose, command=app.command, show=app.show),
    )


def render(exc: TilecError, *, verbose: bool = False, command: str = "", show: Show = str) -> str:
    """The whole text of an error.

    Args:
        exc: the error.
        verbose: leave nothing out.
        command: the command that ran into it.
        show: says a path the way the user would.
    """
    if isinstance(exc, ManifestError):
        return _render_manifest(exc, show=show)
    if isinstance(exc, BuildError):
        return _render_build(exc, verbose=verbose, command=command, show=show)
    if isinstance(exc, CompileError):
        return _render_group(group([exc])[0], verbose=verbose, show=show)
    return f"{_red('error:')} {located_text(exc, show)}"


def located_text(exc: TilecError, show: Show) -> str:
    """An error's own text, its place said by `show` as the user would."""
    text = str(exc)
    if exc.location is None or not text.startswith(f"{exc.location}: "):
        return text
    return f"{dataclasses.replace(exc.location, file=show(exc.location.file))}{text.removeprefix(str(exc.location))}"


def _render_manifest(exc: ManifestError, *, show: Show) -> str:
    lines = [diagnostic_text(problem, show) for problem in exc.problems]
    lines.append(f"{_red('error:')} {_count(exc)}")
    if exc.fix:
        lines.append(f"  fix: {exc.fix}")
    return "\n".join(lines)


def _count(exc: ManifestError) -> str:
    errors = sum(problem.severity == "error" for problem in exc.problems)
    return f"{errors} problem{'' if errors == 1 else 's'} in the manifest and what it names"


def _render_build(exc: BuildError, *, verbose: bool, command: str, show: Show) -> str:
    blocks = [_render_group(one, verbose=verbose, show=show) for one in group(exc.failures)]
    unharmed = "; nothing was written, earlier output is as it was" if command == "build" else ""
    blocks.append(f"{_red('error:')} {exc.what}{unharmed}")
    return "\n\n".join(blocks)


def _render_group(one: Group, *, verbose: bool, show: Show) -> str:
    failure = one.failure
    lines: list[str] = []
    diagnostics = failure.diagnostics if isinstance(failure, CompileError) else ()
    if diagnostics:
        shown = diagnostics if verbose else diagnostics[:DIAGNOSTICS_SHOWN]
        lines.extend(diagnostic_text(diagnostic, show) for diagnostic in shown)
        if len(shown) < len(diagnostics):
            lines.append(
                f"  … and {len(diagnostics) - len(shown)} more messages (--verbose shows them)"
            )
    else:
        place = (
            f"{dataclasses.replace(failure.location, file=show(failure.location.file))}: "
            if failure.location
            else ""
        )
        lines.append(f"{style(place, bold=True)}{_red('error:')} {failure.what}")
        if isinstance(failure, CompileError):
            lines.extend(_log_lines(failure.log, verbose=verbose))
    hints = {diagnostic.hint for diagnostic in diagnostics}
    told = (("cause", failure.cause), ("fix", "" if failure.fix in hints else failure.fix))
    lines.extend(f"  {label}: {value}" for label, value in told if value)
    lines.extend(_where(one, verbose=verbose, show=show))
    return "\n".join(lines)


def _log_lines(log: str, *, verbose: bool) -> list[str]:
    words = [line.rstrip() for line in log.strip().splitlines() if line.strip()]
    shown = words if verbose else words[-LOG_LINES:]
    lines = [f"    | {line}" for line in shown]
    if len(shown) < len(words):
        lines.insert(
            0, f"    | … {len(words) - len(shown)} lines before these (--verbose shows them)"
        )
    return lines


def _where(one: Group, *, verbose: bool, show: Show) -> Iterable[str]:
    if len(one.jobs) == 1:
        yield f"  in job {one.jobs[0]}"
    elif len(one.variants) > 1 < len(one.targets) and len(one.variants) * len(one.targets) == len(
        one.jobs
    ):
        variants, targets = (
            _listed(one.variants, verbose=verbose),
            _listed(one.targets, verbose=verbose),
        )
        yield f"  in {len(one.jobs)} jobs: {variants}, each for {targets}"
    elif one.jobs:
        yield f"  in {len(one.jobs)} jobs: {_listed(one.jobs, verbose=verbose)}"
    if one.kept:
        more = f" (and {len(one.kept) - 1} more)" if len(one.kept) > 1 else ""
        yield f"  input, command and full log kept in {show(one.kept[0])}{more}"
    elif isinstance(one.failure, CompileError) and one.failure.command and verbose:
        yield f"  command: {one.failure.command}"


def _listed(names: Sequence[str], *, verbose: bool) -> str:
    shown = names if verbose else names[:JOBS_SHOWN]
    return ", ".join(shown) + (
        f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    )


def diagnostic_text(diagnostic: Diagnostic, show: Show = str) -> str:
    """A diagnostic's text with colours: place bold, severity by its weight, caret green; `show`
    says the file's path.
    """
    if diagnostic.location:
        located = dataclasses.replace(diagnostic.location, file=show(diagnostic.location.file))
        diagnostic = dataclasses.replace(diagnostic, location=located)
    head, *rest = diagnostic.render().split("\n")
    place = f"{diagnostic.location}: " if diagnostic.location else ""
    severity = f"{diagnostic.severity}:"
    tint = {"error": "red", "warning": "yellow"}.get(diagnostic.severity, "cyan")
    text = head.removeprefix(place).removeprefix(severity)
    lines = [
        f"{style(place, bold=True) if place else ''}{style(severity, fg=tint, bold=True)}{text}"
    ]
    lines.extend(
        style(line, fg="green", bold=True) if line.strip() == "^" else line for line in rest
    )
    return "\n".join(lines)


def as_json(exc: TilecError) -> dict[str, Any]:
    """An error as JSON values."""
    body: dict[str, Any] = {"type": type(exc).__name__, "what": exc.what}
    body.update(
        (key, value)
        for key, value in (
            ("cause", exc.cause),
            ("fix", exc.fix),
            ("kernel", exc.kernel),
            ("target", exc.target),
        )
        if value
    )
    if exc.location:
        body["location"] = dataclasses.asdict(exc.location)
    if isinstance(exc, ManifestError):
        body["what"] = _count(exc)
        body["problems"] = [diagnostic_json(problem) for problem in exc.problems]
    if isinstance(exc, CompileError):
        body["diagnostics"] = [diagnostic_json(diagnostic) for diagnostic in exc.diagnostics]
        body.update(
            {key: value for key in ("log", "command", "kept") if (value := getattr(exc, key))}
        )
    if isinstance(exc, BuildError):
        body["total"] = exc.total
        body["failures"] = [
            as_json(one.failure) | {"jobs": list(one.jobs), "kept": list(one.kept)}
            for one in group(exc.failures)
        ]
    return body


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as JSON values."""
    place = dataclasses.asdict(diagnostic.location) if diagnostic.location else None
    body: dict[str, Any] = {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "location": place,
    }
    body.update({key: value for key in ("excerpt", "hint") if (value := getattr(diagnostic, key))})
    return body


def print_usage(app: App | None, exc: click.ClickException, *, json: bool = False) -> None:
    """A command line that click refuses."""
    ctx = getattr(exc, "ctx", None)
    fix = (
        f"see `{ctx.command_path} --help`"
        if isinstance(exc, click.UsageError) and ctx is not None
        else ""
    )
    _tell(app, "UsageError", exc.format_message(), fix, exit_code=exc.exit_code, json=json)


def print_os_error(app: App | None, exc: OSError, *, json: bool = False) -> None:
    """A file system that says no."""
    where = f"{exc.filename}: " if exc.filename else "cannot write output: "
    fix = {
        errno.ENOSPC: "make room on that disk and run again",
        errno.EDQUOT: "make room in your quota and run again",
        errno.EACCES: "check the permissions of that path",
        errno.EPERM: "check the permissions of that path",
        errno.EROFS: "that file system is read-only; choose another place",
    }.get(exc.errno or 0, "")
    _tell(app, "OutputError", f"{where}{exc.strerror or exc}", fix, exit_code=1, json=json)


def print_bug(app: App | None, exc: BaseException, *, json: bool = False) -> None:
    """An exception nobody expected: keep its traceback in the project, or say how to see it."""
    what = f"this is a bug in tilec: {traceback.format_exception_only(type(exc), exc)[-1].strip()}"
    kept = "" if app is None or app.debug else _keep_traceback(app, exc)
    if kept:
        what, fix = f"{what}\n  traceback: {kept}", "please report it with that file"
    elif app is not None and app.debug:
        fix = "please report it with the traceback above"
    else:
        fix = "please report it with what `tilec --debug …` prints"
    _tell(app, type(exc).__name__, what, fix, exit_code=1, json=json)


def _tell(app: App | None, kind: str, what: str, fix: str, *, exit_code: int, json: bool) -> None:
    """An error that is none of tilec's own."""
    if json:
        # Where standard output is what failed, standard error still says so.
        with contextlib.suppress(OSError):
            _document(app, exit_code, {"type": kind, "what": what, **({"fix": fix} if fix else {})})
    _echo(app, f"{_red('error:')} {what}" + (f"\n  fix: {fix}" if fix else ""))


def print_interrupted(app: App | None, what: str, *, exit_code: int) -> None:
    """The document of a run that Ctrl-C ended."""
    _document(app, exit_code, {"type": "KeyboardInterrupt", "what": what})


def _document(app: App | None, exit_code: int, error: dict[str, Any]) -> None:
    print_document(
        "error",
        {
            "command": "" if app is None else app.command,
            "ok": False,
            "exit_code": exit_code,
            "error": error,
        },
    )


def _keep_traceback(app: App, exc: BaseException) -> str:
    try:
        path = contained(
            app.manifest_path().parent, f".tilec/crash-{time.strftime('%Y%m%d-%H%M%S')}.txt"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(traceback.format_exception(exc)), encoding="utf-8")
    except (OSError, UsageError):
        return ""
    return app.show(path)


def _echo(app: App | None, text: str) -> None:
    from tilec.cli.tables import error_width, fitted

    echo(
        fitted(text, error_width()),
        err=True,
        color=None if app is None else app.colored(sys.stderr),
    )


def _red(text: str) -> str:
    return style(text, fg="red", bold=True)
