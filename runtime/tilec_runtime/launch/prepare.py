"""Turns a call into a plan: all checks in order, variant, image, launch shape."""

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
from tilec_runtime.launch.keys import CallFacts, facts_of, is_cut
from tilec_runtime.launch.limits import (
    admit,
    as_compiled,
    check_device_limits,
    check_recorded,
    check_residency,
    launch_shape,
)
from tilec_runtime.launch.packing import Packing
from tilec_runtime.launch.plans import MOST_BOUND, Bind, LaunchPlan
from tilec_runtime.launch.program import Trace
from tilec_runtime.launch.select import (
    Considered,
    Settled,
    bound_axes,
    select_variant,
    settle_axes,
)
from tilec_runtime.model.arch import Version
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import ParamKind
from tilec_runtime.model.table import axis_shown
from tilec_runtime.values import replace, value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.jit import Jit

# An explanation's text lists at most this number of variants that were not considered.
MOST_OTHERS = 8


@value_class(frozen=True, kw_only=True)
class Site:
    """A bundle loaded on one device through one driver, with the images loaded there.

    Attributes:
        asked: the caller's or the environment's policy for compiling at load; None leaves it to the
            bundle.
        jit: returns the compiler.
        missing: the machine code that is not installed, as in `DeviceFacts`.
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
        """Return the entry point of an image; its first use compiles and loads it.

        Raises:
            BundleError: the bytes of the image are damaged.
            CompileError, MissingError: the image cannot be compiled.
            KernelCacheError: the driver refuses the image.
            TileIRError: the cpu device cannot read the image.
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
    """The reasons for a launch's variant, image and shape.

    Attributes:
        kernel: the kernel's name.
        device: the device of the launch.
        axes: the point of the matrix.
        origins: for each axis with several values, the source of its value: the caller, the
            arguments, the tuning table, a rule, the default.
        reasons: why each point of the tuning table and the rules was taken or passed over; empty
            without table and rules.
        considered: variants at that point in the order in which they were tried; the last one is
            taken.
        others: the kernel's other variants, each with the reason why it was not considered.
        images: the choice among the variant's images, with every candidate.
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
        """The image that is taken, or None if none fits the device."""
        return self.images.image

    def __str__(self) -> str:
        """Return the explanation as text, one line per decision."""
        point = ", ".join(f"{name}={axis_shown(value)}" for name, value in self.axes) or "no axes"
        lines = [f"{self.kernel} on {self.device}: {point}"]
        origins = [f"{name} is {origin}" for name, origin in self.origins]
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
    facts: CallFacts,
    grid: tuple[GridWish, ...] = (),
) -> LaunchPlan:
    """Check a call and return its plan.

    docs/reference/launches.md lists the checks under "Order of checks".

    Args:
        contract: the kernel's launch contract.
        values: all arguments in order.
        axes: the pinned axes of the launcher.
        site: the bundle, device and driver.
        facts: the facts of the call.
        grid: the caller's wishes for the grid.

    Raises:
        LaunchError: a check fails; the first one is reported.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    trace = Trace()
    try:
        call = Call(contract, values, dict(axes), site.driver, site.device, facts, trace)
        return _prepared(call, trace, axes, site, grid)
    except DeviceError as error:
        if error.device is None:
            error.device = site.device.ordinal
        raise


def _prepared(
    call: Call, trace: Trace, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...]
) -> LaunchPlan:
    contract, device, driver = call.contract, site.device, site.driver
    settled, choice, shape = _decided(call, axes, site, grid)
    name, variant = contract.name, settled.variant
    taken = require_image(
        choice, site.facts(contract.info), kernel=variant.id, language=contract.info.language
    )
    image = taken.image
    packing = Packing(call, variant.abi, device.ordinal)
    function: LoadedFunction | None = None
    bind: Bind = _launch_nothing
    if 0 not in shape.grid:
        function = site.function(taken, contract.info, variant.id)
        admit(name, shape, device, image, function, driver)
        check_residency(name, shape, device, image, function, driver)
        bind = _binder(call, variant, site, function)
    for output, number in enumerate((*shape.grid, *shape.block, shape.shared)):
        trace.output(output, number)
    return LaunchPlan(
        variant=variant.id,
        function=None if function is None else function.handle,
        cluster=shape.cluster,
        cooperative=shape.cooperative,
        programmatic=shape.programmatic,
        steps=trace.steps,
        packing=packing,
        bind=functools.lru_cache(maxsize=MOST_BOUND)(bind),
        repeats=not packing.maps
        and not any(slot.scratch for slot in variant.abi)
        and not any(map(is_cut, call.values)),
    )


def _launch_nothing(_shape: LaunchShape, _stream: int) -> LaunchCall:
    """Bind the launch of an empty grid, which does nothing."""
    return lambda _parameters, _extra: (0,)


