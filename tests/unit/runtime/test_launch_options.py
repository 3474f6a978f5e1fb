"""Options of launches: which variants were built with which compiler hints, on which device, and
what is said where none was.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from tests.runtime_samples import ADD, ADD_ABI, GEMM, Array, image, loaded, on_gpu
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, use_device
from tilec_runtime.errors import ArgumentError, VariantError
from tilec_runtime.model.kernel import VariantInfo
from tilec_runtime.ops.lazy import Origin
from tilec_runtime.tensors.tensor import Tensor

# An axis that is a hint, as the matrix has it, and one more hint that is an axis of no variant and
# only there for one target.
TUNED = dataclasses.replace(
    ADD,
    name="tuned",
    variants=tuple(
        VariantInfo(
            id=f"tuned-B{block}-occupancy{occupancy}",
            axes=(("B", block), ("occupancy", occupancy)),
            abi=ADD_ABI,
            images=(
                image(f"tuned_{block}_{occupancy}"),
                image(f"tuned_{block}_{occupancy}", "sm_80"),
            ),
            hints=(
                ("sm_90", (("num_ctas", occupancy), ("occupancy", occupancy))),
                ("sm_80", (("occupancy", occupancy),)),
            ),
        )
        for block, occupancy in ((64, 1), (64, 2), (128, 2), (128, 4))
    ),
    axes=(("B", (64, 128)), ("occupancy", (1, 2, 4))),
    default=(("B", 64), ("occupancy", 2)),
)


def arrays() -> tuple[Array, Array, Array]:
    return Array(512, ptr=0x10000), Array(512, ptr=0x20000), Array(512, ptr=0x30000)


KERNELS = (TUNED, GEMM)


def tensors(driver: FakeDriver) -> list[Tensor]:
    return [on_gpu(driver, 512) for _ in range(3)]


def symbols(driver: FakeDriver) -> list[str]:
    return [launch.symbol for launch in driver.launches]


def test_launchers_take_what_was_built_with_the_options(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    tuned = module.kernels["tuned"]
    tuned(*arrays())
    tuned.options(occupancy=1)(*arrays())
    tuned.options(num_ctas=4)(*arrays())  # only B = 128 has it
    tuned.variant(B=128).options(occupancy=2)(*arrays())
    tuned.options(occupancy=2).variant(B=128)(*arrays())
    assert symbols(driver) == [
        "tuned_64_2",
        "tuned_64_1",
        "tuned_128_4",
        "tuned_128_2",
        "tuned_128_2",
    ]
    assert tuned.options(occupancy=1) is tuned.options(occupancy=1)


@pytest.mark.parametrize(
    ("axes", "hints", "message"),
    [
        (
            {},
            {"occupancy": 8},
            r"no variant was built with the options occupancy=8 for Fake H200; options that were built: num_ctas=1, occ",
        ),
        (
            {},
            {"ocupancy": 2},
            r"no variant was built with the options ocupancy=2 for Fake H200; did you mean 'occupancy'; options that were built: ",
        ),
        (
            {"B": 64},
            {"occupancy": 4},
            r"no variant of B=64 was built with the options occupancy=4 for Fake H200; options that were built: ",
        ),
        (
            {},
            {"occupancy": 1, "num_ctas": 2},
            r"no variant was built with the options occupancy=1, num_ctas=2 .*: num_ctas=1, occupancy=1; num_ctas=2, .*; num_ctas=4",
        ),
        (
            {},
            {"num_cta_in_cga": 2},
            r"(.|\n)*num_cta_in_cga of cuTile Rust is num_ctas here(.|\n)*",
        ),
    ],
)
def test_options_that_were_not_built_are_refused(
    gpu: tuple[Module, FakeDriver], axes: dict[str, int], hints: dict[str, int], message: str
) -> None:
    module, _ = gpu
    with pytest.raises(VariantError, match=f"^tuned: {message}"):
        module.kernels["tuned"].variant(**axes).options(**hints)
    with pytest.raises(VariantError, match=r"fix: choose what was built"):
        module.kernels["tuned"].variant(**axes).options(**hints)
    op = module.ops.tuned(*arrays(), **axes)
    with pytest.raises(VariantError, match=r"^tuned: no variant"):  # before there is a device
        op.options(**hints)
    op.sync()  # what was refused changed nothing


def test_the_largest_divisor_picks_among_the_assumptions() -> None:
    module, driver = loaded(ADD, TUNED)
    add = module.kernels["add"]  # its variants assume divisors of 16 and none
    for limit in (16, 32, 15, 1):
        add.options(max_divisibility=limit)(*arrays())
    with use_device(Device(0, driver=driver)):
        module.ops.add(*tensors(driver)).options(max_divisibility=1).sync()
    assert symbols(driver) == ["add_fast", "add_fast", "add_any", "add_any", "add_any"]
    module.kernels["tuned"].options(max_divisibility=16, occupancy=1)(*arrays())
    assert symbols(driver)[-1] == "tuned_64_1"


@pytest.mark.parametrize("limit", [0, -16, "16", 16.0, True])
def test_a_largest_divisor_is_a_positive_integer(limit: Any) -> None:
    module, _ = loaded(ADD)
    message = f"add: max_divisibility is {limit!r}, and must be a positive integer"
    with pytest.raises(VariantError, match=f"^{re.escape(message)}"):
        module.kernels["add"].options(max_divisibility=limit)
    op = module.ops.add(*arrays()).options(max_divisibility=1).options(max_divisibility=16)
    with pytest.raises(
        VariantError, match=f"^{re.escape(message)}"
    ):  # though it equals one of these
        op.options(max_divisibility=limit)


def test_generated_functions_leave_open_what_options_say(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    tuned = Origin.of(module.tuned).make  # as functions of a generated package do
    tuned((*tensors(driver), 1.0), (64, None)).options(occupancy=1).sync()
    tuned((*tensors(driver), 1.0), (128, 4)).sync()
    assert symbols(driver) == ["tuned_64_1", "tuned_128_4"]
    with pytest.raises(VariantError, match="B=64 was built with the options occupancy=4"):
        tuned((*tensors(driver), 1.0), (64, None)).options(occupancy=4)
    with pytest.raises(VariantError, match="no variant with B=64, occupancy=4 was built"):
        tuned((*tensors(driver), 1.0), (64, 4))


def test_axes_and_options_go_by_name(gpu: tuple[Module, FakeDriver]) -> None:
    module, _ = gpu
    op = module.ops.tuned(*arrays())
    for call in (op.variant, op.options):
        with pytest.raises(
            ArgumentError, match=f"^tuned: {call.__name__} takes keywords only, got 64 by place"
        ):
            call(64)
