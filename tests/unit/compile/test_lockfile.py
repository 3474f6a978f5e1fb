"""tilec.lock: written when tools or images change, refused with --locked, never in a build's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tilec.compile.lockfile import Pin, read_lock
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import ToolInfo


def tools(version: str = "13.4.92", digest: str = "ab" * 32) -> dict[str, list[ToolInfo]]:
    return {
        "cuda": [ToolInfo(name="nvrtc", version=version, digest=digest)],
        "tile": [ToolInfo(name="cuda-tile", version="1.7.0", digest="cd" * 32)],
    }


def pin(key: str) -> Pin:
    digest = sha256(key.encode())
    return Pin.of(digest, digest, sha256(f"row of {key}".encode()))


def renew(
    root: Path,
    found: Mapping[str, list[ToolInfo]],
    built: Mapping[str, Pin] | None = None,
    *,
    profile: str = "release",
    keep: Callable[[str, str], bool] = lambda _, __: True,
) -> list[str]:
    """Bring the lock up to a build; gives the notes."""
    notes: list[str] = []
    read_lock(root).renew(found, profile=profile, built=built, keep=keep, note=notes.append)
    return notes


def test_written_once_then_left_alone(tmp_path: Path) -> None:
    built = {"add-sm_90": pin("a"), 'odd "name" \\ ü-sm_90': pin("b")}
    assert renew(tmp_path, tools(), built) == []
    before = (tmp_path / "tilec.lock").stat().st_mtime_ns
    text = (tmp_path / "tilec.lock").read_text()
    assert f'\n  "cuda-tile": "1.7.0 {"cd" * 32}",\n' in text
    assert f'\n   "add-sm_90": "{pin("a").key} {pin("a").image} {pin("a").row}",\n' in text
    lock = read_lock(tmp_path)
    lock.require_tools(tools())
    assert lock.pins == {"release": built}
    assert renew(tmp_path, tools(), built) == renew(tmp_path, tools()) == []
    assert (tmp_path / "tilec.lock").stat().st_mtime_ns == before


def test_change_is_told_and_written(tmp_path: Path) -> None:
    renew(tmp_path, tools())
    assert renew(tmp_path, tools(version="13.5.1")) == [
        "tilec.lock now holds other tools: nvrtc 13.4.92 is now 13.5.1"
    ]
    assert '"13.5.1 ' in (tmp_path / "tilec.lock").read_text()
    renamed = renew(tmp_path, tools(version="13.5.1", digest="00" * 32))
    assert renamed == ["tilec.lock now holds other tools: nvrtc 13.5.1 is another file"]


def test_locked_refuses_and_keeps_the_file(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"there is no tilec\.lock") as caught:
        read_lock(tmp_path).require_tools(tools())
    assert caught.value.cause == ""
    assert caught.value.fix.startswith("run `tilec build` without --locked")
    renew(tmp_path, tools())
    text = (tmp_path / "tilec.lock").read_text()
    with pytest.raises(ToolchainError, match=r"nvrtc 13\.4\.92 is now 13\.3\.0") as caught:
        read_lock(tmp_path).require_tools(tools(version="13.3.0"))
    assert caught.value.exit_code == 3
    assert (tmp_path / "tilec.lock").read_text() == text


def test_damaged_file_is_refused_or_rewritten(tmp_path: Path) -> None:
    renew(tmp_path, tools(), {"add-sm_90": pin("a")})
    good = (tmp_path / "tilec.lock").read_text()
    (tmp_path / "tilec.lock").write_text(f"<<<<<<< main\n{good}")
    with pytest.raises(ToolchainError) as caught:
        read_lock(tmp_path).require_tools(tools())
    assert str(caught.value) == (
        "tilec.lock cannot be read: Expecting value: line 1 column 1 (char 0)\n"
        "  cause: the file was edited, or two branches were merged\n"
        "  fix: run `tilec build` without --locked, and commit the tilec.lock that it writes"
    )
    for damaged in (
        f"<<<<<<< main\n{good}".encode(),
        b"\xff\xfe not a lock",
        b'{"tools": {}, "images": {"release": {"add-sm_90": "x"}}}',
    ):
        (tmp_path / "tilec.lock").write_bytes(damaged)
        assert renew(tmp_path, tools(), {"add-sm_90": pin("a")}) == []
        assert (tmp_path / "tilec.lock").read_text() == good


def test_a_project_that_cannot_be_written_still_builds(tmp_path: Path) -> None:
    (tmp_path / "tilec.lock").mkdir()
    (note,) = renew(tmp_path, tools())
    assert note.startswith("tilec.lock was not written: cannot write")
