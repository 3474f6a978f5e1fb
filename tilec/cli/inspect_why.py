"""`tilec inspect --why`: what a device would take of a kernel, and why not the rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import TEXT_LEAST, cells, hanging, plural, terminal_width
from tilec_runtime.errors import BundleError, MissingError, UsageError

if TYPE_CHECKING:
    from tilec.inspection.why import Why
    from tilec_runtime.bundle.choose import Candidate, Choice
    from tilec_runtime.device.seam_types import DeviceInfo
    from tilec_runtime.launch.prepare import Explanation
    from tilec_runtime.model.kernel import VariantInfo

TINTS = {
    "takes": "green",
    "could take": "",
    "passes over": "yellow",
    "cannot take": "yellow",
    "leaves": "",
}
SHOWN = 8
NO_IMAGE = 1

Row = tuple[str, str, str]  # (what is done, with what, why)


def print_why(
    app: App, file: str, kernel: str, arguments: Sequence[str], *, device: str, driver: str
) -> int:
    """Say what a device would take of a kernel, and give the exit code: 1 where it could run none
    of it.

    Raises:
        BundleError: the file is no bundle.
        UsageError: something on the command line is off.
        LaunchError: a launch with these arguments would be refused.
    """
    from tilec.inspection.container import is_code, open_container
    from tilec.inspection.why import explain_choice

    path = app.built_path(file)
    if is_code(path):
        what = f"--why: {app.show(path)} is no bundle: no launch chooses among what is in it"
        raise BundleError(what, fix="name the bundle or the package that it was made for")
    found = explain_choice(
        open_container(path).bundle, kernel, arguments, find_place(app, device, driver)
    )
    if app.json:
        app.document("why", to_json(found))
    elif found.explanation is not None:
        _explained(app, found, found.explanation)
    else:
        _variants(app, found)
    return 0 if found.runs else NO_IMAGE


def find_place(app: App, name: str, driver: str) -> DeviceInfo:
    """The device that is asked about: one that is not here, by its architecture, or one that is.

    Raises:
        UsageError: it is none.
        NoDeviceError: the GPU that is named is not here.
    """
    from tilec.inspection.why import driver_release, pretended

    known = pretended(name, driver)
    if known is not None:
        return known
    from tilec_runtime.device.devices import driver_of, find_device

    if name == "cpu" and driver:
        raise UsageError("--driver: the cpu device has none", fix="leave it out")
    try:
        here = find_device(name or "cuda:0", driver_of(name or "cuda:0"))
    except UsageError as error:
        fix = "take sm_90 (a GPU that need not be here), cuda:N, or cpu"
        raise UsageError(f"--device: {name!r} is no device", fix=fix) from error
    except MissingError as error:
        if name:
            raise
        raise UsageError(
            "--why: there is no GPU here to ask about",
            cause=error.what,
            fix="name one: --device sm_90, or cpu",
        ) from error
    app.detail(f"asking about {here}")
    return dataclasses.replace(here, driver=driver_release(driver)) if driver else here


def to_json(found: Why) -> dict[str, Any]:
    """All of it as JSON values."""
    device, told = found.device, found.explanation
    place: dict[str, Any] = {"kind": "cpu" if device.interprets else "cuda", "name": device.name}
    if not device.interprets:
        place |= {"compute_capability": list(device.cc), "driver": list(device.driver)}
    head = {"kernel": found.kernel.name, "device": place, "runs": found.runs, "fix": found.advice()}
    if told is None:
        return {
            **head,
            "variants": [
                {"id": variant.id, "images": _images_json(choice)}
                for variant, choice in found.choices
            ],
        }
    return {
        **head,
        "axes": dict(told.axes),
        "origins": dict(told.origins),
        "reasons": list(told.reasons),
        "variants": [
            {"id": variant, "verdict": verdict, "reason": reason}
            for verdict, variant, reason in _considered(told)
        ],
        "images": _images_json(told.images),
        "launch": {
            "grid": list(told.shape.grid),
            "block": list(told.shape.block),
            "shared": told.shape.shared,
        },
        "assumed_zero": list(found.assumed),
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


def _explained(app: App, found: Why, told: Explanation) -> None:
    app.say(_head(found))
    for name, value in told.axes:
        app.say(f"  {name} = {value}, {dict(told.origins)[name]}")
    for reason in told.reasons:
        _wrapped(app, "  ", reason)
    if found.assumed:
        app.say(f"  taken to be bytes of 0: {', '.join(found.assumed)}")
    _section(
        app,
        "variants",
        _considered(told),
        most=None if app.verbose else len(told.considered) + SHOWN,
    )
    _section(app, f"images of {told.variant.id}", _images(told.images))
    if told.image is None:
        _none_runs(app, found)
        return
    shape = told.shape
    app.say(f"\n{style('launch', bold=True)}")
    # What a compiler chose of a tile kernel's block is in its image alone.
    block = "" if math.prod(shape.block) == 1 else f", block {' x '.join(map(str, shape.block))}"
    shared = f", {plural(shape.shared, 'byte')} of dynamic shared memory" if shape.shared else ""
    app.say(f"  grid {' x '.join(map(str, shape.grid))}{block}{shared}")


def _variants(app: App, found: Why) -> None:
    """Without arguments: what each variant would run, then, of images that no variant runs, why
    not, each reason once.
    """
    app.say(_head(found))
    rows = [
        ("takes", variant.id, _taken(choice)) if choice.image else ("cannot take", variant.id, "")
        for variant, choice in found.choices
    ]
    _section(
        app, "variants, of which arguments choose one", rows, most=None if app.verbose else SHOWN
    )
    _section(app, "other images", _refused(found.choices))
    if not found.runs:
        _none_runs(app, found)


def _none_runs(app: App, found: Why) -> None:
    app.say(f"\n{style('no image runs there', fg='red')}")
    _wrapped(app, "  fix: ", found.advice())


def _taken(choice: Choice) -> str:
    best = choice.candidates[0]
    return f"{best.image.target}: {best.reason}"


def _refused(choices: Iterable[tuple[VariantInfo, Choice]]) -> list[Row]:
    rows: dict[Row, None] = {}
    for _, choice in choices:
        for one in choice.candidates:
            if one.image is not choice.image:
                rows[_verdict(one, choice), str(one.image.target), one.reason] = None
    return list(rows)


def _considered(told: Explanation) -> list[Row]:
    looked = [
        ("takes" if one.taken else "passes over", one.variant.id, one.reason)
        for one in told.considered
    ]
    return [*looked, *(("leaves", one.variant.id, one.reason) for one in told.others)]


def _images(choice: Choice) -> list[Row]:
    return [(_verdict(one, choice), str(one.image.target), one.reason) for one in choice.candidates]


def _verdict(one: Candidate, choice: Choice) -> str:
    return "takes" if one.image is choice.image else "could take" if one.accepted else "cannot take"


def _head(found: Why) -> str:
    device = found.device
    if device.interprets:
        where = "the cpu device"
    else:
        (major, minor), (cuda, release) = device.cc, device.driver
        where = (
            f"{device.name}, compute capability {major}.{minor}, driver of CUDA {cuda}.{release}"
        )
    return f"{style(found.kernel.name, bold=True)} on {where}"


def _section(app: App, title: str, rows: Sequence[Row], *, most: int | None = None) -> None:
    """Rows under a title; reasons are wrapped, never shortened: they are what was asked for."""
    if not rows:
        return
    app.say(f"\n{style(title, bold=True)}")
    shown = rows if most is None else rows[:most]
    done, name = (max(cells(row[column]) for row in shown) for column in (0, 1))
    width = terminal_width()
    for verdict, what, why in shown:
        lead = f"  {style(f'{verdict:<{done}}', fg=TINTS[verdict] or None)}  "
        if width is None or width - done - name - 6 >= TEXT_LEAST:
            _wrapped(app, f"{lead}{what:<{name}}  ", why, indent=done + name + 6)
        else:
            app.say(f"{lead}{what}")
            _wrapped(app, " " * (done + 6), why)
    if len(shown) < len(rows):
        app.say(f"  and {len(rows) - len(shown)} more (--verbose lists them)")


def _wrapped(app: App, lead: str, text: str, *, indent: int | None = None) -> None:
    for line in hanging(lead, text, width=terminal_width(), indent=indent):
        app.say(line)
