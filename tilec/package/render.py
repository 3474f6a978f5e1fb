"""Bundle's index to the files of a typed Python package: view, then template."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.package.operators import operators_view
from tilec.package.view import package_view
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.kernel import BundleInfo

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def render_package(info: BundleInfo, bundle_name: str, index: str) -> dict[str, bytes]:
    """The files of the package that wraps a bundle; the bundle itself lies next to them.

    Args:
        info: the bundle's index.
        bundle_name: file name of the bundle inside the package.
        index: SHA-256 of the bundle's index (hex): the package takes no bundle with another one.

    Returns:
        Contents by file name; equal arguments give equal bytes.

    Raises:
        UsageError: a kernel's or a parameter's name cannot be one in Python.
    """
    view = package_view(info, bundle_name, index)
    views = {"package": view, "operators": operators_view(info)}
    files = {
        name: f"{template.render(views).rstrip()}\n".encode()
        for name, template in package_templates().items()
        if name != "torch.py" or views["operators"] is not None
    }
    return {**files, "py.typed": b""}


@functools.cache
def package_templates() -> dict[str, Template]:
    """The templates of a package's files; the first call loads Jinja2 and compiles them, which
    takes longer than to fill them in.
    """
    environment = _environment("package")
    return {
        name: environment.get_template(f"{name}.jinja")
        for name in ("__init__.py", "__init__.pyi", "torch.py")
    }


def hub_template() -> Template:
    """The template of a hub package's module."""
    return _environment("hub").get_template("__init__.py.jinja")


def _environment(folder: str) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Every text in a view is escaped for the place where it stands: HTML's escaping would only
    # spoil it.
    return Environment(
        loader=FileSystemLoader(templates(folder)),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def templates(name: str) -> Path:
    """A directory of tilec's templates: inside the installed wheel, or beside the sources.

    Raises:
        ToolchainError: it is in neither.
    """
    package = Path(__file__).resolve().parents[1]
    folders = (package / "_templates" / name, package.parent / "templates" / name)
    for folder in folders:
        if folder.is_dir():
            return folder
    raise ToolchainError(
        f"tilec's templates are missing: looked in {folders[0]} and {folders[1]}",
        fix="install tilec again",
    )
