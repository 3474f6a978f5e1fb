"""One run of the command: global options, output, and options that commands share."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from tilec.cli.settings import Settings
from tilec.cli.style import echo, style
from tilec_runtime.errors import TilecError, UsageError
from tilec_runtime.foreign import CONTROLS

if TYPE_CHECKING:
    from tilec.cli.tables import Cell

F = TypeVar("F", bound=Callable[..., Any])
MANIFEST = "tilec.toml"
SCHEMA_VERSION = 1
# JSON does not escape control characters above 0x1f, but terminals interpret some of them.
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS if code > 0x1F}


class StoppedError(TilecError):
    """Ctrl-C, with a message about the work done."""

    exit_code = 130


@dataclasses.dataclass(kw_only=True, slots=True)
class App:
    """Global options and output of a run: `ctx.obj` of commands (`@click.pass_obj`).

    Results go to standard output, everything else to standard error. With `--json`, standard output
    holds one document.

    Attributes:
        settings: environment and working directory.
        command: name of the command.
        showing: whether the line of `status` is on the terminal.
    """

    settings: Settings
    directory: str = ""
    quiet: bool = False
    verbose: bool = False
    color: str = ""
    debug: bool = False
    json: bool = False
    command: str = ""
    showing: bool = False

    @property
    def base(self) -> Path:
        """The directory that relative paths on the command line start from."""
        return (
            (self.settings.cwd / self.directory).resolve() if self.directory else self.settings.cwd
        )

    def path(self, text: str | Path) -> Path:
        """Return the absolute path for a path on the command line."""
        return self.base / text

    def built_path(self, text: str) -> Path:
        """Return the path of a build output: a path, or the name of an installed package.

        The package is not imported.
        """
        path = self.path(text)
        if path.exists() or not all(part.isidentifier() for part in text.split(".")):
            return path
        from importlib.util import find_spec

        try:
            spec = find_spec(text)
        except (ImportError, ValueError):  # the parent is no package, or a module has no spec
            return path
        folders = spec.submodule_search_locations if spec is not None else None
        return Path(folders[0]) if folders else path

    def manifest_path(self) -> Path:
        """Return the first tilec.toml from `base` upwards.

        Raises:
            UsageError: there is no manifest.
        """
        if self.directory and not self.base.is_dir():
            raise UsageError(
                f"-C {self.directory}: not a directory", fix="name a directory that exists"
            )
        for directory in (self.base, *self.base.parents):
            if (directory / MANIFEST).is_file():
                return directory / MANIFEST
        raise UsageError(
            f"no {MANIFEST} in {self.base} or any directory above it",
            fix="start a project with `tilec new NAME`, or go to one with `tilec -C DIR`",
        )

    @property
    def root(self) -> Path | None:
        """The directory of the manifest, or None without one."""
        try:
            return self.manifest_path().parent
        except UsageError:
            return None

    def show(self, path: Path | str) -> str:
        """Return a path relative to the working directory, if it is inside.

        A relative path starts from the project's directory, as in the output of compilers.
        """
        path = Path(path)
        root = None if path.is_absolute() else self.root
        if root is not None and (root / path).exists():
            path = root / path
        try:
            return str(path.relative_to(self.settings.cwd))
        except ValueError:
            return str(path)

    def colored(self, stream: TextIO) -> bool:
        """Return whether to use colours on a stream."""
        wish = self.color or self.settings.color
        return wish == "always" or (wish != "never" and stream.isatty())

    @property
    def moving(self) -> bool:
        """Whether a line on standard error may change: it is a terminal that shows progress."""
        silent = self.quiet or self.json or self.settings.dumb or self.settings.ci
        return not silent and sys.stderr.isatty()

    def status(self, text: str) -> None:
        """Show the current activity on a terminal until the next output."""
        self.clear_status()
        if not self.moving:
            return
        from tilec.cli.tables import shorten, terminal_width

        echo(shorten(text, (terminal_width(err=True) or 80) - 1), err=True, nl=False)
        self.showing = True

    def clear_status(self) -> None:
        """Remove the line of `status`."""
        if self.showing:
            self.showing = False
            click.echo("\r\x1b[2K", err=True, nl=False, color=True)

    def say(self, text: str = "", *, indent: int | None = None, wrap: bool = True) -> None:
        """Print result lines, unless `--quiet` or `--json` is given.

        Args:
            text: lines; on a terminal, wide ones are broken between words.
            indent: indent of continued lines; by default two more than that of their line.
            wrap: whether to break wide lines.
        """
        self.clear_status()
        if self.quiet or self.json:
            return
        if wrap:
            from tilec.cli.tables import terminal_width, wrapped

            text = wrapped(text, terminal_width(), indent=indent)
        echo(text, color=self.colored(sys.stdout))

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[Cell]], indent: str = "") -> None:
        """Print a table as result lines."""
        from tilec.cli.tables import table, terminal_width

        for line in table(heads, rows, width=terminal_width(), indent=indent):
            self.say(line, wrap=False)

    def note(self, text: str) -> None:
        """Print a message on standard error, unless `--quiet` is given."""
        self.clear_status()
        if not self.quiet:
            from tilec.cli.tables import terminal_width, wrapped

            text = wrapped(text, terminal_width(err=True))
            echo(text, err=True, color=self.colored(sys.stderr))

    def detail(self, text: str) -> None:
        """Print a message if `--verbose` is given."""
        if self.verbose:
            self.note(text)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        self.note(f"{style('warning:', fg='yellow', bold=True)} {text}")

    def document(self, kind: str, body: Mapping[str, Any]) -> None:
        """Print the run's JSON document on standard output."""
        print_document(kind, body)


