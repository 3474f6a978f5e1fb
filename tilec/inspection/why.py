"""Variant and image that a launch on a device would choose, for given arguments."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.model.literal import axis_text, read_axis_value, read_number
from tilec_runtime.bundle.choose import Choice, DeviceFacts, advice, choose_image
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.cpu.driver import cpu_driver
from tilec_runtime.device.layout import TensorFacts, settled_stride
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import TilecError, UsageError
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.load import site_on
from tilec_runtime.launch.prepare import Explanation
from tilec_runtime.model.arch import ARCHS
from tilec_runtime.model.driver import BRANCHES
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:/(?P<stride>[^@]*))?(?:@(?P<align>.*))?"
)
_SM = re.compile(r"sm_(\d{2,3})[af]?")

ALIGNED = 256  # bytes, the usual alignment of allocators
APART = 1 << 48  # distance between described tensors, so that they do not overlap
MOST_ALIGN = 1 << 32
FORMS = "x=f32[4096,4096]@16 (dtype, extents, alignment in bytes), x=f32[64,64]/128,1 (strides), n=4096, or an axis, BM=64"


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A tensor that is described by its facts only."""

    facts: TensorFacts

    def _tilec_facts_(self) -> TensorFacts:
        """Return the tensor's facts."""
        return self.facts


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """The choice of a kernel's variant and image on a device.

    Attributes:
        facts: facts about the device that the choice of an image uses.
        explanation: explanation of a launch with the arguments, or None without arguments.
        choices: image of each variant, if there are no arguments.
        assumed: structs that are assumed to be zero bytes; their contents do not affect the choice.
    """

    kernel: KernelInfo
    device: DeviceInfo
    facts: DeviceFacts
    explanation: Explanation | None = None
    choices: tuple[tuple[VariantInfo, Choice], ...] = ()
    assumed: tuple[str, ...] = ()

    def advice(self) -> str:
        """Return the fix if no image runs on the device, or an empty string if one does."""
        choices = (
            [self.explanation.images]
            if self.explanation is not None
            else [choice for _, choice in self.choices]
        )
        if self.runs or not choices:
            return ""
        return advice(choices[0], self.facts, language=self.kernel.language)

    @property
    def runs(self) -> bool:
        """Whether an image runs on the device."""
        if self.explanation is not None:
            return self.explanation.image is not None
        return any(choice.image is not None for _, choice in self.choices)


def explain_choice(bundle: Bundle, name: str, arguments: Sequence[str], device: DeviceInfo) -> Why:
    """Return the choice of a launch, or of each variant if there are no arguments.

    Args:
        bundle: bundle of the kernel.
        name: name of the kernel.
        arguments: descriptions of the arguments, as on the command line.
        device: a real device, or a result of `pretended`.

    Raises:
        UsageError: the kernel does not exist, or an argument is malformed.
        LaunchError: a launch with these arguments would be rejected.
    """
    if name not in bundle.kernels:
        known = list(bundle.kernels)
        raise UsageError(
            f"no kernel {name!r} in the bundle{did_you_mean(name, known) or '; it has ' + ', '.join(known)}"
        )
    # Nothing is loaded, and described tensors have addresses, so any driver is suitable.
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
    explanation = launcher.explain(**structs, **info.in_lists(given))
    return Why(
        kernel=info, device=device, facts=facts, explanation=explanation, assumed=tuple(structs)
    )


def described(
    shape: tuple[int, ...],
    dtype: str,
    device: DeviceInfo,
    *,
    index: int,
    stride: tuple[int, ...] | None = None,
    align: int = ALIGNED,
) -> Described:
    """Return a tensor that is C-contiguous by default.

    Its address is divisible by `align`, and by no larger power of two. Each tensor of a launch has
    its own `index`.
    """
    return Described(
        TensorFacts(
            ptr=index * APART + align,
            shape=shape,
            stride=settled_stride(shape, stride),
            dtype=dtype,
            device=device.ordinal,
        )
    )


def pretended(text: str) -> DeviceInfo | None:
    """Return a GPU that need not exist on this machine, with the newest driver.

    Args:
        text: name of the GPU's architecture, such as `sm_90`.

    Returns:
        None if the name is not an architecture's.

    Raises:
        UsageError: the architecture is unknown.
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
    return DeviceInfo(
        ordinal=0,
        name=f"sm_{match[1]}",
        cc=cc,
        driver=max(BRANCHES),
        shared_optin=ARCHS[cc].shared_block,
        cluster=cc >= (9, 0),
    )


def _read(info: KernelInfo, arguments: Sequence[str], device: DeviceInfo) -> dict[str, Any]:
    params, axes = {param.name: param for param in info.params}, dict(info.axes)
    values: dict[str, Any] = {}
    for text in arguments:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier() or not (value or name in axes):
            raise UsageError(f"{text!r} is no argument", fix=f"take {FORMS}")
        if name in values:
            raise UsageError(f"{text!r}: {name} is given twice")
        if name in params:
            values[name] = _value(info, text, params[name], value, device, index=len(values) + 1)
        elif name in axes:
            values[name] = read_axis_value(value, axes[name])
            if values[name] is None:
                raise UsageError(
                    f"{text!r}: {name} was built for {', '.join(map(axis_text, axes[name]))}"
                )
        else:
            known = (*params, *axes)
            hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
            raise UsageError(
                f"{text!r}: kernel {info.name} has no parameter or axis {name!r}{hint}"
            )
    return values


def _value(
    info: KernelInfo, text: str, param: Param, value: str, device: DeviceInfo, *, index: int
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
    return _tensor(text, match, device, index)


def _tensor(text: str, match: re.Match[str], device: DeviceInfo, index: int) -> Described:
    dtype = match["dtype"]
    if dtype not in DTYPES:
        raise UsageError(
            f"{text!r}: unknown dtype {dtype!r}{did_you_mean(dtype, DTYPES) or '; there are ' + ', '.join(DTYPES)}"
        )
    shape = _whole(text, "extent", match["shape"])
    stride = _whole(text, "stride", match["stride"]) if match["stride"] is not None else None
    if stride is not None and len(stride) != len(shape):
        raise UsageError(f"{text!r} has {len(stride)} strides for {len(shape)} extents")
    align = ALIGNED
    if match["align"] is not None:
        align = int(match["align"]) if match["align"].isdecimal() else 0
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
    return described(shape, dtype, device, index=index, stride=stride, align=align)


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
    """Return the variant that a launch with planned inputs chooses, or None.

    None means that the launch is rejected.
    """
    given: dict[str, Any] = {
        p.name: bytes(p.size) for p in info.params if p.kind is ParamKind.STRUCT
    }
    for index, (name, value) in enumerate(inputs.items(), 1):
        given[name] = (
            described(value.shape, value.dtype, device, index=index)
            if hasattr(value, "shape")
            else value
        )
    try:
        launcher = Launcher(info.name, site_on(bundle, device, cpu_driver()))
        return launcher.explain(**{**info.in_lists(given), **chosen}).variant
    except TilecError:
        return None
