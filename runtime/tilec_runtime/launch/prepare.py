"""Turns a call into a plan: every check in order, the variant, the image, the launch shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tilec_runtime.bundle.choose import Candidate, Choice, DeviceFacts, choose_image, require_image
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.seam_types import (
    DeviceInfo,
    GridRule,
    GridWish,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    TensorPart,
)
from tilec_runtime.errors import DeviceError
from tilec_runtime.launch.checks import Call, Values
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.images import ImageStore, LoadedFunction
from tilec_runtime.launch.keys import CallFacts, address_slots, is_cut
from tilec_runtime.launch.limits import (
    admit,
    as_compiled,
    check_compiled,
    check_device_limits,
    check_recorded,
    check_residency,
    launch_shape,
)
from tilec_runtime.launch.packing import Packing
from tilec_runtime.launch.plans import Bind, LaunchPlan
from tilec_runtime.launch.program import Trace
from tilec_runtime.launch.select import Considered, Settled, settle
from tilec_runtime.model.arch import Version
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import ParamKind
from tilec_runtime.values import replace, value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.jit import Jit

# Variants that were not looked at and that the text of an explanation lists.
MOST_OTHERS = 8


@value_class(frozen=True, kw_only=True)
class Site:
    """Where a bundle is loaded: one device, through one driver, with what is loaded there.

    `asked` is the policy of the caller or the environment for compiling at load; None leaves it to
    the bundle. `jit` gives the compiler. `missing` is the machine code that is not installed, as in
    `DeviceFacts`.
    """

    bundle: Bundle
    device: DeviceInfo
    driver: DeviceDriver
    store: ImageStore
    asked: JitFallback | None
    jit: Callable[[], Jit]
    missing: tuple[tuple[Version, str], ...] = ()

    def facts(self, kernel: KernelInfo) -> DeviceFacts:
        """Return the device's facts for the choice of a kernel's image."""
        device, jit = self.device, self.asked or kernel.jit
        return DeviceFacts(
            cc=device.cc,
            driver=device.driver,
            name=device.name,
            interprets=device.interprets,
            jit=jit,
            missing=self.missing,
        )

    def function(self, taken: Candidate, kernel: KernelInfo, variant: str) -> LoadedFunction:
        """The entry point of an image that was chosen: loaded if this is its first use, and
        compiled before where it has to be.

        Raises:
            BundleError: its bytes are damaged.
            CompileError, MissingError: it cannot be compiled.
            KernelCacheError: the driver refuses it.
            TileIRError: the cpu device cannot read it.
        """
        digest = taken.image.digest

        def original() -> bytes:
            return self.bundle.image(digest)

        if taken.jit is None:
            return self.store.function(
                self.driver, self.device.ordinal, taken.image, kernel.name, original
            )
        jit = self.jit()
        code = functools.partial(jit.code, taken, original, self.facts(kernel), variant)
        loaded = self.store.function(
            self.driver, self.device.ordinal, taken.image, kernel.name, code, by=taken.jit
        )
        jit.note(taken, variant)
        return loaded


@value_class(frozen=True, kw_only=True)
class Explanation:
    """Why a launch takes what it takes.

    Attributes:
        kernel: its name.
        device: where.
        axes: the point of the matrix.
        origins: who says so, axis by axis: the caller, the arguments, the tuning table, the
            default.
        reasons: of points that come first by the tuning table, why they were taken or passed over;
            empty where there is no table.
        considered: variants at that point in the order in which they were tried; the last one is
            taken.
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
        origins = [f"{name} is {who}" for name, who in self.origins]
        lines += [f"  {'; '.join(origins)}"] if origins else []
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [
            f"  {'takes' if c.taken else 'passes over'} variant {c.variant.id}: {c.reason}"
            for c in self.considered
        ]
        for candidate in self.images.candidates:
            word = (
                "takes"
                if candidate.image is self.image
                else "could take"
                if candidate.accepted
                else "cannot take"
            )
            lines.append(f"  {word} image {candidate.image.target}: {candidate.reason}")
        lines.append(
            f"  grid {self.shape.grid}, block {self.shape.block}, {self.shape.shared} bytes of dynamic shared memory"
        )
        lines += [f"  leaves variant {c.variant.id}: {c.reason}" for c in self.others[:MOST_OTHERS]]
        more = len(self.others) - MOST_OTHERS
        lines += [f"  leaves {more} more: `others` has them all"] if more > 0 else []
        return "\n".join(lines)


