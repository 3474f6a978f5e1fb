"""What `tilec tune` does for one kernel or one kit: prepares it, tunes it or lists it, writes what
comes of it, and says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilec.case.cases import BoundCase
from tilec.case.reference import References
from tilec.cli.app import App
from tilec.cli.build import make_request
from tilec.cli.cases import require_no_chain
from tilec.cli.style import style
from tilec.cli.tune_show import (
    Display,
    dry_run_json,
    result_json,
    say_dry_run,
    say_prepared,
    say_record,
)
from tilec.compile.project import Project, open_project
from tilec.compile.state import WorkDir
from tilec.manifest.types import Kernel, Manifest
from tilec.model.inside import contained
from tilec.plan.tuning import cases_digest
from tilec.tune.candidates import Candidates, Facts, Foundry
from tilec.tune.cases import Prepared, prepare_case, spaces_of
from tilec.tune.kit import SUFFIX, Kit, read_kit, require_kit, write_kit
from tilec.tune.log import Header, TrialLog
from tilec.tune.record import code_of, confirmed, merged, new_record, read_old, write_record
from tilec.tune.scratch import scratch
from tilec.tune.search import Search, require_search
from tilec.tune.session import CaseResult, Session, SessionOptions, Work
from tilec.tune.space import Point, Space
from tilec.tune.targets import target_for
from tilec.tune.trial import Trial
from tilec.tune.wire import Ready, Setup
from tilec.tune.workplace import Workplace
from tilec_runtime.device.seam_types import DeviceInfo
from tilec_runtime.errors import MissingError, NoDeviceError, UsageError
from tilec_runtime.model.suggest import did_you_mean

FOLDER = "tune"  # in .tilec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the command line asks for; `several` kernels or kits, `environ` of workers, `clock`
    counts seconds.
    """

    cases: tuple[str, ...]
    devices: tuple[str, ...]
    target: str
    search: str
    budget: float
    most: int
    limit: float
    seed: int
    resume: bool
    record: str
    out: str
    jobs: int | None
    several: bool
    environ: Mapping[str, str]
    clock: Callable[[], float]

    def options(self, batch: int) -> SessionOptions:
        """Of a session."""
        return SessionOptions(
            search=Search(self.search),
            budget=self.budget,
            most=self.most,
            seed=self.seed,
            limit=self.limit,
            batch=batch,
        )


def tune_kernel(app: App, wish: Wish, name: str) -> dict[str, Any]:
    """Tune a kernel of the project at hand, and write its record."""
    require_search(Search(wish.search))
    project, kernel = open_kernel(app, name)
    devices = _devices(wish.devices)
    target = str(target_for(project.manifest, name, devices[0][1], wish.target))
    folder = folder_of(project, name)
    record = record_path(app, wish, kernel, project.manifest)
    _require_own(app, record, name)
    with (
        scratch(folder) as own,
        Foundry(
            make_request(app, workers=wish.jobs), name, target, own, project=project
        ) as foundry,
    ):
        spaces = spaces_of(kernel, foundry.facts.info, wish.cases, locate=project.manifest.locate)
        with _log(wish, folder, foundry.facts, kernel, devices[0][1]) as (log, known):
            prepared = _prepare_cases(app, spaces, foundry.facts, project.manifest.root, own)
            work = _work(foundry.facts, kernel, prepared, foundry)
            return _measure(
                app, wish, work, foundry.facts, prepared, devices, own, log, known, (kernel, record)
            )


def measure_kit(app: App, wish: Wish, path: Path) -> dict[str, Any]:
    """Measure a kit, and write its record."""
    require_search(Search(wish.search))
    require_kit(path)
    devices = _devices(wish.devices)
    logs = (
        path.parent / f".{path.name}.log"
    )  # beside the kit: it may be as large as what it unpacks to, and memory as small
    with scratch(logs) as own:
        return _measure_kit(app, wish, path, read_kit(path, own), devices, logs, own)


