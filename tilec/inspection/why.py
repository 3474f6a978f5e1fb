"""Which variant and image a device would take of a kernel, by the rules of launches, from a bundle
and described arguments alone.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.model.literal import axis_text, read_axis_value, read_number
from tilec_runtime.bundle.choose import Choice, DeviceFacts, choose_image, require_image
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.cpu.driver import cpu_driver
from tilec_runtime.device.layout import TensorFacts, settled_stride
from tilec_runtime.device.seam_types import DeviceInfo
from tilec_runtime.errors import NoImageError, TilecError, UsageError
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.load import site_on
from tilec_runtime.launch.prepare import Explanation
from tilec_runtime.model.arch import ARCHS, Version
from tilec_runtime.model.driver import BRANCHES, cuda_of_branch
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:/(?P<stride>[^@]*))?(?:@(?P<align>.*))?"
)
_SM = re.compile(r"sm_(\d{2,3})[af]?")
_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})")
_BRANCH = re.compile(r"(\d{3,4})(?:\.\d+)*")

# Where allocators put what nobody asks otherwise of, and how far apart described tensors lie, so
# that none overlaps another.
ALIGNED = 256
APART = 1 << 48
MOST_ALIGN = 1 << 32
FORMS = "x=f32[4096,4096]@16 (dtype, extents, alignment in bytes), x=f32[64,64]/128,1 (strides), n=4096, or an axis, BM=64"


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A tensor that is not there: what a launch would know of it."""

    facts: TensorFacts

    def _tilec_facts_(self) -> TensorFacts:
        """Its facts, to a launch."""
        return self.facts


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """What a device would take of a kernel.

    Attributes:
        kernel: the kernel. device: the device. facts: what the choice of an image knows of it.
        explanation: of a launch with the arguments; None where none are given.
        choices: without arguments, what each variant would run there.
        assumed: structs that are taken to be bytes of 0, since what they hold chooses nothing.
    """

    kernel: KernelInfo
    device: DeviceInfo
    facts: DeviceFacts
    explanation: Explanation | None = None
    choices: tuple[tuple[VariantInfo, Choice], ...] = ()
    assumed: tuple[str, ...] = ()

    def advice(self) -> str:
        """What to do where no image of the variant that is taken, or of any, runs there; empty
        where one does.
        """
        taken = (
            [self.explanation.variant]
            if self.explanation is not None
            else [variant for variant, _ in self.choices]
        )
        if self.runs or not taken:
            return ""
        try:
            require_image(
                taken[0].images, self.facts, kernel=taken[0].id, language=self.kernel.language
            )
        except NoImageError as error:
            return error.fix
        return ""

    @property
    def runs(self) -> bool:
        """Whether there is an image for the device."""
        if self.explanation is not None:
            return self.explanation.image is not None
        return any(choice.image is not None for _, choice in self.choices)


def explain_choice(bundle: Bundle, name: str, arguments: Sequence[str], device: DeviceInfo) -> Why:
    """What a device would take of a kernel, with these arguments or, without any, at each variant.

    Args:
        bundle: what was built.
        name: of the kernel.
        arguments: as they are described on a command line.
        device: a real one, or one of `pretended`.

    Raises:
        UsageError: no such kernel, or an argument that cannot be read.
        LaunchError: a launch with these arguments would be refused.
    """
    if name not in bundle.kernels:
        known = list(bundle.kernels)
        raise UsageError(
            f"no kernel {name!r} in the bundle{did_you_mean(name, known) or '; it has ' + ', '.join(known)}"
        )
    # No driver is asked of anything: described tensors say where they are, and nothing is loaded.
    site = site_on(bundle, device, cpu_driver())
    launcher = Launcher(name, site)
    info = launcher.info
    facts = site.facts(info)
    if not arguments:
        return Why(
            kernel=info,
            device=device,
            facts=facts,
            choices=tuple((v, choose_image(v.images, facts)) for v in info.variants),
        )
    given = _read(info, arguments, device)
    structs = {p.name: bytes(p.size) for p in info.params if p.kind is ParamKind.STRUCT}
    explanation = launcher.explain(**structs, **given)
    return Why(
        kernel=info, device=device, facts=facts, explanation=explanation, assumed=tuple(structs)
    )


def taken_variant(
    bundle: Bundle, name: str, arguments: Mapping[str, Any], device: DeviceInfo
) -> VariantInfo:
    """The variant that a launch on a device takes, tensors each `described`, with axes that the
    caller chooses.

    Raises:
        LaunchError: a launch with these arguments would be refused.
    """
    return Launcher(name, site_on(bundle, device, cpu_driver())).explain(**arguments).variant


def described(shape: tuple[int, ...], dtype: str, device: DeviceInfo, *, place: int) -> Described:
    """A tensor of its own, the `place`th of a launch, as allocators would lay it: C-contiguous, at
    an aligned address.
    """
    stride = settled_stride(shape, None)
    return Described(
        TensorFacts(
            ptr=place * APART + ALIGNED,
            shape=shape,
            stride=stride,
            dtype=dtype,
            device=device.ordinal,
        )
    )


