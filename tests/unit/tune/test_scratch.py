"""Folders to work in: they go when they were used, what a killed process left goes later, and what
another one uses stays.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tilec.tune.scratch import scratch
from tilec_runtime.errors import OutputError

KILLED = """
import os, signal, sys
from pathlib import Path
from tilec.tune.scratch import scratch
with scratch(Path(sys.argv[1])) as own:
    (own / "candidates-1.tilec").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_goes_with_what_is_in_it_and_the_folder_stays_if_something_else_is_there(
    tmp_path: Path,
) -> None:
    with scratch(tmp_path / "tune") as own:
        (own / "a" / "b").mkdir(parents=True)
    assert not (tmp_path / "tune").exists()
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune" / "log").touch()
    with scratch(tmp_path / "tune"):
        pass
    assert [path.name for path in (tmp_path / "tune").iterdir()] == ["log"]


def test_what_a_killed_process_left_goes_when_the_next_begins(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60, check=False)
    (left,) = tmp_path.glob("work-*[0-9]")
    assert (left / "candidates-1.tilec").is_file()
    with scratch(tmp_path) as own:
        assert not left.exists()
        assert own.is_dir()


def test_what_another_process_uses_stays(tmp_path: Path) -> None:
    (tmp_path / "work-1").mkdir()
    with (tmp_path / "work-1.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with scratch(tmp_path):
            assert (tmp_path / "work-1").is_dir()
    with scratch(tmp_path):
        assert not (tmp_path / "work-1").exists()


def test_where_none_can_be_made_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "tune").write_text("a file")
    with (
        pytest.raises(OutputError, match=r"cannot make the folder .*tune/work-[0-9]+ to work in"),
        scratch(tmp_path / "tune"),
    ):
        pass
