"""Which devices take which images of a bundle: what it ships for nothing, and what it lacks.

The choice of an image is the one that launches make, asked for every known device and driver.
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Reach:
    """Where an image is taken.

    Attributes:
        takers: the devices that take it.
        allowed: those that take it if a process allows compiling at load.
        instead: targets that devices take which accept it too.
    """

    image: ImageInfo
    takers: set[str] = dataclasses.field(default_factory=set)
    allowed: set[str] = dataclasses.field(default_factory=set)
    instead: set[Target] = dataclasses.field(default_factory=set)

    @property
    def dead(self) -> bool:
        """Whether no device takes it."""
        return not self.takers and not self.allowed


def sizes(bundle: Bundle) -> Sizes:
    """Return what a bundle ships by target, and which images no device takes.

    Raises:
        BundleError: the index is damaged.
    """
    reached = _reached(bundle.info)
    by_target: dict[Target, list[_Reach]] = {}
    for reach in reached.values():
        by_target.setdefault(reach.image.target, []).append(reach)
    return Sizes(
        targets=tuple(_shipped(bundle, target, by_target[target]) for target in sorted(by_target)),
        dead=tuple(
            DeadImage(
                id=name,
                target=reach.image.target,
                digest=reach.image.digest,
                size=reach.image.size,
                instead=tuple(sorted(reach.instead)),
            )
            for name, reach in reached.items()
            if reach.dead
        ),
    )


def _reached(info: BundleInfo) -> dict[str, _Reach]:
    """Return where each image of a bundle is taken, by the image's id."""
    variants = [variant for kernel in info.kernels for variant in kernel.variants]
    reached = {image_id(v, image): _Reach(image=image) for v in variants for image in v.images}
    by_variant = {v.id: [reached[image_id(v, image)] for image in v.images] for v in variants}
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
    return reached


def _ranking(
    variants: Iterable[VariantInfo],
) -> Callable[[VariantInfo, DeviceFacts], tuple[int, ...]]:
    """Return what gives the places of the images that a device accepts, the one it takes first.

    Variants whose images are alike share a choice: it is made for every device and driver.
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


def _shipped(bundle: Bundle, target: Target, reached: Sequence[_Reach]) -> Shipped:
    sizes = {reach.image.digest: reach.image.size for reach in reached}
    dead = sizes.keys() - {reach.image.digest for reach in reached if not reach.dead}
    takers = {device for reach in reached for device in reach.takers}
    allowed = {device for reach in reached for device in reach.allowed} - takers
    return Shipped(
        target=target,
        images=len(sizes),
        size=sum(sizes.values()),
        packed=_packed(bundle, sizes),
        devices=tuple(sorted(takers, key=_place)),
        allowed=tuple(sorted(allowed, key=_place)),
        dead=len(dead),
        dead_size=_packed(bundle, dead),
    )


def _packed(bundle: Bundle, digests: Iterable[str]) -> int | None:
    packed = [bundle.packed(digest) for digest in digests]
    known = [size for size in packed if size is not None]
    return sum(known) if len(known) == len(packed) else None


def _place(device: str) -> tuple[int, int]:
    """Order GPUs by capability, then newer ones, then the cpu device."""
    number = device.removeprefix("sm_")
    return (0, int(number)) if number.isdecimal() else (1 + (device == "cpu"), 0)
