"""`tilec run`: launch kernels on a device and compare them with references."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option, named, refuse
from tilec.cli.cases import (
    Opened,
    Wish,
    case_options,
    check_wish,
    chosen_cases,
    one_case,
    open_bundle,
    open_project,
    require_kernel,
    set_option,
)
from tilec.cli.complete import completes, names_of
from tilec.cli.devices import device_option, find_device
from tilec.cli.files import require_writable
from tilec_runtime.errors import MissingError, UsageError
from tilec_runtime.model.suggest import did_you_mean

if TYPE_CHECKING:
    from tilec.case.arguments import Override
    from tilec.case.cases import BoundCase
    from tilec.case.device import ModuleDevice
    from tilec.compile.project import Project

Block = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """The options of one command line, with click's names."""

    wish: Wish
    settings: tuple[str, ...]
    inputs: tuple[str, ...]
    args: tuple[str, ...]
    save: str | None
    repeat: int | None
    device: str
    block_order: str | int | None
    steps: int | None
    trace: str
    blocks: tuple[Block, ...]
    timeout: float


def _order(text: str) -> str | int:
    """Parse `--block-order`."""
    if text in ("forward", "reverse"):
        return text
    if text.isdecimal() and len(text) < 19:
        return int(text)
    raise click.BadParameter(
        f"{text!r}: use forward, reverse, or a whole number as seed of a random order"
    )


