"""Tests in an environment that has torch and no build half (scripts/frameworks_tests.sh): nothing
here is collected elsewhere.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

DIST = os.environ.get("TILEC_OPERATORS_DIST", "")
collect_ignore_glob = [] if DIST else ["test_*.py"]


@pytest.fixture(scope="session")
def package() -> Any:
    """The package of tests/samples/operators, built elsewhere, with its module `torch` imported."""
    assert (Path(DIST) / "operators" / "torch.py").is_file()
    sys.path.insert(0, DIST)
    importlib.import_module("operators.torch")
    return importlib.import_module("operators")
