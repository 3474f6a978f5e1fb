"""What a check leaves out, by name: a clean result does not cover it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilec.cli.cases import kernels_of
from tilec.cli.tables import plural

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.cli.cases import Opened, Wish
    from tilec.manifest.types import Manifest

NO_CASE = "no case"
NOT_IN_BUNDLE = "not in the bundle"
ONE_BY_ONE = "compute-sanitizer checks kernels one by one: without --device cuda chains of tile kernels are checked"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unchecked:
    """A kernel, a chain or a case (`kind`) that is not checked, with the reason."""

    kind: str
    name: str
    reason: str


def left_out(manifest: Manifest | None, opened: Opened, wish: Wish, cases: Sequence[BoundCase]) -> tuple[Unchecked, ...]:
    """Return kernels and chains that no chosen case launches.

    Where the command line chooses cases (`-k`, `--select`, `--case`), only kernels and chains that it
    names count.
    """
    if manifest is None or wish.args:
        return ()
    launched = {name for case in cases for name in (case.kernel, *kernels_of(case))}
    some = bool(wish.select or wish.cases or wish.expression)
    built = {kernel.name for kernel in opened.bundle.info.kernels} if opened.bundle else set()
    found = []
    rows: list[tuple[str, str, bool, tuple[str, ...]]] = [
        ("kernel", kernel.name, bool(kernel.cases), (kernel.name,)) for kernel in manifest.kernels
    ]
    rows += [("chain", chain.name, bool(chain.cases), tuple(step.kernel for step in chain.steps)) for chain in manifest.chains]
    for kind, name, cased, kernels in rows:
        if name in launched or (name not in wish.kernels if wish.kernels else some):
            continue
        if not cased:
            found.append(Unchecked(kind=kind, name=name, reason=NO_CASE))
        elif any(one not in built and one not in opened.absent for one in kernels):
            found.append(Unchecked(kind=kind, name=name, reason=NOT_IN_BUNDLE))
        elif kind == "chain" and not wish.chains:
            found.append(Unchecked(kind=kind, name=name, reason=ONE_BY_ONE))
    return tuple(found)


def unchecked_lines(left: Sequence[Unchecked]) -> list[str]:
    """How many kernels and chains are not checked, and which: a line for each kind and reason."""
    if not left:
        return []
    groups: dict[tuple[str, str], list[str]] = {}
    for one in left:
        groups.setdefault((one.kind, one.reason), []).append(one.name)
    kinds = [plural(count, kind) for kind in ("kernel", "chain") if (count := sum(one.kind == kind for one in left))]
    lines = [f"  {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}: {reason}" for (kind, reason), names in groups.items()]
    return [f"left out, and not checked: {' and '.join(kinds)}", *lines]


def unchecked_json(left: Sequence[Unchecked], skipped: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return all that is not checked as JSON: kernels and chains, then cases of (name, reason)."""
    cases = (Unchecked(kind="case", name=name, reason=reason) for name, reason in skipped if reason)
    return [dataclasses.asdict(one) for one in (*left, *cases)]
