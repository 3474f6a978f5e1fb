"""Saved measurements, to hold later ones against: written at once or not at all, and refused where
a comparison would say nothing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilec import __version__
from tilec.bench.gate import LIMIT, Change, settled
from tilec.bench.report import CaseBench, Setting, setting_json
from tilec.bench.rivals import LIBRARIES
from tilec.model.atomic import atomic_write
from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

SCHEMA, KIND = 1, "tilec-bench"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MOST_BYTES = 64 << 20
# What is compared of two settings, in words.
_WORDS = {
    "device": "device",
    "multiprocessors": "multiprocessors",
    "driver": "driver",
    "kind": "kind of device",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SavedCase:
    """Samples of one case; `code` and `inputs` are digests of the image and of what the inputs are
    made of.
    """

    samples: tuple[float, ...]
    code: str
    inputs: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A file of saved measurements, by name of the case.

    Attributes:
        setting: where they were taken. cases: by name.
        by: the tilec that took them. beside: libraries that were measured in the same process,
            `torch`, `cupy`.
    """

    setting: Setting
    cases: Mapping[str, SavedCase]
    by: str = ""
    beside: tuple[str, ...] = ()


def path_of(name: str, folder: Path, base: Path) -> Path:
    """Where a name of the command line is saved: in the project's own folder, or at the path that
    it is.

    Raises:
        UsageError: it is neither.
    """
    if "/" in name or name.endswith(".json"):
        return base / name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name to save under",
            fix="take letters, digits, _, - and dots, or a path such as ci/h200.json",
        )
    return folder / f"{name}.json"


