"""What can be told of cases without measuring them: what would run, what its images need, their occupancy, and its arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec.bench.work import NO_WORK, Work
from tilec.cli.app import App
from tilec.cli.bench_flow import planned_work
from tilec.cli.bench_show import amount_text
from tilec.cli.cases import package_json
from tilec.cli.run_results import skipped_lines
from tilec.cli.tables import Cell, bytes_text, columns, count_text, hanging, plural, table, terminal_width
from tilec.errors import TilecError
from tilec.inspection.occupancy import residency
from tilec.runner.inputs import planned_inputs

if TYPE_CHECKING:
    from tilec.cli.cases import Opened
    from tilec.errors import NoDeviceError
    from tilec.manifest.types import Manifest
    from tilec.model.image import ImageInfo
    from tilec.model.kernel import KernelInfo, VariantInfo
    from tilec.runner.cases import BoundCase


def show_plan(app: App, opened: Opened, manifest: Manifest, cases: Sequence[BoundCase], lacking: NoDeviceError | None) -> None:
    """Show what would be measured; `lacking` is why it is not, None where nobody wanted it to be."""
    kernels = {kernel.name: kernel for kernel in opened.bundle.info.kernels} if opened.bundle else {}
    rows = [_row(case, kernels[case.kernel]) for case in cases if case.kernel in kernels]
    absent = [(case.kernel, opened.absent.get(case.kernel, "")) for case in cases if case.kernel not in kernels]
    if app.json:
        skipped = [{"kernel": kernel, "reason": reason} for kernel, reason in dict.fromkeys(absent)]
        why = {"measured": False, "reason": lacking.what if lacking else "--dry-run"}
        app.document("bench-plan", {**package_json(opened, manifest), **why, "ok": lacking is None, "cases": rows, "skipped": skipped})
        return
    app.say(f"{plural(len(rows), 'case')} would be measured")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        _say(app, [row for row in rows if row["variant"] == variant])
    if absent:
        app.say()
    for line in skipped_lines(absent):
        app.say(line)
    app.say("\nnothing was measured")


def _row(case: BoundCase, info: KernelInfo) -> dict[str, Any]:
    """One case as JSON values."""
    variants = [v for v in info.variants if all(dict(case.axes).get(name, value) == value for name, value in v.axes)]
    first = variants[0]
    work, problem = _work(case)
    return {
        "name": case.name,
        "kernel": case.kernel,
        "variant": first.id,
        "slower_variants": len(variants) - 1,
        "work": {"flops": work.flops, "bytes": work.bytes, "intensity": work.intensity},
        "problem": problem or None,
        "against": list(case.bench.against) if case.bench else [],
        "images": [_image(info, first, image) for image in first.images],
    }


def _work(case: BoundCase) -> tuple[Work, str]:
    try:
        return planned_work(case, planned_inputs(case)), ""
    except TilecError as error:
        return NO_WORK, error.what


def _image(info: KernelInfo, variant: VariantInfo, image: ImageInfo) -> dict[str, Any]:
    held, needs = residency(info, variant, image), image.resources
    spills = None if needs.spill_stores is None else needs.spill_stores + (needs.spill_loads or 0)
    return {
        "target": str(image.target),
        "registers": needs.registers,
        "spills": spills,
        "shared": needs.shared,
        "stack": needs.stack,
        "blocks_per_sm": held.blocks_per_sm if held else None,
        "occupancy": held.fraction if held else None,
        "limiter": held.limiter if held else None,
    }


def _say(app: App, rows: Sequence[dict[str, Any]]) -> None:
    """The cases that would take one variant, and what it needs."""
    first = rows[0]
    others = "; a slower one where its assumptions do not hold" if first["slower_variants"] else ""
    app.say()
    for line in hanging(click.style(first["variant"], bold=True), others, width=terminal_width(), indent=2):
        app.say(line)
    for row in rows:
        text = _work_text(row)
        for line in hanging(f"  {row['name']}{': ' if text else ''}", text, width=terminal_width(), indent=4):
            app.say(line)
        for line in hanging("    ", row["problem"], width=terminal_width()) if row["problem"] else ():
            app.say(line)
    listed: list[list[Cell]] = []
    for image in first["images"]:
        held = f"{100 * image['occupancy']:.0f}%, limited by {image['limiter']}" if image["occupancy"] is not None else "-"
        spills: Cell = (str(image["spills"]), "yellow") if image["spills"] else count_text(image["spills"])
        listed.append([image["target"], count_text(image["registers"]), spills, bytes_text(image["shared"]), held])
    for line in table(columns("target", ">regs", ">spills", ">shared", "occupancy"), listed, width=terminal_width(), indent="    "):
        app.say(line)


def _work_text(row: dict[str, Any]) -> str:
    """`0.27 GFLOP, 3.0 GiB, 0.0833 FLOP/B, against torch:add(x, y)`, as far as the case says."""
    work = row["work"]
    parts = [amount_text(work["flops"], "FLOP")] if work["flops"] is not None else []
    parts += [bytes_text(int(work["bytes"]))] if work["bytes"] is not None else []
    parts += [f"{work['intensity']:.3g} FLOP/B"] if work["intensity"] is not None else []
    parts += [f"against {', '.join(row['against'])}"] if row["against"] else []
    return ", ".join(parts)
