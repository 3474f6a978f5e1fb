"""Tensors that may be None: which variant a call takes, what is checked of it, and that known
launches tell both kinds apart.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime_samples import TENSOR, Array, image, kernel, loaded, slot
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    LayoutError,
    RequirementError,
    VariantError,
)
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param

PARAMS = (
    Param(name="y", kind=TENSOR, dtype="T", rank=1, out=True),
    Param(name="x", kind=TENSOR, dtype="T", rank=1),
    Param(name="b", kind=TENSOR, dtype="T", rank=1, optional=True, align=4),
)
GIVEN = (slot("ptr", "y.ptr"), slot("ptr", "x.ptr"), slot("ptr", "b.ptr"), slot("i32", "b.size"))
WITHOUT = (slot("ptr", "y.ptr"), slot("ptr", "x.ptr"), slot("i32", "0"))
ALIGNED = tuple(Assumption(param=name, align=16) for name in "yxb")
NONE = Assumption(param="b", absent=True)
NORM = kernel(
    "norm",
    PARAMS,
    (
        VariantInfo(
            id="norm-al16", axes=(("T", "f32"),), assume=ALIGNED, abi=GIVEN, images=(image("fast"),)
        ),
        VariantInfo(id="norm", axes=(("T", "f32"),), abi=GIVEN, images=(image("any"),)),
        VariantInfo(
            id="norm-al16-no_b",
            axes=(("T", "f32"),),
            assume=(*ALIGNED[:2], NONE),
            abi=WITHOUT,
            images=(image("fast_none"),),
        ),
        VariantInfo(
            id="norm-no_b",
            axes=(("T", "f32"),),
            assume=(NONE,),
            abi=WITHOUT,
            images=(image("none"),),
        ),
    ),
    axes=(("T", ("f32",)),),
    dtype_axes=("T",),
    launch=LaunchInfo(grid=("x.size",), requires=("b.size == x.size",)),
)
Y, X, B = (Array(64, ptr=0x10000 * k) for k in (1, 2, 3))
ODD = Array(64, ptr=0x20004)


KERNELS = (NORM,)


def symbols(driver: FakeDriver) -> list[str]:
    return [launch.symbol for launch in driver.launches]


def test_a_call_takes_the_code_for_what_it_gives(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    for _ in range(3):  # the first, what makes later ones fast, and a later one
        module.norm(Y, X, B, stream=5)
        module.norm(Y, X, stream=5)
        module.norm(Y, X, None, stream=5)
        module.norm(Y, ODD, b=B, stream=5)
        module.norm(Y, ODD, b=None, stream=5)
    assert symbols(driver) == ["fast", "fast_none", "fast_none", "any", "none"] * 3
    assert [launch.arguments for launch in driver.launches[-5:-3]] == [
        (0x10000, 0x20000, 0x30000, 64),
        (0x10000, 0x20000, 0),
    ]
    assert len(driver.loads) == 4


def test_nothing_is_asked_of_what_is_not_there(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    for call, kind, what in (
        (
            lambda: module.norm(Y, X, Array(63, ptr=0x30000), stream=5),
            RequirementError,
            "norm: requires b.size == x.size: left-hand side is 63",
        ),
        (
            lambda: module.norm(Y, X, Y, stream=5),
            AliasError,
            "norm: output 'y' overlaps argument 'b'",
        ),
        (
            lambda: module.norm(Y, X, Array(64, ptr=0x30002), stream=5),
            LayoutError,
            "norm: argument 'b' has address 0x30002",
        ),
        (
            lambda: module.norm(Y, None, B, stream=5),
            ArgumentError,
            "norm: argument 'x' takes a tensor (DLPack or __cuda_array_interface__): got None",
        ),
        (
            lambda: module.norm(Y, stream=5),
            ArgumentError,
            "norm: takes 3 arguments (y, x, b=None), got 1: the argument is missing: 'x'",
        ),
        (
            lambda: module.norm(Y, X, 0, stream=5),
            ArgumentError,
            "norm: argument 'b' takes a tensor (DLPack or __cuda_array_interface__): got a int",
        ),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.what.startswith(what)
    assert driver.launches == []


def test_a_kind_of_call_that_was_not_shipped() -> None:
    module, _ = loaded(dataclasses.replace(NORM, variants=NORM.variants[:2]))
    with pytest.raises(VariantError) as caught:
        module.norm(Y, X, stream=5)
    assert caught.value.what == (
        "norm: the arguments satisfy the assumptions of no variant\n  norm-al16: b is None\n  norm: b is None"
    )
