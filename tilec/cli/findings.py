"""Findings of the checker as text: place, source line with caret, the other side, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.style import style
from tilec_runtime.errors import Diagnostic, Location

if TYPE_CHECKING:
    from tilec.runner.compute_sanitizer import Site
    from tilec.runner.gpu_findings import CheckedCase, GpuFinding
    from tilec.runner.sanitize import CaseFindings
    from tilec_runtime.tileir.check.findings import Finding
    from tilec_runtime.tileir.ir import Loc

FOUND = 86  # exit code of commands that check, where there are findings
SourceLine = Callable[[str, int], str]


class Sources:
    """Lines of the project's sources, read once; empty where there is no such file or line.

    Args:
        root: the project's directory.
        digests: of the files that the code was built from: other files have no lines, nor have those that were changed since. None for all.
    """

    def __init__(self, root: Path, digests: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._digests = digests
        self._lines: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """A line, counted from 1, without its end."""
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        if self._digests is not None:
            from tilec.inspection.tileir import source_lines

            digest = self._digests.get(file, "")
            return source_lines(self._root / file, digest) if digest else []
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
            parts.append(_indent(_at(other.location, "other side", f"block {other.block} {other.what} it here", line)))
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


def render_gpu_finding(finding: GpuFinding, result: CheckedCase, line: SourceLine) -> str:
    """One finding of compute-sanitizer, several lines."""
    head = style(finding.kind, fg="yellow" if finding.warning else "red", bold=True)
    parts = [_on(finding.site, head, finding.what, line)]
    parts.extend(_indent(_on(site, "called", "from here", line)) for site in finding.callers)
    if finding.other is not None:
        meanwhile = f"{finding.other_what}{f', thread {finding.other_thread}' if finding.other_thread is not None else ''}"
        same = (finding.other.file, finding.other.line) == (finding.site.file, finding.site.line) and finding.site.file
        parts.append(f"  other side: {meanwhile}, on the same line" if same else _indent(_on(finding.other, "other side", meanwhile, line)))
    where = f"in {result.case.name}"
    if result.variant and result.variant != result.case.kernel:
        where += f" (variant {result.variant})"
    where += f", block {finding.block}" if finding.block is not None else ""
    where += f", thread {finding.thread}" if finding.thread is not None else ""
    if finding.count > 1:
        where += f"; {finding.count:,} times in all"
    parts.append(f"  {where}")
    parts.append(f"  {finding.tool.value} found it{', and takes it for a warning' if finding.warning else ''}")
    if finding.hint:
        parts.append(f"  fix: {finding.hint}")
    return "\n".join(parts)


def _on(site: Site, severity: str, what: str, line: SourceLine) -> str:
    """A sentence at a place of a kernel; at its instruction, where the code has no lines."""
    if not site.file:
        instruction = f"{site.function}{f'+{site.offset}' if site.offset else ''}"
        return Diagnostic(message=what, location=Location(file=instruction) if instruction else None, severity=severity).render()
    place = Location(file=site.file, line=site.line)
    return Diagnostic(message=what, location=place, severity=severity, excerpt=line(site.file, site.line)).render()


def _at(loc: Loc | None, severity: str, what: str, line: SourceLine) -> str:
    if loc is None:
        return Diagnostic(message=what, severity=severity).render()
    place = Location(file=loc.file, line=loc.line, column=loc.column + 1)
    return Diagnostic(message=what, location=place, severity=severity, excerpt=line(loc.file, loc.line)).render()


def _callers(loc: Loc, line: SourceLine) -> list[str]:
    """Where helpers were called from, innermost first."""
    found, caller = [], loc.caller
    while caller is not None:
        found.append(_indent(_at(caller, "called", "from here", line)))
        caller = caller.caller
    return found


def _indent(text: str) -> str:
    return "\n".join(f"  {row}" for row in text.splitlines())
