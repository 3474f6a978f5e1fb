"""Grid, block, shared memory and residency of a launch, held against the device and the loaded image."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tilec.errors import LaunchLimitError
from tilec.model.arch import TargetKind
from tilec.model.expr import Expr
from tilec.model.image import ImageInfo
from tilec.runtime.checks import Call
from tilec.runtime.images import Function
from tilec.runtime.seam_types import DeviceInfo, Dim3, LaunchShape

if TYPE_CHECKING:
    from tilec.runtime.seam import DeviceDriver

_AXES = "xyz"
_PORTABLE_CLUSTER = 8
_PROGRAMMATIC = (9, 0)  # compute capability from which on a launch may begin before the one in front of it is done


def launch_shape(call: Call) -> LaunchShape:
    """Evaluate grid, block and shared memory for a call.

    Raises:
        LaunchLimitError: a value is no integer, or negative.
        RequirementError: an expression has no value for these arguments.
    """
    contract = call.contract
    grid = _dims(call, "grid", contract.grid)
    block = _dims(call, "block", contract.block)
    shared = _whole(call, "shared memory", contract.shared)
    launch = contract.info.launch
    return LaunchShape(
        grid=grid, block=block, shared=shared, cluster=launch.cluster, cooperative=launch.cooperative, programmatic=launch.programmatic
    )


def as_compiled(shape: LaunchShape, image: ImageInfo) -> LaunchShape:
    """The shape with what the image's compiler chose: block, dynamic shared memory and cluster; the grid then counts clusters."""
    if not image.block:
        return shape
    x, y, z = (*image.block, 1, 1, 1)[:3]
    size = math.prod(image.cluster)
    grid = (shape.grid[0] * size, shape.grid[1], shape.grid[2])
    cluster = image.cluster if size > 1 else ()
    return dataclasses.replace(shape, grid=grid, block=(x, y, z), shared=image.dynamic_shared, cluster=cluster)


def _dims(call: Call, noun: str, expressions: tuple[Expr, ...]) -> Dim3:
    values = [_whole(call, f"{noun}.{_AXES[i]}", expression) for i, expression in enumerate(expressions)]
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z


def _whole(call: Call, noun: str, expression: Expr) -> int:
    value: Any = call.evaluate(expression)
    if not isinstance(value, int) or value < 0:
        name = call.contract.name
        what = f"{name}: {noun} is {value!r} by {expression.text}, and must be a whole number that is not negative"
        raise LaunchLimitError(what, kernel=name)
    return int(value)


def check_device_limits(name: str, shape: LaunchShape, device: DeviceInfo) -> None:
    """Grid, block and kind of the launch against what the device allows at all.

    Raises:
        LaunchLimitError: a value is beyond the device's.
    """
    for noun, dims, limits in (("grid", shape.grid, device.max_grid), ("block", shape.block, device.max_block)):
        for axis, has, most in zip(_AXES, dims, limits, strict=True):
            if has > most:
                fix = f"choose larger tiles or blocks, or give the longest dimension to x, which allows {limits[0]}"
                raise _refuse(name, f"{noun}.{axis} is {has}, and {device} allows {most}", fix if noun == "grid" and axis != "x" else "")
            if has == 0 and noun == "block":
                raise _refuse(name, f"block.{axis} is 0: a block has one thread at least")
    if shape.programmatic and device.interprets is None and device.cc < _PROGRAMMATIC:
        own = f"{device.cc[0]}.{device.cc[1]}"
        raise _refuse(name, f"launch.programmatic needs compute capability 9.0, and {device} is of {own}")
    threads = math.prod(shape.block)
    if threads > device.max_threads:
        raise _refuse(name, f"the block has {threads} threads, and {device} allows {device.max_threads}")
    for axis, blocks, extent in zip(_AXES, shape.grid, shape.block, strict=True):
        if blocks * extent > 2**32:
            raise _refuse(name, f"grid.{axis} {blocks} times block.{axis} {extent} is beyond 32-bit coordinates")


