"""Findings of the sanitizer as text: location, source line, other side, fix."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.style import style
from tilec_runtime.errors import Diagnostic

if TYPE_CHECKING:
    from tilec.case.sanitize import CaseFindings
    from tilec_runtime.cpu.tileir.check.findings import Finding
    from tilec_runtime.cpu.tileir.ir import Loc


def source_line(root: Path, file: str, number: int) -> str:
    """Return a line of a source file, counted from 1; empty if there is no such file or line."""
    return linecache.getline(str(root / file), number).rstrip("\n")


def render_finding(finding: Finding, result: CaseFindings, root: Path) -> str:
    """Return one finding as lines."""
    head = style(finding.kind.value, fg="red", bold=True)
    parts = [_at(finding.location, head, finding.what, root)]
    caller = finding.location.caller if finding.location is not None else None
    while caller is not None:  # helpers, innermost first
        parts.append(_indent(_at(caller, "called", "from here", root)))
        caller = caller.caller
    other = finding.other
    if other is not None and other.location == finding.location:
        parts.append(f"  other side: block {other.block}, the same line")
    elif other is not None:
        message = f"block {other.block} {other.what} it here"
        parts.append(_indent(_at(other.location, "other side", message, root)))
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


def _at(loc: Loc | None, severity: str, message: str, root: Path) -> str:
    if loc is None:
        return Diagnostic(message=message, severity=severity).render()
    excerpt = source_line(root, loc.file, loc.line)
    return Diagnostic(
        message=message, location=loc.location, severity=severity, excerpt=excerpt
    ).render()


def _indent(text: str) -> str:
    return "\n".join(f"  {row}" for row in text.splitlines())