def prepare(
    contract: Contract,
    values: Values,
    axes: dict[str, AxisValue],
    site: Site,
    grid: tuple[GridWish, ...] = (),
    read: CallFacts | None = None,
) -> tuple[LaunchPlan, CallFacts]:
    """Check a call, and return its plan with the facts that it was made for.

    docs/reference/launches.md lists the checks under "Order of checks".

    Args:
        contract: of the kernel.
        values: all arguments in order.
        axes: those that the launcher is restricted to.
        site: where the bundle is loaded.
        grid: the caller's wishes for it.
        read: the call's facts; None where they could not be read, or were not.

    Raises:
        LaunchError: the first check that fails.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    trace = Trace()
    try:
        call = Call(contract, values, dict(axes), site.driver, site.device, read, trace)
        return _prepared(call, trace, axes, site, grid), call.facts
    except DeviceError as error:
        if error.device is None:
            error.device = site.device.ordinal
        raise


def _prepared(
    call: Call, trace: Trace, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...]
) -> LaunchPlan:
    contract, settled = call.contract, _settled(call, axes, site)
    variant = settled.considered[-1].variant
    name, device, driver = contract.name, site.device, site.driver
    shape = _settled_shape(call, grid)
    check_device_limits(name, shape, device)
    taken = require_image(
        variant.images,
        site.facts(contract.info),
        kernel=variant.id,
        language=contract.info.language,
    )
    image = taken.image
    if image.block:
        shape = as_compiled(shape, image)
        check_device_limits(name, shape, device)
    packing = Packing(call, variant.abi, device.ordinal)
    function: LoadedFunction | None = None
    bind: Bind = _launch_nothing
    if 0 not in shape.grid:
        check_compiled(name, shape, image)
        function = site.function(taken, contract.info, variant.id)
        admit(name, shape, device, image, function, driver)
        check_residency(name, shape, device, image, function, driver)
        bind = _binder(call, variant, site, function)
    for output, number in enumerate((*shape.grid, *shape.block, shape.shared)):
        trace.output(output, number)
    return LaunchPlan(
        variant=variant.id,
        function=None if function is None else function.handle,
        shape=shape,
        steps=trace.steps,
        packing=packing,
        bind=bind,
        addresses=address_slots(call.facts),
        native=not packing.maps
        and not any(slot.scratch for slot in variant.abi)
        and not any(map(is_cut, call.values)),
    )


def _launch_nothing(_shape: LaunchShape, _stream: int) -> LaunchCall:
    """An empty grid is a launch of nothing."""
    return lambda _parameters, _extra: (0,)


def _binder(call: Call, variant: VariantInfo, site: Site, function: LoadedFunction) -> Bind:
    """Return the function that binds launches of an entry point, with its scratch memory, if any."""
    driver, ordinal, parts = site.driver, site.device.ordinal, _parts(call, variant)

    def bind(shape: LaunchShape, stream: int) -> LaunchCall:
        return driver.bind_launch(ordinal, function.handle, shape, stream, parts)

    scratch = [(place, slot.scratch) for place, slot in enumerate(variant.abi) if slot.scratch]
    if not scratch:
        return bind
    from tilec_runtime.launch.scratch import with_scratch  # few kernels need any

    return with_scratch(bind, driver, ordinal, scratch, call.contract.name)


def _parts(call: Call, variant: VariantInfo) -> LaunchParts:
    """Describe a launch for its driver; tensors too, if the driver runs kernels itself."""
    contract = call.contract
    slots = tuple(slot.expr.strip() for slot in variant.abi)
    plain = {param.name for param in contract.params if param.kind is ParamKind.PTR}
    named = (contract.params[place].name for place in contract.tensors)
    tensors = {name: call.tensors.get(name) for name in named if call.driver.holds_arguments}
    return LaunchParts(
        kernel=variant.id,
        sizes=tuple(slot.size for slot in variant.abi),
        addresses=tuple((place, name) for place, name in enumerate(slots) if name in plain),
        tensors=tuple(
            TensorPart.absent(name) if tensor is None else TensorPart.of(name, tensor.pinned)
            for name, tensor in tensors.items()
        ),
        slots=slots,
    )


def _settled_shape(call: Call, grid: tuple[GridWish, ...]) -> LaunchShape:
    """Grid, block and shared memory, as the kernel's expressions, the caller and the partitions
    that are written have it.
    """
    shape = _wished_shape(call, grid)
    if call.contract.shared_out:
        from tilec_runtime.launch.tiles import check_counts

        check_counts(call, shape.grid)
    return shape


def _wished_shape(call: Call, grid: tuple[GridWish, ...]) -> LaunchShape:
    contract, shape = call.contract, launch_shape(call)
    parted = call.cut_outputs
    if not parted and not grid:
        return shape
    from tilec_runtime.launch.tiles import check_grid, check_shares, check_tiles, settle_grid

    check_tiles(call, parted)
    wishes = [
        *grid,
        *(value.grid_wish(contract.params[place].name, contract.name) for place, value in parted),
    ]
    settled = settle_grid(contract.name, shape.grid, wishes)
    check_grid(
        call, shape.grid, settled, prefix=any(wish.rule is GridRule.AT_MOST for wish in wishes)
    )
    if not grid:  # with a grid of their own, callers answer for the blocks
        check_shares(call, shape.grid, parted)
    return replace(shape, grid=settled)


def explain(
    contract: Contract,
    values: Values,
    axes: dict[str, AxisValue],
    site: Site,
    grid: tuple[GridWish, ...] = (),
) -> Explanation:
    """Check a call and say what a launch would take; nothing is loaded.

    Raises:
        LaunchError: the call is refused.
    """
    call = Call(contract, values, dict(axes), site.driver, site.device)
    settled = _settled(call, axes, site)
    considered = settled.considered
    images = choose_image(considered[-1].variant.images, site.facts(contract.info))
    point = tuple((name, call.axes[name]) for name, _ in contract.info.axes)
    shape = _settled_shape(call, grid)
    if images.image is not None:
        shape = as_compiled(shape, images.image)
    check_device_limits(contract.name, shape, site.device)
    if images.image is not None:
        check_recorded(contract.name, shape, site.device, images.image)
    # Refuse extents and strides that the kernel's numbers cannot hold.
    Packing(call, considered[-1].variant.abi, site.device.ordinal)
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


def _settled(call: Call, axes: dict[str, AxisValue], site: Site) -> Settled:
    call.check_signature()
    settled = settle(call, axes)
    if isinstance(settled, Settled):
        return settled
    from tilec_runtime.launch.tuned import settle_in_turn  # few kernels have tuning tables or rules

    return settle_in_turn(call, settled, site.device)
