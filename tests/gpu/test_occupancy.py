"""The occupancy that `inspect` tells from a table is the one that the driver calculates, for every
image of the examples that it loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilec.inspection.container import open_container
from tilec.inspection.occupancy import residency
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device import driver as _driver
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.expr import parse
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]


def bundles(dist: Path) -> list[Path]:
    """Those of the examples that were built."""
    return [
        *sorted((dist / "tilec_examples").glob("*.tilec")),
        *sorted((ROOT / "examples").glob("*/dist/*.tilec")),
    ]


def images(
    bundle: Bundle, cc: tuple[int, int]
) -> Iterator[tuple[KernelInfo, VariantInfo, ImageInfo]]:
    for kernel in bundle.info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                if image.target.kind is TargetKind.CUBIN and image.target.cc == cc:
                    yield kernel, variant, image


def told_by_the_driver(
    kernel: KernelInfo, variant: VariantInfo, image: ImageInfo, data: bytes
) -> int:
    driver = _driver.driver()
    function = driver.function(driver.load_module(0, data), image.symbol)
    facts = driver.function_facts(function)
    if image.block:
        block: tuple[int, ...] = image.block
        dynamic = max(0, (image.resources.shared or 0) - facts.static_shared)
    else:
        axes = dict(variant.axes)
        block = image.required_block or tuple(
            int(parse(text).evaluate(axes)) for text in kernel.launch.block
        )
        dynamic = int(parse(kernel.launch.shared).evaluate(axes))
    if dynamic:
        driver.allow_shared(function, dynamic)
    return driver.active_blocks(0, function, math.prod(block), dynamic)


def test_the_table_agrees_with_the_driver(dist: Path) -> None:
    cc = _driver.driver().device(0).cc
    compared, wrong = 0, {}
    for path in bundles(dist):
        bundle = open_container(path).bundle
        for kernel, variant, image in images(bundle, cc):
            held = residency(kernel, variant, image)
            if held is None:  # it depends on the arguments of a launch
                continue
            driver = told_by_the_driver(kernel, variant, image, bundle.image(image.digest))
            compared += 1
            if driver != held.blocks_per_sm:
                wrong[f"{path.stem}: {variant.id}-{image.target}"] = (
                    held.blocks_per_sm,
                    held.limiter,
                    driver,
                )
    assert wrong == {}
    assert compared >= 20
