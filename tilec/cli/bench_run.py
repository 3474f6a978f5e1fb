"""One run of `tilec bench`: finds device, bundle and cases, measures each, shows and writes what
came of it.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec.bench import saved as saved_files
from tilec.bench.cases import PRECISE, Bench, BenchOptions, check_rivals
from tilec.bench.gate import LIMIT, Standing
from tilec.bench.measure import MeasureOptions
from tilec.bench.place import DevicePlace, Place
from tilec.bench.points import all_variants, forgiven, swept_cases
from tilec.bench.report import CaseBench, Point, Setting, bench_json
from tilec.bench.saved import Saved, SavedCase, read_saved, require_comparable, write_saved
from tilec.case.arguments import parse_overrides
from tilec.case.selection import parse_expression
from tilec.case.sweeps import Sweep, parse_sweep, refused_point, settings_at
from tilec.cli.app import App
from tilec.cli.bench_plan import show_plan
from tilec.cli.bench_show import Table, end_lines, head_lines, markdown, plot_lines, write_report
from tilec.cli.cases import (
    Wish,
    absence,
    check_wish,
    chosen_cases,
    open_bundle,
    open_project,
    package_json,
)
from tilec.cli.inspect_html import check_html
from tilec.cli.run_device import AUTO, CpuWish, find_device
from tilec.cli.tables import fitted, terminal_width
from tilec.compile.state import WorkDir
from tilec.model.atomic import atomic_write, output_error
from tilec_runtime.bundle.place import private_root
from tilec_runtime.errors import NoDeviceError, UsageError
from tilec_runtime.launch.load import load

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.cli.bench import Given
    from tilec.cli.cases import Opened
    from tilec.compile.project import Project
    from tilec.manifest.types import Manifest
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo

NEEDS_GPU = 3
FOLDER = "bench"  # in .tilec
SAMPLES, LEAST = 300, 30
WARM_UP = 0.1  # least seconds


def run_bench(app: App, kernels: tuple[str, ...], given: Given) -> int:
    """Carry out one command line."""
    expression = parse_expression(given.expression)
    wish = Wish(
        kernels=kernels,
        select=given.select,
        cases=given.cases,
        args=(),
        axes=(),
        reference="",
        expression=expression,
        chains=True,
    )
    sweep = parse_sweep(given.sweep) if given.sweep else None
    parse_overrides(
        _settings(given, sweep), (), cwd=app.base
    )  # what is no setting is refused before anything is built
    project = open_project(app)
    check_wish(project.manifest, wish)
    files = Files(app, project, given)
    lacking: NoDeviceError | None = None
    place: tuple[DeviceDriver, DeviceInfo] | None = None
    if not given.dry_run:
        try:
            place = _device(app, given.device, project.manifest)
        except NoDeviceError as error:
            lacking = error
    cpu = place is not None and place[1].interprets is not None
    if cpu:
        _require_of_cpu(given)
    opened = open_bundle(app, project, wish, bundle=given.bundle, targets=given.targets, cpu=cpu)

    def cases_at(value: str) -> tuple[BoundCase, ...]:
        overrides = parse_overrides(_settings(given, sweep, value), (), cwd=app.base)
        try:
            return chosen_cases(
                opened, project.manifest, dataclasses.replace(wish, overrides=overrides)
            )
        except UsageError as error:
            raise refused_point(error, sweep, value) if sweep else error from None

    cases, points = swept_cases(cases_at, sweep) if sweep else (cases_at(""), {})
    check_rivals(cases)
    if given.variants and opened.bundle is not None:
        cases, points = all_variants(
            cases, {kernel.name: kernel for kernel in opened.bundle.info.kernels}, points
        )
    if place is None:
        show_plan(app, opened, project.manifest, cases, lacking)
        if lacking is not None and not app.json:
            raise lacking
        return NEEDS_GPU if lacking is not None else 0
    driver, device = place
    where = None
    if opened.bundle is not None:
        module = load(opened.bundle, device, driver=driver)
        cache = private_root(app.settings.cache_dir, app.warn)
        where = DevicePlace(
            module, driver, cold=given.cold is not False, cache=cache, advice=opened.advice
        )
    plan = Plan(cases=cases, points=points, sweep=sweep)
    return measure_cases(app, given, files, where, opened, plan, project.manifest)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is measured: cases, what each of them is a point of, by its name, and the sweep that
    they are of.
    """

    cases: Sequence[BoundCase]
    points: Mapping[str, Point] = dataclasses.field(default_factory=dict)
    sweep: Sweep | None = None


