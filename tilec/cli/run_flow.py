"""A run of cases on its devices, one after another: each is built for, launched, compared, printed
and saved.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App
from tilec.cli.cases import (
    Wish,
    absence,
    case_of_arguments,
    chosen_cases,
    left_out,
    open_bundle,
    package_json,
    unchecked_json,
    unchecked_lines,
)
from tilec.cli.findings import FOUND
from tilec.cli.run_results import Results, device_line, document, summary

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.device import ModuleDevice
    from tilec.case.inputs import Array
    from tilec.case.run import CaseResult, RunReport, Save
    from tilec.case.sanitize import CaseFindings
    from tilec.cli.cases import Opened, Unchecked
    from tilec.cli.run_device import CpuWish
    from tilec.cli.run_limit import Ended, Limit
    from tilec.compile.project import Project
    from tilec.manifest.types import Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
    from tilec_runtime.launch.jit import Compiled

NEEDS_GPU = 3


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """How a command line wants its cases run.

    Attributes:
        device: of `--device`. cpu: what it asks of the cpu device.
        bundle, targets: what is run. save: where outputs go; empty for nowhere.
        repeat: how often each case is run; None for once, without a word on its bits. trace: the
            case to trace.
        timeout: seconds of a case, 0 for no limit. continue_from: see `Limit`.
    """

    device: str
    cpu: CpuWish
    bundle: str | None
    targets: tuple[str, ...]
    save: str
    repeat: int | None
    trace: str
    timeout: float
    continue_from: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Done:
    """What came of a run on one device; `left` is what `--check` did not check there."""

    device: DeviceInfo
    package: dict[str, Any]
    report: RunReport
    findings: list[CaseFindings]
    compiled: Sequence[Compiled]
    left: Sequence[Unchecked] = ()


def launch(app: App, wish: Wish, options: RunOptions, project: Project | None) -> int:
    """Run on every device that is asked for, and give the exit code."""
    from tilec.case.run import RunReport
    from tilec.cli.run_device import ALL, find_devices
    from tilec.cli.run_limit import Limit

    manifest = project.manifest if project else None
    if options.save:
        _check_place(app, options.save)
    traced: list[str] = []
    places = find_devices(
        app,
        options.device,
        options.cpu,
        work=lambda: _work(manifest, wish),
        manifest=manifest,
        traced=(lambda line: traced.append(click.unstyle(line))) if app.json else app.say,
    )
    several, limit = options.device == ALL, Limit(app, options.timeout, options.continue_from)
    done: list[_Done] = []
    for driver, device in places:
        opened = open_bundle(
            app,
            project,
            wish,
            bundle=options.bundle,
            targets=options.targets,
            cpu=device.interprets is not None,
        )
        bound = (
            case_of_arguments(app, opened, wish)
            if wish.args
            else chosen_cases(opened, manifest, wish)
        )
        place = _place(opened, device, driver)
        if options.trace:
            return _trace(app, place, opened, _one(bound, options.trace), options.cpu, traced)
        ended = limit.on(len(done))
        if several and not ended.results:
            app.say(f"{chr(10) if done else ''}{device_line(device)}")
        folder = Path(options.save, _folder(device) if several else "") if options.save else None
        _run(app, place, opened, bound, manifest, options, folder, limit, ended)
        compiled = place.compiled if place else ()
        for image in compiled:
            app.note(str(image))
        left = left_out(manifest, opened, wish, bound) if options.cpu.watch is not None else ()
        done.append(
            _Done(
                device=device,
                package=package_json(opened, manifest),
                report=RunReport(results=tuple(ended.results)),
                findings=ended.findings,
                compiled=compiled,
                left=left,
            )
        )
    return _finish(app, wish, options, done, several=several)


def _finish(
    app: App, wish: Wish, options: RunOptions, done: Sequence[_Done], *, several: bool
) -> int:
    """Sum up, and give the exit code."""
    code = (
        FOUND
        if any(item.findings for one in done for item in one.findings)
        else _ending([one.report for one in done], wish)
    )
    checked = options.cpu.watch is not None
    rows = [
        document(
            one.device,
            one.report,
            findings=one.findings if checked else None,
            compiled=one.compiled,
        )
        for one in done
    ]
    if checked:
        for one, row in zip(done, rows, strict=True):
            row["unchecked"] = unchecked_json(
                one.left, ((result.case.name, result.reason) for result in one.report.results)
            )
    if app.json and several:
        parts = [
            {**one.package, **row, "ok": one.report.ok or one.report.idle}
            for one, row in zip(done, rows, strict=True)
        ]
        app.document("run", {"ok": code == 0, "devices": parts})
    elif app.json:
        app.document("run", {**done[0].package, **rows[0], "ok": code == 0})
    elif (
        code
        or several
        or len(done[0].report.results) > 1
        or any(result.status == "ran" for result in done[0].report.results)
    ):
        for one in done:
            app.say(
                summary(
                    one.report,
                    one.device,
                    findings=sum(len(item.findings) for item in one.findings),
                )
            )
    if not app.json:
        for line in unchecked_lines([item for one in done for item in one.left]):
            app.say(line)
    return code


def _ending(reports: Sequence[RunReport], wish: Wish) -> int:
    """The exit code: failures first; then what was asked for by name, or all there was, and ran
    nowhere for want of a GPU.
    """
    results = [result for report in reports for result in report.results]
    if any(result.status in ("failed", "error", "hung") for result in results):
        return 1
    ran = {result.case.name for result in results if result.status != "skipped"}
    skipped = {result.case.kernel for result in results if result.case.name not in ran}
    return NEEDS_GPU if (results and not ran) or skipped.intersection(wish.kernels) else 0


def _place(opened: Opened, device: DeviceInfo, driver: DeviceDriver) -> ModuleDevice | None:
    """What is run, on its device; None where that is nothing."""
    from tilec.case.device import ModuleDevice
    from tilec_runtime.launch.load import load

    return (
        ModuleDevice(load(opened.bundle, device, driver=driver), driver, advice=opened.advice)
        if opened.bundle
        else None
    )


def _work(manifest: Manifest | None, wish: Wish) -> str:
    """What there is to run, in a message."""
    from tilec.case.cases import unbuilt_cases
    from tilec.cli.tables import plural

    if manifest is None or wish.args:
        return f"kernel {wish.kernels[0]}" if wish.args else "the cases"
    count = sum(
        len(unbuilt_cases(k))
        for k in manifest.kernels
        if not wish.kernels or k.name in wish.kernels
    )
    count += sum(
        len(c.cases)
        for c in manifest.chains
        if wish.chains and (not wish.kernels or c.name in wish.kernels)
    )
    return f"{plural(count, 'case')} of {manifest.package.name}"


def _one(cases: tuple[BoundCase, ...], name: str) -> BoundCase:
    """The case to trace.

    Raises:
        UsageError: there is none of this name, or more than one.
    """
    from tilec.case.selection import select_cases
    from tilec_runtime.errors import UsageError

    found = select_cases(cases, (name,))
    exact = tuple(case for case in found if case.name == name) or found
    if len(exact) != 1:
        listed = ", ".join(case.name for case in exact or cases)
        raise UsageError(
            f"--trace {name!r} is {len(exact) or 'none'} of the cases: name one",
            fix=f"cases are {listed}",
        )
    return exact[0]


def _trace(
    app: App,
    place: ModuleDevice | None,
    opened: Opened,
    case: BoundCase,
    cpu: CpuWish,
    traced: list[str],
) -> int:
    """Launch a case on a device that prints what blocks do; what comes out is not compared, since
    the other blocks do not run.
    """
    from tilec.case.cases import small_case
    from tilec.case.inputs import make_inputs
    from tilec.case.run import arguments_on
    from tilec_runtime.errors import MissingError

    absent = opened.absent.get(case.kernel, "")
    reason = absent or (place.refusal(case) if place else "")
    if reason or place is None:
        raise MissingError(f"{case.name} cannot be traced: {reason}", kernel=case.kernel)
    place.launch(case, arguments_on(case, place, make_inputs(small_case(case))))
    if app.json:
        app.document(
            "trace",
            {"case": case.name, "blocks": [list(block) for block in cpu.blocks], "lines": traced},
        )
    return 0


def _run(
    app: App,
    place: ModuleDevice | None,
    opened: Opened,
    cases: tuple[BoundCase, ...],
    manifest: Manifest | None,
    options: RunOptions,
    folder: Path | None,
    limit: Limit,
    ended: Ended,
) -> None:
    """Run the cases on one device that have not ended yet, and print each as it ends."""
    from tilec.case.reference import References
    from tilec.case.run import CaseResult, repeat_case, run_case
    from tilec.cli.findings import Sources, render_finding

    watch, root = options.cpu.watch, manifest.root if manifest else str(app.base)
    if watch is not None and opened.bundle is not None:
        watch.know(opened.bundle)
    results, references, lines = Results(app, cases), References(root), Sources(Path(root))
    if not ended.results:
        results.print_head()
    keep = _saver(app, app.path(folder)) if folder else None

    def end(result: CaseResult) -> None:
        ended.results.append(result)
        results.print(result)

    names = {result.case.name for result in ended.results}
    for case in (case for case in cases if case.name not in names):
        lacking = absence(opened, case)
        if lacking or place is None:
            end(CaseResult(case=case, status="skipped", reason=lacking))
            continue
        if watch is not None:
            watch.expect(case)
        count = f"{len(ended.results) + 1} of {len(cases)}"
        app.pass_by(f"running {case.name} ({count})")
        with limit.of(case, place, count, end):
            if options.repeat is None:
                result = run_case(
                    case,
                    place,
                    references,
                    clock=time.perf_counter,
                    save=keep,
                    watched=watch is not None,
                )
            else:
                result = repeat_case(
                    case,
                    place,
                    references,
                    times=options.repeat,
                    clock=time.perf_counter,
                    save=keep,
                )
        if opened.bundle is not None:
            result = _with_small_told(result, case, opened.bundle, place.device)
        app.wipe()
        if watch is None:
            end(result)
            continue
        from tilec.case.sanitize import (
            watched,
        )  # not where nothing is watched: it imports what launching needs not

        ended.results.append(result)
        ended.findings.append(watched(watch, case, result.error))
        results.print(result, suspect=bool(ended.findings[-1].findings))
        for finding in ended.findings[-1].findings:
            app.say("\n" + render_finding(finding, ended.findings[-1], lines.line) + "\n")


def _check_place(app: App, save: str) -> None:
    """See that outputs can be written, before anything is built or run.

    Raises:
        OutputError: they cannot.
    """
    import tempfile

    from tilec_runtime.errors import OutputError

    folder = app.path(save)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = f"--output-dir {save}: cannot write {app.show(folder)}: {error.strerror}"
        raise OutputError(what, fix="choose another directory") from error


def _folder(device: DeviceInfo) -> str:
    """Where outputs of one of several devices go: `cuda-0`, `cpu`."""
    return "cpu" if device.interprets else f"cuda-{device.ordinal}"


def _saver(app: App, folder: Path) -> Save:
    """Writes outputs, each whole or not at all: a run that is interrupted leaves no half of one."""
    import numpy as np

    from tilec.model.atomic import atomic_write

    def save(case: BoundCase, name: str, array: Array) -> None:
        path = folder / f"{case.name.replace('/', '.')}.{name}.npy"
        with atomic_write(path) as file:
            np.save(file, array)
        app.detail(f"wrote {app.show(path)}")

    return save


def _with_small_told(
    result: CaseResult, case: BoundCase, bundle: Bundle, device: DeviceInfo
) -> CaseResult:
    """A result that says so where the case's `small`, which was compared, takes another variant
    than its `shape`, which is measured.
    """
    from tilec.case.cases import small_case
    from tilec.case.inputs import planned_inputs
    from tilec.inspection.why import taken
    from tilec_runtime.errors import TilecError

    if not result.outputs or case.steps or not any(item.small for item in case.inputs):
        return result
    try:
        sizes = [planned_inputs(one) for one in (small_case(case), case)]
    except TilecError:  # of what was not run
        return result
    info, names = bundle.kernel(case.kernel), [param.name for param in case.params]
    compared, measured = (
        taken(
            bundle,
            info,
            {name: env[name] for name in names if name in env},
            dict(case.choose),
            device,
        )
        for env in sizes
    )
    if compared is None or measured is None or compared.id == measured.id:
        return result
    note = f"small takes {compared.id}, and shape {measured.id}, which was not compared"
    return dataclasses.replace(
        result,
        outputs=tuple(dataclasses.replace(one, notes=(*one.notes, note)) for one in result.outputs),
    )
