"""What a tuning record was made of: digests of a kernel and of the space that was searched."""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any

from tilec.manifest.types import Kernel, Manifest
from tilec.model.digest import canonical_json, sha256
from tilec.model.job import InputFile, Source, Variant


def kernel_digest(kernel: Kernel, source: Source, inputs: Iterable[InputFile]) -> str:
    """What a kernel is compiled from: its files of the project, and what the manifest says of it besides the matrix.

    Args:
        kernel: the manifest's table.
        source: where its code is, with the language's options.
        inputs: files that its compiles read; those of toolkits count as the toolchain's.
    """
    files = sorted((file.name, file.digest) for file in inputs if not file.name.startswith("<"))
    said = (kernel.source, kernel.function, kernel.symbol, kernel.language, kernel.params, kernel.args, kernel.launch, kernel.checks)
    return sha256(canonical_json(_plain(("kernel", files, source.options, said))))


def space_digest(manifest: Manifest, kernel: Kernel, variants: Sequence[Variant]) -> str:
    """What there is to choose from: points and assumption sets, and the hints that they are compiled with.

    Args:
        manifest: whose overrides may change hints.
        kernel: the manifest's table.
        variants: all that its matrix gives.
    """
    points = sorted(((v.id, v.axes, v.assume) for v in variants), key=lambda point: point[0])
    ids = [kernel.name, *(variant.id for variant in variants)]
    rules = [(rule.select, rule.hints) for rule in manifest.overrides if rule.hints and any(_may_match(rule.select, name) for name in ids)]
    return sha256(canonical_json(_plain(("space", points, kernel.hints, rules))))


def _may_match(glob: str, name: str) -> bool:
    """Whether a glob can match a job of the variant: ids of jobs are its id, `-` and a target."""
    begins = f"{name}-"
    return fnmatch.fnmatchcase(name, glob) or any(fnmatch.fnmatchcase(begins, glob[:end]) for end in range(1, len(glob) + 1))


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
