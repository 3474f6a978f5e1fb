"""Images of a bundle that each device chooses: unused images, and missing ones.

Images are chosen as in launches, for every known device and driver.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

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

NEWER = "newer GPUs"  # unknown GPUs of the next major compute capability


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shipped:
    """The images of a bundle for one target.

    Attributes:
        images: number of images.
        size: size of the images in bytes.
        packed: size of the images in the bundle file, or None if they are in a missing wheel.
        devices: devices that choose any of the images.
        allowed: devices that choose any of the images only if the process allows compilation at
            load and the bundle does not.
        dead: number of images that no device chooses.
        dead_size: size of these in the bundle file, or None as for `packed`.
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
class Lack:
    """A variant without machine code for a device; `reasons` has one line per image."""

    variant: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """The coverage of one device by a bundle's machine code.

    Attributes:
        device: name of the device, such as `sm_90`.
        variants: number of variants that launches on the device choose from.
        lacks: variants without machine code under the newest driver.
        driver: oldest CUDA release from which on every driver loads machine code of each variant,
            or None if the newest driver does not.
        wanted: oldest CUDA release that the bundle declares to support, or None if it declares
            none.
    """

    device: str
    variants: int
    lacks: tuple[Lack, ...]
    driver: Version | None
    wanted: Version | None

    @property
    def complete(self) -> bool:
        """Whether each variant has machine code under all supported drivers."""
        return self.driver is not None and (self.wanted is None or self.driver <= self.wanted)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The devices that choose an image.

    Attributes:
        id: id of the image.
        takers: devices that choose the image.
        allowed: devices that choose the image if the process allows compilation at load.
        instead: targets of images that devices prefer to this image, although they accept it.
    """

    id: str
    image: ImageInfo
    takers: set[str] = dataclasses.field(default_factory=set)
    allowed: set[str] = dataclasses.field(default_factory=set)
    instead: set[Target] = dataclasses.field(default_factory=set)

    @property
    def dead(self) -> bool:
        """Whether no device chooses the image."""
        return not self.takers and not self.allowed


def sizes(bundle: Bundle) -> tuple[tuple[Shipped, ...], tuple[Reach, ...]]:
    """Return the images of a bundle by target, and those that no device chooses.

    Raises:
        BundleError: the index is damaged.
    """
    reached = _reached(bundle.info)
    by_target: dict[Target, list[Reach]] = {}
    for reach in reached:
        by_target.setdefault(reach.image.target, []).append(reach)
    shipped = tuple(_shipped(bundle, target, by_target[target]) for target in sorted(by_target))
    return shipped, tuple(reach for reach in reached if reach.dead)


def _reached(info: BundleInfo) -> list[Reach]:
    """Return the devices that choose each image of a bundle."""
    variants = [variant for kernel in info.kernels for variant in kernel.variants]
    by_variant = {
        v.id: [Reach(id=image_id(v, image), image=image) for image in v.images] for v in variants
    }
    ranked = _ranking(variants)
    for kernel in info.kernels:
        for policy in (kernel.jit, JitFallback.ALLOW):
            for name, facts in devices(info, policy):
                for variant in for_device(kernel, facts).variants:
                    accepted = [by_variant[variant.id][index] for index in ranked(variant, facts)]
                    for reach in accepted[:1]:
                        (reach.takers if policy is kernel.jit else reach.allowed).add(name)
                    for reach in accepted[1:]:
                        reach.instead.add(accepted[0].image.target)
    return [reach for reached in by_variant.values() for reach in reached]


def _ranking(
    variants: Iterable[VariantInfo],
) -> Callable[[VariantInfo, DeviceFacts], tuple[int, ...]]:
    """Return a function that ranks the images that a device accepts, by index.

    Variants with similar images share a choice, because it is computed for every device and driver.
    """
    numbers: dict[object, int] = {}
    forms = {
        variant.id: numbers.setdefault(
            tuple((i.target, i.exact, i.ptx_isa, i.cuda) for i in variant.images), len(numbers)
        )
        for variant in variants
    }
    known: dict[tuple[int, DeviceFacts], tuple[int, ...]] = {}

    def ranked(variant: VariantInfo, device: DeviceFacts) -> tuple[int, ...]:
        key = (forms[variant.id], device)
        if key not in known:
            choice = choose_image(variant.images, device)
            accepted = (one.image for one in choice.candidates if one.accepted)
            known[key] = tuple(map(variant.images.index, accepted))
        return known[key]

    return ranked


def devices(info: BundleInfo, jit: JitFallback | None) -> Iterator[tuple[str, DeviceFacts]]:
    """Yield the known devices under every driver that a bundle supports.

    Yield also a newer GPU and the cpu device.
    """
    supported = _drivers(info.min_driver)
    for cc, arch in ARCHS.items():
        able = [cuda for cuda in supported if cuda >= arch.toolkit] or supported[-1:]
        for cuda in able:
            yield f"sm_{cc[0]}{cc[1]}", DeviceFacts(cc=cc, driver=cuda, jit=jit)
    yield NEWER, DeviceFacts(cc=(max(ARCHS)[0] + 1, 0), driver=supported[-1], jit=jit)
    yield "cpu", DeviceFacts(cc=CPU.cc, driver=CPU.driver, interprets=CPU.interprets, jit=jit)


def coverage(info: BundleInfo, names: Sequence[str]) -> tuple[Coverage, ...]:
    """Return the coverage of architectures by a bundle's machine code.

    Raises:
        UsageError: an architecture is unknown.
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
            for variant, choice in choices(
                kernel, DeviceFacts(cc=cc, driver=cuda, name=name, jit=kernel.jit)
            )
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
    """Return the CUDA releases with drivers of this branch or newer, oldest first.

    If the branch is newer than all, return the newest release.
    """
    return sorted(cuda for cuda, own in BRANCHES.items() if own >= branch) or [max(BRANCHES)]


def _shipped(bundle: Bundle, target: Target, reached: Sequence[Reach]) -> Shipped:
    sizes = {reach.image.digest: reach.image.size for reach in reached}
    dead = sizes.keys() - {reach.image.digest for reach in reached if not reach.dead}
    takers = {device for reach in reached for device in reach.takers}
    allowed = {device for reach in reached for device in reach.allowed} - takers
    return Shipped(
        target=target,
        images=len(sizes),
        size=sum(sizes.values()),
        packed=_packed(bundle, sizes),
        devices=tuple(sorted(takers, key=_order)),
        allowed=tuple(sorted(allowed, key=_order)),
        dead=len(dead),
        dead_size=_packed(bundle, dead),
    )


def _packed(bundle: Bundle, digests: Iterable[str]) -> int | None:
    packed = [bundle.packed(digest) for digest in digests]
    known = [size for size in packed if size is not None]
    return sum(known) if len(known) == len(packed) else None


def _order(device: str) -> tuple[int, int]:
    """Return the sort key of a device: GPUs by capability, newer ones, cpu device."""
    number = device.removeprefix("sm_")
    return (0, int(number)) if number.isdecimal() else (1 + (device == "cpu"), 0)