def read_saved(path: Path, shown: str) -> Saved:
    """What was saved.

    Args:
        path: the file.
        shown: how messages call it.

    Raises:
        UsageError: there is none, it cannot be read, or it is something else.
    """
    again = "remove it, and save it again with `tilec bench --save`"
    other = "name a file that `tilec bench --save` wrote, or a new one"
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST_BYTES))  # more than that is cut, and is no JSON
    except FileNotFoundError as error:
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        name = path.stem if path.parent.parts[-2:] == (".tilec", "bench") else shown
        hint = did_you_mean(path.stem, others) or (
            f"; there are {', '.join(others[:9])}" if others else ""
        )
        raise UsageError(
            f"nothing was saved as {shown}{hint}",
            fix=f"measure what to compare with: `tilec bench --save {name}`",
        ) from error
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be read: {error.strerror or error}", fix="name a file that can be read"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{shown} holds no saved measurements: {str(error).partition(chr(10))[0]}", fix=other
        ) from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UsageError(f"{shown} holds no saved measurements", fix=other)
    if found.get("schema_version") != SCHEMA:
        version = found.get("schema_version")
        raise UsageError(
            f"{shown} is of schema version {version!r}, and this tilec reads {SCHEMA}", fix=again
        )
    try:
        setting = Setting(
            **{
                field.name: _typed(found["setting"][field.name], str(field.type))
                for field in dataclasses.fields(Setting)
            }
        )
        cases = {str(name): _case(row) for name, row in found["cases"].items()}
        return Saved(
            setting=setting,
            cases=cases,
            by=str(found.get("tilec", "")),
            beside=tuple(map(str, found.get("beside", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{shown} is damaged: {type(error).__name__}: {error}", fix=again
        ) from error


def require_comparable(saved: Saved, now: Setting, shown: str) -> None:
    """Refuse measurements of another device, driver or state of the cache: what they differ by is
    not the kernels.

    Raises:
        UsageError: they are such.
    """
    differ = [
        f"{word} {getattr(saved.setting, field)!r}, now {getattr(now, field)!r}"
        for field, word in _WORDS.items()
        if getattr(saved.setting, field) != getattr(now, field)
    ]
    if saved.setting.cold != now.cold:
        words = {True: "cold", False: "hot"}
        differ.append(f"L2 cache {words[saved.setting.cold]}, now {words[now.cold]}")
    if differ:
        fix = (
            "save new ones here with --save"
            if len(differ) > 1 or saved.setting.cold == now.cold
            else "pass --cold or --hot as then"
        )
        cause = "a difference would be theirs, and not that of the kernels"
        raise UsageError(
            f"{shown} was measured elsewhere: {'; '.join(differ)}", cause=cause, fix=fix
        )


def unlike(saved: Saved, cases: Sequence[CaseBench]) -> str:
    """What else differs between a run and a saved one than the kernels, in words; empty for
    nothing. It refuses no comparison.
    """
    if saved.by and saved.by != __version__:
        return f"it was saved by tilec {saved.by}, which may measure otherwise than {__version__}"
    if not saved.beside and not beside(cases):
        return ""
    then, now = (", ".join(names) or "nothing" for names in (saved.beside, beside(cases)))
    if then == now:
        return ""
    return f"it was measured beside {then}, now beside {now}: what a library leaves in a GPU's memory may be seen in the kernels' times"


def beside(cases: Sequence[CaseBench]) -> tuple[str, ...]:
    """The libraries that were measured too, and have memory on the GPU."""
    words = {
        rival.text.partition(":")[0]
        for case in cases
        for rival in case.rivals
        if rival.measurement is not None
    }
    return tuple(sorted({LIBRARIES[word] for word in words} - {"numpy"}))


def write_saved(
    path: Path, setting: Setting, cases: Sequence[CaseBench], kept: Mapping[str, SavedCase]
) -> None:
    """Save measurements.

    Args:
        path: the file.
        setting: where they were taken.
        cases: of this run.
        kept: of earlier ones, for cases that this one did not measure.

    Raises:
        OutputError: it cannot be written; what was there stays.
    """
    rows = dict(kept)
    for case in cases:
        if case.measurement is not None:
            rows[case.name] = SavedCase(
                samples=case.measurement.samples, code=case.code, inputs=case.inputs
            )
    listed = {
        name: {"image": row.code, "inputs": row.inputs, "samples": list(row.samples)}
        for name, row in sorted(rows.items())
    }
    about = {"tilec": __version__, "beside": list(beside(cases))}
    body = {
        "schema_version": SCHEMA,
        "kind": KIND,
        **about,
        "setting": setting_json(setting),
        "cases": listed,
    }
    with atomic_write(path) as file:
        file.write((json.dumps(body, indent=1) + "\n").encode())


def held_against(
    case: CaseBench, saved: Saved, again: Callable[[], CaseBench], limit: float = LIMIT
) -> CaseBench:
    """A case with how it stands to what was saved of it.

    Args:
        case: as it was measured.
        saved: what was saved.
        again: measures it once more, and gives it anew.
        limit: part by which it has to be slower.
    """
    row = saved.cases.get(case.name)
    if case.measurement is None:
        return case
    if row is None:
        return dataclasses.replace(case, uncompared="nothing was saved of it")
    if row.inputs != case.inputs:
        return dataclasses.replace(case, uncompared="its inputs are others now")
    latest = case

    def samples() -> tuple[float, ...]:
        nonlocal latest
        latest = again()
        assert latest.measurement is not None
        return latest.measurement.samples

    change: Change = settled(row.samples, case.measurement.samples, samples, limit)
    return dataclasses.replace(latest, change=change, same_code=row.code == latest.code)


def _case(row: Any) -> SavedCase:
    samples = tuple(float(sample) for sample in row["samples"])
    if not samples or not all(math.isfinite(sample) and sample > 0 for sample in samples):
        raise ValueError("a case without samples, or with one that is no time")
    return SavedCase(samples=samples, code=str(row["image"]), inputs=str(row["inputs"]))


def _typed(value: Any, kind: str) -> Any:
    if type(value).__name__ != kind:
        raise TypeError(f"{value!r} is no {kind}")
    return value