def _settings(given: Given, sweep: Sweep | None, value: str = "") -> tuple[str, ...]:
    """What `--set` says at a point of the sweep; at the first one where none is named."""
    return settings_at(given.settings, sweep, value or sweep.values[0]) if sweep else given.settings


class Files:
    """What a run reads and writes; looked at before anything is built or measured."""

    def __init__(self, app: App, project: Project, given: Given) -> None:
        self._work = WorkDir(Path(project.manifest.root))
        folder = self._work.file(FOLDER)
        self.base: Saved | None = None
        self.shown = ""
        if given.against_saved:
            path = saved_files.path_of(given.against_saved, folder, app.base)
            self.shown = app.show(path)
            self.base = read_saved(path, self.shown)
        self.save = saved_files.path_of(given.save, folder, app.base) if given.save else None
        if self.save is not None and self.save.is_relative_to(self._work.path):
            self._work.ignore()
        self.markdown = app.path(given.markdown) if given.markdown else None
        self.html = check_html(app, given.html) if given.html else None
        for path_ in (self.save, self.markdown, self.html):
            if path_ is not None:
                _require_writable(path_)
        if self.save is not None:
            self._shown_save = app.show(self.save)
            self._before()

    def kept(self, setting: Setting) -> Mapping[str, SavedCase]:
        """What was saved before in the same setting, and stays: as it is now, since another run may
        have saved its cases meanwhile.
        """
        before = self._before()
        return before.cases if before is not None and before.setting == setting else {}

    def replaced(self, setting: Setting) -> str:
        """Where else than here it was measured what lies there, and is not kept; empty for nothing."""
        before = self._before()
        return (
            before.setting.device
            if before is not None and before.setting != setting and before.cases
            else ""
        )

    def _before(self) -> Saved | None:
        """What lies where it is to be saved, whose other cases are kept; anything else is not
        written over.
        """
        return (
            read_saved(self.save, self._shown_save)
            if self.save is not None and self.save.exists()
            else None
        )


def measure_cases(
    app: App,
    given: Given,
    files: Files,
    place: Place | None,
    opened: Opened,
    plan: Plan,
    manifest: Manifest,
) -> int:
    """Measure cases, show each as it ends, write what is to be written, and give the exit code."""
    if place is not None and files.base is not None:
        require_comparable(files.base, place.setting, files.shown)
    ceilings, heads = None, []
    if place is not None:
        app.pass_by("measuring what the device can do at most")
        ceilings = place.ceilings(fresh=given.measure_ceilings)
        app.wipe()
        heads = list(head_lines(place.setting, ceilings, place.missing))
        _say(app, heads)
    most = given.samples or SAMPLES
    measure = MeasureOptions(
        least_warm_up=WARM_UP,
        least=min(LEAST, most),
        most=most,
        seconds=given.seconds,
        precise=PRECISE,
    )
    limit = given.fail_slower if given.fail_slower is not None else LIMIT
    options = BenchOptions(measure=measure, against=given.against, saved=files.base, limit=limit)
    bench = (
        Bench(place, options, root=manifest.root, ceilings=ceilings) if place is not None else None
    )
    results = _measured(app, bench, opened, plan, Table(app, plan.cases, plan.points))
    code = ending(results, given.fail_slower)
    swept = plan.sweep.name if plan.sweep else ""
    for line in plot_lines(results, swept):
        app.say(line)
    ends = list(end_lines(results, files.base, limit, gate=given.fail_slower is not None))
    _say(app, ends)
    if place is not None:
        _write(app, files, place.setting, results, failed=code != 0)
        if files.html is not None:
            write_report(
                app,
                files.html,
                results,
                title=manifest.package.name,
                ceilings=ceilings,
                sweep=swept,
                notes=[*heads, *ends],
            )
    if app.json and place is not None:
        extra: dict[str, Any] = {
            "against_saved": files.shown or None,
            "fail_slower": given.fail_slower,
            "ok": code == 0,
        }
        if plan.sweep is not None:
            extra["sweep"] = {"name": plan.sweep.name, "values": list(plan.sweep.values)}
        app.document(
            "bench",
            {
                **package_json(opened, manifest),
                **bench_json(results, place.setting, ceilings, place.missing),
                **extra,
            },
        )
    elif app.json:
        skipped = [
            {"name": case.name, "kernel": case.kernel, "status": case.status, "reason": case.reason}
            for case in results
        ]
        app.document("bench", {**package_json(opened, manifest), "cases": skipped, "ok": False})
    return code


