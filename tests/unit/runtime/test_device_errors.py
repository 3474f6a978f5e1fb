"""What the runtime raises on purpose is a `DeviceError`: one `except` catches it, wherever it comes
from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver, image, kernel, loaded, slot
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    Stream,
    api,
    as_op,
    load,
    load_module_from_bytes,
    use_device,
    use_policy,
    zip_ops,
)
from tilec_runtime.errors import (
    BundleError,
    CallError,
    DeviceError,
    KernelCacheError,
    LaunchError,
    MissingError,
    NoDeviceError,
    NoImageError,
    SchedulingError,
    TensorError,
    UsageError,
)
from tilec_runtime.model.kernel import VariantInfo

ANY: Any = "no such thing"


def no_image() -> None:
    other = kernel(
        "other",
        (),
        (VariantInfo(id="other", abi=(slot("i32", "1"),), images=(image("other", "sm_120"),)),),
    )
    loaded(other)[0].other(stream=0)


class NoStreams:
    def next_stream(self) -> Any:
        return "none"


def on_no_stream() -> None:
    with use_policy(NoStreams()):
        as_op(1).sync()


RAISED: list[tuple[Callable[[], object], type[Exception]]] = [
    (lambda: Device(7, driver=fake_driver(ADD)), NoDeviceError),
    (lambda: Device(ANY), CallError),
    (lambda: load("no such file", "cpu"), BundleError),
    (lambda: load(b"no bundle", "cpu"), BundleError),
    (lambda: load(ANY, 9, driver=fake_driver(ADD)), BundleError),
    (lambda: load(bundle_of(ADD), ANY), CallError),
    (lambda: load(bundle_of(ADD), 9, driver=fake_driver(ADD)), NoDeviceError),
    (lambda: load(bundle_of(ADD), 0, driver=fake_driver(ADD), jit_fallback="maybe"), CallError),
    (lambda: loaded(ADD)[0].add(1, stream=0), LaunchError),
    (no_image, NoImageError),
    (lambda: load_module_from_bytes(b"no kernel", "cpu"), BundleError),
    (lambda: load_module_from_bytes(ANY, "cpu"), CallError),
    (lambda: AsyncKernelLaunch(ANY), CallError),
    (lambda: zip_ops(ANY), CallError),
    (lambda: as_op(1).then(ANY), CallError),
    (lambda: as_op(1).then(lambda _: ANY).sync(), CallError),
    (lambda: as_op((1, 2)).unzip(0), CallError),
    (lambda: as_op(1).reshape(1).sync(), CallError),  # type: ignore[misc]
    (lambda: api.full(1, ANY), TensorError),
    (lambda: api.arange(0, 4, 0), CallError),
    (lambda: api.zeros(-1), TensorError),
    (on_no_stream, SchedulingError),
    (lambda: Stream("cpu").sync() or as_op(1).sync_on(ANY), DeviceError),
]


@pytest.mark.parametrize(("call", "kind"), RAISED)
def test_what_is_raised_on_purpose_is_a_device_error(
    call: Callable[[], object], kind: type[Exception]
) -> None:
    with use_device("cpu"), pytest.raises(DeviceError) as caught:
        call()
    assert isinstance(caught.value, kind)


def test_they_are_what_they_were_besides() -> None:
    assert issubclass(NoDeviceError, MissingError)
    assert issubclass(CallError, UsageError)
    assert issubclass(NoImageError, KernelCacheError)
