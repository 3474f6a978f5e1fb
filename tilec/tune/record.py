"""Makes the record of a tuning, which a project commits, and merges it with the old one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilec.manifest.tuning_file import read_record, record_text
from tilec.model.atomic import write_if_changed
from tilec.model.tuning import (
    Candidate,
    Clocks,
    Status,
    TunedDevice,
    TunedEntry,
    TuningRecord,
    bucket_of,
)
from tilec.tune import wire
from tilec.tune.candidates import KernelFacts
from tilec.tune.session import CaseResult
from tilec.tune.space import Point, point_text
from tilec.tune.trial import Trial
from tilec_runtime.errors import ManifestError, UsageError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.kernel import KernelInfo, VariantInfo


def new_record(
    facts: KernelFacts, ready: wire.Ready, results: Sequence[CaseResult]
) -> tuple[TuningRecord, tuple[str, ...]]:
    """Return the record of a tuning, and notes about it.

    Args:
        facts: of the kernel.
        ready: the device.
        results: of the cases; one without a winner gives no entry.
    """
    target = Target.parse(facts.target)
    entries: dict[object, TunedEntry] = {}
    notes: list[str] = []
    for result in results:
        if result.best is None:
            continue
        entry = _entry(result, result.best, target)
        first = entries.setdefault(_identity(entry, facts.info), entry)
        if first is not entry:
            notes.append(
                f"case {entry.case} has the sizes of case {first.case}, whose entry is used for both"
            )
    tuned = TunedDevice(
        name=ready.device.name,
        cc=ready.device.cc,
        multiprocessors=ready.device.multiprocessors,
        driver=ready.driver,
        clocks=_clocks([trial for result in results for trial in result.trials]),
        target=target,
        entries=tuple(entries.values()),
    )
    record = TuningRecord(
        kernel=facts.info.name,
        kernel_digest=facts.kernel_digest,
        space_digest=facts.space_digest,
        toolchain=facts.toolchain,
        sizes=facts.sizes,
        devices=(tuned,),
    )
    return record, tuple(notes)


def merged(
    old: TuningRecord | None, new: TuningRecord, info: KernelInfo
) -> tuple[TuningRecord, str]:
    """Merge a new record into the old one; return it with a note about what was dropped.

    For the same kernel and space, entries of other devices stay, and of other sizes on this device
    if they are for the same target.
    """
    if old is None:
        return new, ""
    changed = [
        text
        for text, same in (
            ("the kernel", old.kernel == new.kernel and old.kernel_digest == new.kernel_digest),
            ("its space", old.space_digest == new.space_digest and old.sizes == new.sizes),
        )
        if not same
    ]
    if changed:
        return (
            new,
            f"{' and '.join(changed)} changed since the record was written: its entries of other devices and sizes are removed",
        )
    (tuned,) = new.devices
    fresh = {_identity(entry, info) for entry in tuned.entries}
    kept = (
        entry
        for device in old.devices
        if device.name == tuned.name and device.target == tuned.target
        for entry in device.entries
        if _identity(entry, info) not in fresh
    )
    entries = sorted((*tuned.entries, *kept), key=lambda entry: (entry.ranges, str(entry.point)))
    tuned = dataclasses.replace(tuned, entries=tuple(entries))
    devices = sorted(
        (tuned, *(device for device in old.devices if device.name != tuned.name)),
        key=lambda device: device.name,
    )
    return dataclasses.replace(new, devices=tuple(devices)), ""


def read_old(path: Path, shown: str) -> TuningRecord | None:
    """Read the record at a path, or return None if the file does not exist.

    Raises:
        ManifestError: it is damaged.
        OSError: it cannot be read.
    """
    try:
        return read_record(path.read_bytes(), shown)
    except FileNotFoundError:
        return None
    except ManifestError as error:
        fix = "restore it, or remove it, so that a new one is written"
        raise ManifestError(error.problems, fix=fix) from error


def write_record(path: Path, record: TuningRecord) -> bool:
    """Write a record; return whether the file changed.

    Raises:
        OutputError: it cannot be written.
    """
    return write_if_changed(path, record_text(record).encode())


def code_of(variants: Iterable[VariantInfo]) -> str:
    """Return a digest of the images of a candidate's variants; empty without variants."""
    rows = sorted(
        [variant.id, *(text for image in variant.images for text in (image.symbol, image.digest))]
        for variant in variants
    )
    return sha256(canonical_json(rows)) if rows else ""


