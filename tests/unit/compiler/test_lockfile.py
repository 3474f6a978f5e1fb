"""tilec.lock: written when tools change, refused with --locked, never in a build's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.compiler.lockfile import check_lock
from tilec.errors import ToolchainError
from tilec.model.kernel import ToolInfo


def tools(version: str = "13.4.92", digest: str = "ab" * 32) -> dict[str, list[ToolInfo]]:
    return {
        "cuda": [ToolInfo(name="nvrtc", version=version, digest=digest)],
        "tile": [ToolInfo(name="cuda-tile", version="1.7.0", digest="cd" * 32)],
    }


def test_written_once_then_left_alone(tmp_path: Path) -> None:
    notes: list[str] = []
    check_lock(tmp_path, tools(), locked=False, note=notes.append)
    before = (tmp_path / "tilec.lock").stat().st_mtime_ns
    text = (tmp_path / "tilec.lock").read_text()
    assert '[tool."cuda-tile"]\nversion = "1.7.0"' in text
    check_lock(tmp_path, tools(), locked=True, note=notes.append)
    assert (tmp_path / "tilec.lock").stat().st_mtime_ns == before
    assert notes == []


def test_change_is_told_and_written(tmp_path: Path) -> None:
    notes: list[str] = []
    check_lock(tmp_path, tools(), locked=False, note=notes.append)
    check_lock(tmp_path, tools(version="13.5.1"), locked=False, note=notes.append)
    assert notes == ["tilec.lock now holds other tools: nvrtc 13.4.92 is now 13.5.1"]
    assert 'version = "13.5.1"' in (tmp_path / "tilec.lock").read_text()
    check_lock(tmp_path, tools(version="13.5.1", digest="00" * 32), locked=False, note=notes.append)
    assert notes[1] == "tilec.lock now holds other tools: nvrtc 13.5.1 is another file"


def test_locked_refuses_and_keeps_the_file(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"there is no tilec\.lock") as caught:
        check_lock(tmp_path, tools(), locked=True, note=pytest.fail)
    assert caught.value.cause == ""
    assert caught.value.fix.startswith("run `tilec build` without --locked")
    check_lock(tmp_path, tools(), locked=False, note=pytest.fail)
    text = (tmp_path / "tilec.lock").read_text()
    with pytest.raises(ToolchainError, match=r"nvrtc 13\.4\.92 is now 13\.3\.0") as caught:
        check_lock(tmp_path, tools(version="13.3.0"), locked=True, note=pytest.fail)
    assert caught.value.exit_code == 3
    assert (tmp_path / "tilec.lock").read_text() == text


def test_damaged_file_is_rewritten(tmp_path: Path) -> None:
    notes: list[str] = []
    (tmp_path / "tilec.lock").write_bytes(b"\xff\xfe not a lock")
    check_lock(tmp_path, tools(), locked=False, note=notes.append)
    assert '[tool."nvrtc"]' in (tmp_path / "tilec.lock").read_text()


def test_a_project_that_cannot_be_written_still_builds(tmp_path: Path) -> None:
    notes: list[str] = []
    (tmp_path / "tilec.lock").mkdir()
    check_lock(tmp_path, tools(), locked=False, note=notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("tilec.lock was not written: cannot write")
