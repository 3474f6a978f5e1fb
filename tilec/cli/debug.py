"""`tilec debug`: cuda-gdb on one case that is built for it, with the commands that one needs first."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples
from tilec.cli.one_case import Asked, Watched, bare_launch, case_option, environment, watched_case
from tilec.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from tilec.cli.bare import Bare

SHEET = (
    ("run", "launch the case; it stops at its kernel's first instruction"),
    ("break {place}", "stop at a source line; `next`, `step` and `continue` go on from there"),
    ("info cuda kernels", "kernels on the GPU; `info cuda blocks`, `warps`, `lanes`: where they are"),
    ("cuda block (1,0,0) thread (32,0,0)", "look at another block and thread; `cuda kernel block thread` says which it is"),
    ("print $R4", "a register; `info registers` shows all. The code knows its lines, not its variables"),
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
@click.option("--profile", "profile", default="debug", show_default=True, metavar="NAME", help="Build with this profile.")
@click.option("--ex", "orders", multiple=True, metavar="COMMAND", help="A command for cuda-gdb, at its start.")
@click.option("--batch", is_flag=True, help="End after the commands of --ex.")
@click.pass_obj
def command(
    app: App, case: str, device: str, bundle: str | None, targets: tuple[str, ...], profile: str, orders: tuple[str, ...], batch: bool
) -> int:
    """Start cuda-gdb on CASE (such as gemm/4k[f16]), which a process of its own launches once.

    The kernel is built aside, with the profile debug: source lines are in its code, and what else the profile says. `opt = 0` in
    [profile.debug] keeps more of the source's order.
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
    (kernel,) = (one for one in watched.bundle.info.kernels if one.name == watched.case.kernel)
    place = f"{kernel.location.file}:{kernel.location.line}"
    app.say(f"{click.style(watched.case.name, bold=True)} on {watched.device.name}, stops in {', '.join(watched.symbols)}")
    rows = [(order.format(place=place), what) for order, what in SHEET]
    width = max(len(order) for order, _ in rows)
    for order, what in rows:
        app.say(f"  {click.style(f'{order:<{width}}', fg='cyan')}  {what}")
    app.say()


def _command(program: str, watched: Watched, bare: Bare, orders: Sequence[str], *, batch: bool) -> list[str]:
    # Code is loaded long after breakpoints are set; sources are named from the project's root. A breakpoint at the kernel's name might
    # stop in any library of the host that has a function of that name: the launch itself is what cannot be mistaken.
    # Threads of the host that come and go are nobody's concern here.
    first = [
        "set print thread-events off",
        "set breakpoint pending on",
        f"directory {watched.manifest.root}",
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
