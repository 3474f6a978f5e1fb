"""Checks of a launch shape: device limits, the loaded image, residency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilec_runtime.device.seam import DeviceInfo, Dim3, LaunchShape, dim3
from tilec_runtime.errors import ArgumentError, LaunchLimitError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.images import LoadedFunction
from tilec_runtime.launch.program import TracedInt, at_most, concrete
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.expr import Expr
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.values import replace

_AXES = "xyz"
_PORTABLE_CLUSTER = 8
# Thread coordinates along an axis of the grid are 32-bit numbers.
MOST_THREADS_ALONG = 2**32
# Limit of the tiles of a shared output plus the blocks: kernels number both in 32 bits.
MOST_TILES = (1 << 31) - 1
_PROGRAMMATIC = (
    9,
    0,
)  # first compute capability whose launches may start before the preceding one is done


def launch_shape(call: Call) -> LaunchShape:
    """Evaluate grid, block and shared memory for a call.

    Raises:
        LaunchLimitError: a value is not an integer, or is negative.
        RequirementError: an expression has no value for these arguments.
        ArgumentError: the kernel needs a configuration.
    """
    contract = call.contract
    name, launch = contract.name, contract.info.launch
    if launch.open and not launch.preset:
        message = f"{name}: the manifest leaves {', '.join(launch.open)} to the caller, and the launch says no config"
        fix = f"pass config=LaunchConfig(...), such as {name}(..., config=LaunchConfig.for_num_elems(n))"
        raise ArgumentError(message, fix=fix, kernel=name)
    grid = _dims(call, "grid", contract.grid, 0)
    block = _dims(call, "block", contract.block, 3)
    shared = _whole(call, "shared memory", contract.shared, 6)
    return LaunchShape(
        grid=grid,
        block=block,
        shared=shared,
        cluster=launch.cluster,
        cooperative=launch.cooperative,
        programmatic=launch.programmatic,
    )


def as_compiled(shape: LaunchShape, image: ImageInfo) -> LaunchShape:
    """Return the shape with block, shared memory and cluster of the image's compiler.

    The grid of such a kernel counts clusters; the returned grid counts blocks.
    """
    if not image.block:
        return shape
    size = math.prod(image.cluster)
    grid = (shape.grid[0] * size, shape.grid[1], shape.grid[2])
    cluster = image.cluster if size > 1 else ()
    return replace(
        shape, grid=grid, block=dim3(image.block), shared=image.dynamic_shared, cluster=cluster
    )


def _dims(call: Call, noun: str, expressions: tuple[Expr, ...], first: int) -> Dim3:
    values = [
        _whole(call, f"{noun}.{_AXES[i]}", expression, first + i)
        for i, expression in enumerate(expressions)
    ]
    return dim3(values)


def _whole(call: Call, noun: str, expression: Expr, output: int) -> int:
    """Evaluate one number of a launch shape as an output of the plan's program."""
    value: Any = call.evaluate(expression)
    if isinstance(value, TracedInt):  # several limits read the output, which is computed once
        number = value.trace.output(output, value)
    else:
        number = int(value) if isinstance(value, int) else -1
    if number < 0:
        name = call.contract.name
        message = f"{name}: {noun} is {value!r} by {expression.text}, and must be a whole number that is not negative"
        raise LaunchLimitError(message, kernel=name)
    return number


