"""Counts of references that chains of launches go by, whoever looks on."""

from __future__ import annotations

import importlib.util
import sys
from types import FrameType
from typing import Any

import pytest

from tilec.runtime import references


def holding(frame: FrameType, event: str, arg: object) -> Any:
    """A debugger that looks at the variables of every line."""
    del event, arg
    _ = frame.f_locals
    return holding


@pytest.mark.skipif(not references.EXACT, reason="this interpreter does not say who has an object")
def test_a_debugger_at_the_import_changes_no_count() -> None:
    spec = importlib.util.spec_from_file_location("references_again", references.__file__)
    assert spec is not None
    assert spec.loader is not None
    again, before = importlib.util.module_from_spec(spec), sys.gettrace()
    sys.settrace(holding)
    try:
        spec.loader.exec_module(again)
    finally:
        sys.settrace(before)
    thing = object()
    alone = references.references(thing)
    kept = [thing]
    shared = references.references(thing)
    assert alone == references.LOCAL
    assert alone == again.LOCAL
    assert shared == alone + len(kept)
