"""One frontend of the tile language for all of these tests."""

from __future__ import annotations

import pytest

from tests.toolchain.tile_jobs import frontend
from tilec.frontends.tile.frontend import TileFrontend


@pytest.fixture(scope="session")
def tile() -> TileFrontend:
    return frontend()
