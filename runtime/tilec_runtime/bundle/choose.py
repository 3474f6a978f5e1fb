"""Choose the image of a variant that a device runs, with reasons.

The choice is a pure function, made before any call of the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilec_runtime.errors import NoImageError
from tilec_runtime.model.arch import ARCHS, TargetKind, Version, dotted
from tilec_runtime.model.driver import cuda_of_ptx_isa, required_driver
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy, JitFallback
from tilec_runtime.values import replace, value_class

# Languages whose kernels need a GPU, with their names in messages.
WITHOUT_TILE_IR = {
    "cuda": "a CUDA C++ kernel",
    "prebuilt": "a kernel that came without Tile IR",
    "simt": "a SIMT kernel",
    "triton": "a Triton kernel",
}
LACKS_TILE_IR = "the kernel was built without portable Tile IR"

# Ranks of fitting images; the lowest is chosen. The driver's compilers go before nvJitLink, which
# must be installed, in a release that can read the image. nvJitLink's LTO-IR goes before its PTX:
# LTO-IR is optimized for the device at load, PTX was optimized for the oldest device.
_EXACT, _FAMILY, _CUBIN, _PTX, _TILEIR, _LTOIR, _LINKED = range(7)
# Image kinds that must be compiled at load, with their names in messages.
FORMS = {TargetKind.PTX: "PTX", TargetKind.LTOIR: "LTO-IR", TargetKind.TILEIR: "Tile IR"}
# Image kinds that the cpu device does not run, with their names in messages.
_OF_GPUS = {
    TargetKind.CUBIN: "machine code of a GPU",
    TargetKind.PTX: "PTX, which only the driver of a GPU compiles",
    TargetKind.LTOIR: "LTO-IR, which nvJitLink links for a GPU",
}
# The environment variable that allows or denies compilation at load.
JIT_VARIABLE = "TILEC_JIT_FALLBACK"
_ALLOW = f'let it be compiled at load: jit-fallback = "allow" in [targets], or {JIT_VARIABLE}=allow'


@value_class(frozen=True, kw_only=True)
class DeviceFacts:
    """Properties of a device that the choice needs, with its compilation policy.

    Attributes:
        cc: compute capability, such as (9, 0).
        driver: newest CUDA release that its driver supports, such as (13, 0).
        name: name of the device, for messages.
        interprets: oldest and newest version of Tile IR that the cpu device interprets; None for
            a GPU.
        jit: policy for compilation at load; None if not set, which denies it.
        missing: compute capabilities whose wheel of machine code is not installed, each with the
            command that installs it.
    """

    cc: Version = (0, 0)
    driver: Version = (0, 0)
    name: str = ""
    interprets: tuple[Version, Version] | None = None
    jit: JitFallback | None = None
    missing: tuple[tuple[Version, str], ...] = ()

    def __str__(self) -> str:
        """Such as `NVIDIA H200 (compute capability 9.0, driver of CUDA 13.0)`."""
        if self.interprets:
            return "the cpu device"
        return f"{self.name or 'GPU'} (compute capability {dotted(self.cc)}, driver of CUDA {dotted(self.driver)})"


@value_class(frozen=True, kw_only=True)
class Candidate:
    """One image of the choice: whether the device accepts it, and the reason.

    `jit` names the compiler that it needs at load; None for machine code.
    """

    image: ImageInfo
    accepted: bool
    reason: str
    jit: JitBy | None = None


@value_class(frozen=True, kw_only=True)
class Choice:
    """All candidates: accepted ones first, the best at the front, then refused ones."""

    candidates: tuple[Candidate, ...]

    @property
    def images(self) -> list[ImageInfo]:
        """The images of all candidates."""
        return [candidate.image for candidate in self.candidates]

    @property
    def taken(self) -> Candidate | None:
        """The candidate to load, or None if no image fits."""
        return self.candidates[0] if self.candidates and self.candidates[0].accepted else None

    @property
    def image(self) -> ImageInfo | None:
        """The image to load, or None if no image fits."""
        return self.taken.image if self.taken else None

    @property
    def is_machine_code(self) -> bool:
        """Whether the chosen image runs without compilation at load."""
        return self.taken is not None and self.taken.jit is None


def choose_image(images: Sequence[ImageInfo], device: DeviceFacts) -> Choice:
    """Rank the images of a variant for a device.

    The order is: exact cubin, family cubin, same-major cubin. If compilation at load is allowed,
    these follow: PTX, Tile IR, LTO-IR, and PTX that is too new for the driver. Among equal ranks,
    the newest architecture wins, then the newest PTX or Tile IR version, then the lowest digest.
    The order of `images` does not matter.
    """
    taken: list[tuple[tuple[Any, ...], Candidate]] = []
    refused: list[tuple[tuple[Any, ...], Candidate]] = []
    for image in images:
        tie = (image.digest, image.symbol, image.cuda, image.exact)
        reason = _refusal(image, device)
        if reason:
            refused.append(
                ((str(image.target), tie), Candidate(image=image, accepted=False, reason=reason))
            )
            continue
        rank, reason, jit = _fit(image, device)
        isa = image.ptx_isa or (0, 0)
        suffix = ("a", "f", "").index(image.target.suffix)
        key = (rank, -_ordinal(image.target.cc), suffix, -isa[0], -isa[1], tie)
        taken.append((key, Candidate(image=image, accepted=True, reason=reason, jit=jit)))
    taken.sort(key=lambda entry: entry[0])
    refused.sort(key=lambda entry: entry[0])
    return Choice(candidates=(*(c for _, c in taken), *(c for _, c in refused)))


def require_image(
    choice: Choice, device: DeviceFacts, *, kernel: str = "", language: str = ""
) -> Candidate:
    """Return the candidate that was chosen, or raise an error.

    Args:
        choice: the choice among the images of one variant.
        device: the device to run on.
        kernel: kernel or variant id, for the message.
        language: the kernel's language, such as `cuda`, for the message; empty if unknown.

    Raises:
        NoImageError: no image fits; the message lists every candidate with its refusal.
    """
    if choice.taken is not None:
        return choice.taken
    subject = f"{kernel}: " if kernel else ""
    lines = [f"{subject}no image runs on {device}"]
    lines += [f"  {c.image.target}: {c.reason}" for c in choice.candidates] or [
        "  the bundle holds no image of it"
    ]
    cause = cpu_advice(choice.images, language)[0] if device.interprets else ""
    fix = advice(choice, device, language=language)
    raise NoImageError("\n".join(lines), cause=cause, fix=fix, kernel=kernel)


def cpu_advice(images: Sequence[ImageInfo], language: str = "") -> tuple[str, str]:
    """Return why no image of a variant runs on the cpu device, and the next step."""
    if any(image.target.kind is TargetKind.TILEIR for image in images):
        return (
            "the kernel was built by a newer toolkit than this tilec knows",
            "take a newer tilec, or build with an older toolkit",
        )
    # Only tile and Triton kernels have cubins for one exact capability without a target suffix.
    exact = bool(images) and all(image.exact and not image.target.suffix for image in images)
    if language == "tile" or (exact and language not in WITHOUT_TILE_IR):
        return LACKS_TILE_IR, 'add "tileir" to default in [targets], and build again'
    subject = WITHOUT_TILE_IR.get(language, "a SIMT kernel (such as CUDA C++)")
    return (
        f"it is {subject}, compiled to code of a GPU; the cpu device runs tile kernels only",
        "run it on a machine with a GPU",
    )


def _refusal(image: ImageInfo, device: DeviceFacts) -> str:
    """Return why the device cannot run an image, or an empty string if it can."""
    target = image.target
    if device.interprets:
        return _cpu_refusal(image, *device.interprets)
    if not target.runs_on(device.cc, exact=image.exact):
        return _architecture_refusal(image, device.cc)
    if _waits(image, device):
        form = {
            TargetKind.PTX: "PTX ISA",
            TargetKind.TILEIR: "this Tile IR",
            TargetKind.LTOIR: "this LTO-IR of CUDA",
        }.get(target.kind)
        message = (
            f"{form} {dotted(image.ptx_isa)}"
            if form and image.ptx_isa
            else f"this {target.kind.value}"
        )
        return f"{message} needs a driver of {required_driver(_needed_cuda(image))}, the driver serves CUDA {dotted(device.driver)}"
    if target.kind is TargetKind.CUBIN:
        install = dict(device.missing).get(target.cc)
        return f"its wheel is not installed: {install}" if install else ""
    if _allowed(device):
        return ""
    denied = "jit-fallback is deny" if device.jit else "jit-fallback is deny by default"
    if target.kind is TargetKind.LTOIR:
        return f"LTO-IR that nvJitLink would link, and {denied}"
    if _needed_cuda(image) > device.driver:
        reads = f"a driver of CUDA {dotted(device.driver)} does not read it"
        return f"PTX ISA {dotted(image.ptx_isa or (0, 0))} that nvJitLink would compile, since {reads}, and {denied}"
    return f"{FORMS[target.kind]} that the driver would compile, and {denied}"


def _waits(image: ImageInfo, device: DeviceFacts) -> bool:
    """Whether the image needs a newer driver even if compilation at load is allowed."""
    needed = _needed_cuda(image)
    # nvJitLink compiles PTX that is too new for the driver. But a driver does not load the output
    # of an nvJitLink of a newer major release.
    return needed > device.driver and (
        image.target.kind is not TargetKind.PTX or needed[0] > device.driver[0]
    )


def _allowed(device: DeviceFacts) -> bool:
    return device.jit in (JitFallback.WARN, JitFallback.ALLOW)


def _cpu_refusal(image: ImageInfo, oldest: Version, newest: Version) -> str:
    if image.target.kind in _OF_GPUS:
        return _OF_GPUS[image.target.kind]
    if image.ptx_isa is not None and not oldest <= image.ptx_isa <= newest:
        return f"Tile IR {dotted(image.ptx_isa)}; the cpu device knows {dotted(oldest)} to {dotted(newest)}"
    return ""


def _architecture_refusal(image: ImageInfo, cc: Version) -> str:
    target = image.target
    here = f"not on {dotted(cc)}"
    if target.kind is TargetKind.TILEIR:
        return f"Tile IR cannot be assembled for compute capability {dotted(cc)}"
    own = dotted(target.cc)
    form = FORMS.get(target.kind)
    if target.suffix == "a":
        subject = f"architecture-specific {form}" if form else "an architecture-specific cubin"
        return f"{subject} runs on compute capability {own} only, {here}"
    if image.exact:
        return f"this cubin runs on compute capability {own} only, {here}"
    if target.suffix == "f":
        subject = f"family-specific {form}" if form else "a family-specific cubin"
        return f"{subject} runs on compute capability {own} and later {target.cc[0]}.x only, {here}"
    if form:
        return f"{form} for compute capability {own} runs on {own} and later, {here}"
    if cc[0] == target.cc[0] and cc[1] > target.cc[1]:
        chip = target.cc if target.arch.soc else cc
        return f"machine code for {own} does not run on {dotted(cc)}: {dotted(chip)} is a system on a chip with its own"
    return f"a cubin runs on compute capability {own} and later {target.cc[0]}.x only, {here}"


def _fit(image: ImageInfo, device: DeviceFacts) -> tuple[int, str, JitBy | None]:
    """Return the rank of an accepted image, its rule, and the compiler it needs."""
    target = image.target
    own, here = dotted(target.cc), dotted(device.cc)
    if device.interprets:
        return (
            _TILEIR,
            f"Tile IR{f' {dotted(image.ptx_isa)}' if image.ptx_isa else ''} that the cpu device interprets",
            None,
        )
    if target.kind is TargetKind.TILEIR:
        return _TILEIR, "Tile IR that the driver assembles", JitBy.DRIVER
    if target.kind is TargetKind.LTOIR:
        version = f" of CUDA {dotted(image.ptx_isa)}" if image.ptx_isa else ""
        return _LTOIR, f"LTO-IR{version} for {own}, linked by nvJitLink for {here}", JitBy.NVJITLINK
    if target.kind is TargetKind.PTX:
        version = f" of ISA {dotted(image.ptx_isa)}" if image.ptx_isa else ""
        if _needed_cuda(image) > device.driver:
            why = f"too new for a driver of CUDA {dotted(device.driver)}: compiled by nvJitLink for {here}"
            return _LINKED, f"PTX{version} for {own}, {why}", JitBy.NVJITLINK
        return _PTX, f"PTX{version} for {own}, compiled by the driver for {here}", JitBy.DRIVER
    if target.suffix == "a" or (image.exact and not target.suffix):
        return _EXACT, f"machine code made for exactly {own}", None
    if target.suffix == "f":
        return _FAMILY, f"machine code for the family of {own}", None
    return _CUBIN, f"machine code for {own}" + ("" if own == here else f", which {here} runs"), None


def advice(choice: Choice, device: DeviceFacts, *, language: str = "", jit: bool = True) -> str:
    """Return the next step for a device without an image.

    Without `jit`, a device without machine code also gets one.
    """
    images = choice.images
    if device.interprets:
        return cpu_advice(images, language)[1]
    best = choose_image(images, replace(device, missing=())).taken if device.missing else None
    if best is not None and best.image.target.cc in dict(device.missing) and best.jit is None:
        return dict(device.missing)[best.image.target.cc]
    fitting = [image for image in images if image.target.runs_on(device.cc, exact=image.exact)]
    if fitting:
        return _advice_of(fitting, device, jit=jit)
    return _rebuild(images, device)


def _rebuild(images: Sequence[ImageInfo], device: DeviceFacts) -> str:
    """Return the next step if no image is for the device's architecture."""
    tile = bool(images) and all(image.exact and not image.target.suffix for image in images)
    known = ARCHS.get(device.cc)
    if known and (known.tile or not tile):
        return machine_code(device)
    if tile and device.cc > max(ARCHS):
        return "add tileir to [targets] and build again: Tile IR is what GPUs newer than tilec run"
    older = [] if tile else [cc for cc in ARCHS if cc < device.cc]
    if not older:
        least = min(cc for cc, arch in ARCHS.items() if arch.tile or not tile)
        return f"use a GPU of compute capability {dotted(least)} or later"
    return f"add compute_{max(older)[0]}{max(older)[1]} to [targets] and build again: PTX is what GPUs newer than tilec run"