def _measured(
    app: App, bench: Bench | None, opened: Opened, plan: Plan, table: Table
) -> list[CaseBench]:
    """Measure one case after the other, and print each as it ends."""
    results: list[CaseBench] = []
    for case in plan.cases:
        app.pass_by(f"measuring {case.name} ({len(results) + 1} of {len(plan.cases)})")
        lacking = absence(opened, case)
        if bench is None or lacking:
            found = CaseBench(name=case.name, kernel=case.kernel, status="skipped", reason=lacking)
        else:
            found = bench.case(case)
        point = plan.points.get(case.name)
        if point is not None:
            found = forgiven(dataclasses.replace(found, point=point))
        results.append(found)
        app.wipe()
        table.print(found)
    return results


def _say(app: App, lines: Iterable[str]) -> None:
    """Lines of words, in as many as the terminal needs."""
    for line in lines:
        app.say(fitted(line, terminal_width()))


def ending(results: Sequence[CaseBench], fail_slower: float | None) -> int:
    """The exit code: what went wrong first, then what is slower, then that nothing could be
    measured at all.
    """
    if any(case.status == "error" for case in results):
        return 1
    slower = any(
        case.change is not None and case.change.standing is Standing.SLOWER for case in results
    )
    if slower and fail_slower is not None:
        return 1
    if all(case.status == "skipped" for case in results):
        return 1 if any(case.refused for case in results) else NEEDS_GPU
    # A gate that has nothing to compare lets nothing pass.
    return 1 if fail_slower is not None and all(case.change is None for case in results) else 0


def _write(
    app: App, files: Files, setting: Setting, results: Sequence[CaseBench], *, failed: bool
) -> None:
    measured = [case for case in results if case.measurement is not None]
    if files.markdown is not None:
        with atomic_write(files.markdown) as file:
            file.write(markdown(results, setting).encode())
        app.say(f"wrote {app.show(files.markdown)}")
    if files.save is None or not measured:
        return
    if failed:
        app.note(
            f"nothing was saved as {app.show(files.save)}: what fails is no measure for later runs"
        )
        return
    names = {case.name for case in measured}
    kept = {name: row for name, row in files.kept(setting).items() if name not in names}
    if device := files.replaced(setting):
        app.note(
            f"note: what {app.show(files.save)} had was measured elsewhere (on {device}, or in another state), and is replaced"
        )
    write_saved(files.save, setting, measured, kept)
    more = f", beside {len(kept)} saved before" if kept else ""
    app.say(
        f"saved {len(measured)} case{'s' if len(measured) != 1 else ''} as {app.show(files.save)}{more}"
    )


def _device(app: App, name: str, manifest: Manifest) -> tuple[DeviceDriver, DeviceInfo]:
    """The device that is named; `auto` is the first GPU, and never the cpu device.

    Raises:
        UsageError: no such device.
        NoDeviceError: the GPU is not there.
    """
    try:
        wanted = "cuda:0" if name == AUTO else name
        return find_device(
            app, wanted, CpuWish(), work=lambda: "the cases", manifest=manifest, traced=app.say
        )
    except NoDeviceError as error:
        cause = error.__cause__
        what = cause.what if isinstance(cause, NoDeviceError) else error.what
        fix = (
            "carry the project and its bundle to a machine with an NVIDIA GPU, and there `tilec bench --bundle FILE`; "
            "`--device cpu` times the cpu device, which says nothing of a GPU"
        )
        raise NoDeviceError(
            f"nothing was measured, which takes a GPU: {what}", cause=error.cause, fix=fix
        ) from error


def _require_of_cpu(given: Given) -> None:
    """Refuse what the cpu device would not heed.

    Raises:
        UsageError: an option is about what it does not have.
    """
    cache = "" if given.cold is None else "--cold" if given.cold else "--hot"
    lacks = {
        cache: "no cache that tilec keeps cold or hot",
        "--measure-ceilings" if given.measure_ceilings else "": "no ceilings",
    }
    for option, what in lacks.items():
        if option:
            raise UsageError(
                f"{option}: the cpu device has {what}", fix="leave it out: it is about a GPU"
            )


def _require_writable(path: Path) -> None:
    """See that a file can be written, before anything is measured for it.

    Raises:
        OutputError: it cannot.
        UsageError: it is a directory, or a device or pipe, in whose place the file would be put.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory", fix="name a file")
    if (path.exists() and not path.is_file()) or path.parent == Path(
        "/dev"
    ):  # /dev/stdout is a link, maybe to a file
        raise UsageError(
            f"{path} is no regular file, and would be replaced by one", fix="name a file"
        )
    folder = path.parent
    while (
        not os.path.lexists(folder) and folder != folder.parent
    ):  # a link to nowhere is no place to make a directory
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise output_error(path, error) from error
