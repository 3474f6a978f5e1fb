"""`tilec run`: launch kernels on a GPU or on the cpu device, and hold them against their references."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option

if TYPE_CHECKING:
    from tilec.bundle.read import Bundle
    from tilec.cli.run_device import CpuWish
    from tilec.manifest.types import Manifest
    from tilec.model.kernel import KernelInfo
    from tilec.runner.cases import BoundCase
    from tilec.runner.device import ModuleDevice
    from tilec.runner.inputs import Array
    from tilec.runner.run import RunReport, Save

NO_CASES = "there are no cases to run"
ADD_CASE = "add [kernel.NAME.case.CASE] to tilec.toml, or run one kernel with --arg"
NEEDS_GPU = 3


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the command line asks to run."""

    kernels: tuple[str, ...]
    select: tuple[str, ...]
    cases: tuple[str, ...]
    args: tuple[str, ...]
    axes: tuple[str, ...]
    reference: str


@click.command(
    short_help="Run kernels and compare them with their references.",
    epilog=examples(
        "tilec run                                   # every case of every kernel",
        "tilec run gemm softmax",
        "tilec run -k 'gemm/*' --device cuda:1",
        "tilec run gemm --case 4k --json",
        "tilec run --device cpu --block-order reverse",
        "tilec run --trace softmax/odd --block 3     # each operation of one block, on the cpu device",
        "tilec run add --arg x=f32[1000]:normal:7 --arg y=f32[1000] --arg z=f32[1000]:empty --save out",
        "tilec run --bundle dist/acme_kernels-0.3.0.tilec   # built elsewhere",
    )
    + "\n\nExit codes: 0 every result is within its tolerance, 1 one is not or could not be had, 2 usage or manifest, 3 no GPU and no "
    "case (or not the kernel that was named) that runs without one. Cases that need a GPU are skipped on the cpu device, and counted.",
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("-k", "--select", multiple=True, metavar="GLOB", help="Only cases whose name (gemm/4k[f16]) matches.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Only cases of this name.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="Run one kernel with f32[1024]:normal:7, 2.5 or file.npy.")
@click.option("--axis", "axes", multiple=True, metavar="NAME=VALUE", help="With --arg: the value of an axis.")
@click.option("--reference", default="", metavar="FILE:FUNCTION", help="With --arg: what to compare with.")
@click.option("--save", type=click.Path(file_okay=False), metavar="DIR", help="Write every output as DIR/CASE.OUTPUT.npy.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cuda, cuda:N, cpu, or auto: a GPU if there is one.")
@click.option("--block-order", default="", metavar="ORDER", help="On the cpu device: forward, reverse, or the seed of a random order.")
@click.option("--trace", default="", metavar="CASE", help="On the cpu device: print each operation of one block (or more) of a case.")
@click.option("--block", "blocks", multiple=True, metavar="X[,Y[,Z]]", help="With --trace: which block (default: 0,0,0).")
@click.option("--bundle", type=click.Path(), metavar="FILE", help="A bundle, package or wheel that is built already.")
@click.option("--targets", multiple=True, metavar="LIST", help="Targets to build for (default: [targets] default).")
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
    device: str,
    block_order: str,
    trace: str,
    blocks: tuple[str, ...],
    bundle: str | None,
    targets: tuple[str, ...],
) -> int:
    """Launch KERNELs (default: all) with the inputs of their cases, and compare the results with their references.

    On a GPU if there is one, else on the cpu device, which runs tile kernels that are built for the target tileir. Builds first if
    there is no --bundle. With --arg, one kernel is run with the arguments given, outputs included.
    """
    from tilec.cli.run_device import CpuWish, parse_block, parse_order

    if args and (len(kernels) != 1 or select or cases):
        raise click.UsageError("--arg runs one kernel: name it, without --select or --case", click.get_current_context())
    if (axes or reference) and not args:
        raise click.UsageError("--axis and --reference go with --arg", click.get_current_context())
    if blocks and not trace:
        raise click.UsageError("--block goes with --trace", click.get_current_context())
    wish = Wish(kernels=kernels, select=select, cases=cases, args=args, axes=axes, reference=reference)
    shown = tuple(map(parse_block, blocks)) or (((0, 0, 0),) if trace else ())
    cpu = CpuWish(order=parse_order(block_order), blocks=shown)
    # Run from a bundle with --arg needs no project at all.
    manifest = None if bundle and args else _manifest(app)
    if manifest is not None:
        _check_wish(manifest, wish)
    return _launch(app, wish, cpu, manifest, device=device, bundle=bundle, targets=targets, save=save, trace=trace)


def _launch(
    app: App,
    wish: Wish,
    cpu: CpuWish,
    manifest: Manifest | None,
    *,
    device: str,
    bundle: str | None,
    targets: tuple[str, ...],
    save: str | None,
    trace: str,
) -> int:
    from tilec.cli.run_device import find_device
    from tilec.cli.run_results import print_json, summary
    from tilec.runner.device import ModuleDevice
    from tilec.runtime.load import load

    traced: list[str] = []
    driver, found = find_device(
        app, device, cpu, work=lambda: _work(manifest, wish), manifest=manifest, traced=traced.append if app.json else app.say
    )
    opened = _open(app, bundle, targets)
    bound = _from_args(app, opened, wish) if wish.args else _from_manifest(opened, manifest, wish)
    place = ModuleDevice(load(opened, found, driver=driver), driver)
    if trace:
        case = _traced(place, _one(bound, trace))
        if app.json:
            app.document("trace", {"case": case.name, "blocks": [list(block) for block in cpu.blocks], "lines": traced})
        return 0
    report = _run(app, place, bound, root=manifest.root if manifest else str(app.base), save=save)
    code = _ending(report, wish)
    if app.json:
        print_json(app, opened, found, report, ok=code == 0)
    elif code or len(report.results) > 1:
        app.say(summary(report, found))
    return code


def _ending(report: RunReport, wish: Wish) -> int:
    """The exit code: failures first; then what was asked for by name, or all there was, and needs a GPU."""
    if not report.ok and not report.idle:
        return 1
    skipped = {result.case.kernel for result in report.results if result.status == "skipped"}
    return NEEDS_GPU if report.idle or skipped.intersection(wish.kernels) else 0


def _manifest(app: App) -> Manifest:
    from tilec.project import open_project

    return open_project(app.manifest_path(), app.settings.search).manifest


def _check_wish(manifest: Manifest, wish: Wish) -> None:
    """Refuse what cannot be run on any machine, before this one is looked at.

    Raises:
        UsageError: there is no such kernel, or no case.
    """
    from tilec.errors import UsageError
    from tilec.model.suggest import did_you_mean

    known = [kernel.name for kernel in manifest.kernels]
    for name in wish.kernels:
        if name not in known:
            raise UsageError(f"no kernel {name!r}{did_you_mean(name, known) or '; there are ' + ', '.join(known)}")
    if not wish.args and not any(kernel.cases for kernel in manifest.kernels if not wish.kernels or kernel.name in wish.kernels):
        raise UsageError(NO_CASES, fix=ADD_CASE)


def _work(manifest: Manifest | None, wish: Wish) -> str:
    """What there is to run, in a message."""
    from tilec.cli.tables import plural

    if manifest is None or wish.args:
        return f"kernel {wish.kernels[0]}" if wish.args else "the cases"
    count = sum(len(k.cases) for k in manifest.kernels if not wish.kernels or k.name in wish.kernels)
    return f"{plural(count, 'case')} of {manifest.package.name}"


def _open(app: App, bundle: str | None, targets: tuple[str, ...]) -> Bundle:
    """The bundle that was named, else the project's, built if it is not up to date."""
    from tilec.inspection.container import open_container

    if bundle:
        return open_container(app.path(bundle)).bundle
    return open_container(_build(app, targets)).bundle


def _build(app: App, targets: tuple[str, ...]) -> Path:
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.build import make_request
    from tilec.errors import ToolchainError

    words = tuple(word.strip() for text in targets for word in text.split(",") if word.strip())
    observer = progress.make_observer(app)
    try:
        result = build.build(make_request(app, targets=words), observer)
    except ToolchainError as error:
        fix = "or run a bundle that was built elsewhere: `tilec run --bundle FILE`"
        raise ToolchainError(error.what, cause=error.cause, fix=f"{error.fix}; {fix}" if error.fix else fix) from error
    finally:
        progress.close(observer)
    for kind in ("bundle", "package", "wheel"):
        for output in result.outputs:
            if output.kind == kind and output.path.endswith((".tilec", ".whl")):
                return Path(output.path)
    raise click.UsageError("the build writes no bundle: add it to output.emit", click.get_current_context())


def _from_manifest(bundle: Bundle, manifest: Manifest | None, wish: Wish) -> tuple[BoundCase, ...]:
    from tilec.errors import UsageError
    from tilec.runner.cases import expand_cases
    from tilec.runner.report import select_cases

    assert manifest is not None
    built = {kernel.name: kernel for kernel in bundle.info.kernels}
    for name in wish.kernels:
        if name not in built:
            raise UsageError(f"kernel {name!r} is not in the bundle", fix="build it, or leave --bundle out")
    bound = [
        case
        for kernel in manifest.kernels
        if kernel.name in built and (not wish.kernels or kernel.name in wish.kernels)
        for case in expand_cases(kernel, built[kernel.name], locate=manifest.locate)
    ]
    taken = tuple(case for case in select_cases(bound, wish.select) if not wish.cases or case.case in wish.cases)
    if not taken:
        names = ", ".join(dict.fromkeys(f"{case.kernel}/{case.case}" for case in bound))
        raise UsageError("no case matches" if bound else NO_CASES, fix=f"cases are {names}" if bound else ADD_CASE)
    return taken


def _from_args(app: App, bundle: Bundle, wish: Wish) -> tuple[BoundCase, ...]:
    from tilec.errors import UsageError
    from tilec.model.suggest import did_you_mean
    from tilec.runner.arguments import bind_arguments, parse_argument, parse_axis

    built: dict[str, KernelInfo] = {kernel.name: kernel for kernel in bundle.info.kernels}
    name = wish.kernels[0]
    if name not in built:
        raise UsageError(f"no kernel {name!r} in the bundle{did_you_mean(name, list(built)) or '; it has ' + ', '.join(built)}")
    info = built[name]
    given = [parse_argument(text, cwd=app.base) for text in wish.args]
    axes = [parse_axis(text, info) for text in wish.axes]
    return (bind_arguments(info, given, axes=axes, reference=wish.reference),)


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


def _traced(place: ModuleDevice, case: BoundCase) -> BoundCase:
    """Launch a case on a device that prints what blocks do; what comes out is not compared, since the other blocks do not run."""
    from tilec.errors import MissingError
    from tilec.runner.inputs import make_inputs
    from tilec.runner.run import arguments_on

    reason = place.refusal(case.kernel, dict(case.axes))
    if reason:
        raise MissingError(f"{case.name} cannot be traced: {reason}", kernel=case.kernel)
    place.launch(case.kernel, arguments_on(case, place, make_inputs(case)), dict(case.choose))
    return case


def _run(app: App, place: ModuleDevice, cases: tuple[BoundCase, ...], *, root: str, save: str | None) -> RunReport:
    from tilec.cli.run_results import Results
    from tilec.runner.reference import References
    from tilec.runner.run import run_cases

    results = Results(app, cases)
    results.print_head()
    keep = _saver(app, app.path(save)) if save else None
    return run_cases(cases, place, References(root), clock=time.perf_counter, save=keep, on_result=results.print)


def _saver(app: App, folder: Path) -> Save:
    import numpy as np

    def save(case: BoundCase, name: str, array: Array) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{case.name.replace('/', '.')}.{name}.npy"
        np.save(path, array)
        app.detail(f"wrote {app.show(path)}")

    return save
