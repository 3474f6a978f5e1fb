"""The CUDA driver, on a double of libcuda: results become errors, contexts are set, launches are
configured.
"""

from __future__ import annotations

import ctypes
import re

import pytest
from cuda.bindings import driver as real

from tests.unit.runtime.driver_api import (
    CONTEXTS,
    GIVING_BACK,
    METHODS,
    OK,
    Api,
    Method,
)
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.results import ADVICE, KERNEL_FAULTS, STICKY
from tilec_runtime.device.seam import LaunchShape
from tilec_runtime.errors import ContextLostError, DriverError, NoDeviceError
from tilec_runtime.model.tensormap import TensorMap


def test_facts_of_a_device():
    api = Api()
    api.values["cuDriverGetVersion"] = 13040
    device = Driver(api).device(0)
    assert api.made("cuDevicePrimaryCtxRetain") == [], (
        "asking makes no context, which costs hundreds of megabytes"
    )
    assert (device.name, device.cc, device.driver, device.max_grid, device.cluster) == (
        "GPU",
        (9, 0),
        (13, 4),
        (7, 7, 7),
        True,
    )


@pytest.mark.parametrize(
    "result",
    sorted(result.name.removeprefix("CUDA_ERROR_") for result in real.CUresult if result != OK),
)
def test_every_result_has_its_name_and_advice(result):
    name = f"CUDA_ERROR_{result}"
    api = Api(cuModuleLoadData=result)
    with pytest.raises(DriverError) as caught:
        Driver(api).load_module(0, b"image")
    error = caught.value
    assert (error.result, error.code, error.device) == (name, int(getattr(real.CUresult, name)), 0)
    lost = ": the context of device 0 is lost" if name in STICKY else ""
    assert error.what == f"cuModuleLoadData failed: {name} (words of the driver){lost}"
    cause, fix = ADVICE.get(
        name, ("", f"look {name} up in the documentation of the CUDA driver API")
    )
    assert error.cause.startswith(cause)
    assert error.fix.startswith(fix)
    assert ("restarted" in str(error)) == isinstance(error, ContextLostError) == (name in STICKY)
    assert api.current == 0, "the thread's context is as before"


@pytest.mark.parametrize(
    ("api", "kind", "message"),
    [
        (
            lambda: Api(cuInit="STUB_LIBRARY"),
            NoDeviceError,
            "^no NVIDIA GPU can be used: cuInit gave CUDA_ERROR_STUB_LIBRARY",
        ),
        (lambda: Api(devices=0), NoDeviceError, "CUDA_VISIBLE_DEVICES hides it"),
        (
            lambda: Api(cuInit="OPERATING_SYSTEM"),
            DriverError,
            "cuInit failed: CUDA_ERROR_OPERATING_SYSTEM",
        ),
        (
            lambda: Api(devices=2),
            NoDeviceError,
            "^there is no device 2: this process sees 2, numbered from 0",
        ),
    ],
)
def test_nothing_to_run_on(api, kind, message):
    with pytest.raises(kind, match=message) as caught:
        Driver(api()).device(2)
    assert caught.value.fix


def test_advice_is_for_results_that_exist():
    assert set(ADVICE) <= {result.name for result in real.CUresult}
    assert KERNEL_FAULTS < STICKY < set(ADVICE)


def test_what_a_user_can_meet_has_advice_of_its_own():
    """All but results of graphics, textures, profilers and contexts of one's own, which nothing
    here can give.
    """
    plain = {result.name for result in real.CUresult} - set(ADVICE) - {"CUDA_SUCCESS"}
    foreign = "PROFILER|MAP|ACQUIRED|GRAPHICS|TEXTURING|ALREADY_CURRENT|ALREADY_IN_USE|LOSSY|RESOURCE|KEY_ROTATION"
    assert [name for name in sorted(plain) if not re.search(foreign, name)] == []


def test_a_result_that_the_driver_does_not_name():
    api = Api()
    api.results["cuModuleLoadData"] = 12345
    with pytest.raises(
        DriverError,
        match=r"^cuModuleLoadData failed: CUDA result 12345 .*\n  fix: look CUDA result",
    ) as caught:
        Driver(api).load_module(0, b"image")
    assert caught.value.code == 12345


