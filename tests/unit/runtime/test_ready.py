"""Modules that are ready before the first launch: machine code of each variant, images loaded."""

from __future__ import annotations

import pytest

from tests.runtime_samples import ADD, GEMM, bundle_of, fake_driver, image, kernel, loaded, slot
from tilec_runtime import load
from tilec_runtime.errors import NoImageError
from tilec_runtime.model.kernel import VariantInfo

PORTABLE = kernel(
    "portable",
    (),
    tuple(
        VariantInfo(
            id=f"portable-{n}",
            abi=(slot("i32", "1"),),
            images=(image("p", "sm_80"), image("p", "compute_80", ptx_isa=(7, 0))),
        )
        for n in range(10)
    ),
)


def test_a_strict_load_of_what_is_there() -> None:
    load(bundle_of(ADD, GEMM), 0, driver=fake_driver(), strict=True)


@pytest.mark.parametrize("policy", [None, "deny", "allow"])
def test_a_strict_load_names_what_would_be_compiled(policy: str | None) -> None:
    with pytest.raises(NoImageError) as caught:
        load(bundle_of(ADD, PORTABLE), 0, driver=fake_driver(), strict=True, jit_fallback=policy)
    first, *lines = caught.value.what.splitlines()
    assert "10 of 12 variants have no machine code for Fake H200 (compute capability 9.0" in first
    assert lines[0] == "  portable-0: built for sm_80, compute_80"
    assert lines[-1] == "  and 2 more"
    assert caught.value.fix == "add sm_90 to [targets] and build again"


def test_preload_loads_each_image_once() -> None:
    module, driver = loaded(ADD, GEMM)
    for _ in range(2):
        assert module.preload() == 5  # those for sm_90
        assert driver.calls.count("load_module") == 5


def test_preload_of_some_kernels() -> None:
    module, driver = loaded(ADD, GEMM)
    assert module.preload("add") == driver.calls.count("load_module") == 2
    with pytest.raises(AttributeError, match="no kernel 'ad'; did you mean 'add'"):
        module.preload("ad")


def test_preload_leaves_out_what_does_not_run_there() -> None:
    assert loaded(ADD, PORTABLE)[0].preload() == 2


def test_preload_compiles_where_that_is_allowed() -> None:
    module = load(bundle_of(PORTABLE), 0, driver=fake_driver(PORTABLE), jit_fallback="allow")
    assert module.preload() == 1
    assert len(module.compiled) == 10
