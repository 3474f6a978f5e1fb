"""The launch core and Python's path make the same random calls, one fact of which differs from call
to call: a stale hit would show.

TILEC_CORE_CALLS says how many calls; the gate makes a few thousand.
"""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import (
    ADD,
    GEMM,
    SCALAR,
    TENSOR,
    Array,
    bundle_of,
    fake_driver,
    image,
    kernel,
    slot,
)
from tests.unit.runtime.core import samples
from tests.unit.runtime.core.exchange import Torch
from tests.waiting import joined
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Module, load
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param

CALLS = int(os.environ.get("TILEC_CORE_CALLS", "3000"))
assert samples.core is not None

MIXED_ABI = (
    slot("ptr", "z.ptr"),
    slot("i64", "z.shape[0] * z.stride[0]"),
    slot("ptr", "m.ptr"),
    slot("f16", "h"),
    slot("bf16", "b"),
    slot("i32", "n"),
    slot("u8", "u"),
    slot("bool", "flag"),
    slot("f64", "x"),
)
MIXED = kernel(
    "mixed",
    (
        Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True, stride=(None, 1)),
        Param(name="m", kind=TENSOR, dtype="i32", rank=1, optional=True),
        Param(name="h", kind=SCALAR, dtype="f16"),
        Param(name="b", kind=SCALAR, dtype="bf16"),
        Param(name="n", kind=SCALAR, dtype="i32"),
        Param(name="u", kind=SCALAR, dtype="u8"),
        Param(name="flag", kind=SCALAR, dtype="bool"),
        Param(name="x", kind=SCALAR, dtype="f64"),
    ),
    (
        VariantInfo(
            id="mixed-16",
            assume=(Assumption(param="z", shape=(1, 16), align=16),),
            abi=MIXED_ABI,
            images=(image("mixed_16"),),
        ),
        VariantInfo(id="mixed", abi=MIXED_ABI, images=(image("mixed"),)),
    ),
    launch=LaunchInfo(
        grid=("cdiv(z.shape[0], 4)", "max(n, 1)"),
        block=("min(next_pow2(z.shape[1]), 128)",),
        shared="4 * z.shape[1]",
        requires=("z.shape[1] <= 4096", "n < 1000", "x <= 8"),
    ),
)
KERNELS = (ADD, GEMM, MIXED)
DTYPES = (
    "torch.float32",
    "torch.float16",
    "torch.bfloat16",
    "torch.float64",
    "torch.int32",
    "torch.complex64",
)
EXTENTS = (0, 1, 2, 15, 16, 17, 64, 128, 1000, 1024, 4096, 5000, 2**31, 2**40)
NUMBERS: tuple[Any, ...] = (
    *(
        0,
        1,
        2,
        7,
        255,
        256,
        -1,
        999,
        1000,
        2**31,
        2**40,
        2**63,
        -(2**63),
        True,
        False,
        0.0,
        -0.0,
        1.5,
        65504.0,
        65520.0,
        1e39,
        1e308,
    ),
    *(
        float("inf"),
        float("nan"),
        "text",
        None,
        np.float32(2.0),
        np.int32(3),
        np.float64(9.0),
        2**70,
    ),
)


CHANGES = (
    "extent",
    "extent",
    "extents",
    "stride",
    "offset",
    "dtype",
    "device",
    "alias",
    "rank",
    "negative",
    "kind",
    "none",
)


class Plain(FakeDriver):
    """A driver whose launches take Python's path."""

    def launch_target(self, ordinal: int) -> Any:
        return None


class Counting(FakeDriver):
    """A driver that counts launches of the core."""

    hits = 0

    def launch_target(self, ordinal: int) -> Any:
        launch = super().launch_target(ordinal)

        def counted(*args: Any) -> str:
            self.hits += 1
            return launch(*args)

        return counted


def tensor(shape: tuple[int, ...], place: int, dtype: str = "torch.float32") -> Torch:
    return Torch(shape, ptr=(place + 1) << 44, dtype=dtype)


def base_call(name: str, source: random.Random) -> list[Any]:
    """A call that is right."""
    if name == "add":
        n = source.choice((16, 17, 1000, 1024))
        return [*(tensor((n,), place) for place in range(3)), 1.5]
    if name == "gemm":
        m, n, k = (source.choice((16, 64, 100)) for _ in range(3))
        return [
            tensor((m, n), 0, DTYPES[1]),
            tensor((m, k), 1, DTYPES[1]),
            tensor((k, n), 2, DTYPES[1]),
        ]
    return [
        tensor((source.choice((8, 9)), source.choice((16, 17, 64))), 0),
        tensor((4,), 1, DTYPES[4]),
        1.5,
        2.0,
        3,
        7,
        True,
        0.5,
    ]