def check_device_limits(name: str, shape: LaunchShape, device: DeviceInfo) -> None:
    """Compare a launch shape with the limits of the device for any kernel.

    Raises:
        LaunchLimitError: the first limit that the shape exceeds.
    """
    for noun, dims, one in (("block", shape.block, "thread"), ("cluster", shape.cluster, "block")):
        for axis, has in zip(_AXES, dims, strict=False):
            if has == 0:
                raise refused(name, f"{noun}.{axis} is 0: a {noun} has one {one} at least")
    for axis, blocks, extent in zip(_AXES, shape.grid, shape.block, strict=True):
        if blocks > MOST_THREADS_ALONG // extent:
            message = (
                f"grid.{axis} {blocks} times block.{axis} {extent} is beyond 32-bit coordinates"
            )
            raise refused(name, message)
    _check_whole_clusters(name, shape.grid, shape.cluster)
    for noun, dims, limits in (
        ("grid", shape.grid, device.max_grid),
        ("block", shape.block, device.max_block),
    ):
        for axis, has, most in zip(_AXES, dims, limits, strict=True):
            if has > most:
                fix = f"choose larger tiles or blocks, or give the longest dimension to x, which allows {device.max_grid[0]}"
                message = f"{noun}.{axis} is {has}, and {device} allows {most}"
                raise refused(name, message, fix if noun == "grid" and axis != "x" else "")
    threads = math.prod(shape.block)
    if threads > device.max_threads:
        message = f"the block has {threads} threads, and {device} allows {device.max_threads}"
        raise refused(name, message)
    if shape.programmatic and device.interprets is None and device.cc < _PROGRAMMATIC:
        own = f"{device.cc[0]}.{device.cc[1]}"
        raise refused(
            name, f"launch.programmatic needs compute capability 9.0, and {device} is of {own}"
        )


def _check_whole_clusters(name: str, grid: Dim3, cluster: Sequence[int]) -> None:
    for axis, blocks, extent in zip(_AXES, grid, cluster, strict=False):
        if blocks % extent:
            message = f"grid.{axis} is {blocks}, and must be divisible by cluster.{axis} {extent}"
            raise refused(name, message)


def _check_compiled(name: str, shape: LaunchShape, image: ImageInfo) -> None:
    """Compare block and cluster with the image's; it need not be loaded.

    Raises:
        LaunchLimitError: the first of these checks that fails.
    """
    if is_tile(image):
        return
    threads, required = math.prod(shape.block), dim3(image.required_block)
    if image.required_block and shape.block != required:
        raise refused(
            name, f"the block is {shape.block}, and the kernel was compiled for exactly {required}"
        )
    if image.max_threads and threads > image.max_threads:
        most = image.max_threads
        raise refused(
            name,
            f"the block has {threads} threads, and the kernel was compiled for {most} at most (__launch_bounds__)",
        )
    if not image.cluster:
        return
    if shape.cluster and dim3(shape.cluster) != dim3(image.cluster):
        raise refused(
            name,
            f"the cluster is {dim3(shape.cluster)}, and the kernel was compiled for {dim3(image.cluster)}",
        )
    _check_whole_clusters(name, shape.grid, image.cluster)


def admit(name: str, shape: LaunchShape, function: LoadedFunction) -> None:
    """Check a launch against its loaded image, then opt in to its needs.

    The needs are large shared memory and wide clusters.

    Raises:
        LaunchLimitError: the image or the device does not allow the launch; nothing was changed.
    """
    _check_compiled(name, shape, function.image)
    _check_loaded(name, shape, function)
    _opt_in(shape, function)


def _check_loaded(name: str, shape: LaunchShape, function: LoadedFunction) -> None:
    """Compare threads, shared memory and launch kind with image and device."""
    device, facts = function.device, function.facts
    threads, most = math.prod(shape.block), facts.max_threads
    if threads > most and not is_tile(function.image):
        raise refused(
            name,
            f"the block has {threads} threads, and with {facts.registers} registers each {most} fit",
        )
    _check_shared(name, facts.static_shared, shape.shared, device)
    size = math.prod(cluster_of(shape, function.image))
    if size > 1 and not device.cluster:
        raise refused(
            name, f"the launch has clusters of {size} blocks, and {device} has no clusters"
        )
    if shape.cooperative and not device.cooperative:
        raise refused(name, f"the launch is cooperative, and {device} has no cooperative launches")


