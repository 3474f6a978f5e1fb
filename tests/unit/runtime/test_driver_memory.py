"""Pools and addresses through a double of libcuda."""

from __future__ import annotations

import pytest

from tests.unit.runtime.driver_api import Api
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.seam import KEEP_ALL, PoolStats


def thresholds(api: Api) -> list[int]:
    return [value._obj.value for _, _, value in api.made("cuMemPoolSetAttribute")]


def test_a_pool_of_ones_own() -> None:
    api = Api()
    api.values |= {
        "cuMemPoolCreate": 0x6000,
        "cuMemAllocFromPoolAsync": 0x7000,
        "cuMemPoolGetAttribute": 12,
    }
    driver = Driver(api)
    pool = driver.create_pool(0, 1 << 20, 1 << 30)
    ((props,),) = api.made("cuMemPoolCreate")
    assert (props._obj.ordinal, props._obj.most) == (0, 1 << 30)
    assert thresholds(api) == [1 << 20]
    assert driver.allocate(0, 64, 0x77, pool) == 0x7000
    assert api.made("cuMemAllocFromPoolAsync") == [(64, 0x6000, 0x77)]
    assert driver.pool_stats(0, pool) == PoolStats(
        used=12, reserved=12, used_high=12, reserved_high=12, release_threshold=12
    )
    driver.trim_pool(0, pool, 5)
    assert api.made("cuMemPoolTrimTo") == [(0x6000, 5)]
    api.values["cuMemPoolGetAttribute"] = 0
    driver.destroy_pool(0, pool)
    assert api.made("cuMemPoolDestroy") == [(0x6000,)]


def test_memory_comes_from_a_pool_of_tilecs_own_that_keeps_what_is_freed() -> None:
    api = Api(devices=2)
    pools = iter((0x6000, 0x6100))
    api.value = lambda name, arguments, value=api.value: (
        next(pools) if name == "cuMemPoolCreate" else value(name, arguments)
    )  # type: ignore[method-assign]
    driver = Driver(api)
    for ordinal in (0, 0, 1):
        driver.allocate(ordinal, 64, 0x77)
    driver.allocate(0, 64, None)
    assert api.made("cuMemAllocFromPoolAsync") == [
        (64, 0x6000, 0x77),
        (64, 0x6000, 0x77),
        (64, 0x6100, 0x77),
    ]
    assert [props._obj.ordinal for (props,) in api.made("cuMemPoolCreate")] == [0, 1]
    assert thresholds(api) == [KEEP_ALL, KEEP_ALL]
    assert (driver.default_pool(0), driver.default_pool(1)) == (0x6000, 0x6100)


def test_a_pool_goes_when_nothing_of_it_is_allocated_any_more() -> None:
    api = Api()
    api.values |= {"cuMemPoolCreate": 0x6000, "cuMemPoolGetAttribute": 64}
    driver = Driver(api)
    pool = driver.create_pool(0, 1 << 20)
    driver.destroy_pool(0, pool)
    assert api.made("cuMemPoolDestroy") == []
    assert thresholds(api) == [1 << 20, 0], "what is freed is not kept"
    assert api.made("cuMemPoolTrimTo") == [(0x6000, 0)]
    driver.trim_pool(0, 0x1, 5)
    assert api.made("cuMemPoolDestroy") == []
    api.values["cuMemPoolGetAttribute"] = 0
    driver.create_pool(0, 0)
    assert api.made("cuMemPoolDestroy") == [(0x6000,)]
    driver.trim_pool(0, 0x1, 5)
    assert api.made("cuMemPoolDestroy") == [(0x6000,)], "once"


@pytest.mark.parametrize(
    ("used", "meanwhile"), [(0, "cuMemPoolSetAttribute"), (64, "cuMemPoolTrimTo")]
)
def test_nobody_destroys_a_pool_that_a_call_of_the_driver_is_still_about(
    used: int, meanwhile: str
) -> None:
    api = Api()
    api.values |= {"cuMemPoolCreate": 0x6000, "cuMemPoolGetAttribute": used}
    driver = Driver(api)
    pool = driver.create_pool(0, 1 << 20)
    value, seen = api.value, []

    def asked(name: str, arguments: tuple[object, ...]) -> object:
        if name == meanwhile and not seen:
            seen.append(name)
            api.values["cuMemPoolGetAttribute"] = 0  # the last of its memory is freed, and
            driver._destroy_unused()  # another thread destroys what is unused, before this call has reached the driver
            assert api.made("cuMemPoolDestroy") == []
        return value(name, arguments)

    api.value = asked  # type: ignore[method-assign]
    driver.destroy_pool(0, pool)
    assert seen
    driver._destroy_unused()
    assert api.made("cuMemPoolDestroy") == [(0x6000,)]


def test_where_an_allocation_ends() -> None:
    api = Api()
    api.values["cuPointerGetAttribute"] = 0x400
    assert Driver(api).allocation(0x420) == (0x400, 0x400)
    assert Driver(Api()).allocation(0x420) is None
    assert Driver(Api(cuPointerGetAttribute="INVALID_VALUE")).allocation(0x420) is None


def test_whose_an_address_is() -> None:
    api = Api(devices=2)
    driver = Driver(api)
    for given, ordinal in ((0, 0), (1, 1), (2**32 - 2, None)):  # -2: of no device
        api.values["cuPointerGetAttribute"] = given
        assert driver.pointer_device(0x1000) == ordinal
    api.results["cuPointerGetAttribute"] = 1
    assert driver.pointer_device(0x1000) is None