def print_document(kind: str, body: Mapping[str, Any]) -> None:
    """Print a JSON document on standard output, with control characters escaped."""
    import msgspec  # --help does not need it

    head = {"schema_version": SCHEMA_VERSION, "kind": kind}
    # json's own indentation runs in Python, and takes seconds for thousands of images.
    text = msgspec.json.format(json.dumps({**head, **body}, ensure_ascii=False), indent=2)
    click.echo(text.translate(_JSON_ESCAPES))


def examples(*lines: str) -> str:
    """Return the examples of a command's help; a line has at most 76 columns."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def refuse(*checks: tuple[object, str]) -> None:
    """Raise a usage error with the message of the first condition that holds."""
    for condition, message in checks:
        if condition:
            raise click.UsageError(message, click.get_current_context())


def split_words(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Callback of a list option: `a,b` and repeated options give one tuple without duplicates."""
    parts = (word.strip() for value in values for word in value.split(","))
    words = tuple(dict.fromkeys(word for word in parts if word))
    if values and not words:
        named(ctx, param, "")
    return words


def words_among(known: Sequence[str]) -> Callable[..., tuple[str, ...]]:
    """Return the callback of a list option that takes the `known` words."""

    def read(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
        words = split_words(ctx, param, values)
        for word in words:
            if word not in known:
                from tilec_runtime.model.suggest import did_you_mean

                raise click.BadParameter(
                    f"there is no {word!r}{did_you_mean(word, known)}; there are {', '.join(known)}"
                )
        return words

    return read


def named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Callback of an option with a name: refuse an empty name.

    An unset shell variable gives an empty name, which would silently have the effect of no option.
    """
    if value == "":
        raise click.BadParameter(
            "the value is empty; leave the option out, or set the variable that it comes from",
            ctx,
            param,
        )
    return value


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ""):
            setattr(ctx.ensure_object(App), name, value)

    return callback


def jobs_option(command: F) -> F:
    """Declare `--jobs`."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Number of parallel compilers (default: all cores).",
    )(command)


def json_option(command: F) -> F:
    """Declare `--json`."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set("json"),
        help="Print one JSON document instead of text.",
    )(command)


def global_options(*, hidden: bool) -> list[click.Option]:
    """Return the options of every command, allowed before or after its name."""
    paths = click.Path()

    def option(*flags: str, name: str, **kwargs: Any) -> click.Option:
        return click.Option(
            [*flags, name], expose_value=False, callback=_set(name), hidden=hidden, **kwargs
        )

    return [
        option("-C", name="directory", metavar="DIR", type=paths, help="Run as if started in DIR."),
        option("-q", "--quiet", name="quiet", is_flag=True, help="Print errors only."),
        option("-v", "--verbose", name="verbose", is_flag=True, help="Print more details."),
        option(
            "--color",
            name="color",
            type=click.Choice(["auto", "always", "never"]),
            help="Use colours (NO_COLOR turns them off).",
        ),
        option("--debug", name="debug", is_flag=True, help="Print a traceback with every error."),
    ]


def add_global_options(command: click.Command) -> None:
    """Add the global options to a command and its subcommands.

    Existing names are kept.
    """
    taken = {flag for param in command.params for flag in param.opts}
    command.params.extend(
        option for option in global_options(hidden=True) if not taken.intersection(option.opts)
    )
    if isinstance(command, click.Group):
        for child in command.commands.values():
            add_global_options(child)
