"""`tilec inspect --why`: chosen and refused images of a launch on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilec.cli.app import App
from tilec.cli.devices import CPU, device_json, find_gpu, require_device_name
from tilec.cli.style import style
from tilec.cli.tables import cells, plural, terminal_width
from tilec.inspection.why import Why, explain_choice, pretended
from tilec_runtime.bundle.choose import Candidate, Choice
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.devices import find_device
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.launch.prepare import Explanation
from tilec_runtime.model.table import axis_shown

COLORS = {"takes": "green", "passes over": "yellow", "cannot take": "yellow"}
SHOWN = 8
REASON_LEAST = 30  # columns that a reason needs beside its row; otherwise it is printed below

Row = tuple[str, str, str]  # verdict, variant or image, reason


def print_why(app: App, bundle: Bundle, kernel: str, arguments: Sequence[str], device: str) -> int:
    """Print the choice of a launch; return 1 if nothing runs on the device.

    Raises:
        UsageError: an argument or the device is invalid.
        LaunchError: a launch with these arguments would be refused.
    """
    choice = explain_choice(bundle, kernel, arguments, _device(device))
    if app.json:
        app.document("why", _json(choice))
        return 0 if choice.runs else 1
    device_facts, (major, minor) = choice.device, choice.device.cc
    where = "the cpu device"
    if not device_facts.interprets:
        where = f"{device_facts.name}, compute capability {major}.{minor}, driver of CUDA {device_facts.driver[0]}.{device_facts.driver[1]}"
    app.say(f"{style(choice.kernel.name, bold=True)} on {where}")
    if choice.explanation is not None:
        _explained(app, choice, choice.explanation)
    else:
        _variants(app, choice)
    if not choice.runs:
        app.say(f"\n{style('no image runs on this device', fg='red')}")
        app.say(f"  fix: {choice.advice()}")
    return 0 if choice.runs else 1


def _device(name: str) -> DeviceInfo:
    """Return the device of a name: an architecture, or a device of this machine.

    Raises:
        UsageError: the name is not a device.
        NoDeviceError: the GPU is missing.
    """
    if (known := pretended(name)) is not None:
        return known
    if name == CPU:
        return find_device(CPU)
    gpu = require_device_name(name or "cuda:0", ("an architecture such as sm_90", CPU, "cuda"))
    return find_gpu(
        gpu, "explaining a launch on this machine", "pass --device sm_90, or --device cpu"
    )[1]


def _json(why: Why) -> dict[str, Any]:
    head = {
        "kernel": why.kernel.name,
        "device": device_json(why.device),
        "runs": why.runs,
        "fix": why.advice(),
    }
    explanation = why.explanation
    if explanation is None:
        rows = [{"id": one.id, "images": _images_json(choice)} for one, choice in why.choices]
        return {**head, "variants": rows}
    return {
        **head,
        "axes": dict(explanation.axes),
        "origins": dict(explanation.origins),
        "reasons": list(explanation.reasons),
        "variants": [
            {"id": variant, "verdict": verdict, "reason": reason}
            for verdict, variant, reason in _considered(explanation)
        ],
        "images": _images_json(explanation.images),
        "launch": {
            "grid": list(explanation.shape.grid),
            "block": list(explanation.shape.block),
            "shared": explanation.shape.shared,
        },
        "assumed_zero": list(why.assumed),
    }


def _images_json(choice: Choice) -> list[dict[str, str]]:
    return [
        {
            "target": str(one.image.target),
            "sha256": one.image.digest,
            "verdict": _verdict(one, choice),
            "reason": one.reason,
        }
        for one in choice.candidates
    ]


def _explained(app: App, why: Why, explanation: Explanation) -> None:
    for name, origin in explanation.origins:
        app.say(f"  {name} = {axis_shown(dict(explanation.axes)[name])}, {origin}")
    for reason in explanation.reasons:
        app.say(f"  {reason}")
    if why.assumed:
        app.say(f"  assumed to be zero bytes: {', '.join(why.assumed)}")
    rows = _considered(explanation)
    _section(
        app, "variants", rows, len(rows) if app.verbose else len(explanation.considered) + SHOWN
    )
    images = [
        (_verdict(one, explanation.images), str(one.image.target), one.reason)
        for one in explanation.images.candidates
    ]
    _section(app, f"images of {explanation.variant.id}", images)
    if explanation.image is None:
        return
    shape = explanation.shape
    # The compiler chooses the block of a tile kernel, which is shown with its image.
    block = "" if math.prod(shape.block) == 1 else f", block {' x '.join(map(str, shape.block))}"
    shared = f", {plural(shape.shared, 'byte')} of dynamic shared memory" if shape.shared else ""
    app.say(f"\n{style('launch', bold=True)}")
    app.say(f"  grid {' x '.join(map(str, shape.grid))}{block}{shared}")


def _variants(app: App, why: Why) -> None:
    """Print the image of each variant, and the reasons of other images, each once."""
    rows: list[Row] = []
    refused: dict[Row, None] = {}
    for variant, choice in why.choices:
        best = choice.candidates[0] if choice.image else None
        reason = f"{best.image.target}: {best.reason}" if best else ""
        rows.append(("takes" if best else "cannot take", variant.id, reason))
        for one in choice.candidates:
            if one.image is not choice.image:
                refused[_verdict(one, choice), str(one.image.target), one.reason] = None
    most = len(rows) if app.verbose else SHOWN
    _section(app, "variants (the arguments choose one)", rows, most)
    _section(app, "other images", list(refused))


def _considered(explanation: Explanation) -> list[Row]:
    rows = [
        ("takes" if one.taken else "passes over", one.variant.id, one.reason)
        for one in explanation.considered
    ]
    return [*rows, *(("leaves", one.variant.id, one.reason) for one in explanation.others)]


def _verdict(one: Candidate, choice: Choice) -> str:
    return "takes" if one.image is choice.image else "could take" if one.accepted else "cannot take"


def _section(app: App, title: str, rows: Sequence[Row], most: int | None = None) -> None:
    """Print rows under a title; reasons are wrapped and never shortened."""
    if not rows:
        return
    app.say(f"\n{style(title, bold=True)}")
    shown = rows[:most]
    first, second = (max(cells(row[i]) for row in shown) for i in (0, 1))
    indent, width = first + second + 6, terminal_width()
    narrow = width is not None and width - indent < REASON_LEAST
    for verdict, name, reason in shown:
        lead = f"  {style(f'{verdict:<{first}}', fg=COLORS.get(verdict))}  "
        if narrow:
            app.say(f"{lead}{name}")
            app.say(f"{' ' * (first + 6)}{reason}", indent=first + 6)
        else:
            app.say(f"{lead}{name:<{second}}  {reason}".rstrip(), indent=indent)
    if len(shown) < len(rows):
        app.say(f"  and {len(rows) - len(shown)} more (--verbose lists them)")
