"""From one call to a plan that later calls with the same facts reuse: every check, the variant, the image, the launch shape."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tilec.bundle.choose import Candidate, Choice, DeviceFacts, choose_image, require_image
from tilec.bundle.read import Bundle
from tilec.errors import ArgumentError, DeviceError
from tilec.model.image import ImageInfo
from tilec.model.jit import JitFallback
from tilec.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec.model.signature import ParamKind
from tilec.runtime.checks import Call, Values
from tilec.runtime.contract import Contract
from tilec.runtime.grid import GridRule, GridWish, settle_grid
from tilec.runtime.images import Function, ImageStore
from tilec.runtime.layout import TensorFacts, byte_range
from tilec.runtime.limits import admit, as_compiled, check_compiled, check_device_limits, check_recorded, check_residency, launch_shape
from tilec.runtime.packing import Block, Packing
from tilec.runtime.scalars import refusal
from tilec.runtime.seam_types import DeviceInfo, LaunchCall, LaunchParts, LaunchShape, TensorPart
from tilec.runtime.select import Considered, Settled, settle
from tilec.values import value_class

if TYPE_CHECKING:
    from tilec.runtime.jit import Jit
    from tilec.runtime.seam import DeviceDriver

# Streams for which a plan keeps a ready call; with more in turn than this it starts over.
MOST_STREAMS = 64
# Variants that were not looked at and that the text of an explanation lists.
MOST_OTHERS = 8


@value_class(frozen=True, kw_only=True, slots=True)
class Site:
    """Where a bundle is loaded: one device, through one driver, with what is loaded there.

    `asked` is what the caller or the environment says of compiling at load, before the bundle is asked; `jit` gives what does it.
    """

    bundle: Bundle
    device: DeviceInfo
    driver: DeviceDriver
    store: ImageStore
    asked: JitFallback | None
    jit: Callable[[], Jit]

    def facts(self, kernel: KernelInfo) -> DeviceFacts:
        """What the choice of a kernel's image knows of the device."""
        device, jit = self.device, self.asked or kernel.jit
        return DeviceFacts(cc=device.cc, driver=device.driver, name=device.name, interprets=device.interprets, jit=jit)

    def function(self, taken: Candidate, kernel: KernelInfo, variant: str) -> Function:
        """The entry point of an image that was chosen: loaded if this is its first use, and compiled before where it has to be.

        Raises:
            BundleError: its bytes are damaged. CompileError, MissingError: it cannot be compiled.
            KernelCacheError: the driver refuses it. TileIRError: the cpu device cannot read it.
        """
        digest = taken.image.digest

        def original() -> bytes:
            return self.bundle.image(digest)

        if taken.jit is None:
            return self.store.function(self.driver, self.device.ordinal, taken.image, kernel.name, original)
        jit = self.jit()
        code = functools.partial(jit.code, taken, original, self.facts(kernel), variant)
        found = self.store.function(self.driver, self.device.ordinal, taken.image, kernel.name, code, by=taken.jit)
        jit.note(taken, variant)
        return found


class Plan:
    """A launch that is ready but for its addresses, its free scalars and its stream.

    Attributes:
        variant: id of the variant it launches.
        calls: the driver's call that enqueues it, by stream handle.
        blocks: argument memory that no launch in flight uses.
    """

    def __init__(self, call: Call, packing: Packing, bind: Callable[[int], LaunchCall], site: Site, variant: str) -> None:
        """Keep what a launch needs of a call that was checked."""
        self.variant = variant
        self.calls: dict[int, LaunchCall] = {}
        self.blocks: list[Block] = []
        self._bounds = _bounds(call)
        self._packing = packing
        self._bind = bind
        self._contract = call.contract
        self._axes = dict(call.axes)
        self._site = site

    def bound(self, stream: int) -> LaunchCall:
        """What enqueues this launch on a stream."""
        call = self.calls.get(stream)
        if call is None:
            if len(self.calls) >= MOST_STREAMS:
                self.calls.clear()
            call = self.calls[stream] = self._bind(stream)
        return call

    def filled(self, addresses: tuple[int, ...], values: Values) -> Block:
        """Return an argument block with a call's addresses and free scalars.

        Args:
            addresses: of the tensors, in order.
            values: all arguments of the call.

        Raises:
            AliasError: an output overlaps another argument.
            ArgumentError: a number does not fit its dtype, or the type of the entry point's argument.
        """
        packing = self._packing
        if self._overlapping(addresses) or any(refusal(values[place], dtype) for place, dtype in packing.unranged):
            self._recheck(values)
        try:
            block = self.blocks.pop()
        except IndexError:
            block = packing.block()
        try:
            packing.pack(block.values, 0, *addresses, *packing.numbers(values))
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            self._recheck(values)  # raises for a number that does not fit its parameter
            name = self._contract.name
            what = f"{name}: a number does not fit the type in which the kernel's entry point takes it: {error}"
            fix = "pass a number that fits, or build the kernel with a wider type of that argument"
            raise ArgumentError(what, cause="the entry point takes another type than the parameter has", fix=fix, kernel=name) from error
        return block

    def _overlapping(self, addresses: tuple[int, ...]) -> bool:
        """Whether the byte ranges of an output and of another tensor meet."""
        return any(low < addresses[other] - addresses[out] < high for out, other, low, high in self._bounds)

    def _recheck(self, values: Values) -> None:
        """Make the checks whose facts are no part of a key: overlap, and numbers that fit their dtype.

        Raises:
            ArgumentError: the first check that fails.
        """
        Call(self._contract, values, dict(self._axes), self._site.driver).check_signature(self._site.device)


