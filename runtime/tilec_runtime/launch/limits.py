"""Grid, block, shared memory and residency of a launch, held against the device and the loaded
image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.seam_types import DeviceInfo, Dim3, LaunchShape, dim3
from tilec_runtime.errors import ArgumentError, LaunchLimitError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.images import Function
from tilec_runtime.launch.program import FLOORDIV, LE, NE, Demand, Term, binary, divides, product
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.expr import Expr
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.values import replace

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver

_AXES = "xyz"
_PORTABLE_CLUSTER = 8
# Coordinates of threads along an axis of the grid are 32-bit numbers.
MOST_THREADS_ALONG = 2**32
# Tiles of an output that blocks share and the blocks, together: kernels number them in 32 bits.
MOST_TILES = (1 << 31) - 1
_PROGRAMMATIC = (
    9,
    0,
)  # compute capability from which on a launch may begin before the one in front of it is done


def launch_shape(call: Call) -> LaunchShape:
    """Evaluate grid, block and shared memory for a call.

    Raises:
        LaunchLimitError: a value is no integer, or negative.
        RequirementError: an expression has no value for these arguments.
        ArgumentError: the kernel needs a configuration.
    """
    contract = call.contract
    _require_config(contract.info)
    grid = _dims(call, "grid", contract.grid)
    block = _dims(call, "block", contract.block)
    shared = _whole(call, "shared memory", contract.shared)
    launch = contract.info.launch
    return LaunchShape(
        grid=grid,
        block=block,
        shared=shared,
        cluster=launch.cluster,
        cooperative=launch.cooperative,
        programmatic=launch.programmatic,
    )


def _require_config(info: KernelInfo) -> None:
    """Refuse a launch without a configuration where the manifest leaves something to the caller.

    Raises:
        ArgumentError: it does.
    """
    if info.launch.open and not info.launch.preset:
        what = f"{info.name}: the manifest leaves {', '.join(info.launch.open)} to the caller, and the launch says no config"
        fix = f"pass config=LaunchConfig(...), such as {info.name}(..., config=LaunchConfig.for_num_elems(n))"
        raise ArgumentError(what, fix=fix, kernel=info.name)


def as_compiled(shape: LaunchShape, image: ImageInfo) -> LaunchShape:
    """The shape with what the image's compiler chose: block, dynamic shared memory and cluster; the
    grid then counts clusters.
    """
    if not image.block:
        return shape
    size = math.prod(image.cluster)
    grid = (shape.grid[0] * size, shape.grid[1], shape.grid[2])
    cluster = image.cluster if size > 1 else ()
    return replace(
        shape, grid=grid, block=dim3(image.block), shared=image.dynamic_shared, cluster=cluster
    )


def _dims(call: Call, noun: str, expressions: tuple[Expr, ...]) -> Dim3:
    values = [
        _whole(call, f"{noun}.{_AXES[i]}", expression) for i, expression in enumerate(expressions)
    ]
    return dim3(values)


def _whole(call: Call, noun: str, expression: Expr) -> int:
    value: Any = call.evaluate(expression)
    if not isinstance(value, int) or value < 0:
        name = call.contract.name
        what = f"{name}: {noun} is {value!r} by {expression.text}, and must be a whole number that is not negative"
        raise LaunchLimitError(what, kernel=name)
    return int(value)


def check_device_limits(name: str, shape: LaunchShape, device: DeviceInfo) -> None:
    """What needs no image: the shape in itself, then against what the device allows at all.

    Raises:
        LaunchLimitError: the first of these that does not hold.
    """
    _require(name, limits_of(shape.grid, shape.block, shape.cluster, device))
    if shape.programmatic and device.interprets is None and device.cc < _PROGRAMMATIC:
        own = f"{device.cc[0]}.{device.cc[1]}"
        raise _refuse(
            name, f"launch.programmatic needs compute capability 9.0, and {device} is of {own}"
        )


def limits_of(
    grid: Sequence[Term], block: Sequence[Term], cluster: Sequence[int], device: DeviceInfo
) -> Iterator[Demand]:
    """What a launch shape has to be on a device, whatever is launched: over numbers or over terms
    of a program.
    """
    for noun, dims, one in (("block", block, "thread"), ("cluster", cluster, "block")):
        for axis, has in zip(_AXES, dims, strict=False):
            yield binary(NE, has, 0), "{0}.{1} is 0: a {0} has one {2} at least", (noun, axis, one)
    for axis, blocks, extent in zip(_AXES, grid, block, strict=True):
        most = binary(FLOORDIV, MOST_THREADS_ALONG, extent)
        yield (
            binary(LE, blocks, most),
            "grid.{0} {1} times block.{0} {2} is beyond 32-bit coordinates",
            (axis, blocks, extent),
        )
    yield from whole_clusters(grid, cluster)
    for noun, dims, limits in (("grid", grid, device.max_grid), ("block", block, device.max_block)):
        for axis, has, most in zip(_AXES, dims, limits, strict=True):
            yield (
                binary(LE, has, most),
                "{}.{} is {}, and {} allows {}",
                (noun, axis, has, device, most),
            )
    threads = product(block)
    yield (
        binary(LE, threads, device.max_threads),
        "the block has {} threads, and {} allows {}",
        (threads, device, device.max_threads),
    )


def whole_clusters(grid: Sequence[Term], cluster: Sequence[int]) -> Iterator[Demand]:
    """The grid is made of whole clusters."""
    for axis, blocks, extent in zip(_AXES, grid, cluster, strict=False):
        yield (
            divides(extent, blocks),
            "grid.{0} is {1}, and must be divisible by cluster.{0} {2}",
            (axis, blocks, extent),
        )


def _require(name: str, demands: Iterable[Demand]) -> None:
    for holds, what, values in demands:
        if not holds:
            fix = ""
            if values[:2] in (("grid", "y"), ("grid", "z")):
                fix = f"choose larger tiles or blocks, or give the longest dimension to x, which allows {values[3].max_grid[0]}"
            raise _refuse(name, what.format(*values), fix)


def check_compiled(name: str, shape: LaunchShape, image: ImageInfo) -> None:
    """Block and cluster against what the image was compiled for; it need not be loaded.

    Raises:
        LaunchLimitError: the first of these that does not hold.
    """
    if is_tile(image):
        return
    threads, required = math.prod(shape.block), dim3(image.required_block)
    if image.required_block and shape.block != required:
        raise _refuse(
            name, f"the block is {shape.block}, and the kernel was compiled for exactly {required}"
        )
    if image.max_threads and threads > image.max_threads:
        most = image.max_threads
        raise _refuse(
            name,
            f"the block has {threads} threads, and the kernel was compiled for {most} at most (__launch_bounds__)",
        )
    if not image.cluster:
        return
    if shape.cluster and dim3(shape.cluster) != dim3(image.cluster):
        raise _refuse(
            name,
            f"the cluster is {dim3(shape.cluster)}, and the kernel was compiled for {dim3(image.cluster)}",
        )
    _require(name, whole_clusters(shape.grid, image.cluster))


def admit(
    name: str,
    shape: LaunchShape,
    device: DeviceInfo,
    image: ImageInfo,
    function: Function,
    driver: DeviceDriver,
) -> None:
    """Hold a launch against its loaded image, then opt the function in to what such launches have
    to be allowed.

    Raises:
        LaunchLimitError: the image or the device has no such launches; nothing was changed then.
    """
    _check_loaded(name, shape, device, image, function)
    _opt_in(shape, device, image, function, driver)


def _check_loaded(
    name: str, shape: LaunchShape, device: DeviceInfo, image: ImageInfo, function: Function
) -> None:
    """Threads, shared memory and kind of the launch against what the loaded image leaves and the
    device has.
    """
    threads, most = math.prod(shape.block), function.facts.max_threads
    if threads > most and not is_tile(image):
        raise _refuse(
            name,
            f"the block has {threads} threads, and with {function.facts.registers} registers each {most} fit",
        )
    static = function.facts.static_shared
    _check_shared(name, static, shape.shared, device)
    size = math.prod(cluster_of(shape, image))
    if size > 1 and not device.cluster:
        raise _refuse(
            name, f"the launch has clusters of {size} blocks, and {device} has no clusters"
        )
    if shape.cooperative and not device.cooperative:
        raise _refuse(name, f"the launch is cooperative, and {device} has no cooperative launches")


def check_recorded(name: str, shape: LaunchShape, device: DeviceInfo, image: ImageInfo) -> None:
    """What `check_compiled` and `admit` hold against the image, as far as the bundle tells; nothing
    is loaded.

    Raises:
        LaunchLimitError: the first of these that does not hold.
    """
    check_compiled(name, shape, image)
    # What the bundle has of a kernel whose block the compiler chose counts the dynamic shared
    # memory in.
    _check_shared(name, image.resources.shared or 0, 0 if image.block else shape.shared, device)


def _check_shared(name: str, static: int, dynamic: int, device: DeviceInfo) -> None:
    total = static + dynamic
    if total > device.shared_optin:
        parts = f" ({static} static and {dynamic} dynamic)" if static and dynamic else ""
        raise _refuse(
            name,
            f"a block needs {total} bytes of shared memory{parts}, and {device} allows {device.shared_optin}",
        )


def _opt_in(
    shape: LaunchShape,
    device: DeviceInfo,
    image: ImageInfo,
    function: Function,
    driver: DeviceDriver,
) -> None:
    """Much shared memory, wide clusters. Limits only grow: a launch that is being prepared
    elsewhere keeps what it was promised.
    """
    if function.facts.static_shared + shape.shared > device.shared_default:
        driver.allow_shared(function.handle, shape.shared)
    if math.prod(cluster_of(shape, image)) > _PORTABLE_CLUSTER:
        driver.allow_wide_clusters(function.handle)


def check_residency(
    name: str,
    shape: LaunchShape,
    device: DeviceInfo,
    image: ImageInfo,
    function: Function,
    driver: DeviceDriver,
) -> int | None:
    """Whether the device has room for one cluster, and for all blocks of a cooperative launch, as
    the driver counts.

    Returns:
        The most blocks that a cooperative launch may have; None for any other.

    Raises:
        LaunchLimitError: it has not; the message has the number that fits.
    """
    size, threads = math.prod(cluster_of(shape, image)), math.prod(shape.block)
    if shape.cluster and size > 1:
        widest = driver.widest_cluster(device.ordinal, function.handle, shape)
        if size > widest:
            raise _refuse(
                name,
                f"the cluster has {size} blocks, and of {threads} threads each {widest} can be one on {device}",
            )
        if driver.active_clusters(device.ordinal, function.handle, shape) == 0:
            raise _refuse(
                name, f"no cluster of {size} blocks with {threads} threads fits on {device}"
            )
    if shape.cooperative:
        blocks, most = (
            math.prod(shape.grid),
            resident_blocks(shape, device, image, function, driver),
        )
        if blocks > most:
            of = f" in clusters of {size}" if size > 1 else ""
            raise _refuse(
                name,
                f"the cooperative grid has {blocks} blocks, and {most} can be resident{of} on {device}",
            )
        return most
    return None


def resident_blocks(
    shape: LaunchShape,
    device: DeviceInfo,
    image: ImageInfo,
    function: Function,
    driver: DeviceDriver,
) -> int:
    """How many blocks of a launch the device holds at once: whole clusters of them where it has
    clusters.
    """
    size = math.prod(cluster_of(shape, image))
    per_processor = driver.active_blocks(
        device.ordinal, function.handle, math.prod(shape.block), shape.shared
    )
    most = per_processor * device.multiprocessors
    if size == 1 or not device.cluster or not shape.cluster:
        return most
    # Clusters lie within groups of multiprocessors, so that fewer blocks may fit than without.
    return min(most, driver.active_clusters(device.ordinal, function.handle, shape) * size)


def cluster_of(shape: LaunchShape, image: ImageInfo) -> tuple[int, ...]:
    """The cluster of a launch: what it says, else what the kernel was compiled for; empty for none."""
    return shape.cluster or (() if is_tile(image) else image.cluster)


def is_tile(image: ImageInfo) -> bool:
    """Whether an image is of a tile kernel: its block (1, 1, 1) stands for whatever it needs."""
    return (image.exact or image.target.kind is TargetKind.TILEIR) and not image.block


def _refuse(name: str, what: str, fix: str = "") -> LaunchLimitError:
    return LaunchLimitError(f"{name}: {what}", fix=fix, kernel=name)
