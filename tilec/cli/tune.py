"""`tilec tune`: find the fastest variants on a GPU, and write the record that a build takes up."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.complete import checkers, completes, known_targets, project_cases, project_kernels

if TYPE_CHECKING:
    from tilec.cli.tune_flow import Wish

SEARCHES = ("halving", "grid", "random", "bayes")
_DURATION = re.compile(
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s?)?"
)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Seconds of `90s`, `10m`, `1h30m`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value).replace(" ", ""))
        seconds = 0.0
        if found:
            seconds = sum(
                float(found[unit] or 0) * scale
                for unit, scale in (("h", 3600), ("m", 60), ("s", 1))
            )
        if not 0 < seconds <= 30 * 86400:
            self.fail(f"{value!r} is no time to tune for: write 90s, 10m or 1h30m", param, ctx)
        return seconds


@click.command(
    short_help="Find the fastest variants of a kernel on a GPU.",
    epilog=examples(
        "tilec tune gemm                             # all GPUs of this machine, every case",
        "tilec tune gemm --case 4k --search bayes --budget 10m",
        "tilec tune gemm --resume                    # go on after Ctrl-C, or on another day",
        "tilec tune gemm --dry-run                   # what there is to try, and what is pruned without a GPU",
        "tilec tune --prepare gemm --target sm_90    # where the compilers are: writes gemm-sm_90.tune",
        "tilec tune --measure gemm-sm_90.tune        # where the GPU is",
        "tilec tune gemm --confirm                   # the source was edited elsewhere: is the code what was measured?",
        "tilec tune softmax --device cpu             # times of the cpu device, which say nothing of a GPU",
    )
    + "\n\nExit codes: 0 every case has a winner and the record is written, 1 a case has none, 2 usage or manifest, 3 no such GPU, or a "
    "package is missing, 130 interrupted (--resume goes on).",
)
@click.argument(
    "kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=completes(project_kernels)
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="NAME",
    shell_complete=completes(project_cases),
    help="Only these cases of the kernels, by name or glob (default: all).",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    shell_complete=completes(checkers),
    help="cuda:N (several share the work) or cpu (default: all GPUs).",
)
@click.option(
    "--target",
    default="",
    metavar="NAME",
    shell_complete=completes(known_targets),
    help="What to compile for (default: the target that the device runs).",
)
@click.option(
    "--search",
    type=click.Choice(SEARCHES),
    default="halving",
    show_default=True,
    help="How candidates are chosen.",
)
@click.option(
    "--budget",
    type=Duration(),
    metavar="TIME",
    help="Time for each kernel, such as 10m: what is best by then wins.",
)
@click.option(
    "--max-candidates",
    type=click.IntRange(1),
    metavar="N",
    help="Try no more candidates than this per case.",
)
@click.option(
    "--limit",
    type=Duration(),
    default=60.0,
    metavar="TIME",
    help="After this a candidate counts as hanging.  [default: 60s]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Of the order in which candidates are tried.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with a tuning that was interrupted: what it measured is not measured again.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Compile, and say what there is to try; nothing is measured or written.",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Write a kit with every candidate, to be measured where there is no compiler.",
)
@click.option(
    "--measure",
    "kits",
    multiple=True,
    type=click.Path(),
    metavar="KIT",
    help="Measure a kit that --prepare wrote.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Keep the record of a kernel whose files changed and whose code did not; no GPU is needed.",
)
@click.option(
    "--record",
    default="",
    metavar="FILE",
    help="The record (default: dispatch.table of the manifest, or tuning/KERNEL.json).",
)
@click.option(
    "-o",
    "--out",
    default="",
    metavar="FILE",
    help="With --prepare: the kit (default: KERNEL-TARGET.tune).",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Compilers that run at once (default: all cores).",
)
@json_option
@click.pass_obj
def command(
    app: App,
    kernels: tuple[str, ...],
    cases: tuple[str, ...],
    devices: tuple[str, ...],
    target: str,
    search: str,
    budget: float | None,
    max_candidates: int | None,
    limit: float,
    seed: int,
    resume: bool,
    dry_run: bool,
    prepare: bool,
    kits: tuple[str, ...],
    confirm: bool,
    record: str,
    out: str,
    jobs: int | None,
) -> int:
    """Try the variants of KERNELs with the inputs of their cases, and record which is the fastest,
    by device and sizes.

    A candidate is a point of the kernel's matrix; hints that are axes of the matrix are searched
    too. Each is compiled while others are measured, held against the case's reference, then timed:
    wrong, failing and hanging ones are noted and passed over. The two best are decided side by
    side. Everything is logged, so that nothing is lost when it is interrupted.
    """
    from tilec.cli.tune_flow import (
        Wish,
        confirm_kernel,
        dry_run_kernel,
        measure_kit,
        prepare_kernel,
        tune_kernel,
    )

    if confirm and (kits or prepare or dry_run or resume or cases or devices or target):
        raise click.UsageError(
            "--confirm holds a record against the code of now, and measures nothing: give KERNEL, and --record at most"
        )
    _check_combination(
        kernels,
        kits,
        out=out,
        prepare=prepare,
        dry_run=dry_run,
        resume=resume,
        record=record,
        target=target,
        cases=cases,
    )
    names = tuple(name.strip() for text in devices for name in text.split(",") if name.strip())
    wish = Wish(
        cases=cases,
        devices=names,
        target=target,
        search=search,
        budget=budget or 0.0,
        most=max_candidates or 0,
        limit=limit,
        seed=seed,
        resume=resume,
        record=record,
        out=out,
        jobs=jobs,
        several=len(kernels) + len(kits) > 1,
        environ=dict(os.environ),
        clock=time.monotonic,
    )
    step = (
        confirm_kernel
        if confirm
        else dry_run_kernel
        if dry_run
        else prepare_kernel
        if prepare
        else tune_kernel
    )
    documents: list[dict[str, Any]] = []
    with _interruptible(app, kernels, kits, wish, prepare=prepare or dry_run or confirm):
        documents.extend(measure_kit(app, wish, app.path(kit)) for kit in kits)
        documents.extend(step(app, wish, name) for name in kernels)
    ok = all(document["ok"] for document in documents)
    if app.json:
        app.document("tune", {"ok": ok, "kernels": documents})
    return 0 if ok else 1


def _check_combination(
    kernels: Sequence[str],
    kits: Sequence[str],
    *,
    out: str,
    prepare: bool,
    dry_run: bool,
    resume: bool,
    record: str,
    target: str,
    cases: Sequence[str],
) -> None:
    """Refuse options that do not go together."""
    ctx = click.get_current_context()
    if kits and (kernels or prepare or dry_run or target or cases):
        raise click.UsageError(
            "--measure takes what the kit holds: leave KERNEL, --case, --target, --prepare and --dry-run out",
            ctx,
        )
    if not kits and not kernels:
        raise click.UsageError("name a KERNEL to tune, or a kit with --measure", ctx)
    if prepare and (dry_run or resume or record):
        raise click.UsageError(
            "--prepare only writes a kit: leave --dry-run, --resume and --record out", ctx
        )
    if out and not prepare:
        raise click.UsageError("--out names the kit of --prepare", ctx)
    if (record or out) and len(kernels) + len(kits) > 1:
        raise click.UsageError(
            f"{'--record' if record else '--out'} names one file: tune one kernel at a time", ctx
        )
    if dry_run and resume:
        raise click.UsageError("--dry-run measures nothing that --resume could go on with", ctx)


@contextlib.contextmanager
def _interruptible(
    app: App, kernels: Sequence[str], kits: Sequence[str], wish: Wish, *, prepare: bool
) -> Iterator[None]:
    """Ctrl-C says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        named = [*kernels, *(f"--measure {kit}" for kit in kits)]
        chosen = (
            ("case", wish.cases),
            ("device", wish.devices),
            ("target", (wish.target,)),
            ("record", (wish.record,)),
        )
        named += [f"--{name} {value}" for name, values in chosen for value in values if value]
        usual = (
            ("search", wish.search, "halving"),
            ("seed", wish.seed, 0),
            ("max-candidates", wish.most, 0),
        )
        named += [f"--{name} {value}" for name, value, left_out in usual if value != left_out]
        words = (
            "interrupted: nothing was written"
            if prepare
            else "interrupted: what was measured is in the log"
        )
        app.note(
            words if prepare else f"{words}; go on with\n  tilec tune {' '.join(named)} --resume"
        )
        if app.json:
            from tilec.cli import failures

            failures.print_interrupted(app, words, exit_code=130)
        raise click.exceptions.Exit(130) from None