def check_image_limits(name: str, shape: LaunchShape, device: DeviceInfo, image: ImageInfo, function: Function) -> None:
    """Block and shared memory against the image.

    Raises:
        LaunchLimitError: a value is beyond what the image was compiled for, or beyond the device with what the image uses.
    """
    if not is_tile(image):
        _check_block(name, shape, image, function)
    static = function.facts.static_shared
    total = static + shape.shared
    if total > device.shared_optin:
        parts = f" ({static} static and {shape.shared} dynamic)" if static and shape.shared else ""
        raise _refuse(name, f"a block needs {total} bytes of shared memory{parts}, and {device} allows {device.shared_optin}")


def _check_block(name: str, shape: LaunchShape, image: ImageInfo, function: Function) -> None:
    threads = math.prod(shape.block)
    required = (*image.required_block, 1, 1, 1)[:3]
    if image.required_block and shape.block != required:
        raise _refuse(name, f"the block is {shape.block}, and the kernel was compiled for exactly {required}")
    most = image.max_threads or function.facts.max_threads
    if image.max_threads and threads > image.max_threads:
        raise _refuse(name, f"the block has {threads} threads, and the kernel was compiled for {most} at most (__launch_bounds__)")
    most = function.facts.max_threads
    if threads > most:
        registers = function.facts.registers
        raise _refuse(name, f"the block has {threads} threads, and with {registers} registers each {most} fit")


def check_residency(name: str, shape: LaunchShape, device: DeviceInfo, image: ImageInfo, function: Function, driver: DeviceDriver) -> None:
    """Clusters and cooperative launches: supported by the device, of a shape that divides the grid, and resident at once.

    Raises:
        LaunchLimitError: one of these does not hold.
    """
    cluster = shape.cluster or (() if is_tile(image) else image.cluster)
    size = math.prod(cluster)
    if size > 1:
        if not device.cluster:
            raise _refuse(name, f"the launch has clusters of {size} blocks, and {device} has no clusters")
        for axis, blocks, extent in zip(_AXES, shape.grid, (*cluster, 1, 1), strict=False):
            if blocks % extent:
                raise _refuse(name, f"grid.{axis} is {blocks}, and must be divisible by cluster.{axis} {extent}")
        if shape.cluster and image.cluster and (*shape.cluster, 1, 1)[:3] != (*image.cluster, 1, 1)[:3]:
            raise _refuse(name, f"the cluster is {shape.cluster}, and the kernel was compiled for {image.cluster}")
        if size > _PORTABLE_CLUSTER:
            driver.allow_wide_clusters(function.handle)
        if shape.cluster and driver.active_clusters(device.ordinal, function.handle, shape) == 0:
            raise _refuse(name, f"no cluster of {size} blocks with {math.prod(shape.block)} threads fits on {device}")
    if shape.cooperative:
        if not device.cooperative:
            raise _refuse(name, f"the launch is cooperative, and {device} has no cooperative launches")
        blocks, most = math.prod(shape.grid), resident_blocks(shape, device, image, function, driver)
        if blocks > most:
            of = f" in clusters of {size}" if size > 1 else ""
            raise _refuse(name, f"the cooperative grid has {blocks} blocks, and {most} can be resident{of} on {device}")


def resident_blocks(shape: LaunchShape, device: DeviceInfo, image: ImageInfo, function: Function, driver: DeviceDriver) -> int:
    """How many blocks of a launch the device holds at once: whole clusters of them where it has clusters."""
    size = math.prod(shape.cluster or (() if is_tile(image) else image.cluster))
    per_processor = driver.active_blocks(device.ordinal, function.handle, math.prod(shape.block), shape.shared)
    most = per_processor * device.multiprocessors
    if size == 1 or not device.cluster or not shape.cluster:
        return most
    if size > _PORTABLE_CLUSTER:
        driver.allow_wide_clusters(function.handle)
    # Clusters lie within groups of multiprocessors, so that fewer blocks may fit than without.
    return min(most, driver.active_clusters(device.ordinal, function.handle, shape) * size)


def is_tile(image: ImageInfo) -> bool:
    """Whether an image is of a tile kernel: its block (1, 1, 1) stands for whatever it needs."""
    return (image.exact or image.target.kind is TargetKind.TILEIR) and not image.block


def _refuse(name: str, what: str, fix: str = "") -> LaunchLimitError:
    return LaunchLimitError(f"{name}: {what}", fix=fix, kernel=name)
