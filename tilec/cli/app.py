"""One run of the command: its global options, where it prints, and how commands share both."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from tilec.cli.settings import Settings
from tilec.cli.style import echo, style
from tilec_runtime.errors import UsageError
from tilec_runtime.foreign import CONTROLS

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
MANIFEST = "tilec.toml"
SCHEMA_VERSION = 1
# Columns of a line of examples: a terminal's 80 less what the page and the list are indented by.
HELP_WIDTH = 76
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS if code > 0x1F}


@dataclasses.dataclass(kw_only=True, slots=True)
class App:
    """Global options and output of one run; `ctx.obj` of every command (`@click.pass_obj`).

    Results go to standard output, everything said on the way to standard error. With `--json`,
    standard output holds one document. `words` is the command line without the program's name.
    """

    settings: Settings
    words: tuple[str, ...] = ()
    directory: str = ""
    manifest: str = ""
    quiet: bool = False
    verbose: bool = False
    color: str = ""
    debug: bool = False
    json: bool = False
    command: str = ""
    passing: bool = False

    @property
    def base(self) -> Path:
        """The directory that relative paths on the command line start from (`-C`, or the working
        directory).
        """
        return self.settings.cwd / self.directory

    def path(self, text: str | Path) -> Path:
        """A path of the command line as an absolute one."""
        return self.base / text

    def built_path(self, text: str) -> Path:
        """What is built, as the command line names it: a path, or else the name of a package that
        is installed; it is not imported.
        """
        path = self.path(text)
        if path.exists() or not all(part.isidentifier() for part in text.split(".")):
            return path
        from importlib.util import find_spec

        try:
            spec = find_spec(text)
        except (
            ImportError,
            ValueError,
        ):  # of a parent that is no package, or a module without a spec
            return path
        return (
            Path(spec.submodule_search_locations[0])
            if spec is not None and spec.submodule_search_locations
            else path
        )

    def manifest_path(self) -> Path:
        """The manifest to work on: `--manifest`, or the first tilec.toml in `base` or above it.

        Raises:
            UsageError: there is none.
        """
        if self.directory and not self.base.is_dir():
            raise UsageError(
                f"-C {self.directory}: not a directory", fix="name a directory that exists"
            )
        if self.manifest:
            path = self.path(self.manifest)
            if path.is_dir():
                path = path / MANIFEST
            if not path.is_file():
                raise UsageError(
                    f"{self.show(path)}: no such manifest",
                    fix="name a tilec.toml with --manifest, or leave the option out",
                )
            return path
        for directory in (self.base, *self.base.parents):
            if (directory / MANIFEST).is_file():
                return directory / MANIFEST
        raise UsageError(
            f"no {MANIFEST} in {self.base} or any directory above it",
            fix="start a project with `tilec new NAME`, go to one with `tilec -C DIR`, or name a manifest with `tilec --manifest PATH`",
        )

    def show(self, path: Path | str) -> str:
        """A path as short as it can be said: relative to the working directory where it lies
        inside.

        A relative path is the project's own (as in a compiler's messages), and is said from the
        working directory too.
        """
        path = Path(path)
        if not path.is_absolute():
            try:
                inside = self.manifest_path().parent / path
            except UsageError:
                return str(path)
            path = inside if inside.exists() else path
        try:
            return str(path.relative_to(self.settings.cwd))
        except ValueError:
            return str(path)

    def colored(self, stream: TextIO) -> bool:
        """Whether to use colours on a stream."""
        wish = self.color or self.settings.color
        return wish == "always" or (wish != "never" and stream.isatty())

    def pass_by(self, text: str) -> None:
        """Show on a terminal what is being done, on a line that goes when something else is said."""
        self.wipe()
        if (
            self.quiet
            or self.json
            or self.settings.dumb
            or self.settings.ci
            or not sys.stderr.isatty()
        ):
            return
        from tilec.cli.tables import shorten

        width = 80
        with contextlib.suppress(OSError):
            width = os.get_terminal_size(2).columns or width  # a terminal may not know its size
        echo(shorten(text, width - 1), err=True, nl=False)
        self.passing = True

    def wipe(self) -> None:
        """Take away what `pass_by` shows."""
        if self.passing:
            self.passing = False
            click.echo("\r\x1b[2K", err=True, nl=False, color=True)

    def tell(self, text: str) -> None:
        """Print result lines that are sentences: broken at words where a terminal would break them
        anywhere.
        """
        if not self.quiet and not self.json:
            from tilec.cli.tables import fitted, terminal_width

            self.say(fitted(text, terminal_width()))

    def say(self, text: str = "") -> None:
        """Print a result line (not with `--quiet`, not with `--json`)."""
        self.wipe()
        if not self.quiet and not self.json:
            echo(text, color=self.colored(sys.stdout))

    def note(self, text: str) -> None:
        """Say something on the way, on standard error (not with `--quiet`)."""
        self.wipe()
        if not self.quiet:
            from tilec.cli.tables import error_width, fitted

            echo(fitted(text, error_width()), err=True, color=self.colored(sys.stderr))

    def detail(self, text: str) -> None:
        """Say something that only `--verbose` wants to know."""
        if self.verbose:
            self.note(text)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        self.note(f"{style('warning:', fg='yellow', bold=True)} {text}")

    def document(self, kind: str, body: Mapping[str, Any]) -> None:
        """Print the run's JSON document on standard output."""
        print_document(kind, body)

    def console(self, *, err: bool = False) -> Console:
        """A rich console on standard output (or error), with this run's colours; imports rich."""
        from rich.console import Console

        stream = sys.stderr if err else sys.stdout
        color = self.colored(stream)
        return Console(
            file=stream,
            force_terminal=True if color and stream.isatty() else None,
            color_system="auto" if color else None,
            no_color=not color,
            highlight=False,
            emoji=False,
            markup=False,
            soft_wrap=False,
        )


