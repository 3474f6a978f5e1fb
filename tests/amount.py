"""How much a test tries: a part of it in the gate of a change, all of it in the full gate
(`TILEC_TESTS=long`), which also runs the tests that are marked `long`.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

LONG = os.environ.get("TILEC_TESTS") == "long"


def part(count: int, least: int = 10) -> int:
    """So many in the full gate, and a fifth of them otherwise."""
    return count if LONG else max(min(count, least), count // 5)


def examples(count: int, **more: Any) -> settings:
    """Hypothesis settings of a property that tries `count` examples in the full gate."""
    return settings(max_examples=part(count), deadline=None, **more)
