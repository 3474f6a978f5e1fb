"""`tilec verify`: build a file again from a checkout, and compare byte for byte."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, jobs_option, json_option, split_words
from tilec.cli.complete import completes, profiles_of
from tilec.cli.style import style
from tilec.cli.tables import Cell, plural
from tilec.cli.targets import targets_option
from tilec_runtime.errors import BundleError

if TYPE_CHECKING:
    from tilec.inspection.verify import Finding, Given, Rebuild

SHOWN = 40  # differences to show


@click.command(
    epilog=examples(
        "tilec verify dist/acme_kernels-0.3.0-py3-none-any.whl",
        "tilec -C checkout verify ../acme-kernels-0.3.0.tilec",
        "tilec verify acme-kernels-0.3.0.intoto.json    # all that it names",
        "tilec verify dist/hub/acme-kernels",
        "tilec verify acme-kernels-0.3.0.tilec --json | jq '.differences'",
    )
    + "\n\nExit codes: 0 equal bytes, 1 a difference, a damaged file, or a checkout that does not build, 2 "
    "error in the command line or manifest, 3 a compiler is missing.",
)
@click.argument("file", type=click.Path())
@targets_option(
    "Targets or groups of the build (default: from its provenance, else from the file's images)."
)
@click.option(
    "--select",
    multiple=True,
    callback=split_words,
    metavar="GLOB",
    help="Selection of the build (default: from its provenance).",
)
@click.option(
    "--profile",
    default="",
    metavar="NAME",
    shell_complete=completes(profiles_of),
    help="Profile of the build (default: from the file).",
)
@jobs_option
@click.option(
    "--cached", is_flag=True, help="Take images from the cache; by default all are compiled."
)
@json_option
@click.pass_obj
def command(
    app: App,
    file: str,
    targets: tuple[str, ...],
    select: tuple[str, ...],
    profile: str,
    jobs: int | None,
    cached: bool,
) -> int:
    """Rebuild FILE from the checkout of this project, and compare every byte.

    FILE is a bundle, a wheel, a hub package, an SBOM or a provenance. Each difference is named: a
    tool, a source, an option or an image. A file of other sources than the checkout's is refused
    before anything is built. The project's outputs and tilec.lock do not change.
    """
    from tilec.inspection import verify

    root = app.manifest_path().parent
    given = verify.read_given(app.path(file))
    findings = tuple(verify.lacking(given, root))
    built = not findings
    if built:
        given, rebuild = verify.with_request(given, targets)
        rebuild = dataclasses.replace(
            rebuild,
            select=select or rebuild.select,
            profile=profile or rebuild.profile,
        )
        with _built_again(app, given, rebuild, jobs, cached=cached) as (again, provenance):
            findings = verify.differences(given, again, provenance)
    _report(app, given, findings, built=built)
    return 1 if findings else 0


@contextlib.contextmanager
def _built_again(
    app: App, given: Given, rebuild: Rebuild, jobs: int | None, *, cached: bool
) -> Iterator[tuple[Path, Path | None]]:
    """Build again; yield the output for the file, and its provenance or None.

    Both are removed afterwards.
    """
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.build import make_request
    from tilec.compile.state import NAME
    from tilec.planning import AGAIN

    request = make_request(
        app,
        targets=rebuild.targets,
        select=rebuild.select,
        profile=rebuild.profile,
        workers=jobs,
        emit=rebuild.emit,
        force=not cached,
        cached=cached,
        again=True,
    )
    folder = request.manifest_path.parent / NAME / AGAIN
    try:
        result = build.build(request, progress.observer(app))
        alike = [Path(output.path) for output in result.outputs if output.kind == given.kind]
        provenance = (Path(out.path) for out in result.outputs if out.kind == "provenance")
        yield _counterpart(given, alike), next(provenance, None)
    finally:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)


def _counterpart(given: Given, built: Sequence[Path]) -> Path:
    """Return the output that corresponds to the file.

    Raises:
        BundleError: no output corresponds to it.
    """
    from tilec.package.hub_metadata import VARIANT

    if given.kind == "hub" and built:
        return next(one for one in built[0].parents if one.name == VARIANT)
    named = [path for path in built if path.name == given.path.name]
    if named or len(built) == 1:
        return (named or list(built))[0]
    raise BundleError(
        f"the checkout builds no {given.path.name}, but {', '.join(path.name for path in built) or 'nothing'}",
        cause="the wheels are split differently, or the package has another name or version",
        fix="check out the sources that the file was built from",
    )


def _report(app: App, given: Given, findings: Sequence[Finding], *, built: bool) -> None:
    if app.json:
        body = {
            "ok": not findings,
            "path": app.show(given.path),
            "what": given.kind,
            "built": built,
            "differences": [dataclasses.asdict(one) for one in findings],
        }
        app.document("verify", body)
        return
    name = app.show(given.path)
    if not findings:
        app.say(f"{style('verified', fg='green', bold=True)} {name}: the rebuilt bytes are equal")
        return
    rows: list[list[Cell]] = [
        [one.kind, one.name, _short(one.given), _short(one.built)]
        for one in findings[: len(findings) if app.verbose else SHOWN]
    ]
    app.table(("differs", "~name", "in the file", "in the checkout"), rows)
    if len(rows) < len(findings):
        app.say(
            f"… and {plural(len(findings) - len(rows), 'more difference')} (--verbose lists them)"
        )
    why = "" if built else "; nothing was built, because the sources differ"
    word = style("differs", fg="red", bold=True)
    app.say(f"\n{word} {name}: {plural(len(findings), 'difference')}{why}")
    if built and not {"tool", "source", "option"} & {one.kind for one in findings}:
        app.say(
            "  tools and sources are equal: an option of the manifest differs (a provenance beside "
            "the file would name it), the file was changed, or the output of a compiler varies"
        )


def _short(text: str) -> str:
    """Return a value with its digest, if it has one, shortened to 12 digits."""
    *rest, last = text.split(" ")
    cut = last[:12] if len(last) == 64 else last
    return " ".join((*rest, cut)) if text else "-"
