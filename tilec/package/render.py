"""Files of the typed Python package, from a bundle's index, view and templates."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.package.operators import namespace_of, operators_of
from tilec.package.view import PackageView, package_view
from tilec_runtime.model.kernel import BundleInfo

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_FILES, _OPERATORS = ("__init__.py", "__init__.pyi"), "torch.py"


def render_package(info: BundleInfo, bundle_name: str, index: str) -> dict[str, bytes]:
    """Return the files of the package that wraps a bundle, without the bundle.

    Args:
        info: index of the bundle.
        bundle_name: file name of the bundle inside the package.
        index: SHA-256 of the bundle's index (hex); the package rejects a bundle with another one.

    Returns:
        Contents by file name; equal arguments give equal bytes.

    Raises:
        UsageError: the name of a parameter cannot be a name in Python.
    """
    view = package_view(info, bundle_name, index)
    texts = {name: package_templates()[name].render(package=view) for name in _FILES}
    if operators := torch_module(info, view):
        texts[_OPERATORS] = operators
    files = {name: f"{text.rstrip()}\n".encode() for name, text in texts.items()}
    return {**files, "py.typed": b""}


def torch_module(info: BundleInfo, package: PackageView, namespace: str = "") -> str:
    """Return the text of a package's module `torch`, or an empty text without operators.

    Args:
        info: index of the bundle.
        package: view of the package.
        namespace: namespace that contains the build's digest: operators that it already has are
            then from the same build. If empty, the package's name is the namespace.
    """
    operators = operators_of(info)
    if not operators:
        return ""
    return package_templates()[_OPERATORS].render(
        package=package,
        namespace=namespace or namespace_of(info.package.name),
        shared=bool(namespace),
        operators=operators,
    )


@functools.cache
def package_templates() -> dict[str, Template]:
    """Return the templates of a package's files.

    The first call loads Jinja2 and compiles the templates, which takes longer than rendering.
    """
    package = environment("package")
    return {name: package.get_template(f"{name}.jinja") for name in (*_FILES, _OPERATORS)}


def hub_template() -> Template:
    """Return the template of a hub package's module."""
    return environment("hub").get_template("__init__.py.jinja")


def environment(folder: str, *, escape: bool = False) -> Environment:
    """Return the environment of a directory of templates.

    Args:
        folder: name of the directory.
        escape: whether to escape values for HTML. Texts of Python code are escaped already.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(templates(folder)),
        undefined=StrictUndefined,
        autoescape=escape,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def templates(name: str) -> Path:
    """Return a directory of tilec's templates, in the installed wheel or beside the sources."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_templates" / name
    return installed if installed.is_dir() else package.parent / "templates" / name
