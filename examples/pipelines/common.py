"""What the programs share: where they run, their data, and how they end."""

import numpy as np

from tilec_runtime import Device, api, current_device, devices, use_device
from tilec_runtime.errors import MissingError

GPU_ONLY = "CUDA C++ and SIMT Python need a GPU"


def on_cpu():
    """Whether the default device is the cpu device, which runs tile kernels only."""
    return current_device().type == "cpu"


def matrix(seed, *shape):
    """Random numbers, always the same for a seed."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def shared(array):
    """A tensor of the default device that many launches may read."""
    return api.from_host(array).sync().share()


def check(actual, expected):
    """Hold a result against NumPy's."""
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def run(main):
    """Run a program on the first GPU, or on the cpu device where there is none, and print its line."""
    try:
        gpus = len(devices())
    except MissingError:
        gpus = 0
    with use_device(Device(0) if gpus else "cpu"):
        print(main())  # noqa: T201 - what these programs are for
