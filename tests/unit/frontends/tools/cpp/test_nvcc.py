"""nvcc's host compiler as an input of compiles: whatever part of it is renewed, the digests tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools.cpp.nvcc import host_parts
from tilec_runtime.errors import ToolchainError


def gcc(folder: Path, answer: str) -> str:
    """A driver that says where its C++ compiler is; the PATH to find it with."""
    folder.mkdir()
    driver = folder / "gcc"
    driver.write_text(f'#!/bin/sh\n[ "$*" = -print-prog-name=cc1plus ] && echo {answer}\n')
    driver.chmod(0o755)
    return str(folder)


def test_both_driver_and_compiler_count(tmp_path: Path) -> None:
    compiler = tmp_path / "libexec" / "cc1plus"
    compiler.parent.mkdir()
    compiler.write_text("12.2")
    path, state = gcc(tmp_path / "bin", str(compiler)), str(tmp_path / "state")
    first = host_parts(path, state)
    assert [part.name for part in first] == ["<host>/gcc", "<host>/cc1plus"]
    assert host_parts(path, state) == first
    compiler.write_text("12.2-security-update")
    renewed = host_parts(path, state)
    assert (renewed[0] == first[0], renewed[1] == first[1]) == (True, False)


@pytest.mark.parametrize("answer", ["cc1plus", "/nowhere/cc1plus", ""])
def test_a_driver_without_one_counts_alone(tmp_path: Path, answer: str) -> None:
    assert [part.name for part in host_parts(gcc(tmp_path / "bin", answer), "")] == ["<host>/gcc"]


def test_without_a_host_compiler(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="gcc not found on PATH"):
        host_parts(str(tmp_path), "")
