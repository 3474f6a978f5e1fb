"""The `tilec` command: imports a command, and converts errors to exit codes."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from click.shell_completion import shell_complete

import tilec
from tilec.cli.app import App, StoppedError, add_global_options, examples, global_options
from tilec.cli.settings import read_settings
from tilec.cli.style import echo

# In the order in which a project needs them. The module tilec.cli.NAME has `command`.
COMMANDS = {
    "new": "Create a project that builds as it is.",
    "check": "Report every problem of the manifest and its sources.",
    "build": "Compile the kernels into a bundle and a typed package.",
    "run": "Run kernels and compare the results with their references.",
    "watch": "Run a command again whenever a source changes.",
    "bench": "Measure kernels; compare with libraries and saved times.",
    "tune": "Find the fastest variants of kernels on a GPU.",
    "sanitize": "Find data races and out-of-bounds accesses, without a GPU or on one.",
    "profile": "Profile one case with Nsight Compute.",
    "debug": "Step through one case on a GPU with cuda-gdb.",
    "inspect": "Show the contents of a bundle, package or wheel.",
    "verify": "Rebuild a bundle or wheel from its checkout, and compare.",
    "doctor": "Show the tools, driver and GPUs of this machine.",
    "cache": "Show, trim or clear the cache of compiled images.",
    "clean": "Remove the files that tilec wrote into a project.",
    "targets": "List the targets of builds.",
    "schema": "Print the JSON Schema of tilec.toml.",
    "completion": "Print a shell completion script.",
}
COMPLETING = "_TILEC_COMPLETE"  # set by a shell that completes a word
INTERRUPTED = 130
PIPE_CLOSED = 141  # a shell's exit code of a process that was ended by SIGPIPE


class LazyGroup(click.Group):
    """A group that imports a command on its call, so that `tilec --help` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            command: click.Command = importlib.import_module(f"tilec.cli.{cmd_name}").command
            command.short_help = COMMANDS[cmd_name]
            add_global_options(command)
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or raise an error with the nearest name."""
        name = args[0]
        # During completion the name may be incomplete (resilient parsing).
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from tilec_runtime.model.suggest import nearest

            close = nearest(name, COMMANDS)
            hint = f"did you mean `{close}`?" if close else f"commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command: {name}; {hint}", ctx)
        ctx.ensure_object(App).command = name
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands from `COMMANDS`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


cli = LazyGroup(
    name="tilec",
    help="Ahead-of-time GPU kernels for Python: one manifest, several kernel languages, one multi-architecture bundle, typed launchers.",
    epilog=examples(
        "tilec new acme-kernels && cd acme-kernels",
        "tilec build",
        "tilec build --targets sm_90 --select 'gemm-*'",
    )
    + "\n\nGlobal options may stand before or after the command. Exit codes: 0 success, 1 failure, 2 error in the command line "
    "or manifest, 3 a tool or device is missing, 86 findings of sanitize, 130 interrupted, 141 the output was closed by its reader.",
    params=list(global_options(hidden=False)),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
cli = click.version_option(tilec.__version__, prog_name="tilec", message="%(prog)s %(version)s")(
    cli
)


def main() -> None:
    """Run the command line of this process and exit."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path that the terminal cannot encode must not fail the command.
            stream.reconfigure(errors="backslashreplace")
    code, early = INTERRUPTED, signal.getsignal(signal.SIGINT)
    with contextlib.suppress(KeyboardInterrupt):  # outside of `run`, which handles its own
        if early is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, early)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # drop the output, whose flush at the interpreter's exit would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _open_streams() -> None:
    """Open /dev/null for closed standard streams.

    A later file would otherwise get their numbers.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def run(
    args: Sequence[str], environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> int:
    """Run one command line and return its exit code.

    Args:
        args: the command line without the program's name.
        environ: the environment; by default that of the process.
        cwd: the working directory; by default that of the process.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed again while an error was reported.
    """
    app: App | None = None
    try:
        app = App(settings=read_settings(environ, cwd))
        if instruction := os.environ.get(COMPLETING):
            return shell_complete(cli, {"obj": app}, "tilec", COMPLETING, instruction)
        # Not `cli.main`, which takes a closed pipe for a failure.
        with cli.make_context("tilec", list(args), obj=app) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except BaseException as exc:  # noqa: BLE001
        try:
            return _exit_code(app, exc, args)
        except BrokenPipeError:
            return PIPE_CLOSED
    return code if isinstance(code, int) else 0


def _exit_code(app: App | None, exc: BaseException, args: Sequence[str]) -> int:
    """Report an error and return the exit code."""
    if isinstance(exc, click.exceptions.Exit):
        return exc.exit_code
    if isinstance(exc, SystemExit):
        return exc.code if isinstance(exc.code, int) else 1
    if COMPLETING in os.environ:
        return 1  # a message would appear in the middle of the user's command line
    if isinstance(exc, BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        echo(exc.format_message(), err=True)
        return exc.exit_code
    from tilec.cli import failures

    # `app.json` is not set if click fails at an option before --json.
    words = itertools.takewhile(lambda word: word != "--", args)
    json = (app is not None and app.json) or "--json" in words
    if app is not None:
        app.clear_status()
    if isinstance(exc, KeyboardInterrupt | click.Abort):
        exc = StoppedError("interrupted")
    if failures.is_bug(exc) or (app is not None and app.debug):
        echo("".join(traceback.format_exception(exc)), err=True)
    return failures.report(app, exc, json=json)
