"""The kernel of `tune_samples`, as tests take it."""

from __future__ import annotations

import pytest

from tests.tune_samples import A, B, C, kernel_with, planned
from tilec.manifest.types import Case, Kernel
from tilec_runtime.model.kernel import KernelInfo


@pytest.fixture
def info() -> KernelInfo:
    """As a plan has it."""
    return planned()


@pytest.fixture
def kernel() -> Kernel:
    """Its table of the manifest, with one case for both dtypes."""
    return kernel_with(Case(name="4k", inputs=(A, B, C)))
