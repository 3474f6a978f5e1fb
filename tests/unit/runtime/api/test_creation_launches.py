"""What `api` asks of a GPU: which kernels of tilec's own bundle, with which arguments, and when the
bundle is loaded at all.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.processes import run_python
from tests.runtime_samples import fake_driver
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import Device, Stream, api, kernels, use_device
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import NoImageError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.jit import JitBy

BUNDLE = Path(kernels.__file__).parent / kernels.PACKAGE.file


@pytest.fixture(scope="module")
def known() -> dict[str, FakeKernel]:
    """The bundle's entry points, as a fake driver knows them."""
    return fake_driver(*Bundle.open(BUNDLE).info.kernels).kernels


@pytest.fixture
def gpu(known):
    driver = FakeDriver(kernels=known)
    with use_device(Device(0, driver=driver)):
        yield driver


def launched(gpu: FakeDriver) -> tuple[str, tuple[int, ...], tuple]:
    (launch,) = gpu.launches
    assert launch.shape.block == (256, 1, 1)
    return launch.symbol, launch.shape.grid, launch.arguments


def test_equal_bytes_are_left_to_the_driver(gpu):
    for op in (
        api.zeros((4, 8)),
        api.full(6, 0x77, "u8"),
        api.full(4, -1, "i64"),
        api.zeros(0),
        api.ones((0, 3)),
        api.rand(0),
        api.arange(0),
    ):
        op.sync()
    assert gpu.launches == []
    assert gpu.loads == []
    assert [step.call for step in gpu.steps].count("fill") == 3


