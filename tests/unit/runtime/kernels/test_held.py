"""Which kernel converts what: the bundle has it for every pair of dtypes."""

from __future__ import annotations

from pathlib import Path

from tilec_runtime import kernels
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.kernels import CODES, PACKAGE, held_of


def test_every_pair_has_a_kernel_that_holds_its_numbers() -> None:
    bundle = Bundle.open(Path(kernels.__file__).with_name(PACKAGE.file))
    axes = next(kernel for kernel in bundle.info.kernels if kernel.name == "convert").axes
    assert {
        held_of(source, target) for source in CODES for target in CODES if source != target
    } == set(dict(axes)["HELD"])


def test_integers_f64_and_the_types_that_f32_becomes_by_code_of_its_own() -> None:
    assert {held_of(source, "f32") for source in ("bool", "i8", "u64")} == {0}
    assert {held_of(source, "f32") for source in ("f16", "bf16", "f8e8m0")} == {1}
    assert {held_of("f64", target) for target in CODES} == {2}
    assert {target for target in CODES if held_of("f32", target) == 3} == {
        "f16",
        "bf16",
        "f64",
        "f8e4m3",
        "f8e5m2",
    }
