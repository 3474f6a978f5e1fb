"""`tilec bench`: time kernels on a GPU, hold them against libraries, and against what was saved."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import click

from tilec.cli.app import App, SecondsRange, examples, json_option, named_or_empty
from tilec.cli.chosen import bundle_options, case_options, set_option
from tilec.cli.complete import checkers, completes, swept

_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*%?")


class Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A part: `5%` is 0.05."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        if isinstance(value, float):
            return value
        found = _PERCENT.fullmatch(str(value).strip())
        if not found or not 0 < float(found[1]) <= 1000:
            self.fail(f"{value!r} is no part to be slower by: write 5%", param, ctx)
        return float(found[1]) / 100


def _one_sweep(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str:
    """Callback of `--sweep`: the one that is given, for a second would silently take its place."""
    if len(values) > 1:
        raise click.BadParameter(
            "one sweep at a time; --variants sweeps the matrix beside it", ctx, param
        )
    return named_or_empty(ctx, param, values[0] if values else None)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options of one command line."""

    expression: str
    select: tuple[str, ...]
    cases: tuple[str, ...]
    settings: tuple[str, ...]
    sweep: str
    device: str
    samples: int | None
    seconds: float
    cold: bool | None
    against: bool
    save: str
    against_saved: str
    fail_slower: float | None
    markdown: str
    html: str
    measure_ceilings: bool
    variants: bool
    dry_run: bool
    bundle: str | None
    targets: tuple[str, ...]


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
        "tilec bench --dry-run                       # what is known without a GPU",
        "tilec bench softmax --device cpu            # says nothing of a GPU",
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
    shell_complete=completes(swept),
    help="Measure at each value, and plot: n=256..8192, n=300,500, and --set x=[n,2*n].",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(checkers),
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
    type=SecondsRange(0, 3600),
    metavar="S",
    default=1.0,
    show_default=True,
    help="Time for each case and each rival.",
)
@click.option(
    "--cold/--hot",
    default=None,
    help="What launches find in the L2 cache: nothing of theirs, or what the last one left.  [default: cold]",
)
@click.option(
    "--against/--no-against",
    default=True,
    help="Measure what cases are held against too, in turn with the kernel.",
)
@click.option(
    "--save",
    callback=named_or_empty,
    metavar="NAME",
    help="Save the times, as .tilec/bench/NAME.json (or as a path that ends in .json).",
)
@click.option(
    "--against-saved",
    callback=named_or_empty,
    metavar="NAME",
    help="Hold the times against those that were saved.",
)
@click.option(
    "--fail-slower",
    type=Percent(),
    metavar="PART",
    help="With --against-saved: exit 1 where a case is slower by more: 5%.",
)
@click.option(
    "--markdown", callback=named_or_empty, metavar="FILE", help="Write a table in Markdown too."
)
@click.option(
    "--html",
    callback=named_or_empty,
    metavar="FILE",
    help="Write plots and tables as one HTML file too.",
)
@click.option(
    "--measure-ceilings",
    is_flag=True,
    help="Measure what the device can do at most anew, which is otherwise done once.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Measure each built variant of a case, not only the one a launch takes, and plot them.",
)
@click.option("--dry-run", is_flag=True, help="Measure nothing: show what would run, and its work.")
@bundle_options("as `tilec run`")
@json_option
@click.pass_obj
def command(app: App, /, kernels: tuple[str, ...], **options: Any) -> int:
    """Time the cases of KERNELs (default: all): the median of the device's time with its 95 %
    interval, and what a launch costs the host.

    Each case is warmed up until it is steady. A sample is many launches in a CUDA graph, each on
    other memory, so that the L2 cache is cold. Where the case says its bytes and operations, rates
    are shown, and their share of what the device can do: a copy and matrix products, measured once
    for each device. What a case is held against (`bench.against`) takes turns with it in the same
    run.
    """
    given = Given(**options)
    if given.fail_slower is not None and not given.against_saved:
        raise click.UsageError(
            "--fail-slower goes with --against-saved: slower than what?",
            click.get_current_context(),
        )
    if given.dry_run and (given.save or given.against_saved or given.markdown or given.html):
        raise click.UsageError(
            "--dry-run measures nothing to save, compare or write", click.get_current_context()
        )
    from tilec.cli.bench_run import run_bench

    return run_bench(app, kernels, given)