def _block(text: str) -> Block:
    """Parse `--block`: one to three numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 11 for part in parts):
        raise click.BadParameter(f"{text!r}: write its index in the grid, such as 3 or 3,0")
    x, y, z = (*map(int, parts), 0, 0)[:3]
    return x, y, z


@click.command(
    epilog=examples(
        "tilec run                                  # every case of every kernel",
        "tilec run gemm softmax",
        "tilec run inter_kernel                     # a chain of kernels",
        "tilec run -k 'gemm and not f16' --device cuda:1",
        "tilec run gemm --case 4k --json",
        "tilec run gemm --set a=[512,512] --set BM=64",
        "tilec run gemm --input a=data.npz:a --output-dir out",
        "tilec run reduce --repeat 20               # do all runs give equal bits?",
        "tilec run --device cpu --block-order reverse",
        "tilec run --trace softmax/odd --block 3    # each operation of one block",
        "tilec run fill --arg z=f32[1000]:empty --arg alpha=2.5",
        "tilec run --bundle dist/acme_kernels-0.3.0.tilec",
        "tilec run --bundle acme_kernels            # an installed package",
    )
    + "\n\nExit codes: 0 all results are within their tolerance, 1 a result is not, or a case fails or "
    "hangs, 2 error in the command line or manifest, 3 no case, or no case of a named kernel, can run "
    "without a GPU. On the cpu device, cases that need a GPU are skipped and counted.",
)
@case_options("as described above")
@set_option
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="Read an input from FILE.npy, FILE.npz:KEY or FILE.safetensors:KEY.",
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Run one kernel without a case: x=f32[1024]:normal:7, n=5, BM=64, or x=FILE.npy.",
)
@click.option(
    "--output-dir",
    "save",
    type=click.Path(file_okay=False),
    callback=named,
    metavar="DIR",
    help="Write each output to DIR/CASE.OUTPUT.npy.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run each case N times, and compare the bits of the results.",
)
@device_option("auto", "cuda, cuda:N, cpu, or auto (a GPU if there is one).")
@click.option(
    "--block-order",
    type=_order,
    metavar="ORDER",
    help="cpu device: forward, reverse, or the seed of a random order.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="cpu device: stop after N passes of loops (default: 10 million).",
)
@click.option(
    "--trace",
    default="",
    metavar="CASE",
    shell_complete=completes(names_of),
    help="cpu device: print each operation of one block of this case.",
)
@click.option(
    "--block",
    "blocks",
    multiple=True,
    type=_block,
    metavar="X[,Y[,Z]]",
    help="With --trace: index of a block; may be repeated (default: 0,0,0).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 1_000_000),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a case in seconds; 0 for none. The run ends if a case exceeds it.",
)
@json_option
@click.pass_obj
def command(app: App, /, **options: Any) -> int:
    """Launch KERNELs (default: all) with the inputs of their cases, and compare the results with
    their references.

    Kernels run on a GPU if there is one. Otherwise the cpu device runs tile kernels, which are
    built for the target tileir. --arg runs one kernel without a case.

    Without --bundle, the outputs of `tilec build` are used if they are up to date; otherwise
    kernels are built first. A GPU run of all kernels builds the whole project, as `tilec build`
    does. A run of named KERNELs, with --targets, or on the cpu device builds only what it needs,
    into .tilec/run/, and does not change the project's outputs.
    """
    given = _Given(**options)
    changed, some = given.settings or given.inputs, given.wish.expression or given.wish.cases
    refuse(
        (
            given.args and (some or len(given.wish.kernels) != 1),
            "--arg runs one kernel: name it, and leave -k and --case out",
        ),
        (given.args and changed, "--set and --input change cases, but --arg runs without a case"),
        (given.trace and given.repeat is not None, "--repeat and --trace cannot be combined"),
        (
            given.trace and given.save,
            "--output-dir and --trace cannot be combined: one block writes a part of an output",
        ),
        (given.blocks and not given.trace, "--block needs --trace"),
    )
    wish = _wish(app, given)
    # With --bundle and --arg no project is needed.
    project = None if wish.bundle and given.args else open_project(app)
    if project is not None and given.args:
        require_kernel(project.manifest, wish.kernels[0])
    elif project is not None:
        check_wish(project.manifest, wish)
    return _run(app, given, wish, project)


def _wish(app: App, given: _Given) -> Wish:
    """Return the selected cases with their changes, whose errors then appear before a build."""
    changes = {"--set": given.settings, "--input": given.inputs, "--arg": given.args}
    overrides: tuple[Override, ...] = ()
    if any(changes.values()):
        from tilec.case.arguments import parse_overrides

        overrides = parse_overrides(changes, cwd=app.base)
    # A trace shows one launch.
    return dataclasses.replace(given.wish, overrides=overrides, chains=not given.trace)


def _run(app: App, given: _Given, wish: Wish, project: Project | None) -> int:
    from tilec.cli.run_cases import CaseRunner
    from tilec.cli.run_show import trace_run
    from tilec_runtime.cpu.launch import CpuOptions, execute_run
    from tilec_runtime.cpu.tileir.frame import DEFAULT

    manifest = project.manifest if project else None
    if given.save:
        require_writable(app.path(given.save) / "output.npy")
    lines: list[str] = []
    print_line = (lambda line: lines.append(click.unstyle(line))) if app.json else app.say
    root = Path(manifest.root) if manifest else app.base
    blocks = given.blocks or ((0, 0, 0),)
    trace = functools.partial(trace_run, blocks=blocks, root=root, say=print_line)
    cpu = CpuOptions(
        order="forward" if given.block_order is None else given.block_order,
        steps=given.steps or DEFAULT.steps,
        run=trace if given.trace else execute_run,
    )
    options = {
        "--trace": given.trace,
        "--block-order": given.block_order is not None,
        "--steps": given.steps,
    }
    driver, device = find_device(
        app,
        given.device,
        only_cpu=next((name for name, value in options.items() if value), ""),
        cpu=cpu,
    )
    opened = open_bundle(app, project, wish, cpu=device.interprets is not None)
    cases: tuple[BoundCase, ...]
    if given.args:
        cases = (_case_of_arguments(opened, wish),)
    else:
        assert manifest is not None
        cases = chosen_cases(opened, manifest, wish)
    runner_device = opened.load(driver, device)
    if given.trace:
        case = one_case(cases, given.trace)
        _trace(runner_device, opened, case)
        if app.json:
            app.document(
                "trace", {"case": case.name, "blocks": list(map(list, blocks)), "lines": lines}
            )
        return 0
    return CaseRunner(
        app,
        opened,
        manifest,
        device,
        runner_device,
        cases,
        kernels=wish.kernels,
        repeat=given.repeat,
        timeout=given.timeout,
        save=app.path(given.save) if given.save else None,
    ).all()


def _case_of_arguments(opened: Opened, wish: Wish) -> BoundCase:
    """Return a case from the `--arg` options.

    Raises:
        MissingError: the kernel cannot be built for the device.
        UsageError: the kernel does not exist, or an argument does not fit it.
    """
    from tilec.case.arguments import bind_arguments

    (name,) = wish.kernels
    if name in opened.absent:
        raise MissingError(f"kernel {name} cannot be run: {opened.absent[name]}", kernel=name)
    known = opened.kernels
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        raise UsageError(f"no kernel {name!r} in the bundle{hint}")
    return bind_arguments(known[name], wish.overrides)


def _trace(device: ModuleDevice | None, opened: Opened, case: BoundCase) -> None:
    """Launch a case on a tracing device.

    Results are not compared, because other blocks do not run.
    """
    from tilec.case.cases import small_case
    from tilec.case.inputs import make_inputs
    from tilec.case.run import arguments_on

    reason = opened.absence(case)
    if device is not None and not reason:
        reason = device.refusal(case)
    if device is None or reason:
        raise MissingError(f"{case.name} cannot be traced: {reason}", kernel=case.kernel)
    device.launch(case, arguments_on(case, device, make_inputs(small_case(case))))
