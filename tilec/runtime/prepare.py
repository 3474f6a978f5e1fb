"""From one call to a plan that later calls with the same facts reuse: every check, the variant, the image, the launch shape."""

from __future__ import annotations

import dataclasses

from tilec.bundle.choose import Choice, DeviceFacts, choose_image, require_image
from tilec.bundle.read import Bundle
from tilec.model.image import ImageInfo
from tilec.model.kernel import AxisValue, VariantInfo
from tilec.runtime.checks import Call, Values
from tilec.runtime.contract import Contract
from tilec.runtime.images import ImageStore
from tilec.runtime.layout import byte_range
from tilec.runtime.limits import check_device_limits, check_image_limits, check_residency, launch_shape
from tilec.runtime.packing import Block, Packing
from tilec.runtime.seam import CudaDriver, Device, LaunchCall, LaunchShape
from tilec.runtime.select import Considered, select_variant, settle_axes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Where a bundle is loaded: one device, through one driver, with what is loaded there."""

    bundle: Bundle
    device: Device
    driver: CudaDriver
    store: ImageStore

    @property
    def facts(self) -> DeviceFacts:
        """What the choice of an image knows of the device."""
        return DeviceFacts(cc=self.device.cc, driver=self.device.driver, name=self.device.name)


class Plan:
    """A launch that is ready but for its addresses, its free scalars and its stream.

    Attributes:
        call: enqueues it; None where the grid is empty, and nothing is to be done.
        pack, free, encode: how arguments are packed (see `Packing`).
        blocks: argument memory that no launch uses at the moment.
        pairs: (out, other, and the byte ranges of both relative to their addresses) for the check of aliases at each launch.
        apart: the addresses that this check last passed for.
    """

    __slots__ = ("apart", "blocks", "call", "encode", "free", "new_block", "pack", "pairs", "variant")

    def __init__(self, call: LaunchCall | None, packing: Packing, pairs: tuple[tuple[int, ...], ...], variant: str) -> None:
        """Keep what a launch needs."""
        self.call = call
        self.pack = packing.pack
        self.free = packing.free
        self.encode = packing.encode
        self.new_block = packing.block
        self.blocks: list[Block] = [packing.block()]
        self.pairs = pairs
        self.apart: list[int] = []
        self.variant = variant


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a launch takes what it takes.

    Attributes:
        kernel: its name. device: where.
        axes: the point of the matrix, and where the variant lies on it.
        considered: variants in the order in which they were tried; the last one is taken.
        images: the choice among that variant's images, with every candidate.
        shape: grid, block, shared memory.
    """

    kernel: str
    device: Device
    axes: tuple[tuple[str, AxisValue], ...]
    considered: tuple[Considered, ...]
    images: Choice
    shape: LaunchShape

    @property
    def variant(self) -> VariantInfo:
        """The variant that is taken."""
        return self.considered[-1].variant

    @property
    def image(self) -> ImageInfo | None:
        """The image that is taken; None where none fits the device."""
        return self.images.image

    def __str__(self) -> str:
        """The explanation as text, a line per decision."""
        point = ", ".join(f"{name}={value}" for name, value in self.axes) or "no axes"
        lines = [f"{self.kernel} on {self.device}: {point}"]
        lines += [f"  {'takes' if c.taken else 'passes over'} variant {c.variant.id}: {c.reason}" for c in self.considered]
        for candidate in self.images.candidates:
            word = "takes" if candidate.image is self.image else "could take" if candidate.accepted else "cannot take"
            lines.append(f"  {word} image {candidate.image.target}: {candidate.reason}")
        lines.append(f"  grid {self.shape.grid}, block {self.shape.block}, {self.shape.shared} bytes of dynamic shared memory")
        return "\n".join(lines)


def prepare(contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site) -> tuple[Plan, list[int]]:
    """Check a call in the documented order; its plan, and the addresses of its tensors.

    Raises:
        LaunchError: the first check that fails.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    call, considered = _checked(contract, values, axes, site)
    variant = considered[-1].variant
    name = contract.name
    shape = launch_shape(call)
    check_device_limits(name, shape, site.device)
    image = require_image(variant.images, site.facts, kernel=variant.id)
    packing = Packing(call, variant.abi)
    pairs = _alias_pairs(call)
    addresses = [call.tensors[contract.params[place].name].ptr for place in contract.tensors]
    if 0 in shape.grid:
        return Plan(None, packing, pairs, variant.id), addresses
    function = site.store.function(site.driver, site.device.ordinal, site.bundle, image, name)
    check_image_limits(name, shape, site.device, image, function)
    if function.facts.static_shared + shape.shared > site.device.shared_default:
        site.driver.allow_shared(function.handle, shape.shared)
    check_residency(name, shape, site.device, image, function, site.driver)
    launch = site.driver.bind_launch(site.device.ordinal, function.handle, shape)
    return Plan(launch, packing, pairs, variant.id), addresses


def explain(contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site) -> Explanation:
    """Check a call and say what a launch would take; nothing is loaded.

    Raises:
        LaunchError: the call is refused.
    """
    call, considered = _checked(contract, values, axes, site)
    images = choose_image(considered[-1].variant.images, site.facts)
    point = tuple((name, call.axes[name]) for name, _ in contract.info.axes)
    shape = launch_shape(call)
    return Explanation(kernel=contract.name, device=site.device, axes=point, considered=considered, images=images, shape=shape)


def _checked(contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site) -> tuple[Call, tuple[Considered, ...]]:
    call = Call(contract, values, dict(axes), site.driver)
    call.check_signature(site.device)
    settle_axes(contract, call.axes)
    call.check_contract()
    return call, select_variant(call)


def _alias_pairs(call: Call) -> tuple[tuple[int, ...], ...]:
    """(out, its low, its high, other, its low, its high): positions among the tensors, byte ranges relative to their addresses."""
    contract = call.contract
    ranges = [byte_range(call.tensors[contract.params[place].name]) for place in contract.tensors]
    position = {place: index for index, place in enumerate(contract.tensors)}
    pairs: list[tuple[int, ...]] = []
    seen: set[frozenset[int]] = set()
    for out in contract.outs:
        for other in contract.tensors:
            pair = frozenset((position[out], position[other]))
            mine, theirs = ranges[position[out]], ranges[position[other]]
            if other == out or pair in seen or mine[0] == mine[1] or theirs[0] == theirs[1]:
                continue
            seen.add(pair)
            pairs.append((position[out], *mine, position[other], *theirs))
    return tuple(pairs)