def confirmed(
    old: TuningRecord, facts: KernelFacts, codes: Mapping[tuple[str, Point], str], shown: str
) -> TuningRecord:
    """Return the record for changed sources that compile to the same code.

    Args:
        old: the record.
        facts: of the kernel now.
        codes: what `code_of` returns now, by target and point of the entries.
        shown: the record's path, for messages.

    Raises:
        UsageError: the space or the code of an entry changed.
    """
    fix = f"run `tilec tune {facts.info.name}` again"
    if old.space_digest != facts.space_digest or old.sizes != facts.sizes:
        raise UsageError(
            f"{shown}: the matrix, assume.sets, hints or sizes have changed since it was tuned",
            fix=fix,
        )
    for device in old.devices:
        for entry in device.entries:
            if entry.code != codes[str(device.target), entry.point]:
                message = f"{shown}: the code of {point_text(entry.point)} for {device.target} is not the measured code (case {entry.case})"
                raise UsageError(message, fix=fix)
    return dataclasses.replace(old, kernel_digest=facts.kernel_digest, toolchain=facts.toolchain)


def _entry(result: CaseResult, best: Trial, target: Target) -> TunedEntry:
    rest = [trial for trial in result.trials if trial.point != best.point]
    winner = _candidate(best, best.effort)
    assert winner.median_us is not None
    assert winner.interval_us is not None
    hints = {variant.id: variant.hints_of(target) for variant in result.built}
    return TunedEntry(
        case=result.space.case.case,
        ranges=tuple(bucket_of(value) for value in result.at),
        at=result.at,
        point=best.point,
        variant=best.variant,
        code=code_of(result.built),
        hints=tuple(sorted(hints.get(best.variant, {}).items())),
        median_us=winner.median_us,
        interval_us=winner.interval_us,
        samples=winner.samples,
        candidates=(
            dataclasses.replace(winner, status=Status.BEST),
            *(_candidate(one, best.effort) for one in sorted(rest, key=lambda one: one.rank)),
        ),
    )


def _candidate(trial: Trial, effort: float) -> Candidate:
    """Return a candidate of the record, with times in microseconds, rounded."""
    if trial.measurement is None:
        return Candidate(point=trial.point, status=trial.status, reason=trial.reason)
    summary, status, reason = trial.measurement.summary, trial.status, ""
    if trial.effort < effort:
        status, reason = Status.PRUNED, f"behind after {trial.effort:.0%} of a measurement"
    low, middle, high = (
        max(round(1e6 * value, 4), 1e-4)
        for value in (summary.interval.low, summary.median, summary.interval.high)
    )
    return Candidate(
        point=trial.point,
        status=status,
        reason=reason,
        median_us=middle,
        interval_us=(low, high),
        samples=len(trial.measurement.samples),
    )


def _identity(entry: TunedEntry, info: KernelInfo) -> object:
    """Return a key that is equal for entries of the same sizes and dtypes."""
    return entry.ranges, tuple(v for name, v in entry.point if name in info.dtype_axes)


def _clocks(trials: Sequence[Trial]) -> Clocks | None:
    measured = [trial.measurement for trial in trials if trial.measurement]
    sm = [clock for one in measured for clock in one.sm or ()]
    memory = [clock for one in measured for clock in one.memory or ()]
    return (
        Clocks(sm=(min(sm), max(sm)), memory=(min(memory), max(memory))) if sm and memory else None
    )