@value_class(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a launch takes what it takes.

    Attributes:
        kernel: its name. device: where.
        axes: the point of the matrix.
        origins: who says so, axis by axis: the caller, the arguments, the tuning table, the default.
        reasons: of points that come first by the tuning table, why they were taken or passed over; empty where there is no table.
        considered: variants at that point in the order in which they were tried; the last one is taken.
        others: the kernel's other variants, each with why it was not looked at.
        images: the choice among that variant's images, with every candidate.
        shape: grid, block, shared memory.
    """

    kernel: str
    device: DeviceInfo
    axes: tuple[tuple[str, AxisValue], ...]
    origins: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    considered: tuple[Considered, ...]
    others: tuple[Considered, ...]
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
        said = [f"{name} is {who}" for name, who in self.origins]
        lines += [f"  {'; '.join(said)}"] if said else []
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  {'takes' if c.taken else 'passes over'} variant {c.variant.id}: {c.reason}" for c in self.considered]
        for candidate in self.images.candidates:
            word = "takes" if candidate.image is self.image else "could take" if candidate.accepted else "cannot take"
            lines.append(f"  {word} image {candidate.image.target}: {candidate.reason}")
        lines.append(f"  grid {self.shape.grid}, block {self.shape.block}, {self.shape.shared} bytes of dynamic shared memory")
        lines += [f"  leaves variant {c.variant.id}: {c.reason}" for c in self.others[:MOST_OTHERS]]
        more = len(self.others) - MOST_OTHERS
        lines += [f"  leaves {more} more: `others` has them all"] if more > 0 else []
        return "\n".join(lines)


def prepare(
    contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...] = ()
) -> tuple[Plan, Values]:
    """Check a call in the documented order; its plan, and the addresses of its tensors.

    Raises:
        LaunchError: the first check that fails.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    try:
        return _prepared(contract, values, axes, site, grid)
    except DeviceError as error:
        if error.device is None:
            error.device = site.device.ordinal
        raise


def _prepared(
    contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...]
) -> tuple[Plan, Values]:
    call, settled = _checked(contract, values, axes, site)
    variant = settled.considered[-1].variant
    name, device, driver = contract.name, site.device, site.driver
    shape = _settled_shape(call, grid)
    check_device_limits(name, shape, device)
    taken = require_image(variant.images, site.facts(contract.info), kernel=variant.id, language=contract.info.language)
    image = taken.image
    if image.block:
        shape = as_compiled(shape, image)
        check_device_limits(name, shape, device)
    packing = Packing(call, variant.abi, device.ordinal)
    addresses = tuple(0 if facts is None else facts.ptr for facts in _facts_by_place(call).values())
    if 0 in shape.grid:
        return Plan(call, packing, _launch_nothing, site, variant.id), addresses
    check_compiled(name, shape, image)
    function = site.function(taken, contract.info, variant.id)
    admit(name, shape, device, image, function, driver)
    check_residency(name, shape, device, image, function, driver)
    bind = functools.partial(driver.bind_launch, device.ordinal, function.handle, shape, parts=_parts(call, variant))
    scratch = [(place, slot.scratch * math.prod(shape.grid)) for place, slot in enumerate(variant.abi) if slot.scratch]
    if scratch:
        from tilec.runtime.scratch import with_scratch  # few kernels need any

        return Plan(call, packing, with_scratch(bind, driver, device.ordinal, scratch, name), site, variant.id), addresses
    return Plan(call, packing, bind, site, variant.id), addresses


def _launch_nothing(_stream: int) -> LaunchCall:
    """An empty grid is a launch of nothing."""
    return lambda _parameters, _extra: (0,)


