"""`tilec clean`: removes what tilec wrote into a project, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option
from tilec.errors import OutputError
from tilec.model.digest import sha256

if TYPE_CHECKING:
    from tilec.compiler.state import Output

STATE = ".tilec"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """What is to go: files (links as links), directories that are tilec's own, and what stays, with the reason."""

    files: tuple[Path, ...] = ()
    trees: tuple[Path, ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()


@click.command(
    short_help="Remove what tilec wrote into a project.",
    epilog=examples("tilec clean --dry-run", "tilec clean", "tilec -C ../acme-kernels clean"),
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@json_option
@click.pass_obj
def command(app: App, dry_run: bool) -> None:
    """Remove the outputs of builds and the .tilec directory.

    Files that were changed since, that tilec did not write, or that lie outside of the project stay. So does the cache: see `tilec cache`.
    """
    from tilec.cli.tables import plural
    from tilec.compiler.state import WorkDir

    root = app.manifest_path().parent
    work = WorkDir(root)
    state = root / STATE
    with work.lock(app.note) if state.is_dir() and not state.is_symlink() and not dry_run else contextlib.nullcontext():
        cleaning = plan(root, work.outputs())
        if not dry_run:
            remove(root, cleaning)
    gone = [app.show(path) for path in (*cleaning.files, *cleaning.trees)]
    if app.json:
        kept = [{"path": app.show(path), "why": why} for path, why in cleaning.kept]
        app.document("clean", {"dry_run": dry_run, "removed": gone, "kept": kept})
        return
    if dry_run or app.verbose:
        for name in gone:
            app.say(f"  {name}")
    for path, why in cleaning.kept:
        app.note(f"kept {app.show(path)}: {why}")
    done = "would remove" if dry_run else "removed"
    app.say(f"{done} {plural(len(cleaning.files), 'file')}{f' and {STATE}' if cleaning.trees else ''}" if gone else "nothing to remove")


def plan(root: Path, outputs: Iterable[Output]) -> Cleaning:
    """Decide what goes, without removing anything.

    Args:
        root: the project's directory.
        outputs: what the last build wrote.
    """
    home = root.resolve()
    files: list[Path] = []
    kept: list[tuple[Path, str]] = []
    for output in outputs:
        path = Path(output.path)
        if not path.parent.resolve().is_relative_to(home):
            kept.append((path, "it lies outside of the project"))
        elif path.is_symlink():
            kept.append((path, "it is a link, which tilec did not write"))
        elif path.is_file():
            if path.stat().st_size == output.size and sha256(path.read_bytes()) == output.digest:
                files.append(path)
            else:
                kept.append((path, "it was changed after the build"))
    state = root / STATE
    if state.is_symlink():
        files.append(state)  # the link goes, what it leads to stays
    trees = (state,) if state.is_dir() and not state.is_symlink() else ()
    return Cleaning(files=tuple(files), trees=trees, kept=tuple(kept))


def remove(root: Path, cleaning: Cleaning) -> None:
    """Carry out a plan, then remove the directories that it left empty.

    Raises:
        OutputError: something cannot be removed.
    """
    try:
        for path in cleaning.files:
            path.unlink(missing_ok=True)
        for directory in sorted({path.parent for path in cleaning.files}, key=lambda p: -len(p.parts)):
            _remove_compiled(directory, cleaning.files)
            _remove_empty(directory, root)
        for tree in cleaning.trees:
            shutil.rmtree(tree)  # does not follow links
    except OSError as exc:
        raise OutputError(f"cannot remove {exc.filename}: {exc.strerror}", fix="check the directory's permissions") from exc


def _remove_compiled(directory: Path, files: Iterable[Path]) -> None:
    """Remove what Python compiled from the files that went."""
    cache = directory / "__pycache__"
    if cache.is_symlink() or not cache.is_dir():
        return
    stems = {path.stem for path in files if path.parent == directory and path.suffix == ".py"}
    for entry in cache.iterdir():
        if entry.suffix == ".pyc" and entry.name.split(".", 1)[0] in stems:
            entry.unlink()
    with contextlib.suppress(OSError):
        cache.rmdir()


def _remove_empty(directory: Path, root: Path) -> None:
    while directory != root and directory.is_relative_to(root):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
