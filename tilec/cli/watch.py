"""`tilec watch`: a command of tilec's, carried out again whenever a file that it may read has
changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click

from tilec.cli.app import App, examples
from tilec.cli.complete import completes, project_kernels, whole_cases
from tilec.cli.style import style
from tilec.compile.own import own_command
from tilec_runtime.errors import UsageError

# What starts, ends or asks is not to be done again and again.
NOT_AGAIN = ("watch", "new", "clean", "debug", "tune", "cache", "completion", "schema", "doctor")
# Results may be written anywhere in a project (`run --save`, `--json >`): only what sources are
# called counts, and what was read.
SUFFIXES = frozenset(
    f".{name}"
    for name in (
        "py",
        "toml",
        "cu",
        "cuh",
        "cpp",
        "cc",
        "c",
        "h",
        "hpp",
        "hh",
        "inl",
        "ptx",
        "cubin",
        "fatbin",
        "ltoir",
        "bc",
    )
)
PASSED_OVER = frozenset(("__pycache__", "node_modules"))
POLL = 0.1  # seconds between looks
SHARE = 20  # a look takes at most one part in so many of the time: large projects are looked at less often
SETTLE = 20  # looks until files that go on changing count as they are
NAMES_SHOWN = 3
GRACE = 10.0  # seconds that an interrupted command has to end its own processes

Status = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Size, time and number of files by name.

    Attributes:
        sources: of every file of the project that may be a source.
        read: of the others that the last build read, which count only while it is known that they
            are.
    """

    sources: Mapping[str, Status]
    read: Mapping[str, Status]

    def changed(self, now: Snapshot) -> tuple[str, ...]:
        """Names of files that are not what they were."""
        sources = {
            name
            for name in {*self.sources, *now.sources}
            if self.sources.get(name) != now.sources.get(name)
        }
        read = {
            name
            for name, status in self.read.items()
            if name in now.read and now.read[name] != status
        }
        return tuple(sorted(sources | read))


def _next_words(ctx: click.Context) -> list[str]:
    """What may stand next behind `tilec watch`: a command, then what commands are of."""
    return [*project_kernels(ctx), *whole_cases(ctx)] if ctx.params.get("words") else _able()


@click.command(
    short_help="Build, or do another command, again whenever a source changes.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "tilec watch                                  # build on every save",
        "tilec watch run softmax --device cpu         # build what it needs, and compare with the reference",
        "tilec watch sanitize softmax --case odd",
        "tilec watch check",
    )
    + "\n\nCtrl-C ends it, with exit code 130; 2 usage or manifest.",
)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[COMMAND [ARGS]...]",
    shell_complete=completes(_next_words),
)
@click.pass_obj
def command(app: App, words: tuple[str, ...]) -> None:
    """Carry out COMMAND (default: build) now, and again whenever a file of the project changes.

    It watches sources and headers in the project's directory, but for outputs and hidden
    directories, and whatever else the last build read. Only what changed is compiled again.
    """
    _check(words)
    manifest = app.manifest_path()
    shown = " ".join(("tilec", *(words or ("build",))))
    arguments = _arguments(app, words or ("build",))

    def go() -> None:
        carry_out(arguments, app.base)
        app.pass_by(f"watching {manifest.parent.name}; Ctrl-C ends it")

    def look() -> Snapshot:
        return snapshot(manifest.parent, app.settings.cache_dir)

    def is_output(name: str) -> bool:
        from tilec.package.marks import is_written

        return is_written(manifest.parent / name)

    watch(
        go,
        changes(look, pause, is_output=is_output),
        lambda names: app.note(style(f"── {_listed(names)}: {shown}", bold=True)),
    )


def carry_out(arguments: list[str], folder: Path) -> None:
    """Run `tilec` with these arguments in a process of its own: nothing of the user's modules
    outlives a round.
    """
    process = subprocess.Popen(own_command("tilec.cli.main", *arguments), cwd=folder)
    try:
        process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)  # it was interrupted too, and ends its own processes
        process.kill()
        raise


