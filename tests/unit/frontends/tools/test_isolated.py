"""Functions that run in a forked process."""

from __future__ import annotations

import os

import pytest

from tilec.frontends.tools.isolated import isolated

HELD = ["here"]


def test_a_result_comes_back_and_nothing_else() -> None:
    def change() -> tuple[int, list[str]]:
        HELD.append("there")
        return os.getpid(), HELD

    pid, held = isolated(change)
    assert pid != os.getpid()
    assert (held, HELD) == (["here", "there"], ["here"])


def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(ChildProcessError, match="ended without a result"):
        isolated(lambda: os._exit(7))
