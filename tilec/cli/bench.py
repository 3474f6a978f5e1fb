"""`tilec bench`: time kernels on a GPU, against libraries and saved times."""

from __future__ import annotations

import re
from typing import Any

import click

from tilec.cli.app import App, examples, json_option, named, refuse
from tilec.cli.cases import case_options, set_option
from tilec.cli.devices import device_option

_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*%?")


def percent(text: str) -> float:
    """Return a percentage as a fraction: 0.05 for `5%`."""
    match = _PERCENT.fullmatch(text.strip())
    if not match or not 0 < float(match[1]) <= 1000:
        raise click.BadParameter(f"{text!r} is not a positive percentage: write 5%")
    return float(match[1]) / 100


def _one_sweep(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Callback of `--sweep`: a second one would silently replace the first."""
    if len(values) > 1:
        raise click.BadParameter(
            "give one sweep; --variants measures the matrix in addition", ctx, param
        )
    return named(ctx, param, values[0] if values else None)


@click.command(
    epilog=examples(
        "tilec bench                             # every case of every kernel",
        "tilec bench gemm --case 4k --seconds 3",
        "tilec bench --save main",
        "tilec bench --against-saved main --fail-slower 5%",
        "tilec bench gemm --variants             # compare the built variants",
        "tilec bench gemm --sweep n=256..8192 --set a=[n,n] --set b=[n,n]",
        "tilec bench --markdown bench.md         # for a comment in CI",
        "tilec bench softmax --device cpu        # times of an interpreter",
    )
    + "\n\nExit codes: 0 measured, 1 a case failed, or is slower than --fail-slower allows, 2 error in the "
    "command line or manifest, or saved times of another device, driver or state of the cache, 3 there "
    "is no GPU.",
)
@case_options("as for `tilec run`")
@set_option
@click.option(
    "--sweep",
    multiple=True,
    callback=_one_sweep,
    metavar="NAME=VALUES",
    help="Measure at several values: n=256..8192 doubles, n=300,500 is a list. Use n in --set x=[n,2*n].",
)
@device_option("auto", "cuda, cuda:N, or cpu. auto is a GPU, never the cpu device.")
@click.option(
    "--samples",
    type=click.IntRange(6, 10_000),
    metavar="N",
    help="Maximum number of samples of a case.  [default: 300]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3600),
    metavar="S",
    default=1.0,
    show_default=True,
    help="Time limit for each case and each rival, in seconds.",
)
@click.option(
    "--cold/--hot",
    default=None,
    help="Measure with a cold or a warm L2 cache.  [default: cold]",
)
@click.option(
    "--against/--no-against",
    default=True,
    help="Measure the rivals of cases too.",
)
@click.option(
    "--save",
    callback=named,
    metavar="NAME",
    help="Save the times as .tilec/bench/NAME.json, or as a path that ends in .json.",
)
@click.option(
    "--against-saved",
    callback=named,
    metavar="NAME",
    help="Compare with saved times.",
)
@click.option(
    "--fail-slower",
    type=percent,
    metavar="PART",
    help="With --against-saved: exit with 1 if a case is slower by more than this, such as 5%.",
)
@click.option(
    "--markdown", callback=named, metavar="FILE", help="Write a table to a Markdown file."
)
@click.option(
    "--html",
    callback=named,
    metavar="FILE",
    help="Write plots and tables to an HTML file.",
)
@click.option(
    "--measure-ceilings",
    is_flag=True,
    help="Measure the ceilings of the device again.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Measure each built variant of a case, not only the one that a launch takes.",
)
@json_option
@click.pass_obj
def command(app: App, /, **options: Any) -> int:
    """Measure the cases of KERNELs (default: all): the median device time with its 95 % confidence
    interval, and the host time of a launch.

    Each case is warmed up until its times are steady. A sample is a CUDA graph of many launches,
    each with other copies of the arguments, so that the L2 cache is cold. If a case declares its
    bytes and operations, its rates are shown, and their share of the device's ceilings: a copy
    and matrix products, which are measured once for each device. Rivals of a case
    (`bench.against`) are measured in alternation with it.
    """
    from tilec.cli.bench_run import Given, run_bench

    given = Given(**options)
    gated = given.fail_slower is not None
    refuse((gated and not given.against_saved, "--fail-slower needs --against-saved"))
    return run_bench(app, given)
