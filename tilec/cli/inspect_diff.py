"""`tilec inspect --diff`: what changed between two builds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import (
    Cell,
    bytes_text,
    count_text,
    plural,
    share_text,
)
from tilec.inspection.diff import Change, Difference, ImageChange

DIFF_HEADS = ("~image", ">regs", ">spills", ">shared", ">stack", ">occupancy", ">code")
ARROW = "→"
IDS_SHOWN = 10


def print_difference(app: App, difference: Difference) -> None:
    """Print the changes between two builds; `--verbose` lists every id."""
    old, new = difference.old, difference.new
    names = [f"{one.info.package.name} {one.info.package.version}" for one in (old, new)]
    title = style(f" {ARROW} ".join(names), bold=True)
    app.say(f"{title}  {app.show(old.path)} {ARROW} {app.show(new.path)}")
    if old.digest == new.digest:
        app.say("the same bundle")
        return
    rest = tuple(change for change in difference.changes if not change.breaking)
    _changes(app, style("breaking", fg="red", bold=True), difference.breaking)
    _changes(app, style("compatible", fg="cyan", bold=True), rest)
    counts = (
        (len(difference.images), "changed"),
        (len(difference.added), "added"),
        (len(difference.removed), "removed"),
        (difference.same, "the same"),
    )
    images = ", ".join(f"{count} {noun}" for count, noun in counts if count) or "none"
    app.say(f"\n{style('images', bold=True)}  {images}")
    if difference.images:
        app.table(DIFF_HEADS, [_change_row(image) for image in difference.images], indent="  ")
    _ids(app, "added", difference.added)
    _ids(app, "removed", difference.removed)
    if difference.tools:
        app.say(f"\n{style('toolchain', bold=True)}")
    for tool in difference.tools:
        text = f"{tool.old or 'none'} {ARROW} {tool.new or 'none'}"
        app.say(f"  {tool.name} {f'{tool.new}, another file' if tool.old == tool.new else text}")


def _ids(app: App, change: str, ids: Sequence[str]) -> None:
    shown = ids if app.verbose else ids[:IDS_SHOWN]
    for name in shown:
        app.say(f"  {change} {name}")
    if len(shown) < len(ids):
        more = plural(len(ids) - len(shown), "more image")
        app.say(f"  {change} {more} (--verbose lists them)")


def _changes(app: App, title: str, changes: tuple[Change, ...]) -> None:
    if changes:
        app.say(f"\n{title}")
    for change in changes:
        app.say(f"  {f'{change.kernel}: ' if change.kernel else ''}{change.what}")


def _change_row(image: ImageChange) -> list[Cell]:
    row: list[Cell] = [image.id]
    forms = {"registers": count_text, "occupancy": share_text}
    for field in dataclasses.fields(image.old):
        form = forms.get(field.name, bytes_text)
        was, now = form(getattr(image.old, field.name)), form(getattr(image.new, field.name))
        changed = now if was == now else f"{was} {ARROW} {now}"
        row.append((changed, "yellow" if field.name in image.worse else ""))
    return row