def print_document(kind: str, body: Mapping[str, Any]) -> None:
    """Print a JSON document on standard output. Control characters are escaped in it as JSON does,
    those too that JSON itself leaves.
    """
    click.echo(
        json.dumps(
            {"schema_version": SCHEMA_VERSION, "kind": kind, **body}, indent=2, ensure_ascii=False
        ).translate(_JSON_ESCAPES)
    )


def examples(*lines: str) -> str:
    """The examples under a command's help, each `command` or `command   # what for`: beside it in a
    column if there is room, else above.
    """
    rows = [
        (command.rstrip(), f"# {note.strip()}" if note else "")
        for command, _, note in (line.partition("  # ") for line in lines)
    ]
    beside = [
        command for command, note in rows if note and len(command) + 2 + len(note) <= HELP_WIDTH
    ]
    column = max((len(command) for command in beside if len(command) <= HELP_WIDTH // 2), default=0)
    shown: list[str] = []
    for command, note in rows:
        if command not in beside:
            shown += [note, command] if note else [command]
        elif column + 2 + len(note) <= HELP_WIDTH:
            shown.append(f"{command:<{column}}  {note}")
        else:
            shown.append(f"{command}  {note}")
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in shown)


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ""):
            setattr(ctx.ensure_object(App), name, value)

    return callback


def named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that names something: refuse an empty name, as an unset variable of a
    shell leaves it.

    It would do the same as no option at all: save nothing, or compare with nothing, and succeed.
    The option's default is None: whether an empty text came from the command line is not known to
    callbacks in every release of click.
    """
    if value == "":
        raise click.BadParameter(
            "it names nothing; leave the option out, or fill the variable that it comes from",
            ctx,
            param,
        )
    return value


def named_or_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """As `named`, for what takes an empty text where the option is left out."""
    return named(ctx, param, value) or ""


MOST_SECONDS = 1_000_000


class SecondsRange(click.FloatRange):
    """A range of seconds, as far as the system can wait: `nan` is in no range, though no bound
    refuses it, and nobody waits for ever.
    """

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        found: float = super().convert(value, param, ctx)
        if found > MOST_SECONDS:
            self.fail(
                f"{value!r} is more than anybody waits: take {MOST_SECONDS:,} or less", param, ctx
            )
        return found


def json_option(command: F) -> F:
    """`--json`: the command prints one JSON document instead of text."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set("json"),
        help="Print one JSON document instead of text.",
    )(command)


def global_options(*, hidden: bool) -> list[click.Option]:
    """The options that every command takes, before or after its name."""
    paths = click.Path()

    def option(*flags: str, name: str, **kwargs: Any) -> click.Option:
        return click.Option(
            [*flags, name], expose_value=False, callback=_set(name), hidden=hidden, **kwargs
        )

    return [
        option(
            "-C", name="directory", metavar="DIR", type=paths, help="Work as if started in DIR."
        ),
        option(
            "--manifest",
            name="manifest",
            metavar="PATH",
            type=paths,
            help="The manifest (default: tilec.toml here or above).",
        ),
        option("-q", "--quiet", name="quiet", is_flag=True, help="Print errors only."),
        option("-v", "--verbose", name="verbose", is_flag=True, help="Say more."),
        option(
            "--color",
            name="color",
            type=click.Choice(["auto", "always", "never"]),
            help="Colours (NO_COLOR is respected).",
        ),
        option("--debug", name="debug", is_flag=True, help="Print a traceback with every error."),
    ]


def add_global_options(command: click.Command) -> None:
    """Let a command and those under it take the global options too (once; options that it has
    itself stay its own).
    """
    taken = {flag for param in command.params for flag in param.opts}
    command.params.extend(
        option for option in global_options(hidden=True) if not taken.intersection(option.opts)
    )
    if isinstance(command, click.Group):
        for child in command.commands.values():
            add_global_options(child)
