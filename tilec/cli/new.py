"""`tilec new`: start a project from the skeletons in templates/new."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import click

import tilec
from tilec.cli.app import App, examples, json_option
from tilec.cli.style import style
from tilec_runtime.errors import TilecError, UsageError

# Folders of templates/new in addition to `common`, by kind.
KINDS = {
    "tile": ("tile",),
    "cuda": ("cuda",),
    "triton": ("triton",),
    "simt": ("simt",),
    "cutile": ("cutile",),
    "mixed": ("tile", "cuda"),
}
EXTRAS = {"triton", "simt"}  # languages whose compiler is installed by an extra of their name
ANYWHERE = {"tile", "cutile"}  # languages that the cpu device runs


@click.command(
    epilog=examples(
        "tilec new acme-kernels",
        "tilec new acme-kernels --kind cuda",
        "tilec -C ~/src new acme-kernels --kind triton",
    ),
)
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="tile",
    show_default=True,
    help="Language of the kernel: tile (tilec.lang), cuda (CUDA C++), triton, simt (Python for numba-cuda), "
    "cutile (cuTile Python), or mixed (tile and cuda).",
)
@json_option
@click.pass_obj
def command(app: App, name: str, kind: str) -> None:
    """Create a project in a new directory NAME: a kernel with two cases and a reference, tilec.toml,
    pyproject.toml, a README and a CI workflow.

    The project passes `tilec check` and builds as it is. Existing files are never overwritten.
    """
    module = module_name(name)
    target = app.path(name)
    files = render(kind, {"name": name, "module": module, "tilec_version": tilec.__version__})
    write(target, files)
    if app.json:
        app.document(
            "new", {"path": str(target), "package": name, "module": module, "files": sorted(files)}
        )
        return
    for file in sorted(files):
        app.say(f"  {app.show(target / file)}")
    done, path = style("created", fg="green", bold=True), app.show(target)
    then = "run" if ANYWHERE.intersection(KINDS[kind]) else "build"
    app.say(f"{done} {path}; next: cd {path} && tilec {then}")


def module_name(name: str) -> str:
    """Return the import name of a package.

    Raises:
        UsageError: the name is not a package name, or its module could not be imported.
    """
    from tilec.manifest import values

    if not re.fullmatch(values.NAME, name):
        raise UsageError(
            f"{name!r} is not a package name",
            cause="package names are letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
            fix="choose another name, such as acme-kernels; -C DIR chooses the parent directory",
        )
    module = re.sub(r"[-_.]+", "_", name).lower()
    try:
        return values.module_name(module)
    except ValueError as error:
        raise UsageError(
            f"{name!r} gives a module that a manifest refuses: {error}",
            fix="take a name such as acme-kernels",
        ) from error


def render(kind: str, values: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a skeleton; `*.j2` are templates, and `dot_x` becomes `.x`.

    Raises:
        TilecError: the templates are missing.
    """
    from jinja2 import Environment, StrictUndefined

    from tilec.manifest.keys import json_schema

    env = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    parts = KINDS[kind]
    # The first line of tilec.toml names the schema's file; editors need it in a fresh checkout too.
    schema = json.dumps(json_schema(), separators=(",", ":")) + "\n"
    files = {"tilec.schema.json": schema.encode()}
    # The workflow's action is a file of the project, so that no other repository must be trusted.
    files[".github/actions/tilec/action.yml"] = _skeleton("action.yml").read_bytes()
    extras = ",".join(["build", *(part for part in parts if part in EXTRAS)])
    context = {
        **values,
        "parts": parts,
        "extras": extras,
        "tool": f"tilec[{extras}]",
        "tile": bool(ANYWHERE.intersection(parts)),
        "scale": parts != ("cuda",),
    }
    for part in ("common", *parts):
        root = _skeleton("new") / part
        for path in sorted(root.rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            steps = path.relative_to(root).parts
            name = "/".join(re.sub(r"^dot_", ".", step) for step in steps)
            data = path.read_bytes()
            if name.endswith(".j2"):
                name = name.removesuffix(".j2")
                data = env.from_string(data.decode()).render(context).encode()
            files[name] = data
    return files


def _skeleton(name: str) -> Path:
    """Return a folder or file of skeletons, in the package or the source checkout.

    Raises:
        TilecError: neither has it.
    """
    package = Path(tilec.__file__).parent
    checkout = package.parent
    folders = (package / "_templates" / name, checkout / "templates" / name, checkout / name)
    for folder in folders:
        if folder.exists():
            return folder
    raise TilecError(
        f"the templates of projects are missing: {folders[0]}",
        cause="tilec is not completely installed",
        fix="reinstall tilec",
    )


def write(target: Path, files: dict[str, bytes]) -> None:
    """Write a project into a temporary directory beside its target, then move it.

    Raises:
        UsageError: the target exists.
        OSError: the directory cannot be written.
    """
    empty = target.is_dir() and not any(target.iterdir())
    if target.is_symlink() or (target.exists() and not empty):
        raise UsageError(
            f"{target} exists already", fix="choose another name, or move what is there"
        )
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
        draft = Path(folder) / target.name
        for name, data in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        draft.rename(target)