def watch(
    go: Callable[[], None],
    changed: Iterable[tuple[str, ...]],
    say: Callable[[tuple[str, ...]], None],
) -> None:
    """Do something now, and once for each change that comes.

    Args:
        go: what to do.
        changed: the names of what changed, each time that something did; it is asked when `go` has
            ended, and ends when it does.
        say: tells what has changed.
    """
    events = iter(changed)
    next(events, None)  # what there is before anything is done: what changes meanwhile counts
    go()
    for names in events:
        say(names)
        go()


def changes(
    look: Callable[[], Snapshot],
    wait: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
    *,
    is_output: Callable[[str], bool] = lambda _: False,
) -> Iterator[tuple[str, ...]]:
    """First nothing, then what changed from one look to another, once it stays as it is.

    Args:
        look: takes a snapshot.
        wait: waits for so many seconds.
        clock: seconds, for the time that a look takes.
        is_output: whether a build wrote a file of a name: if outputs counted, each build would be
            followed by another.
    """
    before = look()
    yield ()
    while True:
        start = clock()
        now = look()
        if not before.changed(now):
            before = now  # what else was read meanwhile counts from here on
            wait(max(POLL, SHARE * (clock() - start)))
            continue
        for _ in range(SETTLE):
            wait(POLL / 4)  # an editor writes a file in several steps
            last, now = now, look()
            if last == now:
                break
        names = tuple(name for name in before.changed(now) if not is_output(name))
        before = now
        if names:
            yield names


def snapshot(root: Path, cache: Path | None = None) -> Snapshot:
    """Return what the files of a project are like now; the user's cache tells which others the last
    build read.
    """
    from tilec.compile.stamp import files_read

    sources: dict[str, Status] = {}
    for place, folders, files in os.walk(root):
        here = Path(place)
        folders[:] = [name for name in folders if not _is_passed_over(root, here / name)]
        for name in files:
            if Path(name).suffix in SUFFIXES:
                _note(sources, root, here / name)
    read: dict[str, Status] = {}
    for path in files_read(cache, root):
        if str(path) not in sources:
            _note(read, root, root / path)
    return Snapshot(sources=sources, read=read)


def pause(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def _note(found: dict[str, Status], root: Path, path: Path) -> None:
    with contextlib.suppress(OSError):  # it may go while it is looked at
        status = path.stat()
        name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        found[name] = (status.st_size, status.st_mtime_ns, status.st_ino)


def _is_passed_over(root: Path, folder: Path) -> bool:
    return (
        folder.name.startswith(".")
        or folder.name in PASSED_OVER
        or folder == root / "dist"
        or (folder / "pyvenv.cfg").exists()
    )


def _check(words: tuple[str, ...]) -> None:
    """Whether this can be done again and again.

    Raises:
        UsageError: it is no command, or not one of those.
    """
    from tilec.cli.main import COMMANDS
    from tilec_runtime.model.suggest import did_you_mean

    able = _able()
    if not words or words[0] in able:
        return
    why = (
        "cannot be watched"
        if words[0] in COMMANDS
        else f"is no command{did_you_mean(words[0], able)}"
    )
    raise UsageError(
        f"watch: {words[0]!r} {why}",
        fix=f"watch one of {', '.join(able)}, with its options behind it",
    )


def _able() -> list[str]:
    from tilec.cli.main import COMMANDS

    return [name for name in COMMANDS if name not in NOT_AGAIN]


def _arguments(app: App, words: tuple[str, ...]) -> list[str]:
    """The command line of one round, with this run's global options."""
    given = {
        "--manifest": str(app.manifest_path()),
        "--color": "always" if app.colored(sys.stdout) else app.color,
    }
    options = [word for name, value in given.items() if value for word in (name, value)]
    flags = [
        name
        for name, value in (("-q", app.quiet), ("-v", app.verbose), ("--debug", app.debug))
        if value
    ]
    return [*options, *flags, *words]


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"{', '.join(names[:NAMES_SHOWN])}{more} changed"