def _measure_kit(
    app: App,
    wish: Wish,
    path: Path,
    kit: Kit,
    devices: Sequence[tuple[str, DeviceInfo]],
    logs: Path,
    own: Path,
) -> dict[str, Any]:
    facts = kit.facts
    device = devices[0][1]
    if (facts.target == "tileir") != bool(device.interprets):
        fix = "prepare it for the target of this device: `tilec tune --prepare --target NAME`"
        raise UsageError(
            f"{app.show(path)} is of candidates for {facts.target}, which are not measured on {device}",
            fix=fix,
        )
    record = app.path(wish.record or f"tuning/{facts.info.name}.json")
    _require_own(app, record, facts.info.name)
    work = _work(facts, kit.kernel, kit.prepared, kit)
    with _log(wish, logs, facts, kit.kernel, device) as (log, known):
        return _measure(
            app, wish, work, facts, kit.prepared, devices, own, log, known, (kit.kernel, record)
        )


def prepare_kernel(app: App, wish: Wish, name: str) -> dict[str, Any]:
    """Compile every candidate, and write a kit."""
    project, kernel = open_kernel(app, name)
    target = str(target_for(project.manifest, name, None, wish.target))
    path = Path(os.path.normpath(app.path(wish.out or f"{name}-{target}{SUFFIX}")))
    with (
        scratch(folder_of(project, name)) as own,
        Foundry(
            make_request(app, workers=wish.jobs),
            name,
            target,
            own,
            Display(app, wish.clock),
            project=project,
        ) as foundry,
    ):
        spaces = spaces_of(kernel, foundry.facts.info, wish.cases, locate=project.manifest.locate)
        points = list(dict.fromkeys(point for space in spaces for point in space.points))
        made = foundry.make(points)
        prepared = _prepare_cases(app, spaces, foundry.facts, project.manifest.root, own)
        write_kit(path, foundry.facts, Path(project.manifest.path), prepared, made)
    app.wipe()
    failed = {point: found.failure for point, found in made.items() if found.failure}
    say_prepared(app, path, foundry.facts, [space.case.name for space in spaces], made, failed)
    return {
        "kernel": name,
        "ok": True,
        "target": target,
        "kit": str(path),
        "candidates": len(made),
        "failed": len(failed),
    }


def dry_run_kernel(app: App, wish: Wish, name: str) -> dict[str, Any]:
    """Compile every candidate, and say which would be measured."""
    project, kernel = open_kernel(app, name)
    device = _devices(wish.devices)[0][1] if wish.devices else None
    target = str(target_for(project.manifest, name, device, wish.target))
    with (
        scratch(folder_of(project, name)) as own,
        Foundry(
            make_request(app, workers=wish.jobs),
            name,
            target,
            own,
            Display(app, wish.clock),
            project=project,
        ) as foundry,
    ):
        spaces = spaces_of(kernel, foundry.facts.info, wish.cases, locate=project.manifest.locate)
        made = foundry.make(
            list(dict.fromkeys(point for space in spaces for point in space.points))
        )
    app.wipe()
    rows = say_dry_run(app, foundry.facts, spaces, made, kernel.budget)
    return dry_run_json(foundry.facts, rows)


def _measure(
    app: App,
    wish: Wish,
    work: Work,
    facts: Facts,
    prepared: Sequence[Prepared],
    devices: Sequence[tuple[str, DeviceInfo]],
    folder: Path,
    log: TrialLog,
    known: Sequence[Trial],
    record: tuple[Kernel, Path],
) -> dict[str, Any]:
    """Run a session, and write its record."""
    places = [
        Workplace(
            Setup(device=name),
            log=folder / f"worker-{name.replace(':', '-')}.log",
            environ=wish.environ,
        )
        for name, _ in devices
    ]
    display = Display(app, wish.clock, budget=wish.budget)
    with _going_on(log), _ended(places):
        ready = places[0].start()
        display.device(ready, facts.target, [name for name, _ in devices])
        batch = max(wish.jobs or app.settings.cores, 1)
        session = Session(
            work,
            places,
            log,
            known=known,
            options=wish.options(batch),
            progress=display,
            clock=wish.clock,
        )
        results = session.run()
    return _write(
        app, facts, ready, results, {p.space.case.name: p.at for p in prepared}, session, *record
    )