def check_recorded(name: str, shape: LaunchShape, device: DeviceInfo, image: ImageInfo) -> None:
    """Make those checks of `admit` that need only the bundle.

    Raises:
        LaunchLimitError: the first of these checks that fails.
    """
    _check_compiled(name, shape, image)
    # If the compiler chose the block, the bundle's number includes dynamic shared memory.
    _check_shared(name, image.resources.shared or 0, 0 if image.block else shape.shared, device)


def _check_shared(name: str, static: int, dynamic: int, device: DeviceInfo) -> None:
    total = static + dynamic
    if total > device.shared_optin:
        parts = f" ({static} static and {dynamic} dynamic)" if static and dynamic else ""
        raise refused(
            name,
            f"a block needs {total} bytes of shared memory{parts}, and {device} allows {device.shared_optin}",
        )


def _opt_in(shape: LaunchShape, function: LoadedFunction) -> None:
    """Allow the function large shared memory and clusters of more than 8 blocks.

    The limits only grow, so that a launch prepared in another thread stays valid.
    """
    if function.facts.static_shared + shape.shared > function.device.shared_default:
        function.driver.allow_shared(function.handle, at_most(shape.shared))
    if math.prod(cluster_of(shape, function.image)) > _PORTABLE_CLUSTER:
        function.driver.allow_wide_clusters(function.handle)


def check_residency(name: str, shape: LaunchShape, function: LoadedFunction) -> None:
    """Check that one cluster, or a whole cooperative grid, fits on the device.

    The driver counts.

    Raises:
        LaunchLimitError: they do not fit; the message gives the number that fits.
    """
    device, driver = function.device, function.driver
    size, blocks = math.prod(cluster_of(shape, function.image)), math.prod(shape.grid)
    if size > 1 or shape.cooperative:
        # The driver's count depends on the block and shared memory (so pin them), not on the grid.
        block, grid = dim3(list(map(int, shape.block))), dim3(list(map(concrete, shape.grid)))
        shape = replace(shape, grid=grid, block=block, shared=int(shape.shared))
    threads = math.prod(shape.block)
    if shape.cluster and size > 1:
        widest = driver.widest_cluster(device.ordinal, function.handle, shape)
        if size > widest:
            raise refused(
                name,
                f"the cluster has {size} blocks, and of {threads} threads each {widest} can be one on {device}",
            )
        if driver.active_clusters(device.ordinal, function.handle, shape) == 0:
            raise refused(
                name, f"no cluster of {size} blocks with {threads} threads fits on {device}"
            )
    if shape.cooperative:
        most = resident_blocks(shape, function)
        if blocks > most:
            of = f" in clusters of {size}" if size > 1 else ""
            raise refused(
                name,
                f"the cooperative grid has {blocks} blocks, and {most} can be resident{of} on {device}",
            )


def resident_blocks(shape: LaunchShape, function: LoadedFunction) -> int:
    """Count the blocks of a launch that the device holds at once, in whole clusters."""
    device, driver = function.device, function.driver
    size = math.prod(cluster_of(shape, function.image))
    per_processor = driver.active_blocks(
        device.ordinal, function.handle, math.prod(shape.block), shape.shared
    )
    most = per_processor * device.multiprocessors
    if size == 1 or not device.cluster or not shape.cluster:
        return most
    # A cluster lies within one group of multiprocessors, so fewer blocks may fit than without.
    return min(most, driver.active_clusters(device.ordinal, function.handle, shape) * size)


def cluster_of(shape: LaunchShape, image: ImageInfo) -> tuple[int, ...]:
    """Return the cluster of a launch, else the compiled one; empty for none."""
    return shape.cluster or (() if is_tile(image) else image.cluster)


def is_tile(image: ImageInfo) -> bool:
    """Whether an image is of a tile kernel, whose block (1, 1, 1) is a placeholder."""
    return (image.exact or image.target.kind is TargetKind.TILEIR) and not image.block


def refused(name: str, fault: str, fix: str = "") -> LaunchLimitError:
    """Return the error for a launch shape."""
    return LaunchLimitError(f"{name}: {fault}", fix=fix, kernel=name)
