"""The PEP 517 and PEP 660 build backend of kernel projects, for `pip install .`.

A project names it in its pyproject.toml:

    [build-system]
    requires = ["tilec[build]"]
    build-backend = "tilec.build_backend"

Name, version, description and licence come from tilec.toml. Frontends run these functions in the
project's directory.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.types import Manifest
from tilec.model.toml import tomllib
from tilec.package.publish import RUNTIME, licences_of
from tilec.package.sbom import sbom_of
from tilec.package.wheel import dist_info, metadata_files, release_name, write_wheel
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import UsageError

Settings = Mapping[str, str | Sequence[str]] | None
_BUILD_OPTIONS = ("targets", "profile", "jobs", "select")
_PROJECT_KEYS = {"name", "version", "dependencies", "requires-python"}


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return no requirements: the compilers come with `tilec[build]`."""
    del config_settings
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the wheel's metadata without compiling; return the name of its directory."""
    del config_settings
    manifest, requires = _project()
    files = metadata_files(manifest.package.info, licences_of(manifest), requires, {})
    for name, data in files.items():
        path = Path(metadata_directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return dist_info(manifest.package.info)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the project and put its wheel into `wheel_directory`; return the wheel's name.

    `config_settings` are options of `tilec build`: `pip install . -C targets=sm_90`.
    """
    del metadata_directory
    manifest, requires = _project()
    built = _built(config_settings)
    bundle = next(path for path in built if path.suffix == ".tilec")
    return write_wheel(
        Path(wheel_directory),
        package=manifest.package.info,
        files={f"{path.parent.name}/{path.name}": path for path in built},
        license_files=licences_of(manifest),
        requires=requires,
        sbom=sbom_of(Bundle.open(bundle).info),
    ).name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the project; write a wheel that adds the project's output directory to sys.path.

    Programs then always import the package of the latest build. Returns the wheel's name.
    """
    del metadata_directory
    manifest, requires = _project()
    output = _built(config_settings)[0].parent.parent
    name = f"__editable__.{manifest.package.module}.pth"
    return write_wheel(
        Path(wheel_directory),
        package=manifest.package.info,
        files={name: f"{output}\n".encode()},
        license_files=licences_of(manifest),
        requires=requires,
    ).name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Write the project's sources as a .tar.gz; return its name.

    Equal sources give equal bytes.
    """
    del config_settings
    manifest, requires = _project()
    package, root = manifest.package.info, Path.cwd()
    base = release_name(package)
    members = {name: Path(root, name).read_bytes() for name in _source_files(root, manifest)}
    metadata = metadata_files(package, licences_of(manifest), requires, {})
    members["PKG-INFO"] = metadata[f"{dist_info(package)}/METADATA"]
    path = Path(sdist_directory, f"{base}.tar.gz")
    with (
        path.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(members.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path.name


def _project() -> tuple[Manifest, tuple[str, ...]]:
    """Return the manifest in the working directory, and the requirements of its wheel.

    Raises:
        TilecError: the manifest has problems, or pyproject.toml contradicts it.
    """
    manifest = open_project(Path.cwd() / "tilec.toml", ToolSearch()).manifest
    table = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    package = manifest.package
    if unknown := sorted(set(table) - _PROJECT_KEYS):
        raise UsageError(
            f"pyproject.toml: the build backend of tilec does not read project.{unknown[0]}",
            cause="name, version, description and licence of a kernel package are in tilec.toml",
            fix=f"remove it; [project] may have {', '.join(sorted(_PROJECT_KEYS))}",
        )
    for key, value in (("name", package.name), ("version", package.version)):
        if table.get(key, value) != value:
            raise UsageError(
                f"pyproject.toml says project.{key} = {table[key]!r}, tilec.toml says {value!r}",
                fix=f"remove project.{key} from pyproject.toml, or make both equal",
            )
    return manifest, (*RUNTIME, *table.get("dependencies", ()))


def _built(settings: Settings) -> list[Path]:
    """Run `tilec build` on the project in the working directory; return the package's files.

    The compilers' messages go to standard error, which pip shows when a build fails.

    Raises:
        UsageError: the backend has no such option.
        SystemExit: the build failed; it has printed the reason.
    """
    options = []
    for name, value in (settings or {}).items():
        if name not in _BUILD_OPTIONS:
            raise UsageError(
                f"the build backend has no option {name!r}",
                fix=f"-C takes {', '.join(_BUILD_OPTIONS)}, each as `tilec build` does",
            )
        values = (value,) if isinstance(value, str) else value
        options += [f"--{name}={each}" for each in values]
    # `python -m tilec` would run a project's own tilec.py.
    start = "from tilec.__main__ import main; main()"
    command = [sys.executable, "-c", start, "build", "--json", "--emit", "package", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    outputs = json.loads(done.stdout)["outputs"]
    return [Path(each["path"]).resolve() for each in outputs if each["kind"] == "package"]


def _source_files(root: Path, manifest: Manifest) -> list[str]:
    """Return the files of a source distribution.

    These are the files that git would commit; without git, all but outputs and hidden files.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=False)
        names = listed.stdout.decode().split("\0") if not listed.returncode else None
    except FileNotFoundError:
        names = None
    if names is None:
        output = Path(manifest.output.dir).parts[:1]
        paths = (path.relative_to(root) for path in root.rglob("*"))
        names = [
            path.as_posix()
            for path in paths
            if path.parts[:1] != output and not any(part[0] in "._" for part in path.parts)
        ]
    return sorted(name for name in names if name and Path(root, name).is_file())