@pytest.mark.parametrize(
    ("dtype", "value"), [("f32", 1.5), ("i16", -300), ("f64", 0.1), ("u32", 0x01020304)]
)
def test_values_go_to_a_kernel_as_a_pattern(gpu, dtype, value):
    made = api.full((100, 100), value, dtype).sync()
    symbol, grid, (pointer, nbytes, pattern) = launched(gpu)
    size = made.itemsize
    assert (symbol, grid) == ("fill", (-(-size * 10000 // 32768), 1, 1))
    assert (pointer, nbytes) == (made.ptr, size * 10000)
    wanted = np.full(8 // size, value, kernels.DTYPES[dtype].numpy)
    assert pattern.to_bytes(8, "little") == wanted.tobytes()


def test_a_gpu_that_tilec_does_not_know_gets_them_from_its_driver(known, monkeypatch):
    newer = dataclasses.replace(FakeDriver().devices[0], cc=(14, 0), driver=(13, 4))
    driver = FakeDriver(kernels=known, devices=(newer,))
    with use_device(Device(0, driver=driver)):
        api.full(10, 1.5).sync()
    (made,) = kernels.PACKAGE.on(driver, 0).compiled
    assert (made.target, made.by) == ("compute_75", JitBy.DRIVER)
    monkeypatch.setenv(
        "TILEC_JIT_FALLBACK", "deny"
    )  # the deployer's word is before that of tilec's own manifest
    denied = FakeDriver(kernels=known, devices=(newer,))
    with (
        use_device(Device(0, driver=denied)),
        pytest.raises(NoImageError, match="compute_75: PTX that the driver would compile"),
    ):
        api.full(10, 1.5).sync()


def test_counting(gpu):
    made = api.arange(10, 0, -1, dtype="i16").sync()
    assert launched(gpu) == (
        "integers",
        (1, 1, 1),
        (made.ptr, 10, 10, 2**64 - 1, kernels.CODES["i16"]),
    )
    gpu.launches.clear()
    made = api.linspace(0, 1, 5001).sync()
    assert launched(gpu) == (
        "numbers",
        (2, 1, 1),
        (made.ptr, 5001, 0.0, 1 / 5000, 1.0, kernels.CODES["f32"]),
    )


@pytest.mark.parametrize(("dtype", "grid"), [("f32", 3), ("f64", 5), ("bf16", 3), ("f16", 3)])
def test_random_numbers(gpu, dtype, grid):
    code = kernels.CODES[dtype]
    made = api.rand(8193, dtype=dtype, seed=2**64 - 1).sync()
    symbol, found, arguments = launched(gpu)
    assert f"uniformILi{code}E" in symbol
    assert (found, arguments) == ((grid, 1, 1), (made.ptr, 8193, 2**64 - 1))
    gpu.launches.clear()
    made = api.randn(8193, dtype=dtype, seed=3, mean=0.5, std=2).sync()
    symbol, found, arguments = launched(gpu)
    assert f"normalILi{code}E" in symbol
    assert (found, arguments) == ((grid, 1, 1), (made.ptr, 8193, 3, 0.5, 2.0))


@pytest.mark.parametrize(
    ("source", "held"),
    [("i8", 0), ("u64", 0), ("bool", 0), ("f16", 1), ("f32", 3), ("f8e8m0", 1), ("f64", 2)],
)
def test_conversions_take_the_type_that_holds_their_source(gpu, source, held):
    t = api.ones(5000, source).sync()
    gpu.launches.clear()
    made = api.convert(t, "bf16").sync()
    symbol, grid, arguments = launched(gpu)
    assert f"convertILi{held}E" in symbol
    assert (grid, arguments) == (
        (2, 1, 1),
        (made.ptr, t.ptr, 5000, kernels.CODES["bf16"], kernels.CODES[source]),
    )
    api.convert(t, source).sync()
    assert len(gpu.launches) == 1  # a copy


def test_the_bundle_was_built_of_the_sources_beside_it():
    """Without compilers; a toolchain test builds it anew."""
    found = dict(Bundle.open(BUNDLE).info.sources)
    assert found == {
        path.name: sha256(path.read_bytes())
        for path in BUNDLE.parent.iterdir()
        if path.suffix in (".cu", ".cuh")
    }


def test_every_pair_of_dtypes_has_a_kernel_that_holds_its_numbers():
    (axes,) = (
        kernel.axes for kernel in Bundle.open(BUNDLE).info.kernels if kernel.name == "convert"
    )
    pairs = itertools.permutations(kernels.CODES, 2)
    assert {kernels.held_of(*pair) for pair in pairs} == set(dict(axes)["HELD"])


def test_the_bundle_serves_every_architecture():
    bundle = Bundle.open(BUNDLE)
    bundle.verify()
    assert BUNDLE.stat().st_size < 500 << 10
    for kernel in bundle.info.kernels:
        for variant in kernel.variants:
            targets = {str(image.target) for image in variant.images}
            assert targets == {
                "sm_75",
                "sm_80",
                "sm_90",
                "sm_100",
                "sm_110",
                "sm_120",
                "compute_75",
            }
            assert all(
                image.resources.spill_stores == image.resources.stack == 0
                for image in variant.images
            )


def test_making_tensors_on_a_gpu_imports_no_numpy_twin_and_no_compiler():
    code = f"""
import sys
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import NoImageError
from tilec_runtime import Device, Stream, api, kernels, use_device
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from pathlib import Path
info = Bundle.open(Path({str(BUNDLE)!r})).info
driver = FakeDriver(kernels={{i.symbol: FakeKernel(abi=v.abi) for k in info.kernels for v in k.variants for i in v.images}})
with use_device(Device(0, driver=driver)):
    for op in (api.zeros(3), api.full(3, 1.5), api.arange(9), api.eye(3), api.rand(5), api.randn(5), api.convert(api.ones(3), "f16")):
        op.sync()
build_half = ("manifest", "frontends", "plan", "compile", "package", "build", "cli", "lang", "inspection", "case", "tileir")
house = tuple(f"tilec.{{room}}" for room in build_half)
banned = {{"numpy", "ml_dtypes", "cuda", "torch"}}
print(sorted(n for n in sys.modules if n in banned or n.startswith(house)))
"""
    assert run_python(code) == (0, "[]\n", "")


@pytest.mark.parametrize(
    "make", [lambda: api.rand(1000), lambda: api.randn((8, 8)), lambda: api.randn(64, dtype="f16")]
)
def test_random_numbers_are_made_in_the_order_of_their_ops_stream(gpu, make):
    """Not on the legacy default stream, which streams here do not wait for."""
    with Stream(Device(0, driver=gpu)) as stream:
        kept = make().sync_on(stream)
        calls = ("allocate", "launch", "copy", "fill")
        steps = {(step.call, step.stream) for step in gpu.steps if step.call in calls}
        assert ("launch", stream.handle) in steps
        assert {place for _, place in steps} == {stream.handle}
        del kept