def test_a_tensor_map_is_made_in_a_context_of_the_device():
    class Encoding(Api):
        def value(self, name: str, arguments: tuple[object, ...]):
            if name == "cuTensorMapEncodeTiled":
                ctypes.memset(arguments[0], 7, 128)
            return super().value(name, arguments)

    api = Encoding()
    wanted = TensorMap(element=6, swizzle=3, box=(1, 64, 32))
    data = Driver(api).tensor_map(0, wanted, 0xABC0, (5, 200, 100), (40000, 200, 2))
    assert data == b"\7" * 128
    ((place, *arguments),) = api.made("cuTensorMapEncodeTiled")
    assert place % 64 == 0
    arrays = [list(one) if isinstance(one, ctypes.Array) else one for one in arguments]
    extents = [[100, 200, 5], [200, 40000, 0], [32, 64, 1], [1, 1, 1]]
    assert arrays == [6, 3, 0xABC0, *extents, 0, 3, 2, 0]
    assert api.contexts("cuTensorMapEncodeTiled") == [CONTEXTS[0]]
    assert api.current == 0


def test_a_stream_of_another_device():
    api = Api(devices=2)
    driver = Driver(api)
    api.values["cuStreamGetCtx"] = CONTEXTS[1]
    failed = real.CUresult.CUDA_ERROR_INVALID_HANDLE
    with pytest.raises(
        DriverError, match=r"^add: the kernel is loaded on device 0, the stream is on device 1"
    ):
        driver.launch_failed(0, failed, 5, lambda: failed, "add")
    assert len(api.thread.stack) == 1, "what was made current to ask is not left so"


def test_shared_memory_limits_only_grow():
    api = Api()
    driver = Driver(api)
    driver.allow_shared("f", 1000)
    api.values["cuFuncGetAttribute"] = 1000
    driver.allow_shared("f", 500)
    assert [call[2] for call in api.made("cuFuncSetAttribute")] == [1000]


def test_facts_of_a_function_have_its_cluster():
    api = Api()
    assert Driver(api).function_facts("f").cluster == ()

    class Clustered(Api):
        def value(self, name: str, arguments: tuple[object, ...]):
            if name != "cuFuncGetAttribute":
                return super().value(name, arguments)
            return {11: 4, 12: 2, 13: 1}.get(arguments[0], 128)

    facts = Driver(Clustered()).function_facts("f")
    assert (facts.cluster, facts.max_threads) == ((4, 2, 1), 128)


def test_the_widest_cluster_is_asked_of_a_launch_without_one():
    api = Api()
    api.values["cuOccupancyMaxPotentialClusterSize"] = 8
    shape = LaunchShape(
        grid=(16, 1, 1), block=(32, 1, 1), shared=64, cluster=(16,), cooperative=True
    )
    assert Driver(api).widest_cluster(0, "f", shape) == 8
    ((function, config),) = api.made("cuOccupancyMaxPotentialClusterSize")
    of = config._obj
    assert (function, of.gridX, of.blockX, of.shared, of.count) == ("f", 16, 32, 64, 0)
    with pytest.raises(
        DriverError, match="cuOccupancyMaxActiveClusters failed: CUDA_ERROR_INVALID_CLUSTER_SIZE"
    ):
        Driver(Api(cuOccupancyMaxActiveClusters="INVALID_CLUSTER_SIZE")).active_clusters(
            0, "f", shape
        )


@pytest.mark.parametrize(("ask", "name", "arguments"), [*METHODS, *GIVING_BACK])
def test_calls_are_made_in_the_devices_context_and_their_failures_told(
    ask: Method, name: str, arguments: tuple[object, ...]
) -> None:
    api = Api()
    ask(Driver(api))
    assert (api.made(name), api.contexts(name)) == ([arguments], [CONTEXTS[0]])
    assert api.current == 0, "the thread's own context is back"
    failing = Api(**{name: "INVALID_VALUE"})
    with pytest.raises(DriverError, match=f"{name} failed: CUDA_ERROR_INVALID_VALUE") as caught:
        ask(Driver(failing))
    assert (caught.value.device, failing.current) == (0, 0)


def test_times_are_seconds() -> None:
    api = Api()
    api.values["cuEventElapsedTime"] = 2.5
    assert Driver(api).elapsed(0, 0x98, 0x99) == 0.0025
