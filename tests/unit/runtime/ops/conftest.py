"""A device of the tests' own, which is the default one meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import use_device


@pytest.fixture
def held() -> Iterator[Held]:
    found = Held()
    with use_device(found.device):
        yield found
