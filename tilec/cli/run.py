"""`tilec run`: launch kernels on a GPU or on the cpu device, and hold them against their references."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.cases import Wish, case_of_arguments, check_wish, chosen_cases, open_bundle, open_project
from tilec.cli.findings import FOUND

if TYPE_CHECKING:
    from tilec.cli.cases import Opened
    from tilec.cli.run_device import CpuWish
    from tilec.manifest.types import Manifest
    from tilec.project import Project
    from tilec.runner.cases import BoundCase
    from tilec.runner.device import ModuleDevice
    from tilec.runner.inputs import Array
    from tilec.runner.run import CaseResult, RunReport, Save
    from tilec.runner.sanitize import CaseFindings, Watch
    from tilec.runtime.seam import DeviceDriver, DeviceInfo

NEEDS_GPU = 3


@click.command(
    short_help="Run kernels and compare them with their references.",
    epilog=examples(
        "tilec run                                   # every case of every kernel",
        "tilec run gemm softmax",
        "tilec run -k 'gemm/*' --device cuda:1",
        "tilec run gemm --case 4k --json",
        "tilec run reduce --repeat 20                # does every run give the same bits?",
        "tilec run --device cpu --block-order reverse",
        "tilec run --trace softmax/odd --block 3     # each operation of one block, on the cpu device",
        "tilec run add --arg x=f32[1000]:normal:7 --arg y=f32[1000] --arg z=f32[1000]:empty --save out",
        "tilec run --bundle dist/acme_kernels-0.3.0.tilec   # built elsewhere",
    )
    + "\n\nExit codes: 0 every result is within its tolerance, 1 one is not or could not be had, 2 usage or manifest, 3 no GPU and no "
    "case (or not the kernel that was named) that runs without one, 86 --check found something. Cases that need a GPU are skipped on "
    "the cpu device, and counted.",
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("-k", "--select", multiple=True, metavar="GLOB", help="Only cases whose name (gemm/4k[f16]) matches.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Only cases of this name.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="Run one kernel with f32[1024]:normal:7, 2.5 or file.npy.")
@click.option("--axis", "axes", multiple=True, metavar="NAME=VALUE", help="With --arg: the value of an axis.")
@click.option("--reference", default="", metavar="FILE:FUNCTION", help="With --arg: what to compare with.")
@click.option("--save", type=click.Path(file_okay=False), metavar="DIR", help="Write every output as DIR/CASE.OUTPUT.npy.")
@click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Run each case N times, and tell whether the bits are the same.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cuda, cuda:N, cpu, or auto: a GPU if there is one.")
@click.option("--block-order", default="", metavar="ORDER", help="On the cpu device: forward, reverse, or the seed of a random order.")
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="On the cpu device: stop after so many passes of loops (10 million)."
)
@click.option("--trace", default="", metavar="CASE", help="On the cpu device: print each operation of one block (or more) of a case.")
@click.option("--block", "blocks", multiple=True, metavar="X[,Y[,Z]]", help="With --trace: which block (default: 0,0,0).")
@click.option("--check", is_flag=True, help="On the cpu device: also report races, bad accesses and broken promises (see `sanitize`).")
@click.option("--bundle", type=click.Path(), metavar="FILE", help="A bundle, package or wheel that is built already.")
@click.option("--targets", multiple=True, metavar="LIST", help="Targets to build for (default: see above).")
@json_option
@click.pass_obj
def command(
    app: App,
    kernels: tuple[str, ...],
    select: tuple[str, ...],
    cases: tuple[str, ...],
    args: tuple[str, ...],
    axes: tuple[str, ...],
    reference: str,
    save: str | None,
    repeat: int | None,
    device: str,
    block_order: str,
    steps: int | None,
    trace: str,
    blocks: tuple[str, ...],
    check: bool,
    bundle: str | None,
    targets: tuple[str, ...],
) -> int:
    """Launch KERNELs (default: all) with the inputs of their cases, and compare the results with their references.

    On a GPU if there is one, else on the cpu device, which runs tile kernels that are built for the target tileir. With --arg, one
    kernel is run with the arguments given, outputs included.

    Without --bundle, it takes what `tilec build` wrote, if that is up to date. Else it builds first: on a GPU the whole project, as
    `tilec build` does. A bundle of less goes to .tilec/run/ and leaves the project's outputs alone: the KERNELs that are named, the
    --targets, and on the cpu device the tile kernels for tileir alone, which takes no CUDA compiler.
    """
    from tilec.cli.run_device import CpuWish, parse_block, parse_order

    if args and (len(kernels) != 1 or select or cases):
        raise click.UsageError("--arg runs one kernel: name it, without --select or --case", click.get_current_context())
    if (axes or reference) and not args:
        raise click.UsageError("--axis and --reference go with --arg", click.get_current_context())
    if check and trace:
        raise click.UsageError("--check and --trace do not go together", click.get_current_context())
    if repeat is not None and (trace or check):
        raise click.UsageError(f"--repeat and {'--trace' if trace else '--check'} do not go together", click.get_current_context())
    if blocks and not trace:
        raise click.UsageError("--block goes with --trace", click.get_current_context())
    wish = Wish(kernels=kernels, select=select, cases=cases, args=args, axes=axes, reference=reference)
    shown = tuple(map(parse_block, blocks)) or (((0, 0, 0),) if trace else ())
    cpu = CpuWish(order=parse_order(block_order), blocks=shown, steps=steps or 0, watch=_watch() if check else None)
    # Run from a bundle with --arg needs no project at all.
    project = None if bundle and args else open_project(app)
    if project is not None:
        check_wish(project.manifest, wish)
    return _launch(app, wish, cpu, project, device=device, bundle=bundle, targets=targets, save=save, trace=trace, repeat=repeat)


def _launch(
    app: App,
    wish: Wish,
    cpu: CpuWish,
    project: Project | None,
    *,
    device: str,
    bundle: str | None,
    targets: tuple[str, ...],
    save: str | None,
    trace: str,
    repeat: int | None,
) -> int:
    from tilec.cli.cases import package_json
    from tilec.cli.run_device import find_device
    from tilec.cli.run_results import print_json, summary

    manifest = project.manifest if project else None
    if save:
        _check_place(app, save)
    traced: list[str] = []
    driver, found = find_device(
        app,
        device,
        cpu,
        work=lambda: _work(manifest, wish),
        manifest=manifest,
        traced=(lambda line: traced.append(click.unstyle(line))) if app.json else app.say,
    )
    opened = open_bundle(app, project, wish, bundle=bundle, targets=targets, cpu=found.interprets is not None)
    bound = case_of_arguments(app, opened, wish) if wish.args else chosen_cases(opened, manifest, wish)
    place = _place(opened, found, driver)
    if trace:
        case = _traced(place, opened, _one(bound, trace))
        if app.json:
            app.document("trace", {"case": case.name, "blocks": [list(block) for block in cpu.blocks], "lines": traced})
        return 0
    root = manifest.root if manifest else str(app.base)
    if cpu.watch is not None and opened.bundle is not None:
        cpu.watch.know(opened.bundle)
    report, findings = _run(app, place, opened, bound, root=root, save=save, watch=cpu.watch, repeat=repeat)
    code = FOUND if any(item.findings for item in findings) else _ending(report, wish)
    compiled = place.compiled if place else ()
    for image in compiled:
        app.note(str(image))
    if app.json:
        shown = findings if cpu.watch else None
        print_json(app, package_json(opened, manifest), found, report, ok=code == 0, findings=shown, compiled=compiled)
    elif code or len(report.results) > 1:
        app.say(summary(report, found, findings=sum(len(item.findings) for item in findings)))
    return code


def _place(opened: Opened, device: DeviceInfo, driver: DeviceDriver) -> ModuleDevice | None:
    """What is run, on its device; None where that is nothing."""
    from tilec.runner.device import ModuleDevice
    from tilec.runtime.load import load

    return ModuleDevice(load(opened.bundle, device, driver=driver), driver, advice=opened.advice) if opened.bundle else None


def _ending(report: RunReport, wish: Wish) -> int:
    """The exit code: failures first; then what was asked for by name, or all there was, and needs a GPU."""
    if not report.ok and not report.idle:
        return 1
    skipped = {result.case.kernel for result in report.results if result.status == "skipped"}
    return NEEDS_GPU if report.idle or skipped.intersection(wish.kernels) else 0


def _work(manifest: Manifest | None, wish: Wish) -> str:
    """What there is to run, in a message."""
    from tilec.cli.tables import plural
    from tilec.runner.cases import unbuilt_cases

    if manifest is None or wish.args:
        return f"kernel {wish.kernels[0]}" if wish.args else "the cases"
    count = sum(len(unbuilt_cases(k)) for k in manifest.kernels if not wish.kernels or k.name in wish.kernels)
    return f"{plural(count, 'case')} of {manifest.package.name}"


def _one(cases: tuple[BoundCase, ...], name: str) -> BoundCase:
    """The case to trace.

    Raises:
        UsageError: there is none of this name, or more than one.
    """
    from tilec.errors import UsageError
    from tilec.runner.report import select_cases

    found = select_cases(cases, (name,))
    exact = tuple(case for case in found if case.name == name) or found
    if len(exact) != 1:
        listed = ", ".join(case.name for case in exact or cases)
        raise UsageError(f"--trace {name!r} is {len(exact) or 'none'} of the cases: name one", fix=f"cases are {listed}")
    return exact[0]


def _traced(place: ModuleDevice | None, opened: Opened, case: BoundCase) -> BoundCase:
    """Launch a case on a device that prints what blocks do; what comes out is not compared, since the other blocks do not run."""
    from tilec.errors import MissingError
    from tilec.runner.inputs import make_inputs
    from tilec.runner.run import arguments_on

    absent = opened.absent.get(case.kernel, "")
    reason = absent or (place.refusal(case.kernel, dict(case.axes)) if place else "")
    if reason or place is None:
        raise MissingError(f"{case.name} cannot be traced: {reason}", kernel=case.kernel)
    place.launch(case.kernel, arguments_on(case, place, make_inputs(case)), dict(case.choose))
    return case


def _run(
    app: App,
    place: ModuleDevice | None,
    opened: Opened,
    cases: tuple[BoundCase, ...],
    *,
    root: str,
    save: str | None,
    watch: Watch | None,
    repeat: int | None,
) -> tuple[RunReport, list[CaseFindings]]:
    from tilec.cli.findings import Sources, render_finding
    from tilec.cli.run_results import Results
    from tilec.runner.reference import References
    from tilec.runner.repeat import repeat_case
    from tilec.runner.run import CaseResult, RunReport, run_case

    results, references, lines = Results(app, cases), References(root), Sources(Path(root))
    results.print_head()
    keep = _saver(app, app.path(save)) if save else None
    ended: list[CaseResult] = []
    findings: list[CaseFindings] = []
    for case in cases:
        if case.kernel in opened.absent or place is None:
            ended.append(CaseResult(case=case, status="skipped", reason=opened.absent[case.kernel]))
            results.print(ended[-1])
            continue
        if watch is not None:
            watch.expect(case)
        app.pass_by(f"running {case.name} ({len(ended) + 1} of {len(cases)})")
        if repeat is None:
            ended.append(run_case(case, place, references, clock=time.perf_counter, save=keep, watched=watch is not None))
        else:
            ended.append(repeat_case(case, place, references, times=repeat, clock=time.perf_counter, save=keep))
        app.wipe()
        if watch is None:
            results.print(ended[-1])
        else:
            from tilec.runner.sanitize import watched  # not where nothing is watched: it imports what launching needs not

            findings.append(watched(watch, case, ended[-1].error))
            results.print(ended[-1], suspect=bool(findings[-1].findings))
            for finding in findings[-1].findings:
                app.say("\n" + render_finding(finding, findings[-1], lines.line) + "\n")
    return RunReport(results=tuple(ended)), findings


def _watch() -> Watch:
    from tilec.runner.sanitize import Watch

    return Watch()


def _check_place(app: App, save: str) -> None:
    """See that outputs can be written, before anything is built or run.

    Raises:
        OutputError: they cannot.
    """
    import tempfile

    from tilec.errors import OutputError

    folder = app.path(save)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = f"--save {save}: cannot write {app.show(folder)}: {error.strerror}"
        raise OutputError(what, fix="choose another directory") from error


def _saver(app: App, folder: Path) -> Save:
    import numpy as np

    def save(case: BoundCase, name: str, array: Array) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{case.name.replace('/', '.')}.{name}.npy"
        np.save(path, array)
        app.detail(f"wrote {app.show(path)}")

    return save
