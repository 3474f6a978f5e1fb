"""`tilec tune`: find the fastest variants on a GPU, and record them for builds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, StoppedError, examples, jobs_option, json_option, refuse, split_words
from tilec.cli.complete import cases_of, completes, devices_of, kernels_of, targets_of
from tilec.cli.devices import CPU, require_device_name

if TYPE_CHECKING:
    pass

SEARCHES = ("halving", "grid", "random", "bayes")
_DURATION = re.compile(
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s?)?"
)


def duration(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `1h30m`."""
    match = _DURATION.fullmatch(text.replace(" ", ""))
    units = (("h", 3600), ("m", 60), ("s", 1))
    seconds = sum(float(match[name] or 0) * size for name, size in units) if match else 0.0
    if not 0 < seconds <= 30 * 86400:
        raise click.BadParameter(f"{text!r} is not a duration: write 90s, 10m or 1h30m")
    return seconds


def _devices(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    names = split_words(ctx, param, values)
    return tuple(require_device_name(name, (CPU, "cuda")) for name in names)


@click.command(
    epilog=examples(
        "tilec tune gemm                         # every case, on all GPUs",
        "tilec tune gemm --case 4k --search bayes --budget 10m",
        "tilec tune gemm --resume                # continue after Ctrl-C",
        "tilec tune --prepare gemm --target sm_90",
        "tilec tune --measure gemm-sm_90.tune    # on the machine with the GPU",
        "tilec tune gemm --confirm               # after an edit that changed no code",
        "tilec tune softmax --device cpu         # times of an interpreter",
    )
    + "\n\nExit codes: 0 every case has a winner and the record is written, 1 a case has none, 2 error in "
    "the command line or manifest, 3 a GPU or a package is missing, 130 interrupted (--resume continues).",
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=completes(kernels_of))
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="NAME",
    shell_complete=completes(cases_of),
    help="Only these cases, by name or glob (default: all).",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    callback=_devices,
    metavar="NAME",
    shell_complete=completes(devices_of),
    help="cuda:N or cpu; several GPUs share the work (default: all GPUs).",
)
@click.option(
    "--target",
    default="",
    metavar="NAME",
    shell_complete=completes(targets_of),
    help="Target to compile for (default: the one that the device runs).",
)
@click.option(
    "--search",
    type=click.Choice(SEARCHES),
    default="halving",
    show_default=True,
    help="Search strategy.",
)
@click.option(
    "--budget",
    type=duration,
    metavar="TIME",
    help="Time limit for each kernel, such as 10m; the best candidate so far wins.",
)
@click.option(
    "--max-candidates",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of candidates per case.",
)
@click.option(
    "--limit",
    type=duration,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Time after which a candidate counts as hung.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of the order of candidates.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue an interrupted tuning; logged candidates are not measured again.",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Write a kit with every candidate, to measure on a machine without a compiler.",
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
    help="Keep the record of a kernel whose sources changed, but whose code did not. No GPU is needed.",
)
@click.option(
    "--record",
    default="",
    metavar="FILE",
    help="Record to write (default: dispatch.table of the manifest, or tuning/KERNEL.json).",
)
@click.option(
    "-o",
    "--out",
    default="",
    metavar="FILE",
    help="With --prepare: path of the kit (default: KERNEL-TARGET.tune).",
)
@jobs_option
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
    prepare: bool,
    kits: tuple[str, ...],
    confirm: bool,
    record: str,
    out: str,
    jobs: int | None,
) -> int:
    """Measure the variants of KERNELs with the inputs of their cases, and record the fastest ones by
    device and sizes.

    A candidate is a point of the kernel's matrix; hints that are axes of the matrix are searched
    too. Each candidate is compiled while others are measured, compared with the case's reference,
    then timed. Candidates that fail, hang or compute wrong results are logged and left out. The
    two fastest are measured again side by side. All results are logged, so that --resume can
    continue an interrupted tuning.
    """
    from tilec.cli.tune_flow import Given, confirm_kernel, measure_kit, prepare_kernel, tune_kernel
    from tilec.tune.search import Search
    from tilec.tune.session import SessionOptions

    options = SessionOptions(
        search=Search(search),
        budget=budget or 0.0,
        most=max_candidates or 0,
        seed=seed,
        limit=limit,
        batch=jobs or app.settings.cores,
    )
    given = Given(
        cases=cases,
        devices=devices,
        target=target,
        options=options,
        resume=resume,
        record=record,
        out=out,
        jobs=jobs,
        several=len(kernels) + len(kits) > 1,
    )
    refuse(
        (
            confirm and any((kits, prepare, resume, cases, devices, target)),
            "--confirm takes KERNEL and --record, and no other option",
        ),
        (
            kits and any((kernels, prepare, target, cases)),
            "--measure takes all from the kit: leave KERNEL, --case, --target and --prepare out",
        ),
        (not (kits or kernels), "name a KERNEL to tune, or a kit with --measure"),
        (
            prepare and (resume or record),
            "--prepare only writes a kit: leave --resume and --record out",
        ),
        (out and not prepare, "--out needs --prepare"),
        (given.several and record, "--record names one file: tune one kernel at a time"),
        (given.several and out, "--out names one file: tune one kernel at a time"),
    )
    step = confirm_kernel if confirm else prepare_kernel if prepare else tune_kernel
    try:
        documents = [measure_kit(app, given, app.path(kit)) for kit in kits]
        documents += [step(app, given, name) for name in kernels]
    except KeyboardInterrupt:
        words = "interrupted: nothing was written"
        if not (prepare or confirm):
            words = "interrupted: the results are logged; continue with --resume"
        raise StoppedError(words) from None
    ok = all(document["ok"] for document in documents)
    if app.json:
        app.document("tune", {"ok": ok, "kernels": documents})
    return 0 if ok else 1
