"""What can be told of cases without measuring them: the variant that a launch takes, its work, and
what it is held against.
"""

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
from tilec.cli.tables import bytes_text, hanging, plural, terminal_width
from tilec.inspection.why import pretended, taken
from tilec_runtime.errors import TilecError
from tilec_runtime.model.arch import TargetKind

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.cli.cases import Opened
    from tilec.manifest.types import Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.errors import NoDeviceError
    from tilec_runtime.model.kernel import KernelInfo


def show_plan(
    app: App,
    opened: Opened,
    manifest: Manifest,
    cases: Sequence[BoundCase],
    lacking: NoDeviceError | None,
) -> None:
    """Show what would be measured; `lacking` is why it is not, None where nobody wanted it to be."""
    kernels = (
        {kernel.name: kernel for kernel in opened.bundle.info.kernels} if opened.bundle else {}
    )
    there = [
        case
        for case in cases
        if case.error is None and all(name in kernels for name in kernels_of(case))
    ]
    rows = [_row(case, opened.bundle, kernels) for case in there if opened.bundle]
    absent = [
        (case.kernel, case.error.what if case.error else absence(opened, case))
        for case in cases
        if case not in there
    ]
    if app.json:
        skipped = [{"kernel": kernel, "reason": reason} for kernel, reason in dict.fromkeys(absent)]
        why = {"measured": False, "reason": lacking.what if lacking else "--dry-run"}
        app.document(
            "bench-plan",
            {
                **package_json(opened, manifest),
                **why,
                "ok": lacking is None,
                "cases": rows,
                "skipped": skipped,
            },
        )
        return
    app.say(f"{plural(len(rows), 'case')} would be measured\n")
    for row in rows:
        _say(app, row)
    for line in skipped_lines(absent):
        app.say(line)
    app.tell("\nnothing was measured; `tilec inspect` shows what the variants need")


def _row(case: BoundCase, bundle: Bundle, kernels: Mapping[str, KernelInfo]) -> dict[str, Any]:
    """Return one case as JSON values; each step of a chain has a variant of its own."""
    env, work, problem = _planned(case)
    inputs = {param.name: env[param.name] for param in case.params if param.name in env}
    launches = []
    for step in case.steps:
        given = {
            name: inputs.get(value.name) if value.name else value.value
            for name, value in step.arguments
        }
        launches.append(
            _launch(
                bundle,
                kernels[step.kernel],
                axes_of(step, kernels[step.kernel], case),
                given,
                dict(step.axes),
            )
        )
    if not case.steps:
        launches.append(
            _launch(bundle, kernels[case.kernel], dict(case.axes), inputs, dict(case.choose))
        )
    return {
        "name": case.name,
        "kernel": case.kernel,
        **({"steps": launches} if case.steps else launches[0]),
        "work": {"flops": work.flops, "bytes": work.bytes, "intensity": work.intensity},
        "problem": problem or None,
        "against": list(case.bench.against) if case.bench else [],
    }


def _launch(
    bundle: Bundle,
    info: KernelInfo,
    axes: Mapping[str, Any],
    inputs: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the variant that a launch takes on a GPU that the kernel has machine code for; where
    it is refused, what it tries first.
    """
    codes = [
        image.target
        for variant in info.variants
        for image in variant.images
        if image.target.kind is TargetKind.CUBIN
    ]
    device = pretended(str(codes[0]) if codes else "sm_90")
    assert device is not None
    fitting = (
        v for v in info.variants if all(axes.get(name, value) == value for name, value in v.axes)
    )
    variant = taken(bundle, info, inputs, chosen, device) or next(fitting)
    return {"kernel": info.name, "variant": variant.id}


def _planned(case: BoundCase) -> tuple[dict[str, Any], Work, str]:
    """Return what expressions of a case see, its work, and what is wrong with either; files are not
    read, so theirs see nothing.
    """
    env: dict[str, Any] = {}
    try:
        env = planned_inputs(case)
        return env, planned_work(case, env), ""
    except TilecError as error:
        return env, NO_WORK, error.what


def _say(app: App, row: dict[str, Any]) -> None:
    """A case with its variants, then its work, what is wrong with it, and what it is held against."""
    variants = ", then ".join(launch["variant"] for launch in row.get("steps") or [row])
    work = row["work"]
    parts = [amount_text(work["flops"], "FLOP")] if work["flops"] is not None else []
    parts += [bytes_text(int(work["bytes"]))] if work["bytes"] is not None else []
    parts += [f"{work['intensity']:.3g} FLOP/B"] if work["intensity"] is not None else []
    below = [
        ", ".join(parts),
        row["problem"] or "",
        *(f"against {rival}" for rival in row["against"]),
    ]
    lines = [
        (f"{style(row['name'], bold=True)}  ", variants),
        *(("    ", text) for text in below if text),
    ]
    for lead, text in lines:
        for line in hanging(lead, text, width=terminal_width(), indent=6):
            app.say(line)
