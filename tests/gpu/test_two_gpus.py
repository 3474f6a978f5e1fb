"""What takes two GPUs of one machine: the policy decides on which an op runs. With one GPU it is
left out.
"""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime import Device, SingleStream, api, use_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(autouse=True)
def _two() -> None:
    if Device.count() < 2:
        pytest.skip("there is one GPU here")


def test_a_policy_decides_where_an_op_without_a_device_runs() -> None:
    policies = [SingleStream(Device(ordinal)) for ordinal in (0, 1)]
    host = np.arange(1 << 20, dtype=np.float32)
    futures = [api.from_host(host + number).schedule(policies[number % 2]) for number in range(8)]
    for number, future in enumerate(futures):
        tensor = future.result()
        assert tensor.device == number % 2
        np.testing.assert_array_equal(tensor.to_host(), host + number)
    with use_device(1):
        assert api.ones(10).sync().device == 1
    assert api.ones(10).sync().device == 0
