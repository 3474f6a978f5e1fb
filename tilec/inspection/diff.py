"""Differences between two builds: for callers of the launchers, and in the images."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tilec.inspection.occupancy import residency
from tilec.inspection.report import ImageRow, Report, images_of, param_text, spills
from tilec_runtime.model.arch import ARCHS, TargetKind, Version
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param
from tilec_runtime.model.table import axis_shown

# Requirements of a parameter besides its kind and dtypes.
_FACTS = ("rank", "out", "stride", "shape_divisible", "stride_divisible", "align")
_LAUNCH = ("grid", "block", "shared", "cluster", "cooperative", "programmatic")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change that affects callers.

    It affects the whole package if `kernel` is empty.

    Attributes:
        breaking: whether a valid call may be rejected, or change its meaning.
    """

    what: str
    breaking: bool
    kernel: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """Resources of one image.

    They are registers per thread, occupancy (0 to 1), and bytes for all others.
    """

    registers: int | None
    spills: int | None
    shared: int | None
    stack: int | None
    occupancy: float | None
    code: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageChange:
    """An image that is in both bundles with different bytes."""

    id: str
    old: Measures
    new: Measures

    @property
    def worse(self) -> tuple[str, ...]:
        """Measures that became slower: more spills, a larger stack, a lower occupancy."""
        names = ("spills", "stack")
        worse = [n for n in names if (getattr(self.new, n) or 0) > (getattr(self.old, n) or 0)]
        before, now = self.old.occupancy, self.new.occupancy
        worse += ["occupancy"] if before is not None and now is not None and now < before else []
        return tuple(worse)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolChange:
    """A tool of the build; a version is empty if that build did not use the tool."""

    name: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """All differences between two builds.

    Attributes:
        old: report of the old file.
        new: report of the new file.
        changes: changes that affect callers, breaking changes first.
        images: images that are in both bundles with different bytes.
        added: ids of images that only the new bundle has.
        removed: ids of images that only the old bundle has.
        same: number of equal images.
        tools: tools whose versions differ.
    """

    old: Report
    new: Report
    changes: tuple[Change, ...]
    images: tuple[ImageChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    same: int
    tools: tuple[ToolChange, ...]

    @property
    def breaking(self) -> tuple[Change, ...]:
        """Changes that may break a program that worked with the old build."""
        return tuple(change for change in self.changes if change.breaking)


def compare(old: Report, new: Report) -> Difference:
    """Compare two builds; kernels are matched by name, images by id."""
    before, after = ({row[0]: row for row in images_of(one.info)} for one in (old, new))
    both = [name for name in before if name in after]
    differ = [name for name in both if before[name][-1].digest != after[name][-1].digest]
    changes = [*_package_changes(old.info, new.info), *_kernel_changes(old.info, new.info)]
    return Difference(
        old=old,
        new=new,
        changes=tuple(sorted(changes, key=lambda change: not change.breaking)),
        images=tuple(
            ImageChange(id=name, old=_measures(before[name]), new=_measures(after[name]))
            for name in differ
        ),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        same=len(both) - len(differ),
        tools=_tools(old.info, new.info),
    )


def to_json(difference: Difference) -> dict[str, Any]:
    """Return the difference as JSON values."""
    sides = {
        side: {
            "path": report.path,
            "sha256": report.digest,
            "package": dataclasses.asdict(report.info.package),
        }
        for side, report in (("old", difference.old), ("new", difference.new))
    }
    changed = [
        dataclasses.asdict(image) | {"worse": list(image.worse)} for image in difference.images
    ]
    return {
        **sides,
        "breaking": len(difference.breaking),
        "changes": [dataclasses.asdict(change) for change in difference.changes],
        "images": {
            "changed": changed,
            "added": list(difference.added),
            "removed": list(difference.removed),
            "same": difference.same,
        },
        "tools": [dataclasses.asdict(tool) for tool in difference.tools],
    }


def _measures(row: ImageRow) -> Measures:
    _, kernel, variant, image = row
    used, held = image.resources, residency(kernel, variant, image)
    return Measures(
        registers=used.registers,
        spills=spills(used),
        shared=used.shared,
        stack=used.stack,
        occupancy=held.fraction if held else None,
        code=used.code if image.target.kind is TargetKind.CUBIN else image.size,
    )


def _tools(old: BundleInfo, new: BundleInfo) -> tuple[ToolChange, ...]:
    before, after = ({tool.name: tool for tool in info.toolchain} for info in (old, new))
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    versions = [
        [side[name].version if name in side else "" for side in (before, after)] for name in names
    ]
    return tuple(
        ToolChange(name=name, old=was, new=now)
        for name, (was, now) in zip(names, versions, strict=True)
    )


def _package_changes(old: BundleInfo, new: BundleInfo) -> Iterator[Change]:
    if old.package.module != new.package.module:
        message = f"imported as {new.package.module}, was {old.package.module}"
        yield Change(what=message, breaking=True)
    if old.min_driver != new.min_driver:
        now, was = (f"branch {one.min_driver}" if one.min_driver else "any" for one in (new, old))
        breaking = new.min_driver > old.min_driver
        yield Change(what=f"drivers from {now}; was {was}", breaking=breaking)
    if old.profile != new.profile:
        yield Change(what=f"profile {new.profile}, was {old.profile}", breaking=False)


def _kernel_changes(old: BundleInfo, new: BundleInfo) -> Iterator[Change]:
    before, after = ({kernel.name: kernel for kernel in info.kernels} for info in (old, new))
    for name, kernel in before.items():
        if name not in after:
            yield Change(kernel=name, what="removed", breaking=True)
            continue
        for side in (_lists, _params, _axes, _language, _requires, _launch, _jit, _devices):
            for change in side(kernel, after[name]):
                yield dataclasses.replace(change, kernel=name)
    for name in after:
        if name not in before:
            yield Change(kernel=name, what="added", breaking=False)


def _lists(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    params = {param.name for param in new.call_params}
    for name, counts in old.list_counts.items():
        now = new.list_counts.get(name, ())
        if name in params and now != counts:
            shown = " or ".join(map(str, now))
            message = f"{name} is {f'a list of {shown} arrays' if now else 'no list'}"
            was = " or ".join(map(str, counts))
            yield Change(what=f"{message}; was one of {was}", breaking=not set(now) >= set(counts))


def _params(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = ({p.name: p for p in kernel.call_params} for kernel in (old, new))
    for name, param in before.items():
        if name not in after:
            yield Change(what=f"parameter {param_text(param)} removed", breaking=True)
    for index, (name, param) in enumerate(after.items()):
        if name not in before:
            why = ""
            if param.default is None and not param.optional:
                why = ", without a default"
            elif index < len(before):
                why = ", in front of others"
            yield Change(what=f"parameter {param_text(param)} added{why}", breaking=bool(why))
    kept = [name for name in before if name in after]
    order = [name for name in after if name in before]
    if kept != order:
        message = f"parameters in another order: {', '.join(order)}; was {', '.join(kept)}"
        yield Change(what=message, breaking=True)
    for name in kept:
        yield from _param(before[name], after[name], old, new)


def _param(was: Param, now: Param, old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    if was.kind is not now.kind or was.size != now.size:
        yield Change(what=f"parameter {param_text(now)}, was {param_text(was)}", breaking=True)
        return
    before, after = _dtypes(was, old), _dtypes(now, new)
    if not before <= after and "" not in after:
        lost = ", ".join(sorted(before)) or "any dtype"
        yield Change(what=f"{now.name} takes {', '.join(sorted(after))}; was {lost}", breaking=True)
    for name in _FACTS:
        one, other = getattr(was, name), getattr(now, name)
        if one != other:
            looser = other in (-1, ()) or (name == "align" and other < one)
            message = f"{now.name}: {name.replace('_', ' ')} {other}; was {one}"
            yield Change(what=message, breaking=not looser)
    if was.optional != now.optional:
        message = "may be None; it was required" if now.optional else "may no longer be None"
        yield Change(what=f"{now.name} {message}", breaking=was.optional)
    if was.default != now.default:
        texts = ["none" if one.default is None else one.default for one in (now, was)]
        message = f"default of {now.name} is {texts[0]}; was {texts[1]}"
        yield Change(what=message, breaking=now.default is None)


def _dtypes(param: Param, kernel: KernelInfo) -> set[str]:
    """Return the dtypes that a parameter accepts; an empty name means any dtype."""
    if param.dtype in kernel.dtype_axes:
        return {str(value) for value in dict(kernel.axes)[param.dtype]}
    return {param.dtype}


def _axes(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = dict(old.axes), dict(new.axes)
    chosen, was = dict(new.default), dict(old.default)
    bound = {param.dtype for param in old.params} & set(old.dtype_axes)  # shown with parameters
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield Change(what=f"axis {name} removed", breaking=name in old.choices)
            continue
        if name not in before:
            needed = name in new.undecided
            message = f"axis {name} added{', without a default' if needed else ''}"
            yield Change(what=message, breaking=needed)
            continue
        lost = [axis_shown(value) for value in before[name] if value not in after[name]]
        gained = [axis_shown(value) for value in after[name] if value not in before[name]]
        if lost and name not in bound:
            yield Change(what=f"{name} = {', '.join(lost)} is no longer built", breaking=True)
        if gained:
            yield Change(what=f"{name} = {', '.join(gained)} is built too", breaking=False)
        needed = name in new.undecided and name not in old.undecided
        if name in was and was[name] != chosen.get(name):
            now = chosen.get(name, "none")
            yield Change(what=f"default of {name} is {now}; was {was[name]}", breaking=needed)
        elif needed:
            yield Change(what=f"no rule decides {name} now", breaking=True)


def _language(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    if old.language != new.language:
        yield Change(what=f"written in {new.language}, was {old.language}", breaking=False)


def _requires(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = old.launch.requires, new.launch.requires
    for condition in after:
        if condition not in before:
            yield Change(what=f"requires {condition}", breaking=True)
    for condition in before:
        if condition not in after:
            yield Change(what=f"no longer requires {condition}", breaking=False)


def _launch(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = old.launch, new.launch
    was, now = _config(before), _config(after)
    if was != now:
        yield Change(what=f"config is {now}; was {was}", breaking=now != "optional")
    for name in _LAUNCH:
        was, now = (
            " x ".join(map(str, value)) if isinstance(value, tuple) else value
            for value in (getattr(before, name), getattr(after, name))
        )
        if was != now:
            yield Change(what=f"{name} {now or 'none'}; was {was or 'none'}", breaking=False)


def _jit(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    if old.jit is not new.jit:
        was, now = (kernel.jit.value if kernel.jit else "not said" for kernel in (old, new))
        breaking = was in ("warn", "allow") and now not in ("warn", "allow")
        yield Change(what=f"jit-fallback {now}; was {was}", breaking=breaking)


def _config(launch: LaunchInfo) -> str:
    """Return how launches treat a configuration: `refused`, `optional` or `required`."""
    if not launch.open:
        return "refused"
    return "optional" if launch.preset else "required"


def _devices(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    """Yield the compute capabilities that lose an image of a variant."""
    after = {variant.id: variant for variant in new.variants}
    lost: dict[frozenset[Version], list[str]] = {}
    for variant in old.variants:
        if variant.id in after and (
            gone := _capabilities(variant) - _capabilities(after[variant.id])
        ):
            lost.setdefault(gone, []).append(variant.id)
    for missing, ids in lost.items():
        which = "" if len(ids) == len(old.variants) else f" ({', '.join(ids)})"
        shown = ", ".join(f"{major}.{minor}" for major, minor in sorted(missing))
        yield Change(what=f"no longer runs on compute capability {shown}{which}", breaking=True)


def _capabilities(variant: VariantInfo) -> frozenset[Version]:
    return frozenset(
        cc
        for cc in ARCHS
        if any(image.target.runs_on(cc, exact=image.exact) for image in variant.images)
    )
