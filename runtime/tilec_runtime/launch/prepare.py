"""Turns a call into a plan: all checks in order, variant, image, launch shape."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilec_runtime.bundle.choose import Choice, choose_image, require_image
from tilec_runtime.device.seam import (
    DeviceInfo,
    GridRule,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    TensorPart,
)
from tilec_runtime.errors import DeviceError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.images import LoadedFunction
from tilec_runtime.launch.keys import is_cut
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
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import AxisValue, VariantInfo
from tilec_runtime.model.signature import ParamKind
from tilec_runtime.model.table import axis_shown
from tilec_runtime.values import replace, value_class

if TYPE_CHECKING:
    pass

# An explanation's text lists at most this number of variants that were not considered.
MOST_OTHERS = 8


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


def prepare(call: Call) -> LaunchPlan:
    """Check a call and return its plan.

    docs/reference/launches.md lists the checks under "Order of checks".

    Raises:
        LaunchError: a check fails; the first one is reported.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    try:
        return _prepared(call, Trace())
    except DeviceError as error:
        if error.device is None:
            error.device = call.site.device.ordinal
        raise


def _prepared(call: Call, trace: Trace) -> LaunchPlan:
    call.record(trace)
    contract, site = call.contract, call.site
    settled, choice, shape = _decided(call)
    name, variant = contract.name, settled.variant
    taken = require_image(
        choice, site.facts(contract.info), kernel=variant.id, language=contract.info.language
    )
    packing = Packing(call, variant.abi)
    function: LoadedFunction | None = None
    bind: Bind = _launch_nothing
    if 0 not in shape.grid:
        function = site.function(taken, contract.info, variant.id)
        admit(name, shape, function)
        check_residency(name, shape, function)
        bind = _binder(call, variant, function)
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


def _binder(call: Call, variant: VariantInfo, function: LoadedFunction) -> Bind:
    """Return the function that binds launches of an entry point, with scratch memory."""
    driver, ordinal = call.site.driver, call.site.device.ordinal
    parts = _parts(call, variant)

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
    tensors = {name: call.tensors.get(name) for name in named if call.site.driver.holds_arguments}
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


def _settled_shape(call: Call) -> LaunchShape:
    """Return the launch shape by the kernel's expressions, the caller and partitions."""
    shape = _wished_shape(call)
    if call.contract.shared_out:
        from tilec_runtime.launch.tiles import check_counts

        check_counts(call, shape.grid)
    return shape


def _wished_shape(call: Call) -> LaunchShape:
    contract, shape = call.contract, launch_shape(call)
    parted, grid = call.cut_outputs, call.grid
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


def explain(call: Call) -> Explanation:
    """Check a call and explain which variant and image it takes; load nothing.

    Raises:
        LaunchError: the call is refused.
    """
    contract, device = call.contract, call.site.device
    settled, images, shape = _decided(call)
    if images.image is not None:
        check_recorded(contract.name, shape, device, images.image)
    # Refuse extents and strides that the kernel's numbers cannot hold.
    Packing(call, settled.variant.abi)
    return Explanation(
        kernel=contract.name,
        device=device,
        axes=tuple((name, call.axes[name]) for name in contract.axes),
        origins=tuple(
            (name, settled.origins[name]) for name, built in contract.info.axes if len(built) > 1
        ),
        reasons=settled.reasons,
        considered=settled.considered,
        others=tuple(_left(call, settled)),
        images=images,
        shape=shape,
    )


def _left(call: Call, settled: Settled) -> Iterator[Considered]:
    """Yield the variants that were not considered, each with the reason."""
    looked = {each.variant.id for each in settled.considered}
    for variant in call.contract.info.variants:
        if variant.id in looked:
            continue
        why = f"{settled.variant.id} comes before it"
        for name, value in variant.axes:
            if call.axes[name] != value:
                why = f"{name} is {axis_shown(value)}, and {axis_shown(call.axes[name])} is {settled.origins[name]}"
                break
        yield Considered(variant=variant, taken=False, reason=why)


def _decided(call: Call) -> tuple[Settled, Choice, LaunchShape]:
    """Check a call as far as the device's limits; return variant, image and shape."""
    contract, site, settled = call.contract, call.site, _settled(call)
    shape = _settled_shape(call)
    choice = choose_image(settled.variant.images, site.facts(contract.info))
    if choice.image is not None:
        shape = as_compiled(shape, choice.image)
    check_device_limits(contract.name, shape, site.device)
    return settled, choice, shape


def _settled(call: Call) -> Settled:
    call.check_signature()
    origins = bound_axes(call)
    if call.contract.info.dispatched:
        from tilec_runtime.launch.tuned import settle_in_turn  # few kernels have tables or rules

        return settle_in_turn(call, origins)
    settle_axes(call.contract, call.axes, origins)
    call.check_contract()
    return Settled(considered=select_variant(call), origins=origins)