def pretended(text: str, driver: str = "") -> DeviceInfo | None:
    """A GPU that is not here, by its architecture: `sm_90`; None for a name of another form.

    Args:
        text: of `--device`.
        driver: what its driver serves, as for `driver_release`; the newest that tilec knows where
            that is not said.

    Raises:
        UsageError: there is no such architecture or driver.
    """
    match = _SM.fullmatch(text)
    if match is None:
        return None
    cc = divmod(int(match[1]), 10)
    if cc not in ARCHS:
        known = [f"sm_{major}{minor}" for major, minor in ARCHS]
        raise UsageError(
            f"--device: no architecture {text!r}{did_you_mean(text, known)}; there are {', '.join(known)}"
        )
    arch, release = ARCHS[cc], driver_release(driver) if driver else max(BRANCHES)
    if release < arch.toolkit:
        needs = f"{arch.toolkit[0]}.{arch.toolkit[1]}"
        raise UsageError(
            f"--driver: no driver of CUDA {release[0]}.{release[1]} knows sm_{match[1]}",
            fix=f"take {needs} or later",
        )
    return DeviceInfo(
        ordinal=0,
        name=f"sm_{match[1]}",
        cc=cc,
        driver=release,
        shared_optin=arch.shared_block,
        cluster=cc >= (9, 0),
    )


def driver_release(text: str) -> Version:
    """The CUDA release that a driver serves: of `13.0`, or of a driver's own version, `580` or
    `580.65.06`.

    Raises:
        UsageError: it is neither, or older than tilec knows.
    """
    release, branch = _RELEASE.fullmatch(text), _BRANCH.fullmatch(text)
    if release and int(release[1]) < 100:
        return int(release[1]), int(release[2])
    found = cuda_of_branch(int(branch[1])) if branch else None
    if found is None:
        raise UsageError(
            f"--driver: {text!r} is no driver",
            fix="take the CUDA release that it serves, 13.0, or its own version, 580",
        )
    return found


def _read(info: KernelInfo, arguments: Sequence[str], device: DeviceInfo) -> dict[str, Any]:
    params, axes = {param.name: param for param in info.params}, dict(info.axes)
    found: dict[str, Any] = {}
    for text in arguments:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise UsageError(f"{text!r} is no argument", fix=f"take {FORMS}")
        if name in found:
            raise UsageError(f"{text!r}: {name} is given twice")
        if name in params:
            found[name] = _value(info, text, params[name], value, device, place=len(found) + 1)
        elif name in axes:
            found[name] = read_axis_value(value, axes[name])
            if found[name] is None:
                raise UsageError(
                    f"{text!r}: {name} was built for {', '.join(map(axis_text, axes[name]))}"
                )
        else:
            known = (*params, *axes)
            hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
            raise UsageError(
                f"{text!r}: kernel {info.name} has no parameter or axis {name!r}{hint}"
            )
    return found


def _value(
    info: KernelInfo, text: str, param: Param, value: str, device: DeviceInfo, *, place: int
) -> Described | AxisValue | None:
    if param.optional and value == "None":
        return None
    if param.kind is ParamKind.STRUCT:
        raise UsageError(
            f"{text!r}: {param.name} is a struct, of which nothing is chosen by: leave it out"
        )
    if param.kind is not ParamKind.TENSOR:
        number = read_number(value)
        if number is None:
            raise UsageError(
                f"{text!r}: {info.name} takes a number for {param.name}", fix=f"take {FORMS}"
            )
        return number
    match = _TENSOR.fullmatch(value)
    if match is None:
        raise UsageError(
            f"{text!r}: {info.name} takes a tensor for {param.name}", fix=f"take {FORMS}"
        )
    return Described(_facts(text, match, device, place))


def _facts(
    text: str, match: Mapping[str, Any] | re.Match[str], device: DeviceInfo, place: int
) -> TensorFacts:
    dtype = match["dtype"]
    if dtype not in DTYPES:
        raise UsageError(
            f"{text!r}: unknown dtype {dtype!r}{did_you_mean(dtype, DTYPES) or '; there are ' + ', '.join(DTYPES)}"
        )
    shape = _whole(text, "extent", match["shape"])
    stride = _whole(text, "stride", match["stride"]) if match["stride"] is not None else None
    if stride is not None and len(stride) != len(shape):
        raise UsageError(f"{text!r} has {len(stride)} strides for {len(shape)} extents")
    align = (
        ALIGNED
        if match["align"] is None
        else int(match["align"])
        if match["align"].isdecimal()
        else 0
    )
    if not 0 < align <= MOST_ALIGN or align & (align - 1):
        raise UsageError(
            f"{text!r}: an alignment is a power of two, in bytes, of at most {MOST_ALIGN}"
        )
    reach = max(
        math.prod(shape),
        sum((n - 1) * s for n, s in zip(shape, stride or (), strict=True))
        if stride and 0 not in shape
        else 0,
    )
    if reach * DTYPES[dtype].bytes >= APART // 2:
        raise UsageError(f"{text!r}: no device has memory for it")
    # Divisible by the alignment, and by no larger power of two.
    address = place * APART + align
    return TensorFacts(
        ptr=address,
        shape=shape,
        stride=settled_stride(shape, stride),
        dtype=dtype,
        device=device.ordinal,
    )


def _whole(text: str, noun: str, listed: str) -> tuple[int, ...]:
    parts = [part.strip() for part in listed.split(",")] if listed.strip() else []
    if not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise UsageError(f"{text!r}: each {noun} is a whole number, and [{listed}] are not")
    return tuple(map(int, parts))


def taken(
    bundle: Bundle,
    info: KernelInfo,
    inputs: Mapping[str, Any],
    chosen: Mapping[str, Any],
    device: DeviceInfo,
) -> VariantInfo | None:
    """What a launch takes by rules, table and facts on a device; None where it is refused."""
    given: dict[str, Any] = {
        p.name: bytes(p.size) for p in info.params if p.kind is ParamKind.STRUCT
    }
    for place, (name, value) in enumerate(inputs.items(), 1):
        given[name] = (
            described(value.shape, value.dtype, device, place=place)
            if hasattr(value, "shape")
            else value
        )
    try:
        return taken_variant(bundle, info.name, {**given, **chosen}, device)
    except TilecError:
        return None
