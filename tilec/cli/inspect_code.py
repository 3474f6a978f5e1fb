"""What `tilec inspect` shows of machine code, and of what changed between two builds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import (
    Cell,
    bytes_text,
    columns,
    count_text,
    hanging,
    plural,
    table,
    terminal_width,
)

if TYPE_CHECKING:
    from tilec.inspection.code import CodeDifference, ImageCode
    from tilec.inspection.container import Code
    from tilec.inspection.diff import Difference, ImageChange
    from tilec.inspection.diff_launchers import Change
    from tilec.inspection.report import Images, Report

HEADS = columns("~image", ">regs", ">spills", ">shared", ">stack", ">occupancy", ">code")
SPARE = tuple(dataclasses.replace(head, spare=True) for head in HEADS)
ARROW = "→"
IDS_SHOWN = 10


def difference(
    app: App, old: Code, new: Code, select: str, *, code: bool, deny_breaking: bool
) -> None:
    """What a build changes against another: of its launchers and images, or (`code`) of one image's
    instructions.

    Raises:
        SystemExit: with status 1, if `deny_breaking` and something may break callers.
    """
    from tilec.inspection import code as machine
    from tilec.inspection import container, diff, report

    if code:
        changed = machine.code_difference(old.bundle, new.bundle, select, app.settings.search)
        if app.json:
            app.document("code-diff", dataclasses.asdict(changed))
        else:
            _print_code(app, changed)
        return
    reports = [container.describe(one) for one in (old, new)]
    found = diff.compare(*([report.narrow(one, select) for one in reports] if select else reports))
    if app.json:
        app.document("diff", diff.to_json(found))
    else:
        print_difference(app, found)
    if deny_breaking and found.breaking:
        raise SystemExit(1)


def print_instructions(app: App, bundle: Images, found: Report) -> None:
    """What the machine code of each cubin in a report consists of."""
    from tilec.inspection.code import image_codes, to_json
    from tilec_runtime.errors import UsageError

    codes = []
    for one in image_codes(bundle, found.info, app.settings.search):
        app.pass_by(f"disassembled {one.id}")
        codes.append(one)
        if not app.json:
            _print_mix(app, one, first=len(codes) == 1)
    if not codes:
        raise UsageError(
            "--instructions: there is no cubin image",
            fix="add an sm_ target such as sm_90 to [targets], and build again",
        )
    if app.json:
        app.document("instructions", {"images": [to_json(one) for one in codes]})


def _print_mix(app: App, one: ImageCode, *, first: bool) -> None:
    if not first:
        app.say()
    held = one.held
    facts = [plural(one.mix.total, "instruction")]
    if held:
        facts += [
            f"{plural(held.blocks_per_sm, 'block')} a multiprocessor",
            f"occupancy {share_text(held.fraction)} (limit: {held.limiter})",
        ]
    for line in hanging(
        f"{style(one.id, bold=True)}  ", "; ".join(facts), width=terminal_width(), indent=4
    ):
        app.say(line)
    widths = (("loads", one.mix.loads), ("stores", one.mix.stores))
    shown = [
        f"{what} of {', '.join(f'{width} B x {count}' for width, count in rows)}"
        for what, rows in widths
        if rows
    ]
    for name, count in one.mix.classes:
        more = f"  {'; '.join(shown)}" if name == "global memory" and shown else ""
        for line in hanging(f"  {count:6}  ", f"{name}{more}", width=terminal_width(), indent=12):
            app.say(line)
    for text in one.mix.warnings:
        for line in hanging(
            f"  {style('warning', fg='yellow')}: ", text, width=terminal_width(), indent=4
        ):
            app.say(line)


def _print_code(app: App, found: CodeDifference) -> None:
    if found.equal:
        app.say(f"{found.id}: the same bytes")
    elif not found.text:
        app.say(f"{found.id}: the same instructions; addresses, registers or data differ")
    else:
        app.detail(f"{found.id}: {found.removed} instructions removed, {found.added} added")
        colors = {"+": "green", "-": "red", "@": "cyan"}
        for line in found.text.splitlines():
            app.say(style(line, fg=colors.get(line[:1])))


def print_difference(app: App, found: Difference) -> None:
    """Print a difference; `--verbose` lists every id."""
    old, new = found.old, found.new
    names = [
        f"{report.info.package.name} {report.info.package.version}".strip() for report in (old, new)
    ]
    lead = f"{style(f'{names[0]} → {names[1]}', bold=True)}  "
    for line in hanging(
        lead, f"{app.show(old.path)} → {app.show(new.path)}", width=terminal_width(), indent=2
    ):
        app.say(line)
    if old.digest == new.digest:
        app.say("the same bundle")
        return
    _changes(app, "breaking", "red", found.breaking)
    _changes(
        app, "compatible", "cyan", tuple(change for change in found.changes if not change.breaking)
    )
    counts = [
        (len(found.images), "changed"),
        (len(found.added), "added"),
        (len(found.removed), "removed"),
        (found.same, "the same"),
    ]
    app.say()
    app.say(
        f"{style('images', bold=True)}  {', '.join(f'{count} {what}' for count, what in counts if count) or 'none'}"
    )
    if found.images:
        rows = [_row(image) for image in found.images]
        # What has not changed anywhere is what a narrow terminal can do without.
        heads = [
            head if head.flex or any(ARROW in str(row[i]) for row in rows) else SPARE[i]
            for i, head in enumerate(HEADS)
        ]
        for line in table(heads, rows, width=terminal_width(), indent="  "):
            app.say(line)
    for what, ids in (("added", found.added), ("removed", found.removed)):
        _ids(app, what, ids)
    if found.tools:
        app.say()
        app.say(style("toolchain", bold=True))
        for tool in found.tools:
            if tool.old == tool.new:
                app.say(f"  {tool.name} {tool.new}, another file")
            else:
                app.say(f"  {tool.name} {tool.old or 'none'} → {tool.new or 'none'}")


def _changes(app: App, title: str, color: str, changes: tuple[Change, ...]) -> None:
    if not changes:
        return
    app.say()
    app.say(style(title, fg=color, bold=True))
    for change in changes:
        for line in hanging(
            "  ",
            f"{f'{change.kernel}: ' if change.kernel else ''}{change.what}",
            width=terminal_width(),
            indent=4,
        ):
            app.say(line)


def _row(image: ImageChange) -> list[Cell]:
    old, new = image.old, image.new
    worse = image.worse

    def cell(name: str, was: str, now: str) -> Cell:
        if was == now:
            return now
        return (f"{was} → {now}", "yellow") if name in worse else f"{was} → {now}"

    return [
        image.id,
        cell("registers", count_text(old.registers), count_text(new.registers)),
        cell("spills", bytes_text(old.spills), bytes_text(new.spills)),
        cell("shared", bytes_text(old.shared), bytes_text(new.shared)),
        cell("stack", bytes_text(old.stack), bytes_text(new.stack)),
        cell("occupancy", share_text(old.occupancy), share_text(new.occupancy)),
        cell("code", bytes_text(old.code), bytes_text(new.code)),
    ]


def share_text(share: float | None) -> str:
    """`13%`, or a dash for what is not known."""
    return "-" if share is None else f"{100 * share:.0f}%"


def _ids(app: App, what: str, ids: tuple[str, ...]) -> None:
    shown = ids if app.verbose else ids[:IDS_SHOWN]
    for name in shown:
        app.say(f"  {what} {name}")
    if len(shown) < len(ids):
        app.say(f"  {what} {plural(len(ids) - len(shown), 'more image')} (--verbose lists them)")
