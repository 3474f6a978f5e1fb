"""`tilec debug`: one case under cuda-gdb."""

from __future__ import annotations

import signal

import click

from tilec.cli.app import App, examples, refuse
from tilec.cli.complete import completes, profiles_of
from tilec.cli.outside_tool import case_option, run_tool, watched_case
from tilec.cli.style import style


@click.command(
    epilog=examples(
        "tilec debug gemm/4k[f16]",
        "tilec debug softmax/odd --ex 'break softmax.cu:12' --ex run",
        "tilec debug softmax/odd --batch --ex run --ex backtrace",
    )
    + "\n\nExit codes: that of cuda-gdb, 2 error in the command line or manifest, 3 cuda-gdb or a GPU is "
    "missing. Without a GPU, `tilec run --trace CASE` shows the operations of a tile kernel.",
)
@case_option
@click.option(
    "--profile",
    default="debug",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(profiles_of),
    help="Build profile.",
)
@click.option(
    "--ex",
    "orders",
    multiple=True,
    metavar="COMMAND",
    help="Command that cuda-gdb runs at its start; may be repeated.",
)
@click.option("--batch", is_flag=True, help="Exit after the commands of --ex.")
@click.pass_obj
def command(
    app: App,
    case: str,
    device: str,
    bundle: str | None,
    targets: tuple[str, ...],
    profile: str,
    orders: tuple[str, ...],
    batch: bool,
) -> int:
    """Start cuda-gdb on a process that launches CASE (such as gemm/4k[f16]) once.

    The kernel is built into .tilec/run/ with the profile debug: without optimization, and with
    source lines and variables. Tile kernels have lines but no variables, because Tile IR does not
    keep them.
    """
    from tilec.frontends.tools.cpp.nvrtc import HERE  # the project's directory in debug code

    refuse((batch and not orders, "--batch needs --ex, such as --ex run --ex backtrace"))
    watched, program = watched_case(app, "cuda-gdb", case, device, bundle, targets, profile=profile)
    if not batch:
        app.say(
            f"{style(watched.case.name, bold=True)} on {watched.device.name}, stops at the beginning of the kernel: "
            "start with `run`, then `next`, `info locals`, `info cuda kernels`, `help cuda`"
        )
    # Code is loaded long after breakpoints are set, and has source names relative to the project.
    # A breakpoint at the kernel's name might stop in a host library, one at the launch cannot.
    first = (
        "set print thread-events off",
        "set breakpoint pending on",
        f"directory {watched.manifest.root}",
        f'set substitute-path {HERE} "{watched.manifest.root}"',
        "set cuda break_on_launch application",
    )
    commands = [word for order in (*first, *orders) for word in ("-ex", order)]
    batched = ["-batch"] if batch else []
    # Ctrl-C must stop the kernel in the debugger, not this command. Use a handler, since the
    # debugger would inherit SIG_IGN.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return run_tool(app, [program, "-q", *batched, *commands, "--args", *watched.command(app)])
    finally:
        signal.signal(signal.SIGINT, before)
