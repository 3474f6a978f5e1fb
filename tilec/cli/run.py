"""`tilec run`: launch kernels on the GPU and hold them against their references."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option

if TYPE_CHECKING:
    from tilec.bundle.read import Bundle
    from tilec.manifest.types import Manifest
    from tilec.model.kernel import KernelInfo
    from tilec.runner.cases import BoundCase
    from tilec.runner.inputs import Array
    from tilec.runner.run import CaseResult, OutputResult, RunReport, Save
    from tilec.runtime.seam import Device, DeviceDriver

NO_CASES = "there are no cases to run"
ADD_CASE = "add [kernel.NAME.case.CASE] to tilec.toml, or run one kernel with --arg"
TINTS = {"passed": ("ok", "green"), "failed": ("FAIL", "red"), "error": ("ERROR", "red"), "ran": ("ran", "cyan")}


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
    short_help="Run kernels on the GPU and compare them with their references.",
    epilog=examples(
        "tilec run                                   # every case of every kernel",
        "tilec run gemm softmax",
        "tilec run -k 'gemm/*' --device cuda:1",
        "tilec run gemm --case 4k --json",
        "tilec run add --arg x=f32[1000]:normal:7 --arg y=f32[1000] --arg z=f32[1000]:empty --save out",
        "tilec run --bundle dist/acme_kernels-0.3.0.tilec   # built elsewhere",
    )
    + "\n\nExit codes: 0 every result is within its tolerance, 1 one is not or could not be had, 2 usage or manifest, 3 no GPU.",
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("-k", "--select", multiple=True, metavar="GLOB", help="Only cases whose name (gemm/4k[f16]) matches.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Only cases of this name.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="Run one kernel with f32[1024]:normal:7, 2.5 or file.npy.")
@click.option("--axis", "axes", multiple=True, metavar="NAME=VALUE", help="With --arg: the value of an axis.")
@click.option("--reference", default="", metavar="FILE:FUNCTION", help="With --arg: what to compare with.")
@click.option("--save", type=click.Path(file_okay=False), metavar="DIR", help="Write every output as DIR/CASE.OUTPUT.npy.")
@click.option("--device", default="cuda:0", show_default=True, metavar="NAME", help="The GPU to run on.")
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
    bundle: str | None,
    targets: tuple[str, ...],
) -> None:
    """Launch KERNELs (default: all) on the GPU with the inputs of their cases, and compare the results with their references.

    Builds first if there is no --bundle. With --arg, one kernel is run with the arguments given, outputs included.
    """
    if args and (len(kernels) != 1 or select or cases):
        raise click.UsageError("--arg runs one kernel: name it, without --select or --case", click.get_current_context())
    if (axes or reference) and not args:
        raise click.UsageError("--axis and --reference go with --arg", click.get_current_context())
    wish = Wish(kernels=kernels, select=select, cases=cases, args=args, axes=axes, reference=reference)
    # Run from a bundle with --arg needs no project at all.
    manifest = None if bundle and args else _manifest(app)
    if manifest is not None:
        _check_wish(manifest, wish)
    driver, gpu = _find_gpu(device, manifest, wish)
    opened = _open(app, bundle, targets)
    bound = _from_args(app, opened, wish) if args else _from_manifest(opened, manifest, wish)
    report = _run(app, opened, bound, driver, gpu, root=manifest.root if manifest else str(app.base), save=save)
    if app.json:
        _print_json(app, opened, gpu, report)
    elif not report.ok or len(report.results) > 1:
        app.say(_summary(report, gpu))
    if not report.ok:
        raise click.exceptions.Exit(1)


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


def _find_gpu(name: str, manifest: Manifest | None, wish: Wish) -> tuple[DeviceDriver, Device]:
    """The GPU, before anything is built for it.

    Raises:
        NoDeviceError: there is none; says what the run would need.
    """
    from tilec.cli.tables import plural
    from tilec.errors import NoDeviceError
    from tilec.runtime import _driver
    from tilec.runtime.devices import find_device

    try:
        driver = _driver.driver()
        return driver, find_device(name, driver)
    except NoDeviceError as error:
        least = manifest.targets.min_driver if manifest and manifest.targets.min_driver else 580
        work = f"kernel {wish.kernels[0]}" if wish.args else "the cases"
        if manifest is not None and not wish.args:
            count = sum(len(k.cases) for k in manifest.kernels if not wish.kernels or k.name in wish.kernels)
            work = f"{plural(count, 'case')} of {manifest.package.name}"
        fix = (
            f"build here with `tilec build`, carry the project and its bundle to a machine with an NVIDIA GPU and driver {least} or newer, "
        )
        fix += "and there `tilec run --bundle FILE`; everything but `run` works without a GPU"
        raise NoDeviceError(f"running {work} needs a GPU ({name}): {error.what}", cause=error.cause, fix=fix) from error


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


def _run(
    app: App, bundle: Bundle, cases: tuple[BoundCase, ...], driver: DeviceDriver, gpu: Device, *, root: str, save: str | None
) -> RunReport:
    from tilec.runner.device import GpuDevice
    from tilec.runner.reference import References
    from tilec.runner.run import run_cases
    from tilec.runtime.load import load

    device = GpuDevice(load(bundle, gpu.ordinal, driver=driver), driver)
    width = max(len(case.name) for case in cases)
    app.say(click.style(f"{'case':<{width}}  result  {'output':<8}  {'max abs':>9}  {'max rel':>9}  {'time':>9}", bold=True))
    references = References(root)
    keep = _saver(app, app.path(save)) if save else None
    return run_cases(cases, device, references, clock=time.perf_counter, save=keep, on_result=lambda r: _print_result(app, r, width))


def _saver(app: App, folder: Path) -> Save:
    import numpy as np

    def save(case: BoundCase, name: str, array: Array) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{case.name.replace('/', '.')}.{name}.npy"
        np.save(path, array)
        app.detail(f"wrote {app.show(path)}")

    return save


def _print_result(app: App, result: CaseResult, width: int) -> None:
    word, tint = TINTS[result.status]
    lead = f"{result.case.name:<{width}}  {click.style(f'{word:<6}', fg=tint, bold=True)}"
    timing = f"{result.seconds * 1e3:>6.2f} ms" if result.seconds else ""
    if not result.outputs:
        app.say(f"{lead}  {'-':<8}  {'-':>9}  {'-':>9}  {timing:>9}".rstrip())
    for index, output in enumerate(result.outputs):
        found = output.comparison
        start, end = (lead, timing) if index == 0 else (" " * (width + 8), "")
        app.say(f"{start}  {output.name:<8}  {found.max_abs:>9.3g}  {found.max_rel:>9.3g}  {end:>9}".rstrip())
        if not found.ok:
            app.say(f"  {_difference(output)}")
    if result.error is not None:
        app.say("\n".join(f"  {line}" for line in str(result.error).splitlines()))


def _difference(output: OutputResult) -> str:
    """`z[3, 7] is 1.5, expected 1.25; 12 of 4096 elements are off (rtol 1e-05, atol 1e-06)`."""
    found, limit = output.comparison, output.tolerance
    index = ", ".join(map(str, found.first_index or ()))
    where = f"{output.name}[{index}] is {found.first_actual!r}, expected {found.first_expected!r}"
    return f"{where}; {found.mismatches} of {found.total} elements are off (rtol {limit.rtol:g}, atol {limit.atol:g})"


def _summary(report: RunReport, gpu: Device) -> str:
    from tilec.cli.tables import plural

    names = {"passed": "passed", "ran": "ran without a reference", "failed": "failed", "error": "could not be run or compared"}
    parts = [f"{count} {text}" for status, text in names.items() if (count := report.count(status))]
    return f"\n{plural(len(report.results), 'case')} on {gpu.name}: {', '.join(parts)}"


def _print_json(app: App, bundle: Bundle, gpu: Device, report: RunReport) -> None:
    from tilec.runner.report import to_json

    package = bundle.info.package
    device: dict[str, Any] = {"name": gpu.name, "ordinal": gpu.ordinal, "compute_capability": list(gpu.cc), "driver": list(gpu.driver)}
    body = to_json(report)
    app.document("run", {"package": package.name, "version": package.version, "bundle": bundle.digest, "device": device, **body})