def _parts(call: Call, variant: VariantInfo) -> LaunchParts:
    """What a driver that runs kernels itself has to know of a launch."""
    contract = call.contract
    names = [contract.params[place].name for place in contract.tensors]
    tensors = tuple(TensorPart.of(name, call.tensors[name]) for name in names if name in call.tensors)
    plain = {param.name for param in contract.params if param.kind is ParamKind.PTR}
    addresses = tuple((place, slot.expr.strip()) for place, slot in enumerate(variant.abi) if slot.expr.strip() in plain)
    sizes, slots = tuple(slot.size for slot in variant.abi), tuple(slot.expr.strip() for slot in variant.abi)
    return LaunchParts(kernel=variant.id, sizes=sizes, addresses=addresses, tensors=tensors, slots=slots)


def _settled_shape(call: Call, grid: tuple[GridWish, ...]) -> LaunchShape:
    """Grid, block and shared memory, as the kernel's expressions, the caller and the partitions that are written have it."""
    shape = _wished_shape(call, grid)
    if call.contract.shared_out:
        from tilec.runtime.regions import check_counts

        check_counts(call, shape.grid)
    return shape


def _wished_shape(call: Call, grid: tuple[GridWish, ...]) -> LaunchShape:
    contract, shape = call.contract, launch_shape(call)
    parted = [(place, call.values[place]) for place in contract.outs if hasattr(type(call.values[place]), "grid_wish")]
    if not parted and not grid:
        return shape
    from tilec.runtime.regions import check_grid, check_shares, check_tiles

    check_tiles(call, parted)
    wishes = [*grid, *(value.grid_wish(contract.params[place].name, contract.name) for place, value in parted)]
    settled = settle_grid(contract.name, shape.grid, wishes)
    check_grid(call, shape.grid, settled, prefix=any(wish.rule is GridRule.AT_MOST for wish in wishes))
    if not grid:  # whoever gives one as well knows the kernel's blocks
        check_shares(call, shape.grid, parted)
    return dataclasses.replace(shape, grid=settled)


def explain(contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...] = ()) -> Explanation:
    """Check a call and say what a launch would take; nothing is loaded.

    Raises:
        LaunchError: the call is refused.
    """
    call, settled = _checked(contract, values, axes, site)
    considered = settled.considered
    images = choose_image(considered[-1].variant.images, site.facts(contract.info))
    point = tuple((name, call.axes[name]) for name, _ in contract.info.axes)
    shape = _settled_shape(call, grid)
    if images.image is not None:
        shape = as_compiled(shape, images.image)
    check_device_limits(contract.name, shape, site.device)
    if images.image is not None:
        check_recorded(contract.name, shape, site.device, images.image)
    Packing(call, considered[-1].variant.abi, site.device.ordinal)  # refuses extents and strides that the kernel's numbers cannot hold
    return Explanation(
        kernel=contract.name,
        device=site.device,
        axes=point,
        origins=tuple((name, settled.origins[name]) for name, _ in contract.info.axes),
        reasons=settled.reasons,
        considered=considered,
        others=tuple(_left(contract, call, settled)),
        images=images,
        shape=shape,
    )


def _left(contract: Contract, call: Call, settled: Settled) -> Iterator[Considered]:
    """The variants that were not looked at, each with the reason."""
    looked = {each.variant.id for each in settled.considered}
    for variant in contract.info.variants:
        if variant.id in looked:
            continue
        why = f"{settled.considered[-1].variant.id} comes before it"
        for name, value in variant.axes:
            if call.axes[name] != value:
                why = f"{name} is {value}, and {call.axes[name]} is {settled.origins[name]}"
                break
        yield Considered(variant=variant, taken=False, reason=why)


def _checked(contract: Contract, values: Values, axes: dict[str, AxisValue], site: Site) -> tuple[Call, Settled]:
    call = Call(contract, values, dict(axes), site.driver)
    call.check_signature(site.device)
    return call, settle(call, axes, site.device)


def _facts_by_place(call: Call) -> dict[int, TensorFacts | None]:
    """The facts of each tensor parameter; None for one that is not given."""
    return {place: call.tensors.get(call.contract.params[place].name) for place in call.contract.tensors}


def _bounds(call: Call) -> tuple[tuple[int, int, int, int], ...]:
    """For every pair of tensors that must not overlap: their places among the tensors, and the distances of their addresses
    (second minus first) between which they do.
    """
    contract = call.contract
    ranges = {place: (0, 0) if facts is None else byte_range(facts) for place, facts in _facts_by_place(call).items()}
    index = {place: number for number, place in enumerate(contract.tensors)}
    bounds = []
    for out, other in contract.pairs:
        (low, high), (other_low, other_high) = ranges[out], ranges[other]
        if low < high and other_low < other_high:
            bounds.append((index[out], index[other], low - other_high, high - other_low))
    return tuple(bounds)
