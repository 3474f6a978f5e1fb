"""`tilec inspect --sizes` and `--coverage`: images by target and device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import Cell, bytes_text, plural
from tilec.inspection.reach import Coverage, Lack, Reach, Shipped, coverage, sizes
from tilec_runtime.bundle.choose import JIT_VARIABLE
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.driver import required_driver

HEADS = ("target", ">images", ">size", ">packed", ">dead", "~taken by")
DEAD_SHOWN = 20


def print_sizes(app: App, bundle: Bundle, *, deny_dead: bool) -> int:
    """Print images by target and dead images; return 1 for dead ones if `deny_dead`."""
    shipped, dead = sizes(bundle)
    if app.json:
        targets = [{**dataclasses.asdict(row), "target": str(row.target)} for row in shipped]
        app.document("sizes", {"targets": targets, "dead": [_dead_json(reach) for reach in dead]})
    else:
        app.table(HEADS, [_row(row) for row in shipped])
        packed = sum(row.packed or 0 for row in shipped)
        waste = sum(row.dead_size or 0 for row in shipped)
        images = plural(sum(row.images for row in shipped), "image")
        app.say(f"\n{images}, {bytes_text(packed)} in the bundle, {bytes_text(waste)} of it dead")
        _print_dead(app, dead)
    return 1 if deny_dead and dead else 0


def _print_dead(app: App, dead: Sequence[Reach]) -> None:
    shown = dead if app.verbose else dead[:DEAD_SHOWN]
    for reach in shown:
        app.say(
            f"  {style(reach.id, fg='yellow')}  {bytes_text(reach.image.size)}, {_why_dead(reach)}",
            indent=4,
        )
    if len(shown) < len(dead):
        app.say(f"  and {len(dead) - len(shown)} more (--verbose lists them)")


def print_coverage(app: App, bundle: Bundle, names: Sequence[str]) -> int:
    """Print the variants with machine code per architecture.

    Return 1 if some architecture has variants without machine code.
    """
    covered = coverage(bundle.info, names)
    if app.json:
        rows = [{**dataclasses.asdict(each), "complete": each.complete} for each in covered]
        app.document("coverage", {"devices": rows})
    for each in () if app.json else covered:
        _device(app, each)
    return 0 if all(each.complete for each in covered) else 1


def _row(row: Shipped) -> list[Cell]:
    taken = ", ".join(row.devices)
    if row.allowed:
        taken += f"{'; ' if taken else ''}{', '.join(row.allowed)} where {JIT_VARIABLE}=allow"
    return [
        str(row.target),
        str(row.images),
        bytes_text(row.size),
        bytes_text(row.packed),
        (str(row.dead), "yellow" if row.dead else ""),
        taken or "no device",
    ]


def _why_dead(reach: Reach) -> str:
    instead = ", ".join(map(str, sorted(reach.instead)))
    return f"devices that could run it prefer {instead}" if instead else "no known driver loads it"


def _dead_json(reach: Reach) -> dict[str, object]:
    return {
        "id": reach.id,
        "target": str(reach.image.target),
        "sha256": reach.image.digest,
        "size": reach.image.size,
        "instead": [str(target) for target in sorted(reach.instead)],
    }


def _device(app: App, each: Coverage) -> None:
    count = plural(each.variants, "variant")
    title = style(each.device, bold=True)
    if each.lacks:
        app.say(f"{title}  {len(each.lacks)} of {count} have no machine code")
        for reasons, variants in _by_reason(each.lacks).items():
            app.say(f"  {'; '.join(reasons) or 'it has no image'}", indent=4)
            names = variants if app.verbose else _by_kernel(variants)
            app.say(f"    {style(', '.join(names), fg='yellow')}", indent=4)
        app.say(f"  fix: add {each.device} to [targets] and build again", indent=7)
        return
    assert each.driver is not None
    app.say(f"{title}  machine code for {count}, with drivers from {required_driver(each.driver)}")
    if not each.complete:
        assert each.wanted is not None
        wanted = required_driver(each.wanted)
        app.say(f"  {style('too new', fg='yellow')}: min-driver promises {wanted}", indent=4)


def _by_reason(lacks: Sequence[Lack]) -> dict[tuple[str, ...], list[str]]:
    variants: dict[tuple[str, ...], list[str]] = {}
    for lack in lacks:
        variants.setdefault(lack.reasons, []).append(lack.variant)
    return variants


def _by_kernel(variants: Sequence[str]) -> Iterator[str]:
    """Yield `gemm (12 variants)` per kernel, or the id of a single variant."""
    for kernel, group in groupby(variants, lambda variant: variant.partition("-")[0]):
        ids = list(group)
        yield ids[0] if len(ids) == 1 else f"{kernel} ({len(ids)} variants)"
