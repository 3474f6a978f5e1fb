"""The steps of `tilec tune`: tune, prepare or confirm a kernel; measure a kit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilec.case.cases import BoundCase
from tilec.case.functions import Functions
from tilec.cli import progress
from tilec.cli.app import App
from tilec.cli.build import make_request
from tilec.cli.cases import require_kernel
from tilec.cli.devices import CPU, find_gpu
from tilec.cli.files import require_writable
from tilec.cli.style import style
from tilec.cli.tables import plural
from tilec.cli.tune_show import Display, print_prepared, print_record, result_json
from tilec.compile.project import Project, open_project
from tilec.compile.state import WorkDir
from tilec.manifest.types import Kernel, Manifest
from tilec.model.inside import contained
from tilec.plan.tuning import cases_digest
from tilec.tune.candidates import Foundry, KernelFacts
from tilec.tune.cases import Prepared, prepare_case, spaces_of
from tilec.tune.kit import SUFFIX, read_kit, require_kit, require_portable, write_kit
from tilec.tune.log import Header, TrialLog
from tilec.tune.record import code_of, confirmed, merged, new_record, read_old, write_record
from tilec.tune.scratch import scratch
from tilec.tune.search import require_search
from tilec.tune.session import CaseResult, Session, SessionOptions, Work
from tilec.tune.space import Point, Space
from tilec.tune.targets import target_for
from tilec.tune.trial import Trial
from tilec.tune.wire import Ready
from tilec.tune.workplace import Workplace
from tilec_runtime.device.devices import devices as gpus
from tilec_runtime.device.devices import find_device
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import MissingError, NoDeviceError, UsageError

FOLDER = "tune"  # in .tilec
NO_GPU = (
    "write a kit here with `tilec tune --prepare`, and measure it on a machine with a GPU with `tilec tune --measure`; "
    "`--device cpu` measures the cpu device, an interpreter"
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options of one command line.

    Attributes:
        several: whether the command line names more than one kernel or kit.
    """

    cases: tuple[str, ...]
    devices: tuple[str, ...]
    target: str
    options: SessionOptions
    resume: bool
    record: str
    out: str
    jobs: int | None
    several: bool


def tune_kernel(app: App, given: Given, name: str) -> dict[str, Any]:
    """Tune a kernel and write its record."""
    require_search(given.options.search)
    project, kernel = open_kernel(app, name)
    devices = _devices(given.devices)
    target = str(target_for(project.manifest, name, devices[0][1], given.target))
    folder = folder_of(project, name)
    record = record_path(app, given, kernel, project.manifest)
    _require_own(app, record, name)
    request = make_request(app, workers=given.jobs)
    with (
        scratch(folder) as own,
        Foundry(request, name, target, own, project) as foundry,
    ):
        spaces = spaces_of(kernel, foundry.facts.info, given.cases, locate=project.manifest.locate)
        with _log(given, folder, foundry.facts, kernel, devices[0][1]) as (log, known):
            prepared = _prepare_cases(app, spaces, foundry.facts, project.manifest.root, own)
            work = Work(facts=foundry.facts, kernel=kernel, prepared=prepared, make=foundry.make)
            return _measure(app, given, work, devices, own, log, known, record)


def measure_kit(app: App, given: Given, path: Path) -> dict[str, Any]:
    """Measure a kit and write its record."""
    require_search(given.options.search)
    require_kit(path)
    devices = _devices(given.devices)
    # Beside the kit, since a temporary directory may be in memory: kits unpack to gigabytes.
    logs = path.parent / f".{path.name}.log"
    with scratch(logs) as own:
        work = read_kit(path, own)
        facts, device = work.facts, devices[0][1]
        if (facts.target == "tileir") != bool(device.interprets):
            message = f"{app.show(path)} holds candidates for {facts.target}, which do not run on {device}"
            fix = "prepare it for the target of this device: `tilec tune --prepare --target NAME`"
            raise UsageError(message, fix=fix)
        record = app.path(given.record or f"tuning/{facts.info.name}.json")
        _require_own(app, record, facts.info.name)
        with _log(given, logs, facts, work.kernel, device) as (log, known):
            return _measure(app, given, work, devices, own, log, known, record)


