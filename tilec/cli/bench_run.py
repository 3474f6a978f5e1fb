"""One run of `tilec bench`: measures cases, prints them and writes files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tilec.bench import saved as saved_files
from tilec.bench.cases import PRECISE, Bench
from tilec.bench.device import BenchDevice
from tilec.bench.gate import LIMIT, Standing
from tilec.bench.measure import MeasureOptions
from tilec.bench.points import Planned, forgiven, planned_cases, with_variants
from tilec.bench.report import CaseBench, Setting, bench_json
from tilec.bench.rivals import rivals_of
from tilec.bench.saved import Saved, read_saved, require_comparable, write_saved
from tilec.case.arguments import parse_overrides
from tilec.case.cases import BoundCase
from tilec.case.sweeps import Sweep, parse_sweep, refused_point, settings_at
from tilec.cli.app import App, refuse
from tilec.cli.bench_show import Rows, end_lines, head_lines, markdown, variant_lines, write_report
from tilec.cli.cases import (
    Opened,
    Wish,
    check_wish,
    chosen_cases,
    open_bundle,
    open_project,
    package_json,
)
from tilec.cli.devices import AUTO, CPU, NEEDS_GPU, find_device, find_gpu
from tilec.cli.files import HTML, require_suffix, require_writable, write_file
from tilec.cli.tables import plural
from tilec.compile.cache import Cache
from tilec.compile.project import Project
from tilec.compile.state import WorkDir
from tilec.manifest.types import Manifest
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.errors import UsageError
from tilec_runtime.launch.load import load

FOLDER = "bench"  # in .tilec
SAMPLES, LEAST = 300, 30
WARM_UP = 0.1  # seconds, at least
NO_GPU = (
    "copy the project and its bundle to a machine with an NVIDIA GPU, and run `tilec bench --bundle FILE` there; "
    "`--device cpu` measures the cpu device, an interpreter"
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options of one command line, with click's names."""

    wish: Wish
    settings: tuple[str, ...]
    sweep: str | None
    device: str
    samples: int | None
    seconds: float
    cold: bool | None
    against: bool
    save: str | None
    against_saved: str | None
    fail_slower: float | None
    markdown: str | None
    html: str | None
    measure_ceilings: bool
    variants: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BenchPlan:
    """The cases to measure, and the sweep."""

    cases: Sequence[Planned]
    sweep: Sweep | None = None


def run_bench(app: App, given: Given) -> int:
    """Carry out one command line and return the exit code."""
    sweep = parse_sweep(given.sweep) if given.sweep else None
    first = sweep.values[0] if sweep else ""
    parse_overrides(_settings(given, sweep, first), cwd=app.base)  # refuse wrong ones early
    project = open_project(app)
    check_wish(project.manifest, given.wish)
    files = Files(app, project, given)
    driver, device = _device(app, given)
    cpu = device.interprets is not None
    opened = open_bundle(app, project, given.wish, cpu=cpu)

    def cases_at(value: str) -> tuple[BoundCase, ...]:
        overrides = parse_overrides(_settings(given, sweep, value), cwd=app.base)
        swept = dataclasses.replace(given.wish, overrides=overrides)
        try:
            return chosen_cases(opened, project.manifest, swept)
        except UsageError as error:
            raise refused_point(error, sweep, value) if sweep else error from None

    cases = planned_cases(cases_at, sweep)
    for case, _ in cases:
        rivals_of(case)  # refuse wrong ones early
    if given.variants and opened.bundle is not None:
        cases = with_variants(cases, opened.kernels)
    bench_device = None
    if opened.bundle is not None:
        bench_device = BenchDevice(
            load(opened.bundle, device, driver=driver),
            driver,
            cold=given.cold is not False,
            cache=Cache(app.settings.cache_dir, note=app.warn),
            advice=opened.advice,
        )
    plan = BenchPlan(cases=cases, sweep=sweep)
    return measure_cases(app, given, files, bench_device, opened, plan, project.manifest)


def _settings(given: Given, sweep: Sweep | None, value: str) -> dict[str, tuple[str, ...]]:
    """Return the values of `--set` at a point of the sweep."""
    return {"--set": settings_at(given.settings, sweep, value) if sweep else given.settings}


def _device(app: App, given: Given) -> tuple[DeviceDriver, DeviceInfo]:
    """Return the device; `auto` is the first GPU, and never the cpu device.

    Raises:
        UsageError: the cpu device does not support an option.
        NoDeviceError: the GPU is missing.
    """
    name = given.device
    if name != CPU:
        return find_gpu("cuda:0" if name == AUTO else name, "measuring", NO_GPU)
    message = "the cpu device has no L2 cache and no ceilings: leave it out"
    refuse(
        (given.cold is not None, f"{'--cold' if given.cold else '--hot'}: {message}"),
        (given.measure_ceilings, f"--measure-ceilings: {message}"),
    )
    return find_device(app, name)


