"""One compile of a key at a time among processes, and no lock that outlives its holder."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from tilec.compile.cache import KeyLock
from tilec.compile.events import Done
from tilec.compile.execute import lock_name
from tilec.compile.worker import Compile, Setup, Worker
from tilec.frontends.base import ToolSearch
from tilec.model.job import Member
from tilec_runtime.model.digest import sha256

ONE, OTHER = sha256(b"one"), sha256(b"other")
HOLDER = """
import sys
from pathlib import Path
from tilec.compile.cache import KeyLock
lock = KeyLock(Path(sys.argv[1]))
print([lock.take(name) for name in sys.argv[2:]], flush=True)
sys.stdin.readline()
"""
BUILD = """
import sys
from pathlib import Path
from tests.unit.compile.conftest import Project
from tilec.compile.cache import Cache
from tilec.compile.events import Done
from tilec_runtime.model.digest import sha256
root, cache, counter = map(Path, sys.argv[1:4])
root.mkdir()
project = Project(root)
project.counter = counter
jobs = project.keyed(*(project.job(bm, sleep=0.2) for bm in range(int(sys.argv[4]))))
print("ready", flush=True)
sys.stdin.readline()
with project.pool(cache=Cache(cache, note=project.observer.note), workers=2) as pool:
    outcomes = pool.compile(jobs)
    assert all(isinstance(one, Done) for one in outcomes), outcomes
    print(sum(not one.cached for one in outcomes), sha256(b"".join(one.blob.read() for one in outcomes)), project.observer.notes)
"""


def start(script: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0
    return out


def taken(root: Path, *names: str) -> str:
    """Whether another process gets these names, one after another."""
    return ended(start(HOLDER, root, *names)).strip()


def test_a_name_is_held_by_one_process_until_it_lets_go(tmp_path: Path) -> None:
    lock = KeyLock(tmp_path / "cache")
    assert lock.take(ONE)
    assert lock.take(ONE)
    assert taken(tmp_path / "cache", ONE, OTHER) == "[False, True]"
    assert lock.take(OTHER)
    assert taken(tmp_path / "cache", ONE, OTHER) == "[True, False]", (
        "one name at a time, so that no two processes wait for each other"
    )
    lock.release()
    assert taken(tmp_path / "cache", ONE, OTHER) == "[True, True]"
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "CACHEDIR.TAG",
        "lock",
    }, "names leave nothing behind"


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    holder, lock = start(HOLDER, tmp_path, ONE), KeyLock(tmp_path)
    assert holder.stdout
    assert holder.stdout.readline() == "[True]\n"
    assert not lock.take(ONE)
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    assert lock.take(ONE)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_without_file_locks_every_name_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    lock = KeyLock(tmp_path)
    assert [lock.take(ONE), lock.take(OTHER)] == [True, True]
    lock.release()
    (tmp_path / "file").write_text("x")
    assert KeyLock(tmp_path / "file").take(ONE)
    assert KeyLock(None).take(ONE)


def test_builds_at_once_compile_each_key_once(tmp_path: Path) -> None:
    builds = [
        start(BUILD, tmp_path / f"copy-{i}", tmp_path / "cache", tmp_path / "count", 3)
        for i in range(4)
    ]
    for build in builds:
        assert build.stdout
        assert build.stdout.readline() == "ready\n"
    for build in builds:
        assert build.stdin
        build.stdin.write("\n")
        build.stdin.flush()
    said = [ended(build).split(" ", 2) for build in builds]
    assert sorted((tmp_path / "count").read_text().split()) == [
        "add-BM0-sm_90",
        "add-BM1-sm_90",
        "add-BM2-sm_90",
    ]
    assert sum(int(compiled) for compiled, _, _ in said) == 3
    assert len({(digest, notes) for _, digest, notes in said}) == 1


def test_a_build_that_waits_in_vain_compiles_itself(project) -> None:
    """A process that hangs with the lock costs others the time limit once: it does not begin before
    they have the job.
    """
    (job,) = project.keyed(project.job(timeout=3.0))
    holder = start(HOLDER, project.cache.root, job.key)
    assert holder.stdout
    assert holder.stdout.readline() == "[True]\n"
    with project.pool() as pool:
        (outcome,) = pool.compile([job])
    assert isinstance(outcome, Done)
    assert not outcome.cached
    ended(holder)


def test_a_group_is_locked_as_one_while_more_of_it_comes(project, tmp_path: Path) -> None:
    job = project.job()
    group = (Member(symbol="add", axes=(("BM", 16),)), Member(symbol="add", axes=(("BM", 32),)))
    jobs = [dataclasses.replace(project.job(bm), group=group) for bm in (16, 32)]
    first, second = project.keyed(*jobs)
    elsewhere = dataclasses.replace(first.job.spec.source, root="/elsewhere")
    moved = dataclasses.replace(
        first.job, spec=dataclasses.replace(first.job.spec, source=elsewhere)
    )
    names = {lock_name(one) for one in (first, second, dataclasses.replace(first, job=moved))}
    assert len(names) == 1
    assert lock_name(*project.keyed(job)) == project.keyed(job)[0].key
    (name,) = names
    root = project.cache.root
    frontends = {"fake": "tilec.testing.fakes:FakeFrontend"}
    setup = Setup(
        frontends=frontends, search=ToolSearch(), cache_root=str(root), spool=str(tmp_path)
    )
    worker = Worker(setup, on_wait=lambda: pytest.fail("nobody else is there"))
    worker.answer(Compile(job=first.job, key=first.key, lock=name, patience=9.0), more=True)
    assert taken(root, name) == "[False]"
    worker.answer(Compile(job=second.job, key=second.key, lock=name, patience=9.0), more=False)
    assert taken(root, name) == "[True]"