def _write(
    app: App,
    facts: Facts,
    ready: Ready,
    results: Sequence[CaseResult],
    sizes: dict[str, tuple[int, ...]],
    session: Session,
    kernel: Kernel,
    path: Path,
) -> dict[str, Any]:
    ok = all(result.best is not None for result in results)
    document = {
        "kernel": facts.info.name,
        "ok": ok,
        "record": None,
        **result_json(facts, ready, results),
    }
    if not any(result.best is not None for result in results):
        what = "is right" if any(result.trials for result in results) else "was tried"
        app.note(f"no candidate of {facts.info.name} {what}: no record was written")
        return document
    record, notes = new_record(facts, ready, results, sizes, session.built)
    record, changed = merged(read_old(path, app.show(path)), record, facts.info)
    for text in (*notes, *((f"{app.show(path)}: {changed}",) if changed else ())):
        app.note(f"note: {text}")
    write_record(path, record)
    say_record(app, path, record, kernel)
    return {**document, "record": str(path)}


def open_kernel(app: App, name: str) -> tuple[Project, Kernel]:
    """The project at hand, and a kernel of it.

    Raises:
        UsageError: it has none of that name.
    """
    project = open_project(app.manifest_path(), app.settings.search)
    names = [kernel.name for kernel in project.manifest.kernels]
    if name not in names:
        require_no_chain(project.manifest, name)
        raise UsageError(
            f"no kernel {name!r}{did_you_mean(name, names) or '; there are ' + ', '.join(names)}"
        )
    return project, project.manifest.kernels[names.index(name)]


def _devices(names: Sequence[str]) -> list[tuple[str, DeviceInfo]]:
    """The devices of the command line; all GPUs where it names none.

    Raises:
        UsageError: they are not alike, or one is named twice.
        NoDeviceError: one is not there.
    """
    from tilec_runtime.device.devices import devices as gpus
    from tilec_runtime.device.devices import driver_of, find_device

    try:
        if not names or tuple(names) in (("auto",), ("cuda",)):
            found = [(f"cuda:{info.ordinal}", info) for info in gpus()]
            alike = [(name, info) for name, info in found if info.name == found[0][1].name]
            return alike if not names or names[0] == "auto" else alike[:1]
        plain = [f"cuda:{name}" if name.isdecimal() else name for name in names]
        chosen = [(name, find_device(name, driver_of(name))) for name in plain]
    except (NoDeviceError, MissingError) as error:
        fix = (
            "write a kit here with `tilec tune --prepare`, and measure it where a GPU is with `tilec tune --measure`; "
            "`--device cpu` measures on the cpu device, which says nothing of a GPU"
        )
        raise NoDeviceError(
            f"tuning needs a GPU: {error.what}", cause=error.cause, fix=fix
        ) from error
    if len({name for name, _ in chosen}) != len(chosen):
        raise UsageError(
            "--device names one device twice: two workers on one would disturb each other"
        )
    if len({info.name for _, info in chosen}) > 1:
        kinds = ", ".join(f"{name} ({info.name})" for name, info in chosen)
        raise UsageError(
            f"--device: {kinds} are of different kinds, and a record speaks of one",
            fix="tune on one kind after the other",
        )
    return chosen


@contextlib.contextmanager
def _log(
    wish: Wish, folder: Path, facts: Facts, kernel: Kernel, device: DeviceInfo
) -> Iterator[tuple[TrialLog, tuple[Trial, ...]]]:
    """The log of this tuning, open, and the trials of an earlier one that it goes on with."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-").lower()
    log = TrialLog(folder / f"{facts.info.name}-{facts.target}-{slug}.jsonl")
    header = Header(
        kernel=facts.info.name,
        kernel_digest=facts.kernel_digest,
        space_digest=facts.space_digest,
        cases_digest=cases_digest(kernel),
        target=facts.target,
        device=device.name,
        toolchain=", ".join(f"{tool.name} {tool.version}" for tool in facts.toolchain),
    )
    # Of several kernels, those after the one that was interrupted have not begun.
    resume = wish.resume and (log.path.exists() or not wish.several)
    known = log.read(header) if resume else ()
    try:
        log.open(header, keep=resume)
        yield log, known
    finally:
        log.close()


def folder_of(project: Project, name: str) -> Path:
    """Where a kernel's logs are kept: in `.tilec`, of which git takes no note."""
    work = WorkDir(Path(project.manifest.root))
    work.ignore()
    return work.file(FOLDER, name)


