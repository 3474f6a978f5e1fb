"""`tilec watch`: run a command again whenever a file of the project changes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep

import click

from tilec.cli.app import App, examples
from tilec.cli.complete import completes, kernels_of, names_of
from tilec.cli.style import style
from tilec.cli.tables import listed
from tilec.compile.own import own_command
from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

ABLE = ("check", "build", "run", "bench", "sanitize", "profile", "inspect")
# A run may write results into the project, so files with other suffixes count only if a build read
# them.
SUFFIXES = frozenset(
    [
        ".py",
        ".toml",
        ".cu",
        ".cuh",
        ".cpp",
        ".cc",
        ".c",
        ".h",
        ".hpp",
        ".hh",
        ".inl",
        ".ptx",
        ".cubin",
        ".fatbin",
        ".ltoir",
        ".bc",
    ]
)
POLL = 0.1  # seconds between checks
SHARE = 20  # checks may take at most this fraction (1/20) of the time
SETTLE = 20  # most checks of files that keep changing
NAMES_SHOWN = 3
GRACE = 10.0  # seconds for an interrupted command to end its processes

Snapshot = Mapping[str, tuple[int, int, int]]  # size, time and inode of files by name


def _next_words(ctx: click.Context) -> list[str]:
    return [*kernels_of(ctx), *names_of(ctx)] if ctx.params.get("words") else list(ABLE)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "tilec watch                              # build on every save",
        "tilec watch run softmax --device cpu",
        "tilec watch sanitize softmax --case odd",
        "tilec watch check",
    )
    + "\n\nCtrl-C ends it with exit code 130. Exit code 2: error in the command line or manifest.",
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
    """Run COMMAND (default: build) now, and again whenever a file of the project changes.

    Watched are the sources and headers in the project's directory, except in outputs and hidden
    directories, and all other files that the last build read. Only changed jobs are compiled
    again.
    """
    from tilec.package.written import is_written

    words = words or ("build",)
    if words[0] not in ABLE:
        raise UsageError(
            f"watch: {words[0]!r} cannot be watched{did_you_mean(words[0], ABLE)}",
            fix=f"watch one of {', '.join(ABLE)}, with its options behind it",
        )
    root, arguments = app.manifest_path().parent, _arguments(app, words)

    def look() -> Snapshot:
        return snapshot(root, app.settings.cache_dir)

    before = look()  # a file saved during the first round starts the second one
    while True:
        run_once(arguments, app.base)
        app.status(f"watching {root.name}; Ctrl-C ends it")
        names: tuple[str, ...] = ()
        while not names:
            now = next_snapshot(before, look)
            # Otherwise the outputs of each build would start another one.
            names = tuple(name for name in changed(before, now) if not is_written(root / name))
            before = now
        text = f"── {listed(names, NAMES_SHOWN)} changed: tilec {' '.join(words)}"
        app.note(style(text, bold=True))


def run_once(arguments: list[str], folder: Path) -> None:
    """Run `tilec` in a new process, so that no user module stays loaded after a round."""
    process = subprocess.Popen(own_command("tilec.cli.main", *arguments), cwd=folder)
    try:
        process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)  # the process got the interrupt too, and ends its own processes
        process.kill()
        raise


def next_snapshot(before: Snapshot, look: Callable[[], Snapshot]) -> Snapshot:
    """Wait until files have changed and stay unchanged, and return the new snapshot."""
    while True:
        start = monotonic()
        now = look()
        if changed(before, now):
            break
        before = now  # a build may have read additional files, which count from now on
        sleep(max(POLL, SHARE * (monotonic() - start)))
    for _ in range(SETTLE):
        sleep(POLL / 4)  # an editor writes a file in several steps
        last, now = now, look()
        if last == now:
            break
    return now


def changed(before: Snapshot, now: Snapshot) -> tuple[str, ...]:
    """Return the names of changed files.

    An added or removed file counts only if it is a source of the project, since other files that a
    build reads are known only after the build.
    """
    names = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    return tuple(
        name
        for name in sorted(names)
        if (name in before and name in now)
        or (Path(name).suffix in SUFFIXES and not Path(name).is_absolute())
    )


def snapshot(root: Path, cache: Path | None = None) -> Snapshot:
    """Return the status of sources and of other files that the last build read.

    `tilec.lock` is left out, because builds write it.
    """
    from tilec.compile.lockfile import NAME
    from tilec.compile.stamp import files_read

    states: dict[str, tuple[int, int, int]] = {}
    paths = [root / path for path in files_read(cache, root) if path != Path(NAME)]
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        folders[:] = [name for name in folders if not _is_ignored(root, here / name)]
        paths += [here / name for name in files if Path(name).suffix in SUFFIXES]
    for path in paths:
        with contextlib.suppress(OSError):  # it may be removed meanwhile
            status = path.stat()
            name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
            states[name] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return states


def _is_ignored(root: Path, folder: Path) -> bool:
    named = folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules")
    return named or folder == root / "dist" or (folder / "pyvenv.cfg").exists()


def _arguments(app: App, words: tuple[str, ...]) -> list[str]:
    """Return the command line of one round, with the global options of this run."""
    color = "always" if app.colored(sys.stdout) else app.color
    options = ["--color", color] if color else []
    flags = (("-q", app.quiet), ("-v", app.verbose), ("--debug", app.debug))
    return [*options, *(flag for flag, given in flags if given), *words]
