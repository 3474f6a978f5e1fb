"""The .tilec directory: locking, what killed builds leave, and links."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from tilec.compile.state import WorkDir


def test_a_second_build_waits_and_says_so(tmp_path: Path) -> None:
    first, second = WorkDir(tmp_path), WorkDir(tmp_path)
    notes: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def note(text: str) -> None:
        notes.append(text)
        waiting.set()

    def other() -> None:
        with second.lock(note):
            order.append("second")

    with first.lock(pytest.fail):
        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(PATIENCE)
        order.append("first")
    thread.join(PATIENCE)
    assert order == ["first", "second"]
    assert notes == ["another build of this project is running: waiting for it"]


def test_sweeps_leftovers_of_dead_builds_only(tmp_path: Path) -> None:
    work = WorkDir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    dead = tmp_path / ".tilec" / f"spool-{done.stdout.strip()}"
    dead.mkdir(parents=True)
    work.spool.mkdir()
    with work.lock(pytest.fail):
        assert not dead.exists()
        assert work.spool.exists()
