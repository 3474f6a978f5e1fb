"""`tilec run`: launch kernels on a GPU or on the cpu device, and hold them against their
references.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, SecondsRange, examples, json_option, named_or_empty
from tilec.cli.cases import Wish, check_wish, open_project
from tilec.cli.chosen import bundle_options, case_options, set_option
from tilec.cli.complete import case_names, completes, devices, input_names

if TYPE_CHECKING:
    from tilec.case.sanitize import Watch
    from tilec.cli.run_flow import RunOptions


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """The options of one command line."""

    expression: str
    select: tuple[str, ...]
    cases: tuple[str, ...]
    settings: tuple[str, ...]
    inputs: tuple[str, ...]
    args: tuple[str, ...]
    axes: tuple[str, ...]
    reference: str
    save: str
    repeat: int | None
    device: str
    block_order: str
    steps: int | None
    trace: str
    blocks: tuple[str, ...]
    check: bool
    bundle: str | None
    targets: tuple[str, ...]
    timeout: float
    continue_from: int


@click.command(
    short_help="Run kernels and compare them with their references.",
    epilog=examples(
        "tilec run                               # every case of every kernel",
        "tilec run gemm softmax",
        "tilec run inter_kernel                  # a chain: its kernels one behind the other, over the same arrays",
        "tilec run -k 'gemm and not f16' --device cuda:1",
        "tilec run gemm --case 4k --json",
        "tilec run gemm --set a=[512,512] --set BM=64   # other sizes, another variant",
        "tilec run gemm --input a=data.npz:a --output-dir out",
        "tilec run --device all                  # every GPU, and the cpu device",
        "tilec run reduce --repeat 20            # does every run give the same bits?",
        "tilec run --device cpu --block-order reverse",
        "tilec run --timeout 10                  # a case that takes longer hangs",
        "tilec run --trace softmax/odd --block 3   # each operation of one block",
        "tilec run fill --arg z=f32[1000]:empty --arg alpha=2.5",
        "tilec run --bundle dist/acme_kernels-0.3.0.tilec   # built elsewhere",
        "tilec run --bundle acme_kernels         # the cases on the package that is installed",
    )
    + "\n\nExit codes: 0 every result is within its tolerance, 1 one is not, could not be had, or hangs, 2 usage or manifest, 3 no GPU "
    "and no case (or not the kernel that was named) that runs without one, 86 --check found something. Cases that need a GPU are skipped "
    "on the cpu device, and counted.",
)
@case_options
@set_option
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    shell_complete=completes(input_names),
    help="Take an input from FILE.npy, .npz:KEY or .safetensors:KEY.",
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Run one kernel without a case: f32[1024]:normal:7, 2.5, FILE.",
)
@click.option(
    "--axis", "axes", multiple=True, metavar="NAME=VALUE", help="With --arg: the value of an axis."
)
@click.option(
    "--reference", default="", metavar="FILE:FUNCTION", help="With --arg: what to compare with."
)
@click.option(
    "--output-dir",
    "--save",
    "save",
    type=click.Path(file_okay=False),
    callback=named_or_empty,
    metavar="DIR",
    help="Write every output as DIR/CASE.OUTPUT.npy.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run each case N times, and tell whether the bits are the same.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(devices),
    help="cuda, cuda:N, cpu, all, or auto: a GPU if there is one.",
)
@click.option(
    "--block-order",
    default="",
    metavar="ORDER",
    help="On the cpu device: forward, reverse, or the seed of a random order.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="On the cpu device: stop after so many passes of loops (10 million).",
)
@click.option(
    "--trace",
    default="",
    metavar="CASE",
    shell_complete=completes(case_names),
    help="On the cpu device: print each operation of one block (or more) of a case.",
)
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="X[,Y[,Z]]",
    help="With --trace: which block (default: 0,0,0).",
)
@click.option(
    "--check",
    is_flag=True,
    help="On the cpu device: also report races, bad accesses and broken promises (see `sanitize`).",
)
@click.option(
    "--timeout",
    type=SecondsRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit of a case: one that takes longer hangs, and the others go on in a new process. 0 for none.",
)
@click.option("--continue-from", type=int, default=-1, hidden=True)
@bundle_options("see above")
@json_option
@click.pass_obj
def command(app: App, /, kernels: tuple[str, ...], **options: Any) -> int:
    """Launch KERNELs (default: all) with the inputs of their cases, and compare the results with
    their references.

    On a GPU if there is one, else on the cpu device, which runs tile kernels that are built for the
    target tileir. With --arg, one kernel is run with the arguments given, outputs included.

    Without --bundle, it takes what `tilec build` wrote, if that is up to date. Else it builds
    first: on a GPU the whole project, as `tilec build` does. A bundle of less goes to .tilec/run/
    and leaves the project's outputs alone: the KERNELs that are named, the --targets, and on the
    cpu device the tile kernels for tileir alone, which takes no CUDA compiler.
    """
    given = _Given(**options)
    wrong = _clash(kernels, given)
    if wrong:
        raise click.UsageError(wrong, click.get_current_context())
    wish = _wish(app, kernels, given)
    chosen = _options(given)
    # Run from a bundle with --arg needs no project at all.
    project = None if given.bundle and given.args else open_project(app)
    if project is not None:
        check_wish(project.manifest, wish)
    from tilec.cli.run_flow import launch

    return launch(app, wish, chosen, project)


def _clash(kernels: tuple[str, ...], given: _Given) -> str:
    """Options that do not go together; empty where all do."""
    chosen = (("-k", given.expression), ("--select", given.select), ("--case", given.cases))
    changed = (("--set", given.settings), ("--input", given.inputs))
    if given.args and (len(kernels) != 1 or any(value for _, value in chosen)):
        return "--arg runs one kernel: name it, without -k, --select or --case"
    if given.args and any(value for _, value in changed):
        return (
            "--set and --input change cases, and --arg runs a kernel without one: say it with --arg"
        )
    if (given.axes or given.reference) and not given.args:
        return "--axis and --reference go with --arg; --set NAME=VALUE gives a case's axis a value"
    if given.check and given.trace:
        return "--check and --trace do not go together"
    if given.repeat is not None and (given.trace or given.check):
        return f"--repeat and {'--trace' if given.trace else '--check'} do not go together"
    if given.save and given.trace:
        return "--output-dir and --trace do not go together: one block is no whole output"
    return "--block goes with --trace" if given.blocks and not given.trace else ""


def _wish(app: App, kernels: tuple[str, ...], given: _Given) -> Wish:
    """What is to be run; a wrong expression or a file that cannot be read is told before anything
    is built.
    """
    plain = Wish(
        kernels=kernels,
        select=given.select,
        cases=given.cases,
        args=given.args,
        axes=given.axes,
        reference=given.reference,
        chains=not given.trace,  # which looks into one launch
    )
    if not (given.expression or given.settings or given.inputs):
        return plain
    from tilec.case.arguments import parse_overrides
    from tilec.case.selection import parse_expression

    return dataclasses.replace(
        plain,
        expression=parse_expression(given.expression),
        overrides=parse_overrides(given.settings, given.inputs, cwd=app.base),
    )


def _options(given: _Given) -> RunOptions:
    from tilec.cli.run_device import CpuWish, parse_block, parse_order
    from tilec.cli.run_flow import RunOptions

    shown = tuple(map(parse_block, given.blocks)) or (((0, 0, 0),) if given.trace else ())
    order = parse_order(given.block_order)
    return RunOptions(
        device=given.device,
        cpu=CpuWish(
            order=order,
            blocks=shown,
            steps=given.steps or 0,
            watch=_watch() if given.check else None,
        ),
        bundle=given.bundle,
        targets=given.targets,
        save=given.save,
        repeat=given.repeat,
        trace=given.trace,
        timeout=given.timeout,
        continue_from=given.continue_from,
    )


def _watch() -> Watch:
    from tilec.case.sanitize import Watch

    return Watch()
