"""Files appear whole or not at all, several of them together, and failures say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.bundle_samples import names_in
from tilec.model.atomic import Stage, atomic_write, output_error
from tilec_runtime.errors import OutputError


def test_nothing_is_in_place_before_everything_is_written(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "deep" / "b.txt"
    first.write_bytes(b"old")
    with Stage() as stage:
        with atomic_write(first, stage=stage) as file:
            file.write(b"new")
        assert stage.write(second, b"other")
        assert (first.read_bytes(), second.exists()) == (b"old", False)
        assert (stage.where(first).read_bytes(), stage.where(second).read_bytes()) == (
            b"new",
            b"other",
        )
        stage.put_in_place()
        assert (stage.where(first), stage.where(second)) == (first, second)
    assert (first.read_bytes(), second.read_bytes()) == (b"new", b"other")
    assert names_in(tmp_path) == ["a.txt", "deep"]
    assert names_in(tmp_path / "deep") == ["b.txt"]


def test_removes_staged_files_that_were_not_put_in_place(tmp_path: Path) -> None:
    def fail() -> None:
        with Stage() as stage:
            stage.write(tmp_path / "a", b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with Stage() as stage:
        stage.write(tmp_path / "b", b"1")
    assert names_in(tmp_path) == []


def test_an_obstacle_is_seen_before_the_first_file_is_put_in_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").mkdir()
    with Stage() as stage:
        stage.write(tmp_path / "a", b"new")
        stage.write(tmp_path / "b", b"new")
        with pytest.raises(OutputError, match=r"cannot write .*b: Is a directory") as caught:
            stage.put_in_place()
    assert "in the way" in caught.value.cause
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names_in(tmp_path) == ["a", "b"]


def test_sweeps_staged_files_of_killed_processes(tmp_path: Path) -> None:
    path, mine, running = (
        tmp_path / "a",
        tmp_path / ".notes.tmp",
        tmp_path / ".c.abcd1234.tilec-new",
    )
    with Stage() as stage:
        stage.write(path, b"1")
        left = stage.where(path).rename(stage.where(path).with_name(".b.txt.abcd1234.tilec-new"))
    mine.write_bytes(b"mine")
    running.write_bytes(b"of another process")
    for old in (left, mine):
        os.utime(old, (1, 1))
    with Stage() as stage:
        stage.write(path, b"2")
        stage.put_in_place()
    assert names_in(tmp_path) == [running.name, mine.name, "a"]


def test_an_os_error_becomes_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught, atomic_write(tmp_path / "out.bin"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(caught.value) == (
        f"cannot write {tmp_path / 'out.bin'}: No space left on device\n"
        "  cause: the disk is full\n"
        "  fix: free some space, or choose an output directory on another disk"
    )
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "cause"),
    [(errno.EROFS, "read-only"), (errno.EACCES, "may not be written"), (errno.EDQUOT, "quota")],
)
def test_causes(code: int, cause: str) -> None:
    assert cause in output_error(Path("x"), OSError(code, os.strerror(code))).cause
