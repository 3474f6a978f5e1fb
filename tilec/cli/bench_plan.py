"""What can be told of cases without measuring them: what would run, what its images need, their occupancy, and its arithmetic intensity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilec.bench.cases import planned_work
from tilec.bench.work import NO_WORK, Work
from tilec.case.chains import axes_of
from tilec.case.inputs import planned_inputs
from tilec.cli.app import App
from tilec.cli.bench_show import amount_text
from tilec.cli.cases import absence, kernels_of, package_json
from tilec.cli.run_results import skipped_lines
from tilec.cli.style import style
from tilec.cli.tables import Cell, bytes_text, cells, columns, count_text, hanging, plural, table, terminal_width
from tilec.inspection.occupancy import residency
from tilec.inspection.why import taken
from tilec_runtime.errors import TilecError
from tilec_runtime.model.arch import TargetKind

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.cli.cases import Opened
    from tilec.manifest.types import Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.errors import NoDeviceError
    from tilec_runtime.model.image import ImageInfo
    from tilec_runtime.model.kernel import KernelInfo, VariantInfo


WIDTH = 80  # where nothing says how wide the terminal is


def show_plan(app: App, opened: Opened, manifest: Manifest, cases: Sequence[BoundCase], lacking: NoDeviceError | None) -> None:
    """Show what would be measured; `lacking` is why it is not, None where nobody wanted it to be."""
    kernels = {kernel.name: kernel for kernel in opened.bundle.info.kernels} if opened.bundle else {}
    there = [case for case in cases if case.error is None and all(name in kernels for name in kernels_of(case))]
    rows = [_row(case, opened.bundle, kernels) for case in there if opened.bundle]
    absent = [(case.kernel, case.error.what if case.error else absence(opened, case)) for case in cases if case not in there]
    if app.json:
        skipped = [{"kernel": kernel, "reason": reason} for kernel, reason in dict.fromkeys(absent)]
        why = {"measured": False, "reason": lacking.what if lacking else "--dry-run"}
        app.document("bench-plan", {**package_json(opened, manifest), **why, "ok": lacking is None, "cases": rows, "skipped": skipped})
        return
    app.say(f"{plural(len(rows), 'case')} would be measured")
    for variants in dict.fromkeys(_variants(row) for row in rows):
        _say(app, [row for row in rows if _variants(row) == variants])
    if absent:
        app.say()
    for line in skipped_lines(absent):
        app.say(line)
    app.say("\nnothing was measured")


def _row(case: BoundCase, bundle: Bundle, kernels: Mapping[str, KernelInfo]) -> dict[str, Any]:
    """One case as JSON values; of a chain, each of its steps has a variant and images of its own."""
    env, work, problem = _planned(case)
    inputs = {param.name: env[param.name] for param in case.params if param.name in env}
    launches: list[dict[str, Any]] = []
    for step in case.steps:
        given = {name: inputs.get(value.name) if value.name else value.value for name, value in step.arguments}
        launches.append(_launch(bundle, kernels[step.kernel], axes_of(step, kernels[step.kernel], case), given, dict(step.axes)))
    if not case.steps:
        launches.append(_launch(bundle, kernels[case.kernel], dict(case.axes), inputs, dict(case.choose)))
    return {
        "name": case.name,
        "kernel": case.kernel,
        **({"steps": launches} if case.steps else launches[0]),
        "work": {"flops": work.flops, "bytes": work.bytes, "intensity": work.intensity},
        "problem": problem or None,
        "against": list(case.bench.against) if case.bench else [],
    }


def _launch(
    bundle: Bundle, info: KernelInfo, axes: Mapping[str, Any], inputs: Mapping[str, Any], chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """One launch of a kernel: the variant that it takes, or would try first where that cannot be told, and its images."""
    first = _taken(bundle, info, inputs, chosen)
    if first is None:
        variants = [v for v in info.variants if all(axes.get(name, value) == value for name, value in v.axes)]
        first = variants[0]
    beside = [v for v in info.variants if v.axes == first.axes and _absent(v) == _absent(first)]
    return {
        "kernel": info.name,
        "variant": first.id,
        "slower_variants": len(beside) - 1 - beside.index(first),
        "images": [_image(info, first, image) for image in first.images],
    }


def _taken(bundle: Bundle, info: KernelInfo, inputs: Mapping[str, Any], chosen: Mapping[str, Any]) -> VariantInfo | None:
    """What a launch takes on a GPU that the kernel has machine code for; None where it is refused."""
    from tilec.inspection.why import pretended

    codes = [image.target for variant in info.variants for image in variant.images if image.target.kind is TargetKind.CUBIN]
    device = pretended(str(codes[0]) if codes else "sm_90")
    assert device is not None
    return taken(bundle, info, inputs, chosen, device)


def _absent(variant: VariantInfo) -> tuple[str, ...]:
    return tuple(each.param for each in variant.assume if each.absent)


def _launches(row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(row.get("steps") or [row])


def _variants(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(launch["variant"] for launch in _launches(row))


def _planned(case: BoundCase) -> tuple[dict[str, Any], Work, str]:
    """What expressions of a case see, its work, and what is wrong with either; files are not read, so theirs see nothing."""
    env: dict[str, Any] = {}
    try:
        env = planned_inputs(case)
        return env, planned_work(case, env), ""
    except TilecError as error:
        return env, NO_WORK, error.what


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
    """The cases that would take one variant, or those of a chain's steps, and what these need."""
    launches = _launches(rows[0])
    others = "; a slower one where its assumptions do not hold"
    app.say()
    for number, launch in enumerate(launches):
        name = f"{'then ' if number else ''}{launch['variant']}"
        for line in hanging(style(name, bold=True), others if launch["slower_variants"] else "", width=terminal_width(), indent=2):
            app.say(line)
    for row in rows:
        _say_case(app, row)
    listed: list[list[Cell]] = []
    several = len(launches) > 1
    for launch in {launch["variant"]: launch for launch in launches}.values():
        for image in launch["images"]:
            held = f"{100 * image['occupancy']:.0f}%, limited by {image['limiter']}" if image["occupancy"] is not None else "-"
            spills: Cell = (str(image["spills"]), "yellow") if image["spills"] else count_text(image["spills"])
            kernel = [launch["kernel"]] if several else []
            listed.append([*kernel, image["target"], count_text(image["registers"]), spills, bytes_text(image["shared"]), held])
    heads = columns(*(["~kernel"] if several else []), "target", ">regs", ">spills", ">shared", "occupancy")
    for line in table(heads, listed, width=terminal_width(), indent="    "):
        app.say(line)


