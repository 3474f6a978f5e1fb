"""Builds that are stopped from outside: nothing of them stays behind, and the cache is sound."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, becomes, ends
from tilec.compile.cache import Cache

BUILD = """
import os, sys, threading
from pathlib import Path
from tilec.compile.cache import Cache
from tilec.compile.events import SilentObserver
from tilec.compile.execute import JobRunner
from tilec.compile.keys import KeyedJob
from tilec_runtime.errors import Location
from tilec.frontends.base import ToolSearch
from tilec_runtime.model.arch import Target
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec.model.declaration import KernelDecl

root = Path(sys.argv[1])
options = (("hang", str(root / "pids")), ("only", "hang"))
source = Source(root=str(root), path="k.fake", options=options)
spec = KernelSpec(name="k", language="fake", source=source, decl=KernelDecl(name="k", location=Location(file="k")), symbol="k", params=())
names = [f"quick{i}" for i in range(4)] + ["hang"]
jobs = [
    KeyedJob(job=Job(spec=spec, variant=Variant(kernel="k", id=name), target=Target.parse("sm_90")), key=f"{i:064x}")
    for i, name in enumerate(names)
]
pool = JobRunner(
    frontends={"fake": "tilec.testing.fakes:FakeFrontend"},
    search=ToolSearch(),
    cache=Cache(root / "cache", note=print),
    workers=2,
    observer=SilentObserver(),
    spool=root / "spool",
    kept=root / "kept",
)
def interrupted(call):  # Ctrl-C right behind it
    def calls(*args):
        call(*args)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
    return calls
if sys.argv[2:]:
    os.kill, os.killpg = interrupted(os.kill), interrupted(os.killpg)
try:
    with pool:
        pool.compile(jobs)
except KeyboardInterrupt:
    sys.exit(130)
"""


def wait_for(path: Path) -> list[int]:
    """The process ids in a file, once they are written."""
    assert becomes(lambda: path.exists() and path.read_text().endswith("\n")), (
        "the build did not get to its hanging job"
    )
    return [int(pid) for pid in path.read_text().split()]


@pytest.mark.parametrize(
    ("number", "status", "again"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGINT, 130, True),
        (signal.SIGKILL, -9, False),
        (signal.SIGTERM, -15, False),
    ],
    ids=["int", "int again while workers are killed", "kill", "term"],
)
def test_a_stopped_build_leaves_no_process_and_a_sound_cache(
    tmp_path: Path, number: int, status: int, again: bool
) -> None:
    (tmp_path / "k.fake").write_text("kernel k\n")
    command = [sys.executable, "-c", BUILD, str(tmp_path), *(["again"] if again else [])]
    build = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    workers = wait_for(tmp_path / "pids")
    build.send_signal(number)
    out, err = build.communicate(timeout=PATIENCE)
    assert (build.returncode, out, err) == (status, "", "")
    assert all(ends(pid) for pid in workers)
    if number == signal.SIGINT and not again:
        assert not (tmp_path / "spool").exists()
    notes: list[str] = []
    cache = Cache(tmp_path / "cache", note=notes.append)
    entries = [cache.get(f"{i:064x}") for i in range(5)]
    assert entries[4] is None
    assert all(len(entry.blob.read()) == 256 for entry in entries if entry)
    assert notes == []


def test_a_build_killed_at_any_moment_leaves_a_sound_cache(tmp_path: Path) -> None:
    (tmp_path / "k.fake").write_text("kernel k\n")
    for delay in (0.1, 0.2, 0.25, 0.3):
        build = subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        build.kill()
        build.wait(PATIENCE)
    notes: list[str] = []
    cache = Cache(tmp_path / "cache", note=notes.append)
    for i in range(5):
        entry = cache.get(f"{i:064x}")
        assert entry is None or len(entry.blob.read()) == 256
    assert notes == []
