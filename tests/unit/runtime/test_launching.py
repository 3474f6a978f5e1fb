"""Launches that pass: what the driver gets, which variant and image, what is remembered, and what
is loaded when.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from types import SimpleNamespace

import pytest

from tests.runtime_samples import (
    ADD,
    GEMM,
    PTR,
    SCALAR,
    TENSOR,
    Array,
    bundle_of,
    fake_driver,
    image,
    kernel,
    loaded,
    slot,
)
from tests.waiting import at_once
from tilec.testing.fake_driver import H200
from tilec_runtime import load
from tilec_runtime.errors import (
    KernelCacheError,
)
from tilec_runtime.launch.plans import MOST_PLANS, Plans
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

Z, X, Y = (Array(1024, ptr=0x10000 * i) for i in (1, 2, 3))


SPLIT = kernel(
    "split",
    (
        Param(name="x", kind=TENSOR, dtype="f32", rank=1),
        Param(name="n", kind=SCALAR, dtype="i32"),
        Param(name="raw", kind=PTR),
        Param(name="on", kind=SCALAR, dtype="bool", default=False),
        Param(name="h", kind=SCALAR, dtype="f16", default=0.5),
        Param(name="b", kind=SCALAR, dtype="bf16", default=1.0),
    ),
    (
        VariantInfo(
            id="split",
            abi=(
                slot("bool", "on"),
                slot("i64", "n"),
                slot("ptr", "raw"),
                slot("f16", "h"),
                slot("ptr", "x.ptr"),
                slot("bf16", "b"),
                slot("i32", "n * 2"),
                slot("i32", "n"),
            ),
            images=(image("split"),),
        ),
    ),
    launch=LaunchInfo(grid=("n",), block=("32",), shared="n * 4"),
)


def test_scalars_of_every_kind_and_those_that_decide_the_grid():
    module, driver = loaded(SPLIT)
    module.split(X, 3, 0xABCD, True, 1.5, -2.0)
    module.split(X, 4, 0xABCD, True, 1.5, -2.0)
    module.split(X, 4, 0xABCE, False)
    assert [launch.shape.grid[0] for launch in driver.launches] == [3, 4, 4]
    assert [launch.shape.shared for launch in driver.launches] == [12, 16, 16]
    assert driver.launches[0].arguments == (True, 3, 0xABCD, 1.5, 0x20000, 0xC000, 6, 3)
    assert driver.launches[2].arguments == (False, 4, 0xABCE, 0.5, 0x20000, 0x3F80, 8, 4)


def test_the_driver_says_where_an_address_is_when_the_tensor_does_not():
    module, driver = loaded(ADD, devices=(H200, dataclasses.replace(H200, ordinal=1)))
    unknown = Array(1024, ptr=0x50000, device=None)
    driver.own(0x50000, 0)
    module.add(Z, X, unknown, stream=5)
    driver.own(0x60000, 1)
    with pytest.raises(Exception, match="argument 'y' is on device 1"):
        module.add(Z, X, Array(1024, ptr=0x60000, device=None), stream=5)
    with pytest.raises(Exception, match="argument 'y' is on the CPU"):
        module.add(Z, X, Array(1024, ptr=0x70000, device=None), stream=5)


def test_threads_share_one_load_and_do_not_share_argument_memory():
    driver = fake_driver(ADD)
    inner = driver.load_module

    def load_module(ordinal, data):
        threading.Event().wait(0.05)  # everybody comes meanwhile
        return inner(ordinal, data)

    driver.load_module = load_module
    module = load(bundle_of(ADD), driver=driver)

    def work(number):
        for step in range(50):
            z = Array(1024, ptr=0x100000 * number)
            module.add(z, X, Y, number * 1000.0 + step, stream=number)

    at_once(*(functools.partial(work, number) for number in range(1, 5)))
    assert (len(driver.loads), len(driver.launches)) == (1, 200)
    for launch in driver.launches:
        assert launch.arguments[0] == 0x100000 * launch.stream
        assert launch.arguments[4] // 1000 == launch.stream


def test_a_failed_load_is_tried_again():
    module, driver = loaded(ADD)
    driver.fail["load_module"] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(
        KernelCacheError,
        match=r"^add: the image for sm_90 \(add_fast\) cannot be loaded: .*CUDA_ERROR_OUT_OF_MEMORY",
    ) as caught:
        module.add(Z, X, Y, stream=5)
    assert caught.value.result == "CUDA_ERROR_OUT_OF_MEMORY"
    driver.fail.clear()
    module.add(Z, X, Y, stream=5)
    assert len(driver.launches) == 1


def test_a_tile_kernels_block_stands_for_whatever_it_needs():
    variant = dataclasses.replace(
        ADD.variants[1],
        images=(image("tiled", exact=True, required_block=(128,), max_threads=1, cluster=(2,)),),
    )
    module, driver = loaded(
        dataclasses.replace(ADD, variants=(variant,), launch=LaunchInfo(grid=("3",)))
    )
    module.add(Z, X, Y, stream=5)
    assert driver.launches[0].shape.block == (1, 1, 1)


def test_what_a_compiler_chose_is_taken_from_the_image():
    made = image(
        "chosen",
        exact=True,
        block=(256, 1, 1),
        dynamic_shared=100_000,
        cluster=(2, 1, 1),
        required_block=(256, 1, 1),
    )
    variant = dataclasses.replace(ADD.variants[1], images=(made,))
    module, driver = loaded(
        dataclasses.replace(ADD, variants=(variant,), launch=LaunchInfo(grid=("3", "5")))
    )
    module.add(Z, X, Y, stream=5)
    shape = driver.launches[0].shape
    assert (shape.grid, shape.block, shape.shared, shape.cluster) == (
        (6, 5, 1),
        (256, 1, 1),
        100_000,
        (2, 1, 1),
    )
    assert driver.allowed_shared == {"chosen": 100_000}
    assert "grid (6, 5, 1), block (256, 1, 1), 100000 bytes of dynamic shared memory" in str(
        module.add.explain(Z, X, Y)
    )


def test_plans_that_are_remembered_are_bounded():
    plans, plan = Plans(), object()
    for key in range(MOST_PLANS + 10):
        plans.add(SimpleNamespace(key=key), plan)
    assert 1 < len(plans._plans) <= MOST_PLANS


def test_modules_show_what_they_hold():
    module, _ = loaded(ADD, GEMM)
    assert list(module.kernels) == ["add", "gemm"]
    assert "gemm" in dir(module)
    assert repr(module) == "<Module sample 1.0 on device 0 (Fake H200)>"
    assert repr(module.gemm.variant(BM=64)) == "<Launcher gemm, BM=64 on device 0 (Fake H200)>"
    with pytest.raises(AttributeError, match=r"^sample has no kernel 'gem'; did you mean 'gemm'$"):
        module.gem()


def test_an_explanation_names_images_that_cannot_be_taken():
    why = str(loaded(ADD)[0].add.explain(Z, X, Array(1024, ptr=0x30004)))
    assert "  cannot take image sm_80: a cubin runs on compute capability 8.0 and later 8.x" in why