def _say_case(app: App, row: dict[str, Any]) -> None:
    """A case and its work on a line; what it is held against each on its own, where the line would be too long for the terminal."""
    width, text, against = terminal_width(), _work_text(row), ", ".join(row["against"])
    whole = ", ".join(part for part in (text, f"against {against}" if against else "") if part)
    name = f"  {row['name']}{': ' if whole else ''}"
    if against and cells(f"{name}{whole}") > (width or WIDTH):
        app.say(f"{name}{text}".rstrip(": "))
        for rival in row["against"]:
            for line in hanging("    against ", rival, width=width, indent=6):
                app.say(line)
    else:
        for line in hanging(name, whole, width=width, indent=4):
            app.say(line)
    for line in hanging("    ", row["problem"], width=width) if row["problem"] else ():
        app.say(line)


def _work_text(row: dict[str, Any]) -> str:
    """`0.27 GFLOP, 3.0 GiB, 0.0833 FLOP/B`, as far as the case says."""
    work = row["work"]
    parts = [amount_text(work["flops"], "FLOP")] if work["flops"] is not None else []
    parts += [bytes_text(int(work["bytes"]))] if work["bytes"] is not None else []
    parts += [f"{work['intensity']:.3g} FLOP/B"] if work["intensity"] is not None else []
    return ", ".join(parts)