def _advice_of(fitting: Sequence[ImageInfo], device: DeviceFacts, *, jit: bool) -> str:
    """Return the next step if only policy or driver prevents the use of the images."""
    waiting = [_needed_cuda(image) for image in fitting if _waits(image, device)]
    portable = all(image.target.kind is not TargetKind.CUBIN for image in fitting)
    # A driver loads machine code from every toolkit of its own major release.
    built = (
        portable and device.cc in ARCHS and min(map(_needed_cuda, fitting))[0] <= device.driver[0]
    )
    steps = [machine_code(device)] if built else []
    steps += (
        [_ALLOW] if jit and len(waiting) < len(fitting) else []
    )  # images that need no newer driver are refused by the policy alone
    steps += [f"install a driver of {required_driver(min(waiting))}"] if waiting else []
    # The build lowers the version of PTX alone for min-driver.
    lowered = any(
        image.target.kind is TargetKind.PTX and _waits(image, device) for image in fitting
    )
    steps += ["rebuild with a lower min-driver in [targets]"] if lowered else []
    return "; or ".join(steps)


def machine_code(device: DeviceFacts) -> str:
    """Return the step that adds machine code for a device to a bundle."""
    return f"add sm_{device.cc[0]}{device.cc[1]} to [targets] and build again"


def _needed_cuda(image: ImageInfo) -> Version:
    if image.target.kind is TargetKind.PTX and image.ptx_isa is not None:
        return max(image.cuda, cuda_of_ptx_isa(image.ptx_isa))
    return image.cuda


def _ordinal(cc: Version) -> int:
    return cc[0] * 100 + cc[1]