def prepare_kernel(app: App, given: Given, name: str) -> dict[str, Any]:
    """Compile every candidate and write a kit."""
    project, kernel = open_kernel(app, name)
    target = str(target_for(project.manifest, name, None, given.target))
    path = Path(os.path.normpath(app.path(given.out or f"{name}-{target}{SUFFIX}")))
    with (
        scratch(folder_of(project, name)) as own,
        Foundry(
            make_request(app, workers=given.jobs),
            name,
            target,
            own,
            project,
            progress.observer(app),
        ) as foundry,
    ):
        spaces = spaces_of(kernel, foundry.facts.info, given.cases, locate=project.manifest.locate)
        require_portable(spaces)
        points = list(dict.fromkeys(point for space in spaces for point in space.points))
        compiled = foundry.make(points)
        prepared = _prepare_cases(app, spaces, foundry.facts, project.manifest.root, own)
        write_kit(path, foundry.facts, Path(project.manifest.path), prepared, compiled)
    app.clear_status()
    failed = {point: variant.failure for point, variant in compiled.items() if variant.failure}
    print_prepared(
        app, path, foundry.facts, [space.case.name for space in spaces], compiled, failed
    )
    return {
        "kernel": name,
        "ok": True,
        "target": target,
        "kit": str(path),
        "candidates": len(compiled),
        "failed": len(failed),
    }


def _measure(
    app: App,
    given: Given,
    work: Work,
    devices: Sequence[tuple[str, DeviceInfo]],
    folder: Path,
    log: TrialLog,
    known: Sequence[Trial],
    record: Path,
) -> dict[str, Any]:
    """Run a session and write its record."""
    display = Display(app, time.monotonic, budget=given.options.budget)
    names = [name for name, _ in devices]
    with _resumable(log), contextlib.ExitStack() as workers:
        workplaces = [
            workers.enter_context(
                contextlib.closing(
                    Workplace(
                        name,
                        log=folder / f"worker-{name.replace(':', '-')}.log",
                        environ=os.environ,
                    )
                )
            )
            for name in names
        ]
        ready = workplaces[0].start()
        display.device(ready, work.facts.target, names)
        session = Session(
            work,
            workplaces,
            log,
            known=known,
            options=given.options,
            progress=display,
            clock=time.monotonic,
        )
        results = session.run()
    return _write(app, work, ready, results, record)


def _write(
    app: App,
    work: Work,
    ready: Ready,
    results: Sequence[CaseResult],
    path: Path,
) -> dict[str, Any]:
    facts = work.facts
    document = {
        "kernel": facts.info.name,
        "ok": all(result.best is not None for result in results),
        "record": None,
        **result_json(facts, ready, results),
    }
    if not any(result.best is not None for result in results):
        message = "is correct" if any(result.trials for result in results) else "was tried"
        app.note(f"no candidate of {facts.info.name} {message}: no record was written")
        return document
    record, notes = new_record(facts, ready, results)
    record, changed = merged(read_old(path, app.show(path)), record, facts.info)
    for text in (*notes, *((f"{app.show(path)}: {changed}",) if changed else ())):
        app.note(f"note: {text}")
    write_record(path, record)
    print_record(app, path, record, work.kernel)
    return {**document, "record": str(path)}


def open_kernel(app: App, name: str) -> tuple[Project, Kernel]:
    """Return the current project and one of its kernels.

    Raises:
        UsageError: the project has no kernel of that name.
    """
    project = open_project(app.manifest_path(), app.settings.search)
    require_kernel(project.manifest, name)
    return project, next(one for one in project.manifest.kernels if one.name == name)


def _devices(names: Sequence[str]) -> list[tuple[str, DeviceInfo]]:
    """Return the devices of the command line; by default all GPUs of one model.

    Raises:
        UsageError: the devices are of several models.
        NoDeviceError: a device is missing.
    """
    devices = [find_gpu(name, "tuning", NO_GPU)[1] for name in names or ["cuda:0"] if name != CPU]
    if not names:
        devices = [info for info in gpus() if info.name == devices[0].name]
    devices += [find_device(CPU)] if CPU in names else []
    chosen = {CPU if info.interprets else f"cuda:{info.ordinal}": info for info in devices}
    if len({info.name for info in chosen.values()}) > 1:
        kinds = ", ".join(f"{name} ({info.name})" for name, info in chosen.items())
        raise UsageError(
            f"--device: {kinds} are of different models, but a record is for one",
            fix="tune on one model at a time",
        )
    return list(chosen.items())