def _require_own(app: App, path: Path, kernel: str) -> None:
    """Refuse a record that cannot be read, or is another kernel's, before hours of measuring rather
    than after.
    """
    old = read_old(path, app.show(path))
    if old is not None and old.kernel != kernel:
        what = f"{app.show(path)} is the record of kernel {old.kernel!r}, and would be lost"
        raise UsageError(what, fix="name another file: --record, or dispatch.table in the manifest")


def _prepare_cases(
    app: App, spaces: Sequence[Space], facts: Facts, root: str, folder: Path
) -> tuple[Prepared, ...]:
    references = References(root)

    def say(case: BoundCase) -> None:
        app.pass_by(f"computing the reference of {case.name}")

    found = tuple(
        prepare_case(space, facts.sizes, references, folder / "expected", on_reference=say)
        for space in spaces
    )
    app.wipe()
    unchecked = [one.space.case.name for one in found if not one.expected]
    if unchecked:
        app.warn(
            f"{', '.join(unchecked)}: without a reference, nobody sees whether candidates compute what they should"
        )
    return found


def _work(
    facts: Facts, kernel: Kernel, prepared: Sequence[Prepared], candidates: Candidates
) -> Work:
    return Work(
        info=facts.info,
        spaces=tuple(one.space for one in prepared),
        candidates=candidates,
        expected={one.space.case.name: one.expected for one in prepared},
        budget=kernel.budget,
    )


def record_path(app: App, wish: Wish, kernel: Kernel, manifest: Manifest) -> Path:
    """Where a kernel's record is, or will be."""
    return (
        app.path(wish.record)
        if wish.record
        else contained(manifest.root, kernel.table or f"tuning/{kernel.name}.json")
    )


@contextlib.contextmanager
def _going_on(log: TrialLog) -> Iterator[None]:
    """A device that is lost ends a tuning; what was measured stays, and the error says how to go
    on.
    """
    try:
        yield
    except MissingError as error:
        fix = f"{error.fix + '; ' if error.fix else ''}what was measured is in {log.path}: go on with --resume"
        raise NoDeviceError(error.what, cause=error.cause, fix=fix) from error


@contextlib.contextmanager
def _ended(places: Sequence[Workplace]) -> Iterator[None]:
    """Workers end with what they are for."""
    try:
        yield
    finally:
        for place in places:
            place.close()


def confirm_kernel(app: App, wish: Wish, name: str) -> dict[str, Any]:
    """Compile what won, and hold it against the code that was measured; the record then knows the
    kernel as it is.
    """
    project, kernel = open_kernel(app, name)
    path = record_path(app, wish, kernel, project.manifest)
    shown = app.show(path)
    old = read_old(path, shown)
    if old is None or old.kernel != name:
        what = (
            f"there is no record {shown}"
            if old is None
            else f"{shown} is the record of kernel {old.kernel!r}"
        )
        raise UsageError(
            f"{what}: there is nothing to confirm", fix=f"`tilec tune {name}` writes one"
        )
    codes: dict[tuple[str, Point], str] = {}
    facts: Facts | None = None
    with scratch(folder_of(project, name)) as own:
        for target in dict.fromkeys(str(device.target) for device in old.devices):
            points = [
                entry.point
                for device in old.devices
                if str(device.target) == target
                for entry in device.entries
            ]
            with Foundry(
                make_request(app, workers=wish.jobs),
                name,
                target,
                own / target,
                Display(app, wish.clock),
                project=project,
            ) as foundry:
                facts = foundry.facts
                known = [
                    point
                    for point in dict.fromkeys(points)
                    if any(variant.axes == point for variant in facts.info.variants)
                ]
                made = foundry.make(known)
                codes.update(
                    {
                        (target, point): code_of(made[point].variants) if point in made else ""
                        for point in points
                    }
                )
    app.wipe()
    if facts is None:
        raise UsageError(
            f"{shown} has no entries: there is nothing to confirm",
            fix=f"`tilec tune {name}` measures some",
        )
    changed = write_record(path, confirmed(old, facts, codes, shown))
    entries = sum(len(device.entries) for device in old.devices)
    count = "1 entry" if entries == 1 else f"{entries} entries"
    word = "confirmed" if changed else "unchanged"
    app.say(
        f"{style(word, fg='green', bold=True)} {shown}: the code of {count} is what was measured"
    )
    return {"kernel": name, "ok": True, "record": str(path), "changed": changed, "entries": entries}
