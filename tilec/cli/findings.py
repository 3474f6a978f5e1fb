"""Findings of the checker as text: place, source line with caret, the other side, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.style import style
from tilec_runtime.errors import Diagnostic, Location

if TYPE_CHECKING:
    from tilec.case.sanitize import CaseFindings
    from tilec_runtime.cpu.tileir.check.findings import Finding
    from tilec_runtime.cpu.tileir.ir import Loc

FOUND = 86  # exit code of commands that check, where there are findings
SourceLine = Callable[[str, int], str]


class Sources:
    """Lines of the project's sources, read once; empty where there is no such file or line."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """A line, counted from 1, without its end."""
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        try:
            return (self._root / file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []


def render_finding(finding: Finding, result: CaseFindings, line: SourceLine) -> str:
    """One finding, several lines."""
    head = style(finding.kind.value, fg="red", bold=True)
    parts = [_at(finding.location, head, finding.what, line)]
    if finding.location is not None:
        parts.extend(_callers(finding.location, line))
    if finding.other is not None:
        other = finding.other
        if other.location == finding.location:
            parts.append(f"  other side: block {other.block}, the same line")
        else:
            parts.append(
                _indent(
                    _at(
                        other.location,
                        "other side",
                        f"block {other.block} {other.what} it here",
                        line,
                    )
                )
            )
    where = f"in {result.case.name}"
    variants = finding.kernel or ", ".join(result.variants)
    if variants and variants != result.case.kernel:
        where += f" (variant {variants})"
    if finding.block and not finding.other:
        where += f", block {finding.block}"
    if finding.count > 1:
        where += f"; {finding.count} times in all"
    parts.append(f"  {where}")
    if finding.hint:
        parts.append(f"  fix: {finding.hint}")
    return "\n".join(parts)


def _at(loc: Loc | None, severity: str, what: str, line: SourceLine) -> str:
    if loc is None:
        return Diagnostic(message=what, severity=severity).render()
    place = Location(file=loc.file, line=loc.line, column=loc.column + 1)
    return Diagnostic(
        message=what, location=place, severity=severity, excerpt=line(loc.file, loc.line)
    ).render()


def _callers(loc: Loc, line: SourceLine) -> list[str]:
    """Where helpers were called from, innermost first."""
    found, caller = [], loc.caller
    while caller is not None:
        found.append(_indent(_at(caller, "called", "from here", line)))
        caller = caller.caller
    return found


def _indent(text: str) -> str:
    return "\n".join(f"  {row}" for row in text.splitlines())
