"""Chooses the variant of a call.

The point of the matrix is settled first; then the first variant whose assumptions hold is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilec_runtime.bundle.choose import DeviceFacts, choose_image
from tilec_runtime.device.layout import contiguous_stride
from tilec_runtime.errors import LayoutError, VariantError
from tilec_runtime.launch.binding import check_axes
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.program import all_hold, concrete
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.table import same_point
from tilec_runtime.values import replace, value_class


@value_class(frozen=True, kw_only=True)
class Considered:
    """A variant that was considered, and why it was taken or passed over."""

    variant: VariantInfo
    taken: bool
    reason: str


@value_class(frozen=True, kw_only=True)
class Settled:
    """A point of the matrix and the variant chosen there.

    Attributes:
        considered: the variants at that point in order; the last one is taken.
        origins: the source of each axis value, for messages.
        reasons: why each point of the tuning table and the rules was taken or passed over; empty
            without table and rules.
    """

    considered: tuple[Considered, ...]
    origins: Mapping[str, str]
    reasons: tuple[str, ...] = ()

    @property
    def variant(self) -> VariantInfo:
        """The variant that is taken."""
        return self.considered[-1].variant


def bound_axes(call: Call) -> dict[str, str]:
    """Settle the axes that the arguments of a call determine; return the axes' origins.

    The signature was checked before. The axes of the call are settled in place.

    Raises:
        LaunchError: the arguments disagree, or no variant takes them.
    """
    origins = {
        axis: "the caller's" if axis in call.pinned else "the dtype of the arguments"
        for axis in call.axes
    }
    _take_tiles(call, origins)
    _take_lists(call, origins)
    return origins


def default_axes(
    contract: Contract, names: Iterable[str], axes: dict[str, AxisValue], origins: dict[str, str]
) -> None:
    """Give every open axis of `names` its default, or its only value.

    Raises:
        VariantError: an axis has neither.
    """
    for name in names:
        built = contract.axes[name]
        if name in axes:
            continue
        if name not in contract.default and len(built) > 1:
            raise _must_choose(contract, name)
        axes[name] = contract.default.get(name, built[0])
        origins[name] = "the default"


def settle_axes(contract: Contract, axes: dict[str, AxisValue], origins: dict[str, str]) -> None:
    """Settle all axes that are open.

    Raises:
        VariantError: an axis has no default, or nothing was built at this point of the matrix.
    """
    given = dict(axes)
    default_axes(contract, contract.axes, axes, origins)
    if contract.matching(axes):
        return
    # A hint, such as num_warps of a configuration, leaves its default for a variant that fits: it
    # does not change what is computed. Other axes may.
    kept = {
        name: value for name, value in axes.items() if name in given or name not in contract.hints
    }
    points = (variant.axes for variant in contract.info.variants)
    point = next((point for point in points if same_point(point, kept)), None)
    if point is None:
        raise no_variant(contract, {name: axes[name] for name in contract.axes})
    origins.update({name: "what fits" for name, _ in point if name not in kept})
    axes.update(point)


def _must_choose(contract: Contract, axis: str) -> VariantError:
    """Return the error for an axis that neither the call nor the manifest decides."""
    cut, value = contract.info.tiled_by(axis), contract.axes[axis][0]
    tiles = f", or a partition of {cut[0]} into such tiles" if cut else ""
    return VariantError(
        f"{contract.name}: {axis} has no default: choose one of {contract.built(axis)}",
        fix=f"pass {axis}={value!r} to the launcher{tiles}; in the manifest, axes of a case say it, and dispatch.default for all launches",
        kernel=contract.name,
    )


def _take_tiles(call: Call, origins: dict[str, str]) -> None:
    """Settle the axes of the kernel's tiles from partitions passed as outputs.

    Raises:
        LayoutError: two outputs disagree, or no variant with such a tile was built.
    """
    safety, pinned = call.contract.info.safety, call.pinned
    for region in safety.regions if safety is not None else ():
        index = call.contract.index[region.param]
        value, param = call.values[index], call.contract.params[index]
        tile = getattr(value, "tile", ())
        if not hasattr(type(value), "grid_wish") or len(tile) != len(region.tile):
            continue
        wanted = dict(zip(region.tile, tile, strict=True))
        if any(name in pinned and pinned[name] != extent for name, extent in wanted.items()):
            continue  # keep the caller's value: `check_tiles` compares the tiles with it
        for name, extent in wanted.items():
            built = call.contract.axes.get(name, ())
            if len(built) < 2 or name in pinned:
                continue
            if extent not in built:
                message = f"is cut into tiles of {tuple(tile)}, and no variant with {name} = {extent} was built"
                raise call.contract.refuse(
                    LayoutError,
                    param,
                    message,
                    f"partition by {name} = {call.contract.built(name)}",
                )
            if call.axes.get(name, extent) != extent:
                message = f"is cut into tiles of {tuple(tile)}, which makes {name} {extent}, and {origins[name]} make it {call.axes[name]}"
                raise call.contract.refuse(
                    LayoutError, param, message, "cut both into the tiles of one variant"
                )
            call.axes[name] = extent
            origins[name] = f"the tiles of {region.param}"


def _take_lists(call: Call, origins: dict[str, str]) -> None:
    """Settle the axes of lists from the lengths of the lists.

    Raises:
        VariantError: the caller chose another value.
    """
    absent, pinned = call.absent, call.pinned
    for row in call.contract.info.lists:
        if not row.axis:
            continue
        arrays = call.contract.params[row.first : row.first + row.most]
        length = sum(param.name not in absent for param in arrays)
        if pinned.get(row.axis, length) != length:
            message = f"{call.contract.name}: {row.axis} is {pinned[row.axis]!r} for this launch, and {row.name!r} has {length} arrays"
            raise VariantError(
                message,
                fix=f"leave {row.axis} out: the length of {row.name} says it",
                kernel=call.contract.name,
            )
        if row.axis not in call.axes:
            origins[row.axis] = f"the length of {row.name}"
        call.axes[row.axis] = length


def select_variant(call: Call) -> tuple[Considered, ...]:
    """Return the variants considered for a call in order; the last is taken.

    Raises:
        VariantError: the arguments satisfy the assumptions of no variant at this point of the
            matrix.
    """
    contract = call.contract
    considered: list[Considered] = []
    for variant in contract.matching(call.axes):
        why = _other_tensors(call, variant) if contract.optionals else ""
        demands = [] if why else list(_demands(call, variant))
        if not why and all_hold(holds for holds, _, _ in demands):
            reason = (
                "the arguments satisfy all its assumptions"
                if variant.assume
                else "it assumes nothing"
            )
            considered.append(Considered(variant=variant, taken=True, reason=reason))
            return tuple(considered)
        why = why or next(
            template.format(*values) for holds, template, values in demands if not concrete(holds)
        )
        considered.append(Considered(variant=variant, taken=False, reason=why))
    lines = [f"{contract.name}: the arguments satisfy the assumptions of no variant"]
    lines += [f"  {entry.variant.id}: {entry.reason}" for entry in considered]
    raise VariantError(
        "\n".join(lines),
        fix="add the empty set {} to assume.sets as a fallback, and build again",
        kernel=contract.name,
    )


def no_variant(contract: Contract, axes: Mapping[str, AxisValue]) -> VariantError:
    """Return the error for a point that was not built; list those that were."""
    point = _listed(axes)
    built = "; ".join(
        dict.fromkeys(_listed(dict(variant.axes)) for variant in contract.info.variants)
    )
    fix = f"choose one that was built, or add it to the matrix of kernel.{contract.name}"
    return VariantError(
        f"{contract.name}: no variant with {point} was built; built are: {built}",
        fix=fix,
        kernel=contract.name,
    )


def require_built(
    contract: Contract,
    pinned: Mapping[str, AxisValue],
    axes: Mapping[str, AxisValue | None],
) -> dict[str, AxisValue]:
    """Return the axes that have a value; check that a restricted launcher has variants there.

    Raises:
        VariantError: an axis does not exist, a value was not built or contradicts `pinned`, or no
            variant has all the values.
    """
    chosen = check_axes(contract, axes, pinned)
    point = {**pinned, **chosen}
    if not any(_lies_at(variant, point) for variant in contract.info.variants):
        raise no_variant(contract, point)
    return chosen


def require_options(
    contract: Contract,
    axes: Mapping[str, AxisValue],
    hints: Mapping[str, int],
    facts: DeviceFacts | None = None,
) -> tuple[VariantInfo, ...]:
    """Return the variants with these axis values and these compiler hints.

    Args:
        contract: the kernel's launch contract.
        axes: the axis values that are settled; may be empty.
        hints: names and values; `max_divisibility` is the largest divisor that a variant may
            assume.
        facts: the device whose image counts; None accepts an image of any target.

    Raises:
        VariantError: there is no such variant; the message names the hints that were built.
    """
    name = contract.name
    wanted = dict(hints)
    limit = wanted.pop("max_divisibility", None)
    if limit is not None and not (type(limit) is int and limit > 0):
        message = f"{name}: max_divisibility is {limit!r}, and must be a positive integer"
        raise VariantError(message, fix="pass the largest divisor, such as 16", kernel=name)
    built = [
        (variant, _hints_of(variant, facts))
        for variant in contract.info.variants
        if _lies_at(variant, axes)
    ]
    fitting = tuple(
        variant
        for variant, images in built
        if not wanted or any(wanted.items() <= image.items() for image in images)
    )
    within = tuple(variant for variant in fitting if limit is None or variant.divisibility <= limit)
    if within:
        return within
    if not fitting:
        images = [image for _, images in built for image in images]
        raise _no_options(contract, axes, hints, images, facts)
    assumed = ", ".join(map(str, sorted({variant.divisibility for variant in fitting})))
    message = f"{name}: no variant was built for max_divisibility={limit!r}; divisors that variants assume: {assumed}"
    fix = f"add the empty set {{}} to kernel.{name}.assume.sets and build again"
    raise VariantError(message, fix=fix, kernel=name)


def _no_options(
    contract: Contract,
    axes: Mapping[str, AxisValue],
    hints: Mapping[str, int],
    built: Sequence[Mapping[str, int]],
    facts: DeviceFacts | None,
) -> VariantError:
    """Return the error for hints that no image was built with.

    It lists the hints in `built`.
    """
    from tilec_runtime.model.suggest import did_you_mean

    name = contract.name
    known = contract.hints | {"max_divisibility"}
    unknown = next((hint for hint in hints if hint not in known), None)
    near = "" if unknown is None else did_you_mean(unknown, sorted(contract.hints))
    if unknown == "num_cta_in_cga":
        near = "; num_cta_in_cga of cuTile Rust is num_ctas here"
    point = _listed(axes)
    at = f" of {point}" if point else ""
    on = f" for {facts.name}" if facts else ""
    options = "; ".join(dict.fromkeys(_listed(image) or "none" for image in built)) or "none"
    fix = "choose what was built"
    if not near:
        where = " (where its language has such a hint)" if unknown else ""
        option = unknown or next(iter(hints))
        fix += f", or{where} add the option to the matrix of kernel.{name} ({option} = [...]) and build again"
    wanted = ", ".join(f"{hint}={value!r}" for hint, value in hints.items())
    message = f"{name}: no variant{at} was built with the options {wanted}{on}{near}; options that were built: {options}"
    return VariantError(message, fix=fix, kernel=name)


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def for_device(info: KernelInfo, facts: DeviceFacts) -> KernelInfo:
    """Return the kernel with the variants that a device can run.

    This concerns only kernels whose axes differ by target. Prefer variants with machine code to
    those that would have to be compiled at load.
    """
    default = dict(info.default)
    if not any(axis not in default and info.by_device(axis) for axis in info.choices):
        return info
    taken = [(variant, choose_image(variant.images, facts).taken) for variant in info.variants]
    ready = tuple(variant for variant, image in taken if image is not None and image.jit is None)
    runs = ready or tuple(variant for variant, image in taken if image is not None)
    return narrowed(info, runs) if runs else info


def narrowed(info: KernelInfo, variants: tuple[VariantInfo, ...]) -> KernelInfo:
    """Return a kernel with some of its variants, and only their axis values."""
    points = [dict(variant.axes) for variant in variants]

    def left(name: str, value: AxisValue) -> bool:
        return any(
            point.get(name) == value and type(point.get(name)) is type(value) for point in points
        )

    return replace(
        info,
        variants=variants,
        axes=tuple(
            (name, tuple(value for value in values if left(name, value)))
            for name, values in info.axes
        ),
        default=tuple((name, value) for name, value in info.default if left(name, value)),
    )


def _lies_at(variant: VariantInfo, point: Mapping[str, AxisValue]) -> bool:
    axes = dict(variant.axes)
    return all(axes.get(name) == value for name, value in point.items())


def _hints_of(variant: VariantInfo, facts: DeviceFacts | None) -> list[dict[str, int]]:
    """Return the hints of the image that a device takes.

    Without a device, return those of every image.
    """
    if facts is None:
        return [variant.hints_of(image.target) for image in variant.images]
    image = choose_image(variant.images, facts).image
    return [variant.hints_of(image.target)] if image is not None else []


def _other_tensors(call: Call, variant: VariantInfo) -> str:
    """Return the optional tensor that a variant treats differently; empty if none."""
    meant = {fact.param for fact in variant.assume if fact.absent}
    for name in sorted(meant ^ call.absent):
        return f"{name} is given" if name in meant else f"{name} is None"
    return ""


def _demands(call: Call, variant: VariantInfo) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Yield each assumption of a variant: whether it holds, and why not."""
    for fact in variant.assume:
        if fact.absent:
            continue
        tensor = call.tensors[fact.param]
        for dim, (wanted, extent) in enumerate(zip(fact.extent, tensor.shape, strict=False)):
            if wanted is not None:
                message = "{}.shape[{}] is {}, not {}"
                yield extent == wanted, message, (fact.param, dim, extent, wanted)
        for noun, divisors, numbers in (
            ("shape", fact.shape, tensor.shape),
            ("stride", fact.stride, tensor.stride),
        ):
            for dim, (divisor, value) in enumerate(zip(divisors, numbers, strict=False)):
                message = "{}.{}[{}] is {}, not divisible by {}"
                yield value % divisor == 0, message, (fact.param, noun, dim, value, divisor)
        if fact.contiguous:
            dense = contiguous_stride(tuple(map(concrete, tensor.shape)))
            message = "{} has strides {}, not those of a contiguous tensor, {}"
            yield tensor.contiguous, message, (fact.param, tensor.stride, dense)
        message = "{} has address {:#x}, not divisible by {}"
        yield tensor.ptr % fact.align == 0, message, (fact.param, tensor.ptr, fact.align)
