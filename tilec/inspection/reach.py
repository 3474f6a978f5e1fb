"""Which devices take which images of a bundle: what it ships for nothing, and what it lacks.

The choice of an image is the one that launches make, asked for every known device and driver.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilec.inspection.report import image_id
from tilec_runtime.bundle.choose import Choice, DeviceFacts, choose_image
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.cpu.driver import CPU
from tilec_runtime.errors import UsageError
from tilec_runtime.launch.ready import choices
from tilec_runtime.launch.select import for_device
from tilec_runtime.model.arch import ARCHS, Target, Version
from tilec_runtime.model.driver import BRANCHES
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, VariantInfo
from tilec_runtime.model.suggest import did_you_mean

NEWER = "newer GPUs"  # than all that tilec knows: of the next major compute capability


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DeadImage:
    """An image that no device takes; `instead` are the targets of what they take in its stead."""

    id: str
    target: Target
    digest: str
    size: int
    instead: tuple[Target, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shipped:
    """What a bundle ships for one target.

    Attributes:
        images: how many. size: their bytes. packed: what these take in the bundle; None if they are
            in a wheel that is not there.
        devices: the devices that take some.
        allowed: the devices that take some only if a process allows compiling at load, where the
            bundle does not.
        dead: how many of the images no device takes. dead_size: what these take, as `packed`.
    """

    target: Target
    images: int
    size: int
    packed: int | None
    devices: tuple[str, ...]
    allowed: tuple[str, ...]
    dead: int
    dead_size: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What a bundle ships by target, and the images of it that are dead."""

    targets: tuple[Shipped, ...]
    dead: tuple[DeadImage, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lack:
    """A variant without machine code for a device; `reasons` has a line for each of its images."""

    variant: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How much of a bundle has machine code for one device.

    Attributes:
        device: such as `sm_90`.
        variants: how many its launches choose from.
        lacks: those without machine code under the newest driver.
        driver: oldest CUDA release whose driver, like all later ones, loads machine code of each;
            None where not even the newest does.
        wanted: oldest release that the bundle says to support; None where it says nothing.
    """

    device: str
    variants: int
    lacks: tuple[Lack, ...]
    driver: Version | None
    wanted: Version | None

    @property
    def complete(self) -> bool:
        """Whether each variant has machine code, under all drivers that the bundle supports."""
        return self.driver is not None and (self.wanted is None or self.driver <= self.wanted)


class _Alike:
    """The choices for the variants of a bundle; variants whose images are alike share them."""

    def __init__(self, info: BundleInfo) -> None:
        forms: dict[object, int] = {}
        self.forms = {
            variant.id: forms.setdefault(
                tuple((i.target, i.exact, i.ptx_isa, i.cuda) for i in variant.images), len(forms)
            )
            for kernel in info.kernels
            for variant in kernel.variants
        }
        self.known: dict[tuple[int, DeviceFacts], tuple[int, ...]] = {}

    def ranked(self, variant: VariantInfo, device: DeviceFacts) -> tuple[int, ...]:
        """Return the places of the images that a device accepts, the one that it takes first."""
        key = (self.forms[variant.id], device)
        if key not in self.known:
            choice = choose_image(variant.images, device)
            accepted = (one.image for one in choice.candidates if one.accepted)
            self.known[key] = tuple(variant.images.index(image) for image in accepted)
        return self.known[key]


def sizes(bundle: Bundle) -> Sizes:
    """Return what a bundle ships by target, and which images no device takes.

    Raises:
        BundleError: the index is damaged.
    """
    info, alike = bundle.info, _Alike(bundle.info)
    takers: dict[str, set[str]] = {}
    could: dict[str, set[str]] = {}
    instead: dict[str, set[Target]] = {}
    ids = {
        v.id: [image_id(v, image) for image in v.images] for k in info.kernels for v in k.variants
    }
    for kernel in info.kernels:
        for policy, found in ((kernel.jit, takers), (JitFallback.ALLOW, could)):
            for name, facts in devices(info, policy):
                for variant in for_device(kernel, facts).variants:
                    ranked = alike.ranked(variant, facts)
                    for place in ranked[:1]:
                        found.setdefault(ids[variant.id][place], set()).add(name)
                    for place in ranked[1:]:
                        other = variant.images[ranked[0]].target
                        instead.setdefault(ids[variant.id][place], set()).add(other)
    rows = [
        (image_id(v, image), image) for k in info.kernels for v in k.variants for image in v.images
    ]
    dead = {name for name, _ in rows if name not in takers and name not in could}
    return Sizes(
        targets=tuple(
            _shipped(
                bundle, target, [row for row in rows if row[1].target == target], takers, could
            )
            for target in sorted({image.target for _, image in rows})
        ),
        dead=tuple(
            DeadImage(
                id=name,
                target=image.target,
                digest=image.digest,
                size=image.size,
                instead=tuple(sorted(instead.get(name, ()))),
            )
            for name, image in rows
            if name in dead
        ),
    )


def devices(info: BundleInfo, jit: JitFallback | None) -> Iterator[tuple[str, DeviceFacts]]:
    """Every known device under every driver that a bundle supports, and one that is newer; with the
    cpu device.
    """
    supported = _drivers(info.min_driver)
    for cc, arch in ARCHS.items():
        able = [cuda for cuda in supported if cuda >= arch.toolkit] or supported[-1:]
        for cuda in able:
            yield f"sm_{cc[0]}{cc[1]}", DeviceFacts(cc=cc, driver=cuda, jit=jit)
    yield NEWER, DeviceFacts(cc=(max(ARCHS)[0] + 1, 0), driver=supported[-1], jit=jit)
    yield "cpu", DeviceFacts(cc=CPU.cc, driver=CPU.driver, interprets=CPU.interprets, jit=jit)


def coverage(info: BundleInfo, names: Sequence[str]) -> tuple[Coverage, ...]:
    """Return how much of a bundle has machine code for each of some architectures.

    Raises:
        UsageError: there is no such architecture.
    """
    known = {f"sm_{major}{minor}": (major, minor) for major, minor in ARCHS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--coverage: no architecture {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
    return tuple(_coverage(info, name, known[name]) for name in names)


def _coverage(info: BundleInfo, name: str, cc: Version) -> Coverage:
    count, oldest = 0, None
    lacks: list[tuple[VariantInfo, Choice]] = []
    for cuda in reversed(_drivers(0)):
        variants = [
            (variant, choice)
            for kernel in info.kernels
            for variant, choice in choices(kernel, DeviceFacts(cc=cc, driver=cuda, name=name))
        ]
        lacking = [row for row in variants if not row[1].is_machine_code]
        if cuda == max(BRANCHES):
            count, lacks = len(variants), lacking
        if lacking:
            break
        oldest = cuda
        if cuda <= ARCHS[cc].toolkit:  # older drivers do not know the architecture
            break
    return Coverage(
        device=name,
        variants=count,
        lacks=tuple(
            Lack(
                variant=variant.id,
                reasons=tuple(f"{one.image.target}: {one.reason}" for one in choice.candidates),
            )
            for variant, choice in lacks
        ),
        driver=oldest,
        wanted=max(_drivers(info.min_driver)[0], ARCHS[cc].toolkit) if info.min_driver else None,
    )


def _drivers(branch: int) -> list[Version]:
    """Return the CUDA releases whose drivers are of this branch or newer, oldest first; the newest
    release, if the branch is newer than all.
    """
    return sorted(cuda for cuda, own in BRANCHES.items() if own >= branch) or [max(BRANCHES)]


def _shipped(
    bundle: Bundle,
    target: Target,
    rows: Sequence[tuple[str, ImageInfo]],
    takers: Mapping[str, set[str]],
    could: Mapping[str, set[str]],
) -> Shipped:
    sizes = {image.digest: image.size for _, image in rows}
    alive = {image.digest for name, image in rows if name in takers or name in could}
    own = {device for name, _ in rows for device in takers.get(name, ())}
    more = {device for name, _ in rows for device in could.get(name, ())} - own
    return Shipped(
        target=target,
        images=len(sizes),
        size=sum(sizes.values()),
        packed=_packed(bundle, sizes),
        devices=tuple(sorted(own, key=_place)),
        allowed=tuple(sorted(more, key=_place)),
        dead=len(sizes.keys() - alive),
        dead_size=_packed(bundle, sizes.keys() - alive),
    )


def _packed(bundle: Bundle, digests: Iterable[str]) -> int | None:
    found = [bundle.packed(digest) for digest in digests]
    known = [size for size in found if size is not None]
    return sum(known) if len(known) == len(found) else None


def _place(device: str) -> tuple[int, int]:
    """Order GPUs by capability, then newer ones, then the cpu device."""
    number = device.removeprefix("sm_")
    return (0, int(number)) if number.isdecimal() else (1 + (device == "cpu"), 0)
