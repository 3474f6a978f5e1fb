"""`tilec clean`: removes what tilec wrote into a project, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import click

from tilec.cli.app import App, examples, json_option
from tilec.model.inside import contained
from tilec_runtime.errors import LinkError, OutputError

STATE = ".tilec"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """What is to go: files (links as links), directories that are tilec's own, and what stays, with
    the reason.
    """

    files: tuple[Path, ...] = ()
    trees: tuple[Path, ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()


@click.command(
    short_help="Remove what tilec wrote into a project.",
    epilog=examples("tilec clean --dry-run", "tilec clean", "tilec -C ../acme-kernels clean"),
)
@click.option(
    "-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing."
)
@json_option
@click.pass_obj
def command(app: App, dry_run: bool) -> None:
    """Remove the outputs of builds and the .tilec directory.

    Files that were changed since, that tilec did not write, or that lie outside of the project
    stay. So does the cache: see `tilec cache`.
    """
    from tilec.cli.tables import plural
    from tilec.compile.state import WorkDir

    manifest_path = app.manifest_path()
    root = manifest_path.parent
    state = root / STATE
    with (
        WorkDir(root).lock(app.note)
        if state.is_dir() and not state.is_symlink() and not dry_run
        else contextlib.nullcontext()
    ):
        cleaning = plan(manifest_path)
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
    app.say(
        f"{done} {plural(len(cleaning.files), 'file')}{f' and {STATE}' if cleaning.trees else ''}"
        if gone
        else "nothing to remove"
    )


def plan(manifest_path: Path) -> Cleaning:
    """Decide what goes, without removing anything.

    Args:
        manifest_path: the project's tilec.toml, of which only the names of package and output
            directory count.
    """
    from tilec.package.marks import all_outputs, outputs_of_others

    root = manifest_path.parent
    name, module, directory = _names(manifest_path)
    outputs: dict[Path, bool] = {}
    kept: list[tuple[Path, str]] = []
    try:
        if name:
            place = contained(root, directory)
            outputs = all_outputs(place, name, module)
            others = outputs_of_others(place, name, module)
            kept.extend(
                (
                    path,
                    f"it was built for the package {owner}; delete it if that was this one's name",
                )
                for path, owner in others.items()
            )
    except LinkError as error:
        kept.append((root / directory, error.what))
    files = [path for path, own in outputs.items() if own]
    for path in outputs.keys() - files:
        changed = "it was changed after the build, or tilec did not write it"
        kept.append(
            (path, "it is a link, which tilec did not write" if path.is_symlink() else changed)
        )
    kept.sort()
    state = root / STATE
    if state.is_symlink():
        files.append(state)  # the link goes, what it leads to stays
    trees = (state,) if state.is_dir() and not state.is_symlink() else ()
    return Cleaning(files=tuple(files), trees=trees, kept=tuple(kept))


def _names(manifest_path: Path) -> tuple[str, str, str]:
    """Names of the package, its module and the output directory, however much else of a manifest is
    wrong; empty where they are.
    """
    from tilec.cli.complete import raw_manifest
    from tilec.manifest.values import NAME, inner_path

    try:
        manifest = raw_manifest(manifest_path)
        package, output = manifest["package"], manifest.get("output", {})
        name = str(package["name"])
        if not re.fullmatch(NAME, name):
            return "", "", ""
        return (
            name,
            str(package.get("module", re.sub(r"[-.]+", "_", name))),
            inner_path(str(output.get("dir", "dist"))),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", "", ""


def remove(root: Path, cleaning: Cleaning) -> None:
    """Carry out a plan, then remove the directories that it left empty.

    Raises:
        OutputError: something cannot be removed.
    """
    try:
        for path in cleaning.files:
            path.unlink(missing_ok=True)
        for directory in sorted(
            {path.parent for path in cleaning.files}, key=lambda p: -len(p.parts)
        ):
            _remove_compiled(directory, cleaning.files)
            _remove_empty(directory, root)
        for tree in cleaning.trees:
            shutil.rmtree(tree)  # does not follow links
    except OSError as exc:
        raise OutputError(
            f"cannot remove {exc.filename}: {exc.strerror}", fix="check the directory's permissions"
        ) from exc


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
