"""The `tilec` command: finds a subcommand without importing the others, and turns every ending into
an exit code.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import tilec
from tilec.cli.app import App, add_global_options, examples, global_options
from tilec.cli.settings import read_settings
from tilec.cli.style import echo
from tilec_runtime.errors import TilecError

# In the order in which a project meets them; a command's module is imported when it is called. Each
# holds a `command`.
COMMANDS = {
    "new": "Start a project from a skeleton.",
    "check": "Check the manifest and its sources; report every problem.",
    "build": "Compile the kernels into a bundle and a typed package.",
    "run": "Run kernels and compare them with their references.",
    "watch": "Build, or do another command, again whenever a source changes.",
    "bench": "Time kernels on a GPU, against libraries and what was saved.",
    "tune": "Find the fastest variants of a kernel on a GPU.",
    "sanitize": "Find races and bad accesses: of tile kernels without a GPU, of all on one.",
    "profile": "Profile one case with Nsight Compute.",
    "debug": "Step through one case on a GPU with cuda-gdb.",
    "inspect": "Show what is inside a bundle, package or wheel.",
    "doctor": "Show the tools, driver and GPU that tilec finds.",
    "cache": "Show or trim the cache of compiled images.",
    "clean": "Remove what tilec wrote into a project.",
    "schema": "Print the JSON Schema of tilec.toml.",
    "completion": "Print a shell completion script.",
}
COMPLETING = "_TILEC_COMPLETE"  # the shell asks for words
INTERRUPTED = 130
NOBODY_READS = 141  # what a shell says of a process that SIGPIPE ended


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for; its help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command's module and give its command."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            command: click.Command = importlib.import_module(f"tilec.cli.{cmd_name}").command
            add_global_options(command)
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0]
        if (
            name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing
        ):  # while it is completed, it is not there yet
            from tilec_runtime.model.suggest import nearest

            close = nearest(name, COMMANDS)
            hint = f"did you mean `{close}`?" if close else f"commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command: {name}; {hint}", ctx)
        found = super().resolve_command(ctx, args)
        ctx.ensure_object(App).command = name
        return found

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; `--help` prints here."""
        with _closed_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _closed_pipes():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, from the short texts above."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextlib.contextmanager
def _closed_pipes() -> Iterator[None]:
    """Ends quietly where nobody reads on, before click makes a failure of it."""
    try:
        yield
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(NOBODY_READS) from None


cli = LazyGroup(
    name="tilec",
    help="Ahead-of-time GPU kernels for Python: one manifest, several kernel languages, one multi-architecture bundle, typed launchers.",
    epilog=examples(
        "tilec new acme-kernels && cd acme-kernels",
        "tilec build",
        "tilec build --targets sm_90 --select 'gemm-*'",
    )
    + "\n\nGlobal options may stand before or after the command. Exit codes: 0 done, 1 the work failed, 2 usage or manifest, "
    "3 a tool or device is missing, 86 sanitize found something, 130 interrupted, 141 nobody reads the output any more.",
    params=list(global_options(hidden=False)),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
cli = click.version_option(tilec.__version__, prog_name="tilec", message="%(prog)s %(version)s")(
    cli
)


def main() -> None:
    """Run the command line of this process, and end it with its exit code."""
    _fill_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a path that the terminal cannot show is no reason to fail
    code, early = INTERRUPTED, signal.getsignal(signal.SIGINT)
    with contextlib.suppress(KeyboardInterrupt):  # between the guards of `run`
        if early is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, early)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    sys.exit(code)


def _fill_streams() -> None:
    """Give standard streams that the caller closed to nobody, lest a file that is opened next takes
    their place.
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
    """Run one command line and give its exit code; nothing but an exit code ever leaves.

    Args:
        args: the command line without the program's name.
        environ: the environment, default the process's own.
        cwd: the working directory, default the process's own.
    """
    app: App | None = None
    try:
        app = App(settings=read_settings(environ, cwd), words=tuple(args))
        code = cli.main(list(args), prog_name="tilec", standalone_mode=False, obj=app)
        sys.stdout.flush()
    except BaseException as exc:  # noqa: BLE001
        if COMPLETING in os.environ and not isinstance(exc, click.exceptions.Exit | SystemExit):
            return 1  # somebody is writing a command line, and a message would stand in the middle of it
        try:
            # Where click stops at something else first, nobody has told the app.
            json = (app is not None and app.json) or "--json" in itertools.takewhile(
                lambda word: word != "--", args
            )
            return _ending(app, exc, json=json)
        except (BrokenPipeError, KeyboardInterrupt) as again:
            _drop_output()
            return INTERRUPTED if isinstance(again, KeyboardInterrupt) else NOBODY_READS
    return code if isinstance(code, int) else 0


def _ending(app: App | None, exc: BaseException, *, json: bool) -> int:
    """Say why a run ended, and give its exit code."""
    if app is not None:
        app.wipe()
    if isinstance(exc, click.exceptions.Exit):
        return exc.exit_code
    if isinstance(exc, SystemExit):
        return exc.code if isinstance(exc.code, int) else 1
    if isinstance(exc, KeyboardInterrupt | click.Abort):
        echo("\ninterrupted", err=True)
        if json:
            from tilec.cli import failures

            failures.print_interrupted(app, "interrupted", exit_code=INTERRUPTED)
        return INTERRUPTED
    if isinstance(exc, BrokenPipeError):
        _drop_output()
        return NOBODY_READS
    from tilec.cli import failures

    if app is not None and app.debug:
        echo("".join(traceback.format_exception(exc)), err=True)
    if isinstance(exc, click.ClickException):
        failures.print_usage(app, exc, json=json)
        return exc.exit_code
    if isinstance(exc, TilecError):
        failures.print_failure(app, exc, json=json)
        return exc.exit_code
    if isinstance(exc, OSError):
        failures.print_os_error(app, exc, json=json)
        _drop_output()
        return 1
    failures.print_bug(app, exc, json=json)
    return 1


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter's own flush at exit cannot fail."""
    try:
        sys.stdout.flush()
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
