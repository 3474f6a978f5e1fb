"""`tilec clean`: remove the files that tilec wrote into a project, and no others."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.complete import raw_manifest
from tilec.cli.tables import plural
from tilec.model.inside import contained
from tilec_runtime.errors import LinkError

STATE = ".tilec"
Kept = list[tuple[Path, str]]  # files that stay, with the reason


@click.command(
    epilog=examples("tilec clean --dry-run", "tilec clean", "tilec -C ../acme-kernels clean"),
)
@click.option("-n", "--dry-run", is_flag=True, help="List the files, and remove nothing.")
@json_option
@click.pass_obj
def command(app: App, dry_run: bool) -> None:
    """Remove the outputs of builds and the .tilec directory.

    Changed files, files that tilec did not write, and files outside of the project are kept. The
    cache is kept too: see `tilec cache`.
    """
    from tilec.compile.state import WorkDir

    manifest_path = app.manifest_path()
    root = manifest_path.parent
    state = root / STATE
    own = state.is_dir() and not state.is_symlink()
    lock = WorkDir(root).lock(app.note) if own and not dry_run else contextlib.nullcontext()
    with lock:
        files, kept = _outputs(manifest_path)
        files += [state] if state.is_symlink() else []  # remove the link, but not its target
        if not dry_run:
            _remove(root, files, state if own else None)
    gone = [app.show(path) for path in (*files, *([state] if own else []))]
    if app.json:
        rows = [{"path": app.show(path), "why": why} for path, why in kept]
        app.document("clean", {"dry_run": dry_run, "removed": gone, "kept": rows})
        return
    for name in gone if dry_run or app.verbose else ():
        app.say(f"  {name}")
    for path, why in kept:
        app.note(f"kept {app.show(path)}: {why}")
    app.say(_done(gone, len(files), own=own, dry_run=dry_run))


def _done(gone: list[str], files: int, *, own: bool, dry_run: bool) -> str:
    if not gone:
        return "nothing to remove"
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {plural(files, 'file')}{f' and {STATE}' if own else ''}"


def _outputs(manifest_path: Path) -> tuple[list[Path], Kept]:
    """Return the outputs to remove, and those that stay."""
    from tilec.package.written import list_name, outputs_of_others, written_files

    kept: Kept = []
    name, directory = _names(manifest_path)
    if not name:
        return [], kept
    try:
        folder = contained(manifest_path.parent, directory)
    except LinkError as error:
        return [], [(manifest_path.parent / directory, error.what)]
    for path, owner in outputs_of_others(folder, name).items():
        why = f"it belongs to the package {owner}; delete it if that is this package's old name"
        kept.append((path, why))
    gone = []
    for file in written_files(folder, name):
        if file.unchanged:
            gone.append(file.path)
        elif file.path.is_symlink():
            kept.append((file.path, "tilec did not write this link"))
        else:
            kept.append((file.path, "it was changed after the build"))
    written = folder / list_name(name)
    return [*gone, *([written] if written.is_file() else [])], sorted(kept)


def _names(manifest_path: Path) -> tuple[str, str]:
    """Return package and output directory of a manifest that may have other errors."""
    from tilec.manifest.values import NAME, inner_path

    try:
        manifest = raw_manifest(manifest_path)
        package, output = manifest["package"], manifest.get("output", {})
        name = str(package["name"])
        if not re.fullmatch(NAME, name):
            return "", ""
        return name, inner_path(str(output.get("dir", "dist")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", ""


def _remove(root: Path, files: list[Path], state: Path | None) -> None:
    """Remove files, folders that become empty, and the .tilec directory.

    Raises:
        OSError: a file or folder cannot be removed.
    """
    for path in files:
        path.unlink(missing_ok=True)
        if path.suffix == ".py" and not (path.parent / "__pycache__").is_symlink():
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                compiled.unlink()
    for path in files:
        for folder in (path.parent / "__pycache__", *path.parents):
            if root not in folder.parents:
                break
            with contextlib.suppress(OSError):
                folder.rmdir()  # fails if not empty
    if state is not None:
        shutil.rmtree(state)  # does not follow links
