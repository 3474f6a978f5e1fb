"""Folders for temporary files: removed after use, and later where a process was killed."""

from __future__ import annotations

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


def test_an_empty_folder_goes_too(tmp_path: Path) -> None:
    with scratch(tmp_path / "tune") as own:
        (own / "a" / "b").mkdir(parents=True)
        with scratch(tmp_path / "tune") as other:
            assert own.is_dir()
            assert own != other
    assert not (tmp_path / "tune").exists()
    (tmp_path / "log").touch()
    with scratch(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_killed_process_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60, check=False)
    (left,) = tmp_path.glob("work-*")
    assert (left / "candidates-1.tilec").is_file()
    with scratch(tmp_path) as own:
        assert own.is_dir()
        assert not left.exists()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tune").write_text("a file")
    with pytest.raises(OutputError, match="cannot make a folder"), scratch(tmp_path / "tune"):
        pass