def _binder(call: Call, variant: VariantInfo, site: Site, function: LoadedFunction) -> Bind:
    """Return the function that binds launches of an entry point, with scratch memory."""
    driver, ordinal, parts = site.driver, site.device.ordinal, _parts(call, variant)

    def bind(shape: LaunchShape, stream: int) -> LaunchCall:
        return driver.bind_launch(ordinal, function.handle, shape, stream, parts)

    scratch = [(index, slot.scratch) for index, slot in enumerate(variant.abi) if slot.scratch]
    if not scratch:
        return bind
    from tilec_runtime.launch.scratch import with_scratch  # few kernels need any

    return with_scratch(bind, driver, ordinal, scratch, call.contract.name)


def _parts(call: Call, variant: VariantInfo) -> LaunchParts:
    """Describe a launch for its driver.

    The tensors are included if the driver runs kernels itself.
    """
    contract = call.contract
    slots = tuple(slot.expr.strip() for slot in variant.abi)
    plain = {param.name for param in contract.params if param.kind is ParamKind.PTR}
    named = (contract.params[index].name for index in contract.tensors)
    tensors = {name: call.tensors.get(name) for name in named if call.driver.holds_arguments}
    return LaunchParts(
        kernel=variant.id,
        sizes=tuple(slot.size for slot in variant.abi),
        addresses=tuple((index, name) for index, name in enumerate(slots) if name in plain),
        tensors=tuple(
            TensorPart.absent(name) if tensor is None else TensorPart.of(name, tensor.pinned)
            for name, tensor in tensors.items()
        ),
        slots=slots,
    )


def _settled_shape(call: Call, grid: tuple[GridWish, ...]) -> LaunchShape:
    """Return the launch shape by the kernel's expressions, the caller and partitions."""
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
        *(value.grid_wish(contract.params[index].name, contract.name) for index, value in parted),
    ]
    settled = settle_grid(contract.name, shape.grid, wishes)
    check_grid(
        call, shape.grid, settled, prefix=any(wish.rule is GridRule.AT_MOST for wish in wishes)
    )
    if not grid:  # a caller who gives the grid is responsible for it
        check_shares(call, shape.grid, parted)
    return replace(shape, grid=settled)


def explain(
    contract: Contract,
    values: Values,
    axes: dict[str, AxisValue],
    site: Site,
    grid: tuple[GridWish, ...] = (),
) -> Explanation:
    """Check a call and explain which variant and image it takes; load nothing.

    Raises:
        LaunchError: the call is refused.
    """
    facts = facts_of(contract, values, site.driver)
    call = Call(contract, values, dict(axes), site.driver, site.device, facts)
    settled, images, shape = _decided(call, axes, site, grid)
    if images.image is not None:
        check_recorded(contract.name, shape, site.device, images.image)
    # Refuse extents and strides that the kernel's numbers cannot hold.
    Packing(call, settled.variant.abi, site.device.ordinal)
    return Explanation(
        kernel=contract.name,
        device=site.device,
        axes=tuple((name, call.axes[name]) for name in contract.axes),
        origins=tuple(
            (name, settled.origins[name]) for name, built in contract.info.axes if len(built) > 1
        ),
        reasons=settled.reasons,
        considered=settled.considered,
        others=tuple(_left(contract, call, settled)),
        images=images,
        shape=shape,
    )


def _left(contract: Contract, call: Call, settled: Settled) -> Iterator[Considered]:
    """Yield the variants that were not considered, each with the reason."""
    looked = {each.variant.id for each in settled.considered}
    for variant in contract.info.variants:
        if variant.id in looked:
            continue
        why = f"{settled.variant.id} comes before it"
        for name, value in variant.axes:
            if call.axes[name] != value:
                why = f"{name} is {axis_shown(value)}, and {axis_shown(call.axes[name])} is {settled.origins[name]}"
                break
        yield Considered(variant=variant, taken=False, reason=why)


def _decided(
    call: Call, axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...]
) -> tuple[Settled, Choice, LaunchShape]:
    """Check a call as far as the device's limits; return variant, image and shape."""
    contract, settled = call.contract, _settled(call, axes, site)
    shape = _settled_shape(call, grid)
    choice = choose_image(settled.variant.images, site.facts(contract.info))
    if choice.image is not None:
        shape = as_compiled(shape, choice.image)
    check_device_limits(contract.name, shape, site.device)
    return settled, choice, shape


def _settled(call: Call, axes: dict[str, AxisValue], site: Site) -> Settled:
    call.check_signature()
    origins = bound_axes(call, axes)
    if call.contract.info.dispatched:
        from tilec_runtime.launch.tuned import settle_in_turn  # few kernels have tables or rules

        return settle_in_turn(call, origins, site.device)
    settle_axes(call.contract, call.axes, origins)
    call.check_contract()
    return Settled(considered=select_variant(call), origins=origins)
