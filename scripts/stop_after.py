"""A plugin of pytest: no test begins once the time is up (TILEC_STOP_AT, in seconds since the
epoch).
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    """Let this test be the last one, where the time is up behind it."""
    yield
    if time.time() > float(os.environ.get("TILEC_STOP_AT", "inf")):
        item.session.shouldstop = "the time is up"
