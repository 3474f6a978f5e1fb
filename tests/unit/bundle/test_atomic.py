"""Files appear whole or not at all, and failures say what to do."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.bundle_samples import names_in
from tilec.model.atomic import atomic_write, output_error, write_if_changed
from tilec_runtime.errors import OutputError


def test_replaces_the_file_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["out.bin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


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


def test_write_if_changed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert write_if_changed(path, b"one")
    before = path.stat().st_ino
    assert not write_if_changed(path, b"one")
    assert path.stat().st_ino == before
    assert write_if_changed(path, b"two")
    assert path.read_bytes() == b"two"
