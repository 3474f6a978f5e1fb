"""What changed between two builds: for those who call the launchers, and in the machine code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tilec.inspection.diff_launchers import Change, launcher_changes
from tilec.inspection.occupancy import residency
from tilec.inspection.report import Report, image_id, spills
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, VariantInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """What one image needs: registers per thread, bytes of the rest, and the share of the warps
    that a multiprocessor holds (0 to 1).
    """

    registers: int | None
    spills: int | None
    shared: int | None
    stack: int | None
    occupancy: float | None
    code: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageChange:
    """An image of both bundles whose bytes differ."""

    id: str
    old: Measures
    new: Measures

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse for its speed: more spilled, more stack, fewer resident warps."""
        pairs = (
            ("spills", self.old.spills, self.new.spills),
            ("stack", self.old.stack, self.new.stack),
        )
        found = [name for name, old, new in pairs if (new or 0) > (old or 0)]
        if (
            self.old.occupancy is not None
            and self.new.occupancy is not None
            and self.new.occupancy < self.old.occupancy
        ):
            found.append("occupancy")
        return tuple(found)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolChange:
    """A tool of the build: empty versions where one of the builds did without it."""

    name: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """All that differs.

    Attributes:
        old, new: the two files.
        changes: what callers notice, those that break them first.
        images: images of both whose bytes differ; `added` and `removed` by id, and how many are the
            `same`.
        tools: tools of another version.
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
        """Changes that a program which ran with the old build may not survive."""
        return tuple(change for change in self.changes if change.breaking)


def compare(old: Report, new: Report) -> Difference:
    """What differs between two builds, kernels matched by name and images by id."""
    before, after = dict(_images(old.info)), dict(_images(new.info))
    both = [name for name in before if name in after]
    changed = [name for name in both if before[name][2].digest != after[name][2].digest]
    found = [
        *_package_changes(old.info, new.info),
        *launcher_changes(old.info.kernels, new.info.kernels),
    ]
    return Difference(
        old=old,
        new=new,
        changes=tuple(sorted(found, key=lambda change: not change.breaking)),
        images=tuple(
            ImageChange(id=name, old=_measures(*before[name]), new=_measures(*after[name]))
            for name in changed
        ),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        same=len(both) - len(changed),
        tools=_tools(old.info, new.info),
    )


def to_json(found: Difference) -> dict[str, Any]:
    """The difference as JSON values."""

    def side(report: Report) -> dict[str, Any]:
        return {
            "path": report.path,
            "sha256": report.digest,
            "package": dataclasses.asdict(report.info.package),
        }

    return {
        "old": side(found.old),
        "new": side(found.new),
        "breaking": len(found.breaking),
        "changes": [dataclasses.asdict(change) for change in found.changes],
        "images": {
            "changed": [
                dataclasses.asdict(image) | {"worse": list(image.worse)} for image in found.images
            ],
            "added": list(found.added),
            "removed": list(found.removed),
            "same": found.same,
        },
        "tools": [dataclasses.asdict(tool) for tool in found.tools],
    }


def _images(info: BundleInfo) -> Iterator[tuple[str, tuple[KernelInfo, VariantInfo, ImageInfo]]]:
    for kernel in info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                yield image_id(variant, image), (kernel, variant, image)


def _measures(kernel: KernelInfo, variant: VariantInfo, image: ImageInfo) -> Measures:
    used = image.resources
    held = residency(kernel, variant, image)
    return Measures(
        registers=used.registers,
        spills=spills(used),
        shared=used.shared,
        stack=used.stack,
        occupancy=held.fraction if held else None,
        code=used.code if image.target.kind is TargetKind.CUBIN else image.size,
    )


def _package_changes(old: BundleInfo, new: BundleInfo) -> Iterator[Change]:
    if not (old.package.module and new.package.module):
        return  # one of them is compiled code without a package
    if old.package.module != new.package.module:
        yield Change(
            what=f"imported as {new.package.module}, was {old.package.module}", breaking=True
        )
    if new.min_driver > old.min_driver:
        was = f"was {old.min_driver}" if old.min_driver else "before, any that runs its images"
        yield Change(what=f"needs a driver of branch {new.min_driver}; {was}", breaking=True)
    elif new.min_driver < old.min_driver:
        now = (
            f"from branch {new.min_driver}"
            if new.min_driver
            else "of any branch that runs its images"
        )
        yield Change(what=f"runs with drivers {now}; was {old.min_driver}", breaking=False)
    if old.profile != new.profile:
        yield Change(what=f"profile {new.profile}, was {old.profile}", breaking=False)


def _tools(old: BundleInfo, new: BundleInfo) -> tuple[ToolChange, ...]:
    before, after = ({tool.name: tool for tool in info.toolchain} for info in (old, new))
    changes = []
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if one != other:
            changes.append(
                ToolChange(
                    name=name, old=one.version if one else "", new=other.version if other else ""
                )
            )
    return tuple(changes)
