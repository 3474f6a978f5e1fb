"""Saves measurements, and compares later ones with them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilec import __version__
from tilec.bench.gate import LIMIT, settled
from tilec.bench.report import CaseBench, Setting
from tilec.model.atomic import atomic_write
from tilec.model.codec import decode, encode
from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

SCHEMA, KIND = 1, "tilec-bench"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SavedCase:
    """The samples of one case; `image` and `inputs` are digests."""

    image: str
    inputs: str
    samples: tuple[float, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A file of saved measurements.

    Attributes:
        schema_version, kind: of the file.
        tilec: version that took them.
        setting: where they were taken.
        cases: by name.
    """

    schema_version: int = SCHEMA
    kind: str = KIND
    tilec: str = __version__
    setting: Setting
    cases: Mapping[str, SavedCase]


def path_of(name: str, folder: Path, base: Path) -> Path:
    """Return the file of a name in the project's folder, or a path as it is.

    Raises:
        UsageError: it is neither a name nor a path.
    """
    if "/" in name or name.endswith(".json"):
        return base / name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no valid name",
            fix="use letters, digits, _, - and dots, or a path such as ci/h200.json",
        )
    return folder / f"{name}.json"


_OTHER = "name a file that `tilec bench --save` wrote, or a new one"


def read_saved(path: Path, shown: str) -> Saved:
    """Read saved measurements.

    Args:
        path: the file.
        shown: the path in messages.

    Raises:
        UsageError: the file is missing, unreadable, or something else.
    """
    document = _load(path, shown)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"{shown} holds no saved measurements", fix=_OTHER)
    again = "remove it, and save it again with `tilec bench --save`"
    version = document.get("schema_version")
    if version != SCHEMA:
        message = f"{shown} is of schema version {version!r}, and this tilec reads {SCHEMA}"
        raise UsageError(message, fix=again)
    try:
        saved = decode(Saved, document)
    except ValueError as error:
        raise UsageError(f"{shown} is damaged: {error}", fix=again) from error
    for name, case in saved.cases.items():
        if not case.samples or not all(math.isfinite(s) and s > 0 for s in case.samples):
            raise UsageError(
                f"{shown} is damaged: {name} has samples that are not positive times", fix=again
            )
    return saved


def _load(path: Path, shown: str) -> object:
    """Return the JSON value in a file of saved measurements."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        name = path.stem if path.parent.parts[-2:] == (".tilec", "bench") else shown
        there = f"; there are {', '.join(others[:9])}" if others else ""
        raise UsageError(
            f"nothing was saved as {shown}{did_you_mean(path.stem, others) or there}",
            fix=f"measure first: `tilec bench --save {name}`",
        ) from error
    except (ValueError, RecursionError) as error:
        line = str(error).partition("\n")[0]
        raise UsageError(f"{shown} holds no saved measurements: {line}", fix=_OTHER) from error


def require_comparable(saved: Saved, now: Setting, shown: str) -> None:
    """Reject measurements of another device, driver or cache state.

    Raises:
        UsageError: they are such.
    """
    then = saved.setting
    differ = [
        f"{word} {getattr(then, field)!r}, now {getattr(now, field)!r}"
        for field, word in (
            ("device", "device"),
            ("multiprocessors", "multiprocessors"),
            ("driver", "driver"),
            ("kind", "kind of device"),
        )
        if getattr(then, field) != getattr(now, field)
    ]
    fix = "save new times here with --save"
    if then.cold != now.cold:
        words = {True: "cold", False: "hot"}
        fix = fix if differ else "pass --cold or --hot as for the saved times"
        differ.append(f"L2 cache {words[then.cold]}, now {words[now.cold]}")
    if differ:
        raise UsageError(
            f"{shown} holds times of another device or state: {'; '.join(differ)}",
            cause="the times are not comparable",
            fix=fix,
        )


def write_saved(
    path: Path, setting: Setting, cases: Sequence[CaseBench], kept: Mapping[str, SavedCase]
) -> None:
    """Save measurements.

    Args:
        path: the file.
        setting: where they were taken.
        cases: of this run.
        kept: of earlier runs, for cases that this run did not measure.

    Raises:
        OutputError: the file cannot be written; the old one stays.
    """
    rows = dict(kept)
    for case in cases:
        if case.measurement is not None:
            samples = case.measurement.samples
            rows[case.name] = SavedCase(image=case.code, inputs=case.inputs, samples=samples)
    saved = Saved(setting=setting, cases=dict(sorted(rows.items())))
    with atomic_write(path) as file:
        file.write((json.dumps(encode(saved), indent=1) + "\n").encode())


def compare_with_saved(
    case: CaseBench, saved: Saved, again: Callable[[], CaseBench], limit: float = LIMIT
) -> CaseBench:
    """Return a case with its change over the saved measurement.

    Args:
        case: as it was measured.
        saved: the saved measurements.
        again: measures the case once more.
        limit: smallest change that counts, as a fraction.
    """
    row = saved.cases.get(case.name)
    if case.measurement is None:
        return case
    if row is None:
        return dataclasses.replace(case, uncompared="there are no saved times of it")
    if row.inputs != case.inputs:
        return dataclasses.replace(case, uncompared="its inputs have changed")
    latest = case

    def samples() -> tuple[float, ...]:
        nonlocal latest
        latest = again()
        assert latest.measurement is not None
        return latest.measurement.samples

    change = settled(row.samples, case.measurement.samples, samples, limit)
    return dataclasses.replace(latest, change=change, same_code=row.image == latest.code)