def change(values: list[Any], source: random.Random) -> list[Any]:
    """The same call with one other fact."""
    place = source.randrange(len(values))
    changed = list(values)
    value = values[place]
    if not isinstance(value, Torch):
        changed[place] = source.choice(NUMBERS)
        return changed
    shape, stride = list(value.shape), list(value.stride())
    facts = {
        "shape": value.shape,
        "ptr": value.ptr,
        "step": value.step,
        "dtype": value.dtype,
        "index": value.index,
    }
    dim = source.randrange(len(shape))
    match source.choice(CHANGES):
        case "extent":
            shape[dim] = source.choice(EXTENTS)
            facts["shape"] = tuple(shape)
        case "extents":
            return grown(values, source)
        case "stride":
            stride[dim] = source.choice((0, 1, 2, stride[dim] + 1, 3 * stride[dim], -1))
            facts["step"] = tuple(stride)
        case "offset":
            facts["ptr"] = source.choice(
                (0, value.ptr + 4, value.ptr + 16, value.ptr + 2, 2**63, 2**64 - 8)
            )
        case "dtype":
            facts["dtype"] = source.choice(DTYPES)
        case "device":
            facts["index"] = source.choice((-1, 0, 1))
        case "alias":
            other = source.choice([each for each in values if isinstance(each, Torch)])
            facts["ptr"] = other.ptr + source.choice((0, 4, 64, -16))
        case "rank":
            facts["shape"], facts["step"] = (*shape, 1), None
        case "negative":
            facts["negative"] = True
        case "kind":
            changed[place] = Array(
                *shape,
                ptr=value.ptr,
                dtype="f32",
                stride=tuple(stride),
                readonly=source.random() < 0.3,
            )
            return changed
        case "none":
            changed[place] = None
            return changed
    changed[place] = Torch(**facts)
    return changed


def grown(values: list[Any], source: random.Random) -> list[Any]:
    """The same call, its first extents equally larger: what a serving loop does."""
    factor = source.choice((2, 3, 16))
    tensors = (
        Torch((*v.shape[:-1], v.shape[-1] * factor), ptr=v.ptr, dtype=v.dtype)
        if isinstance(v, Torch)
        else v
        for v in values
    )
    return list(tensors)


def outcome(module: Module, driver: FakeDriver, name: str, stream: int, values: list[Any]) -> Any:
    """What a call comes to: its launches, or its error."""
    before = len(driver.launches)
    error = None
    try:
        module.kernels[name].launch(stream, tuple(values))
    except Exception as found:  # noqa: BLE001 - errors are compared
        error = type(found), str(found)
    launches = [
        (launch.symbol, launch.shape, repr(launch.arguments))
        for launch in driver.launches[before:]
        if launch.stream == stream
    ]
    return error, launches


def drivers() -> tuple[Counting, Plain]:
    kernels = fake_driver(*KERNELS).kernels
    return Counting((H200, H200), kernels), Plain((H200, H200), kernels)


def loaded(*drivers: FakeDriver) -> list[tuple[Module, FakeDriver]]:
    bundle = bundle_of(*KERNELS)
    return [(load(bundle, 0, driver=driver), driver) for driver in drivers]


@pytest.mark.parametrize("seed", range(3))
def test_the_core_and_python_agree_on_every_call(seed: int) -> None:
    source = random.Random(seed)
    fast, plain = drivers()
    refused = 0
    for turn in range(CALLS // 3):
        if turn % 500 == 0:  # another generation of the module
            sides = loaded(fast, plain)
        name = source.choice(("add", "gemm", "mixed"))
        values = base_call(name, source)
        if source.random() < 0.6:
            values = change(values, source)
        sides[1][0].kernels[name].plans.clear()  # the reference makes every plan anew
        found, expected = (outcome(*each, name, 5 + turn % 3, values) for each in sides)
        assert found == expected, (turn, name, values)
        refused += expected[0] is not None
    assert fast.hits > CALLS // 12, "the core launches"
    assert refused > CALLS // 30, "errors are met"
    assert plain.loads == fast.loads


def test_threads_agree_too() -> None:
    fast, plain = drivers()
    sides = loaded(fast, plain)
    different: list[Any] = []

    def work(stream: int) -> None:
        source = random.Random(stream)
        for turn in range(CALLS // 30):
            name = source.choice(("add", "gemm", "mixed"))
            values = change(base_call(name, source), source)
            found, expected = (outcome(*each, name, stream, values) for each in sides)
            if found != expected:
                different.append((turn, name, values))

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (100, 200, 300)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert not different
    assert fast.hits
