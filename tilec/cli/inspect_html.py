"""`tilec inspect --html`: writes the report as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.tables import bytes_text, plural
from tilec_runtime.errors import UsageError

if TYPE_CHECKING:
    from tilec.inspection.container import Code
    from tilec.inspection.report import Report

SUFFIXES = (".html", ".htm")


def check_html(app: App, html: str) -> Path:
    """The file that a report is to be written to, before anything is read.

    Raises:
        UsageError: it is a directory, or lies in none, or has not the name of such a file.
    """
    path = app.path(html)
    if path.is_dir():
        raise UsageError(
            f"--html {html}: is a directory",
            fix=f"name a file, such as {Path(html) / 'report.html'}",
        )
    # A word forgotten on the command line must not put a report in the place of a bundle.
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--html {html}: no name of an HTML file", fix="end it in .html")
    if not path.parent.is_dir():
        raise UsageError(
            f"--html {html}: there is no directory {app.show(path.parent)}",
            fix="create it, or choose another place",
        )
    return path


def write_html(app: App, opened: Code, found: Report, path: Path, sources: Path) -> None:
    """Write the report of what is open, whole or not at all.

    Raises:
        BundleError: an image is damaged.
        OutputError: the file cannot be written; what was there before is untouched.
    """
    import dataclasses

    from tilec.inspection.html import render
    from tilec.inspection.page import make_page
    from tilec.model.atomic import Stage

    shown = dataclasses.replace(found, path=app.show(found.path))
    page = make_page(
        opened.bundle,
        shown,
        app.settings.search,
        sources,
        on_image=lambda name: app.pass_by(f"reading the code of {name}"),
    )
    package = found.info.package
    data = render(page, amount=bytes_text, title=f"{package.name} {package.version}".strip())
    with Stage() as stage:
        stage.write(path, data)
        stage.put_in_place()
    if page.left_out:
        app.warn(page.left_out)
    count = plural(len(page.images), "image")
    app.say(
        f"wrote {app.show(path)}: {plural(len(found.info.kernels), 'kernel')}, {count}, {bytes_text(len(data))}"
    )
