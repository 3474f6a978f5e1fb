"""Occupancy of a launch by the driver's count, to choose grid and block."""

from __future__ import annotations

import dataclasses
import math

from tilec_runtime.bundle.choose import require_image
from tilec_runtime.device.seam import LaunchShape, dim3
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.images import LoadedFunction
from tilec_runtime.launch.limits import (
    admit,
    cluster_of,
    is_tile,
    resident_blocks,
)
from tilec_runtime.launch.prepare import explain
from tilec_runtime.model.image import ImageInfo

_WARP = 32


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Residency:
    """The blocks, threads and clusters of a launch that the device holds at once.

    Attributes:
        threads: threads of a block of this launch.
        max_active_blocks: blocks of this size and shared memory on one multiprocessor.
        max_cooperative_grid: the most blocks of a cooperative launch of this kind; 0 if the device
            has no cooperative launches.
        suggest_block_size: threads of a block that keeps the most threads resident, the largest
            such block. If the kernel was compiled for a fixed block, the threads of that block.
        max_cluster_size: the most blocks of a cluster of this kind; 1 if the device has no
            clusters.
        max_active_clusters: clusters of this launch on the whole device; 0 if it has none.
    """

    threads: int
    max_active_blocks: int
    max_cooperative_grid: int
    suggest_block_size: int
    max_cluster_size: int
    max_active_clusters: int


def residency(call: Call) -> Residency:
    """Count the blocks and clusters of a launch that the device holds.

    The image is loaded for it; nothing is enqueued.

    Raises:
        LaunchError: the launch would be refused for another reason than residency.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    explanation, contract, site = explain(call), call.contract, call.site
    variant = explanation.variant.id
    taken = require_image(
        explanation.images,
        site.facts(contract.info),
        kernel=variant,
        language=contract.info.language,
    )
    function = site.function(taken, contract.info, variant)
    return held_of(contract.name, explanation.shape, function)


def held_of(name: str, shape: LaunchShape, function: LoadedFunction) -> Residency:
    """Count the blocks and clusters of a loaded function that the device holds.

    Raises:
        LaunchLimitError: the device or the image allows no such launch, apart from residency.
    """
    one_kind = dataclasses.replace(
        shape, cooperative=False
    )  # a device without cooperative launches gives `max_cooperative_grid` 0, not an error
    admit(name, one_kind, function)
    device, driver, image = function.device, function.driver, function.image
    shape = dataclasses.replace(shape, block=_block(shape, image))
    threads, handle = math.prod(shape.block), function.handle
    size = math.prod(cluster_of(shape, image))
    widest = driver.widest_cluster(device.ordinal, handle, shape) if device.cluster else 1
    fits = size <= widest
    return Residency(
        threads=threads,
        max_active_blocks=driver.active_blocks(device.ordinal, handle, threads, shape.shared),
        max_cooperative_grid=resident_blocks(shape, function) if device.cooperative and fits else 0,
        suggest_block_size=_suggested(shape, function),
        max_cluster_size=widest,
        max_active_clusters=driver.active_clusters(device.ordinal, handle, shape)
        if shape.cluster and size > 1 and fits
        else 0,
    )


def _block(shape: LaunchShape, image: ImageInfo) -> tuple[int, int, int]:
    """Return the block that the device runs; a tile kernel's compiler chose it."""
    if is_tile(image) and image.required_block:
        return dim3(image.required_block)
    return shape.block


def _suggested(shape: LaunchShape, function: LoadedFunction) -> int:
    image, facts = function.image, function.facts
    if image.required_block or image.block or is_tile(image):
        return math.prod(shape.block)
    most = min(
        facts.max_threads,
        image.max_threads or facts.max_threads,
        function.device.max_threads,
    )
    if most < _WARP:
        return most
    resident = {
        threads: threads
        * function.driver.active_blocks(
            function.device.ordinal, function.handle, threads, shape.shared
        )
        for threads in range(_WARP, most + 1, _WARP)
    }
    return max(resident, key=lambda threads: (resident[threads], threads))
