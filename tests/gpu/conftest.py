"""The generated package of the examples, built elsewhere: in TILEC_GPU_DIST, or in dist/ of the
project.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def dist() -> Path:
    folder = Path(os.environ.get("TILEC_GPU_DIST", str(ROOT / "dist"))).resolve()
    if not (folder / "tilec_examples" / "__init__.py").is_file():
        pytest.skip(
            f"there is no tilec_examples in {folder}: build the examples first, with `tilec build`, or set TILEC_GPU_DIST"
        )
    return folder


@pytest.fixture(scope="session")
def package(dist: Path):
    """The generated package, imported."""
    sys.path.insert(0, str(dist))
    try:
        yield importlib.import_module("tilec_examples")
    finally:
        sys.path.remove(str(dist))


@pytest.fixture(scope="session")
def torch():
    """torch with a GPU."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch sees no GPU")
    module.zeros(1, device="cuda")
    return module


@pytest.fixture(scope="session")
def kernels(package, torch):
    """The kernels, loaded on the first device."""
    return package.load(0)