class Files:
    """The files of a run; invalid names are refused before building and measuring."""

    def __init__(self, app: App, project: Project, given: Given) -> None:
        work = WorkDir(Path(project.manifest.root))
        folder = work.file(FOLDER)
        self.base: Saved | None = None
        self.shown = self._shown_save = ""
        self.save = self.markdown = self.html = None
        if given.against_saved:
            path = saved_files.path_of(given.against_saved, folder, app.base)
            self.shown = app.show(path)
            self.base = read_saved(path, self.shown)
        if given.markdown:
            self.markdown = require_writable(app.path(given.markdown))
        if given.html:
            self.html = require_suffix(app.path(given.html), "--html", *HTML)
        if given.save:
            self.save = saved_files.path_of(given.save, folder, app.base)
            self._shown_save = app.show(self.save)
            if self.save.is_relative_to(work.path):
                work.ignore()
            require_writable(self.save)
            self.before()

    def before(self) -> Saved | None:
        """Return the times saved under the name.

        They are read late, because other runs may change them.
        """
        there = self.save is not None and self.save.exists()
        return read_saved(self.save, self._shown_save) if self.save and there else None


def measure_cases(
    app: App,
    given: Given,
    files: Files,
    device: BenchDevice | None,
    opened: Opened,
    plan: BenchPlan,
    manifest: Manifest,
) -> int:
    """Measure cases, print each as it ends, write the files and return the exit code."""
    bench, ceilings, setting, heads = None, None, None, list[str]()
    limit = given.fail_slower if given.fail_slower is not None else LIMIT
    if device is not None:
        setting = device.setting
        if files.base is not None:
            require_comparable(files.base, setting, files.shown)
        app.status("measuring the ceilings of the device")
        ceilings = device.ceilings(fresh=given.measure_ceilings)
        heads = list(head_lines(setting, ceilings, device.clocks_missing))
        app.say("\n".join(heads))
        most = given.samples or SAMPLES
        measure = MeasureOptions(
            least_warm_up=WARM_UP,
            least=min(LEAST, most),
            most=most,
            seconds=given.seconds,
            precise=PRECISE,
        )
        bench = Bench(
            device,
            measure,
            root=manifest.root,
            ceilings=ceilings,
            against=given.against,
            saved=files.base,
            limit=limit,
        )
    results = _measured(app, bench, opened, plan)
    code = ending(results, given.fail_slower)
    sweep = plan.sweep.name if plan.sweep else ""
    for line in variant_lines(results, sweep):
        app.say(line, wrap=False)
    ends = list(end_lines(results, files.base, limit, gate=given.fail_slower is not None))
    for line in ends:
        app.say(line)
    if setting is not None:
        _write(app, files, setting, results, failed=code != 0)
        if files.html is not None:
            title, notes = manifest.package.name, [*heads, *ends]
            write_report(app, files.html, results, title, ceilings, sweep, notes)
    if app.json:
        missing = device.clocks_missing if device is not None else ""
        values = list(plan.sweep.values) if plan.sweep else []
        body = {
            "ok": code == 0,
            **package_json(opened, manifest),
            **bench_json(results, setting, ceilings, missing),
            "against_saved": files.shown or None,
            "fail_slower": given.fail_slower,
            "sweep": {"name": sweep, "values": values} if values else None,
        }
        app.document("bench", body)
    return code


def _measured(app: App, bench: Bench | None, opened: Opened, plan: BenchPlan) -> list[CaseBench]:
    """Measure the cases in turn and print each as it ends."""
    rows = Rows(app, [case for case, _ in plan.cases])
    results: list[CaseBench] = []
    for case, point in plan.cases:
        app.status(f"measuring {case.name} ({len(results) + 1} of {len(plan.cases)})")
        lacking = opened.absence(case)
        if bench is None or lacking:
            result = CaseBench(name=case.name, kernel=case.kernel, status="skipped", reason=lacking)
        else:
            result = bench.case(case)
        if point is not None:
            result = forgiven(dataclasses.replace(result, point=point))
        results.append(result)
        rows.print(result)
    return results


def ending(results: Sequence[CaseBench], fail_slower: float | None) -> int:
    """Return the exit code: 1 for errors, slower cases or an idle gate, 3 for no GPU."""
    if any(case.status == "error" for case in results):
        return 1
    changes = [case.change for case in results if case.change is not None]
    if all(case.status == "skipped" for case in results):
        return 1 if any(case.refused for case in results) else NEEDS_GPU
    if fail_slower is None:
        return 0
    # A gate with nothing to compare must not pass.
    return int(not changes or any(change.standing is Standing.SLOWER for change in changes))


def _write(
    app: App, files: Files, setting: Setting, results: Sequence[CaseBench], *, failed: bool
) -> None:
    measured = [case for case in results if case.measurement is not None]
    if files.markdown is not None:
        table = markdown(results, setting).encode()
        write_file(app, files.markdown, table, plural(len(results), "case"))
    if files.save is None or not measured:
        return
    shown = app.show(files.save)
    if failed:
        app.note(f"nothing was saved as {shown}: the run failed")
        return
    before, names, kept = files.before(), {case.name for case in measured}, {}
    if before is not None and before.setting == setting:
        kept = {name: row for name, row in before.cases.items() if name not in names}
    elif before is not None and before.cases:
        app.note(
            f"note: {shown} held times of another device or state ({before.setting.device}), and is replaced"
        )
    write_saved(files.save, setting, measured, kept)
    more = f", and kept {len(kept)} saved before" if kept else ""
    app.say(f"saved {plural(len(measured), 'case')} as {shown}{more}")
