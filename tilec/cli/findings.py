"""Findings of the sanitizer as text: location, source line, other side, fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilec.case.sanitize import CaseFindings
from tilec.cli.style import style
from tilec_runtime.cpu.tileir.check.findings import Finding
from tilec_runtime.cpu.tileir.ir import Loc
from tilec_runtime.errors import Diagnostic, Location

SourceLine = Callable[[str, int], str]


class Sources:
    """Lines of the project's sources, each file read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """Return a line, counted from 1; empty if there is no such file or line."""
        if file not in self._lines:
            try:
                text = (self._root / file).read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            self._lines[file] = text.splitlines()
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def render_finding(finding: Finding, result: CaseFindings, line: SourceLine) -> str:
    """Return one finding as lines."""
    head = style(finding.kind.value, fg="red", bold=True)
    parts = [_at(finding.location, head, finding.what, line)]
    caller = finding.location.caller if finding.location is not None else None
    while caller is not None:  # helpers, innermost first
        parts.append(_indent(_at(caller, "called", "from here", line)))
        caller = caller.caller
    other = finding.other
    if other is not None and other.location == finding.location:
        parts.append(f"  other side: block {other.block}, the same line")
    elif other is not None:
        message = f"block {other.block} {other.what} it here"
        parts.append(_indent(_at(other.location, "other side", message, line)))
    where = f"  in {result.case.name}"
    variants = finding.kernel or ", ".join(result.variants)
    if variants and variants != result.case.kernel:
        where += f" (variant {variants})"
    if finding.block and other is None:
        where += f", block {finding.block}"
    if finding.count > 1:
        where += f"; {finding.count} times in all"
    parts.append(where)
    return "\n".join([*parts, f"  fix: {finding.hint}"] if finding.hint else parts)


def _at(loc: Loc | None, severity: str, message: str, line: SourceLine) -> str:
    if loc is None:
        return Diagnostic(message=message, severity=severity).render()
    location = Location(file=loc.file, line=loc.line, column=loc.column + 1)
    excerpt = line(loc.file, loc.line)
    return Diagnostic(
        message=message, location=location, severity=severity, excerpt=excerpt
    ).render()


def _indent(text: str) -> str:
    return "\n".join(f"  {row}" for row in text.splitlines())
