"""Counts of what a remote cache gave and took."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.compile.cache import Cache
from tilec.compile.remote.usage import Usage, record, recorded


def test_counts_of_builds_are_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, note=pytest.fail)
    record(cache, Usage())
    assert recorded(cache) is None
    record(cache, Usage(hits=2, down=10, saved=1.5))
    record(cache, Usage(hits=1, misses=3, up=7))
    assert recorded(cache) == (
        Usage(hits=1, misses=3, up=7),
        Usage(hits=3, misses=3, down=10, up=7, saved=1.5),
    )
    cache.put_record("remote cache", {"last": {"hits": "many"}})
    assert recorded(cache) is None
