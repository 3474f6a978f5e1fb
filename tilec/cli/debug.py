"""`tilec debug`: cuda-gdb on one case that is built for it, with the commands that one needs first."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples
from tilec.cli.complete import completes, profiles
from tilec.cli.one_case import Asked, Watched, bare_launch, case_option, environment, watched_case
from tilec.cli.style import style
from tilec_runtime.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from tilec.cli.bare import Bare

NAMED = 4  # variables that the sheet names
FIRST = (
    ("run", "launch the case; it stops at its kernel's first instruction"),
    ("break {place}", "stop at a source line; `next`, `step` and `continue` go on from there"),
    ("info cuda kernels", "kernels on the GPU; `info cuda blocks`, `warps`, `lanes`: where they are"),
    ("cuda block (1,0,0) thread (32,0,0)", "look at another block and thread; `cuda kernel block thread` says which it is"),
)
WITH_VARIABLES = (
    ("info locals", "what the variables hold in this thread; `info args`: the parameters. Here are {names}"),
    ("print {name}", "one of them; `display {name}` shows it at every stop, `watch {name}` stops where it changes"),
)
WITHOUT = (("print $R4", "a register; `info registers` shows all. {why}"),)
LAST = (
    ("x/8i $pc", "the instructions that come next; `display/i $pc` shows them at every stop, `info line` their source line"),
    ("print *(@global float*)p@8", "memory behind an address: @global, @shared or @local"),
    ("set cuda break_on_launch none", "stop at no launch any more; `backtrace`, `quit`"),
)


@click.command(
    short_help="Step through one case on a GPU with cuda-gdb.",
    epilog=examples(
        "tilec debug gemm/4k[f16]",
        "tilec debug softmax/odd --ex 'break softmax.cu:12' --ex run",
        "tilec debug softmax/odd --batch --ex run --ex backtrace     # no questions: for scripts",
    )
    + "\n\nExit codes: cuda-gdb's own; 2 usage or manifest, 3 cuda-gdb or a GPU is missing. `tilec run --trace CASE` shows "
    "what a tile kernel does without a GPU.",
)
@case_option
@click.option(
    "--profile", default="debug", show_default=True, metavar="NAME", shell_complete=completes(profiles), help="Build with this profile."
)
@click.option("--ex", "orders", multiple=True, metavar="COMMAND", help="A command for cuda-gdb, at its start.")
@click.option("--batch", is_flag=True, help="End after the commands of --ex.")
@click.pass_obj
def command(
    app: App, case: str, device: str, bundle: str | None, targets: tuple[str, ...], profile: str, orders: tuple[str, ...], batch: bool
) -> int:
    """Start cuda-gdb on CASE (such as gemm/4k[f16]), which a process of its own launches once.

    The kernel is built aside, with the profile debug: not optimized, so that it goes line by line, and with its variables. Tile kernels
    have lines and no variables: Tile IR does not keep them.
    """
    from tilec.cli.cases import How
    from tilec.runner.tools import find_outside_tool

    if batch and not orders:
        raise UsageError("--batch without --ex: there is nothing to do", fix="say what, such as --ex run --ex backtrace")
    search = app.settings.search
    asked = Asked(case=case, device=device, bundle=bundle, targets=targets)
    how = How(profile=profile, lineinfo=True)
    watched, program = watched_case(app, asked, lambda: find_outside_tool("cuda-gdb", search), how)
    with bare_launch(app, watched) as (bare, _):
        if not batch:
            _print_sheet(app, watched)
        return _run(_command(program, watched, bare, orders, batch=batch))


def _print_sheet(app: App, watched: Watched) -> None:
    from tilec.cli.tables import fitted, terminal_width

    (kernel,) = (one for one in watched.bundle.info.kernels if one.name == watched.case.kernel)
    place = f"{kernel.location.file}:{kernel.location.line}"
    names = _variables(watched)
    app.say(f"{style(watched.case.name, bold=True)} on {watched.device.name}, stops in {', '.join(watched.symbols)}")
    shown = ", ".join((*names[:NAMED], *(["…"] if len(names) > NAMED else [])))
    facts = {"place": place, "names": shown, "name": names[0] if names else "", "why": _why_none(kernel.language)}
    rows = [(order.format(**facts), what.format(**facts)) for order, what in (*FIRST, *(WITH_VARIABLES if names else WITHOUT), *LAST)]
    width = max(len(order) for order, _ in rows)
    for order, what in rows:
        app.say(fitted(f"  {style(f'{order:<{width}}', fg='cyan')}  {what}", terminal_width(), indent=width + 4))
    app.say()


def _variables(watched: Watched) -> tuple[str, ...]:
    """Variables of the function that the case launches, as far as its code names them."""
    from tilec.inspection.variables import variables

    found: dict[str, None] = {}
    for image in watched.images:
        functions = variables(watched.bundle.image(image.digest))
        fits = [name for name in functions if name.partition("<")[0] in image.symbol]
        found.update(dict.fromkeys(functions[max(fits, key=len)] if fits else ()))
    return tuple(found)


def _why_none(language: str) -> str:
    if language == "tile":
        return "Tile IR keeps the lines of a source and not its variables: `tilec run --trace CASE` shows what they hold, without a GPU"
    return "This code does not know its variables: leave --bundle out, or say debug = true in its profile"


def _command(program: str, watched: Watched, bare: Bare, orders: Sequence[str], *, batch: bool) -> list[str]:
    from tilec.frontends.tools.cpp.nvrtc import HERE  # as code for debuggers calls the project's directory, wherever it was built

    # Code is loaded long after breakpoints are set; sources are named from the project's root. A breakpoint at the kernel's name might
    # stop in any library of the host that has a function of that name: the launch itself is what cannot be mistaken.
    # Threads of the host that come and go are nobody's concern here.
    first = [
        "set print thread-events off",
        "set breakpoint pending on",
        f"directory {watched.manifest.root}",
        f'set substitute-path {HERE} "{watched.manifest.root}"',
        "set cuda break_on_launch application",
    ]
    asked = [word for order in (*first, *orders) for word in ("-ex", order)]
    return [program, "-q", *(["-batch"] if batch else []), *asked, "--args", *bare.command()]


def _run(command: Sequence[str]) -> int:
    """Run the debugger on this terminal, to its end.

    Raises:
        ToolchainError: it cannot be started.
    """
    try:
        with _interrupts_are_its_own():
            return subprocess.run(list(command), env=environment(), check=False).returncode
    except OSError as exc:
        raise ToolchainError(f"cannot start {command[0]}: {exc.strerror or exc}", fix="install it again") from exc


@contextmanager
def _interrupts_are_its_own() -> Iterator[None]:
    """Ctrl-C stops the kernel that is debugged, not the command that waits for the debugger."""
    # A handler that does nothing, and not SIG_IGN, which the debugger would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
