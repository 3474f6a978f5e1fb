"""`tilec bench`: time kernels on a GPU, against libraries and saved times."""

from __future__ import annotations

import re
from typing import Any

import click

from tilec.cli.app import App, examples, json_option, named
from tilec.cli.cases import bundle_options, case_options, set_option
from tilec.cli.complete import completes, devices_of

_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*%?")


class Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A percentage: `5%` is 0.05."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse the percentage."""
        if isinstance(value, float):
            return value
        match = _PERCENT.fullmatch(str(value).strip())
        if not match or not 0 < float(match[1]) <= 1000:
            self.fail(f"{value!r} is no part to be slower by: write 5%", param, ctx)
        return float(match[1]) / 100


def _one_sweep(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Callback of `--sweep`: a second one would silently replace the first."""
    if len(values) > 1:
        raise click.BadParameter(
            "one sweep at a time; --variants sweeps the matrix beside it", ctx, param
        )
    return named(ctx, param, values[0] if values else None)


@click.command(
    short_help="Time kernels on a GPU, against libraries and what was saved.",
    epilog=examples(
        "tilec bench                                 # every case of every kernel",
        "tilec bench gemm --case 4k --seconds 3",
        "tilec bench softmax --hot                   # in a warm L2 cache",
        "tilec bench --save main                     # keep the times as main",
        "tilec bench --against-saved main --fail-slower 5%   # a gate",
        "tilec bench gemm --variants                 # every tile that was built, and a plot",
        "tilec bench gemm --sweep n=256..8192 --set a=[n,n] --set b=[n,n]",
        "tilec bench --markdown bench.md             # a table for a comment in CI",
        "tilec bench softmax --device cpu            # times of an interpreter",
    )
    + "\n\nExit codes: 0 measured, 1 a case could not be, or is slower than what was saved by more than --fail-slower, 2 usage or "
    "manifest, or what was saved is of another device, driver or state of the cache, 3 there is no GPU, and nothing was measured.",
)
@case_options
@set_option
@click.option(
    "--sweep",
    multiple=True,
    callback=_one_sweep,
    metavar="NAME=VALUES",
    help="Measure at each value, and plot: n=256..8192, n=300,500, and --set x=[n,2*n].",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(devices_of),
    help="cuda, cuda:N, or cpu, which is never taken unasked.",
)
@click.option(
    "--samples",
    type=click.IntRange(6, 10_000),
    metavar="N",
    help="Take no more samples than this of a case.  [default: 300]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3600),
    metavar="S",
    default=1.0,
    show_default=True,
    help="Time for each case and each rival.",
)
@click.option(
    "--cold/--hot",
    default=None,
    help="Whether the L2 cache holds data of the launch before.  [default: cold]",
)
@click.option(
    "--against/--no-against",
    default=True,
    help="Measure the rivals of cases too, in turn with the kernel.",
)
@click.option(
    "--save",
    callback=named,
    metavar="NAME",
    help="Save the times, as .tilec/bench/NAME.json (or as a path that ends in .json).",
)
@click.option(
    "--against-saved",
    callback=named,
    metavar="NAME",
    help="Compare the times with those that were saved.",
)
@click.option(
    "--fail-slower",
    type=Percent(),
    metavar="PART",
    help="With --against-saved: exit 1 where a case is slower by more: 5%.",
)
@click.option("--markdown", callback=named, metavar="FILE", help="Write a table in Markdown too.")
@click.option(
    "--html",
    callback=named,
    metavar="FILE",
    help="Write plots and tables as one HTML file too.",
)
@click.option(
    "--measure-ceilings",
    is_flag=True,
    help="Measure anew what the device can do at most.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Measure each built variant of a case, not only the one a launch takes.",
)
@bundle_options("as `tilec run`")
@json_option
@click.pass_obj
def command(app: App, /, **options: Any) -> int:
    """Time the cases of KERNELs (default: all): the median of the device's time with its 95 %
    interval, and what a launch costs the host.

    Each case is warmed up until it is steady. A sample is many launches in a CUDA graph, each on
    other memory, so that the L2 cache is cold. Where the case states its bytes and operations,
    rates are shown, and their share of what the device can do: a copy and matrix products, measured
    once for each device. Rivals of a case (`bench.against`) are measured in turns with it.
    """
    from tilec.cli.bench_run import Given, run_bench

    given = Given(**options)
    if given.fail_slower is not None and not given.against_saved:
        raise click.UsageError(
            "--fail-slower goes with --against-saved: slower than what?",
            click.get_current_context(),
        )
    return run_bench(app, given)
