"""Resolve the targets of a build, the selected jobs, and the hints of each."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from tilec.manifest import values as texts
from tilec.manifest.types import Kernel, Manifest, Override
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job
from tilec_runtime.errors import UsageError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.suggest import nearest


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LanguageFacts:
    """The capabilities of a frontend.

    Attributes:
        kinds: kinds of targets that it compiles for.
        refuse: returns why a target of these kinds is not supported, or an empty string.
        simt: whether the manifest gives the threads of a block.
        hints: names of the compiler hints that it accepts.
    """

    kinds: tuple[TargetKind, ...]
    refuse: Callable[[Target], str]
    simt: bool
    hints: tuple[str, ...] = ()

    def of(self, decl: KernelDecl) -> LanguageFacts:
        """Return the capabilities for one kernel, which may have fewer kinds of targets."""
        kinds = tuple(kind for kind in self.kinds if not decl.kinds or kind.value in decl.kinds)
        return dataclasses.replace(
            self, kinds=kinds, simt=self.simt if decl.simt is None else decl.simt
        )

    def reasons(self, wanted: Iterable[Target]) -> dict[Target, str]:
        """Return the targets of the supported kinds, each with the reason of its refusal.

        The reason is empty for an accepted target.
        """
        return {target: self.refuse(target) for target in wanted if target.kind in self.kinds}


def parse_targets(manifest: Manifest, names: Sequence[str]) -> tuple[Target, ...]:
    """Return targets by name of target or group, or the manifest's default; sorted.

    Raises:
        UsageError: a name is neither.
    """
    if not names:
        return tuple(sorted(set(manifest.targets.default)))
    groups = dict(manifest.targets.groups)
    chosen: set[Target] = set()
    for name in names:
        if name == "default":
            chosen.update(manifest.targets.default)
        elif name in groups:
            chosen.update(groups[name])
        else:
            try:
                chosen.add(texts.target(name))
            except ValueError as error:
                near = nearest(name, groups)
                fix = (
                    f"did you mean the group {near!r}?"
                    if near
                    else f"`tilec targets` lists targets; groups of this project: {', '.join(groups) or 'none'}"
                )
                raise UsageError(str(error), fix=fix) from error
    return tuple(sorted(chosen))


def no_target(kernel: Kernel, language: LanguageFacts, wanted: Sequence[Target]) -> str:
    """Return the message about a kernel that no wanted target concerns."""
    kinds = " or ".join(
        {"cubin": "sm_*", "ptx": "compute_*", "ltoir": "lto_*", "tileir": "tileir"}[kind.value]
        for kind in language.kinds
    )
    shown = ", ".join(map(str, wanted))
    return f"none of the targets {shown} concerns {kernel.language} kernels, which are made for {kinds}"


class Selection:
    """Override rules and `--select` globs over ids (`kernel-axisvalues-target`)."""

    def __init__(self, overrides: Sequence[Override], select: Sequence[str]) -> None:
        self._overrides = tuple((_pattern(rule.select), rule) for rule in overrides)
        self._select = tuple((glob, _pattern(glob)) for glob in select)

    def hints(self, kernel: Kernel, variant: str, target: Target) -> dict[str, int]:
        """Return the hints of a job: the manifest's, then those of each matching override."""
        merged: dict[str, int] = {}
        plain = (
            f"sm_{target.number}"
            if target.kind in (TargetKind.PTX, TargetKind.LTOIR)
            else str(target)
        )
        for name, values in kernel.hints:
            if name in ("", str(target), plain):
                merged.update(values)
        for pattern, rule in self._overrides:
            if pattern.fullmatch(f"{variant}-{target}"):
                merged.update(rule.hints)
        return merged

    def allows(self, variant: str, target: Target) -> bool:
        """Return whether overrides allow a target for a variant; the last match wins."""
        allowed: tuple[Target, ...] | None = None
        for pattern, rule in self._overrides:
            if rule.targets is not None and pattern.fullmatch(f"{variant}-{target}"):
                allowed = rule.targets
        return allowed is None or target in allowed

    def reached(self, jobs: Mapping[str, str]) -> list[list[str]]:
        """Return the languages of the jobs that each override matches.

        Args:
            jobs: the language of each job by its id, also of those that are not built.
        """
        return [
            list(dict.fromkeys(jobs[job] for job in jobs if pattern.fullmatch(job)))
            for pattern, _ in self._overrides
        ]

    def takes(self, kernel: str, variant: str, target: Target) -> bool:
        """Return whether a job is selected."""
        return not self._select or any(
            _selects(glob, pattern, kernel, variant, target) for glob, pattern in self._select
        )

    def require_match(self, jobs: Sequence[Job]) -> None:
        """Refuse `--select` globs that match none of the jobs.

        Raises:
            UsageError: names the first such glob.
        """
        for glob, pattern in self._select:
            if not any(
                _selects(glob, pattern, job.spec.name, job.variant.id, job.target) for job in jobs
            ):
                near = nearest(glob, [job.spec.name for job in jobs])
                fix = f"did you mean {near!r}? " if near else ""
                raise UsageError(
                    f"--select {glob!r} matches no job",
                    fix=f"{fix}`tilec build --list` prints the ids",
                )


def _selects(
    glob: str, pattern: re.Pattern[str], kernel: str, variant: str, target: Target
) -> bool:
    return bool(
        glob == kernel or pattern.fullmatch(variant) or pattern.fullmatch(f"{variant}-{target}")
    )


def may_match(glob: str, name: str) -> bool:
    """Return whether a glob can match a job of a kernel or variant.

    A job's id is the name, or begins with it and `-`.
    """
    begins = f"{name}-"
    return fnmatch.fnmatchcase(name, glob) or any(
        fnmatch.fnmatchcase(begins, glob[:end]) for end in range(1, len(glob) + 1)
    )


def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
