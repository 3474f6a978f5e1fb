"""How much of a launch the device holds at once, as its driver counts: for choosing a grid and a block before launching."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tilec.bundle.choose import require_image
from tilec.model.image import ImageInfo
from tilec.model.kernel import AxisValue
from tilec.runtime.contract import Contract
from tilec.runtime.grid import GridWish
from tilec.runtime.images import Function
from tilec.runtime.limits import check_device_limits, check_image_limits, is_tile, resident_blocks
from tilec.runtime.prepare import Site, explain
from tilec.runtime.seam import LaunchShape

_WARP = 32


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Residency:
    """What the device holds of a launch at once.

    Attributes:
        threads: of a block of this launch.
        max_active_blocks: blocks of this size and shared memory on one multiprocessor.
        max_cooperative_grid: the most blocks that a cooperative launch of this kind may have; 0 where the device has none.
        suggest_block_size: threads of a block with which most threads are resident, the largest such; the block that the kernel was
            compiled for where that is fixed.
    """

    threads: int
    max_active_blocks: int
    max_cooperative_grid: int
    suggest_block_size: int


def residency(
    contract: Contract, values: tuple[Any, ...], axes: dict[str, AxisValue], site: Site, grid: tuple[GridWish, ...] = ()
) -> Residency:
    """What the device holds of a launch with these arguments; the image is loaded for it, and nothing is enqueued.

    Raises:
        LaunchError: the launch would be refused for another reason than what is resident.
        NoImageError: the bundle has no image of the variant for this device.
        DriverError: the driver refuses the image.
    """
    found = explain(contract, values, axes, site, grid)
    name, device, driver, shape = contract.name, site.device, site.driver, found.shape
    taken = require_image(found.variant.images, site.facts(contract.info), kernel=found.variant.id, language=contract.info.language)
    image = taken.image
    check_device_limits(name, shape, device)
    function = site.function(taken, contract.info, found.variant.id)
    check_image_limits(name, shape, device, image, function)
    if function.facts.static_shared + shape.shared > device.shared_default:
        driver.allow_shared(function.handle, shape.shared)
    shape = dataclasses.replace(shape, block=_block(shape, image))
    threads = math.prod(shape.block)
    return Residency(
        threads=threads,
        max_active_blocks=driver.active_blocks(device.ordinal, function.handle, threads, shape.shared),
        max_cooperative_grid=resident_blocks(shape, device, image, function, driver) if device.cooperative else 0,
        suggest_block_size=_suggested(shape, image, function, site),
    )


def _block(shape: LaunchShape, image: ImageInfo) -> tuple[int, int, int]:
    """The block that the device runs: of a tile kernel, the one that its compiler chose."""
    if is_tile(image) and image.required_block:
        x, y, z = (*image.required_block, 1, 1, 1)[:3]
        return x, y, z
    return shape.block


def _suggested(shape: LaunchShape, image: ImageInfo, function: Function, site: Site) -> int:
    if image.required_block or image.block or is_tile(image):
        return math.prod(shape.block)
    most = min(function.facts.max_threads, image.max_threads or function.facts.max_threads, site.device.max_threads)
    if most < _WARP:
        return most
    resident = {
        threads: threads * site.driver.active_blocks(site.device.ordinal, function.handle, threads, shape.shared)
        for threads in range(_WARP, most + 1, _WARP)
    }
    return max(resident, key=lambda threads: (resident[threads], threads))