@contextlib.contextmanager
def _log(
    given: Given, folder: Path, facts: KernelFacts, kernel: Kernel, device: DeviceInfo
) -> Iterator[tuple[TrialLog, tuple[Trial, ...]]]:
    """Open the log, and yield it with the trials of an earlier run to continue."""
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
    # With several kernels, those after the interrupted one have no log yet.
    resume = given.resume and (log.path.exists() or not given.several)
    known = log.read(header) if resume else ()
    try:
        log.open(header, keep=resume)
        yield log, known
    finally:
        log.close()


def folder_of(project: Project, name: str) -> Path:
    """Return the folder of a kernel's logs in `.tilec`, which git ignores."""
    work = WorkDir(Path(project.manifest.root))
    work.ignore()
    return work.file(FOLDER, name)


def _require_own(app: App, path: Path, kernel: str) -> None:
    """Refuse a record of another kernel, or one that cannot be written, before measuring."""
    old = read_old(require_writable(path), app.show(path))
    if old is not None and old.kernel != kernel:
        message = f"{app.show(path)} is the record of kernel {old.kernel!r}, and would be replaced"
        raise UsageError(
            message, fix="name another file: --record, or dispatch.table in the manifest"
        )


def _prepare_cases(
    app: App, spaces: Sequence[Space], facts: KernelFacts, root: str, folder: Path
) -> tuple[Prepared, ...]:
    functions = Functions(root)

    def say(case: BoundCase) -> None:
        app.status(f"computing the reference of {case.name}")

    prepared = tuple(
        prepare_case(space, facts.sizes, functions, folder / "expected", on_reference=say)
        for space in spaces
    )
    app.clear_status()
    unchecked = [one.space.case.name for one in prepared if not one.expected]
    if unchecked:
        app.warn(f"{', '.join(unchecked)}: without a reference, wrong candidates are not detected")
    return prepared


def record_path(app: App, given: Given, kernel: Kernel, manifest: Manifest) -> Path:
    """Return the path of a kernel's record."""
    return (
        app.path(given.record)
        if given.record
        else contained(manifest.root, kernel.table or f"tuning/{kernel.name}.json")
    )


@contextlib.contextmanager
def _resumable(log: TrialLog) -> Iterator[None]:
    """Add the hint about --resume to the error of a lost device."""
    try:
        yield
    except MissingError as error:
        fix = f"{error.fix + '; ' if error.fix else ''}the results are in {log.path}: continue with --resume"
        raise NoDeviceError(error.what, cause=error.cause, fix=fix) from error


def confirm_kernel(app: App, given: Given, name: str) -> dict[str, Any]:
    """Compile the winners, compare their code, and accept the edited kernel.

    The code is compared with the measured code.
    """
    project, kernel = open_kernel(app, name)
    path = record_path(app, given, kernel, project.manifest)
    shown = app.show(path)
    old = read_old(path, shown)
    if old is None or old.kernel != name or not old.devices:
        raise UsageError(
            f"there is no record of kernel {name!r} in {shown}", fix=f"run `tilec tune {name}`"
        )
    codes: dict[tuple[str, Point], str] = {}
    facts: KernelFacts | None = None
    with scratch(folder_of(project, name)) as own:
        for target in dict.fromkeys(str(device.target) for device in old.devices):
            same = [device for device in old.devices if str(device.target) == target]
            points = [entry.point for device in same for entry in device.entries]
            request, observer = make_request(app, workers=given.jobs), progress.observer(app)
            with Foundry(request, name, target, own / target, project, observer) as foundry:
                facts = foundry.facts
                built = {variant.axes for variant in facts.info.variants}
                compiled = foundry.make(
                    [point for point in dict.fromkeys(points) if point in built]
                )
            for point in points:
                codes[target, point] = (
                    code_of(compiled[point].variants) if point in compiled else ""
                )
    app.clear_status()
    assert facts is not None  # there is a device
    changed = write_record(path, confirmed(old, facts, codes, shown))
    entries = sum(len(device.entries) for device in old.devices)
    word = style("confirmed" if changed else "unchanged", fg="green", bold=True)
    app.say(f"{word} {shown}: the code of {plural(entries, 'entry')} is the measured one")
    return {"kernel": name, "ok": True, "record": str(path), "changed": changed, "entries": entries}
