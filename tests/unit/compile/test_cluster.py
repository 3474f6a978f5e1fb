"""Jobs on the workers of a Dask cluster: the same images as here, whatever becomes of the workers."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import distributed
import pytest

from tests.remote_server import CacheServer
from tests.unit.compile.test_execute import error_of
from tests.waiting import PATIENCE, becomes, ends
from tilec.compile.cache import Cache
from tilec.compile.cluster import pool as pools
from tilec.compile.events import Done, Observer
from tilec.compile.remote.access import Access
from tilec.compile.remote.session import open_remote
from tilec.model.job import Member
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.errors import CompileError, MissingError
from tilec_runtime.model.digest import sha256

MACHINES = {"fake": "tests.cluster_fakes:MachineFrontend"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def run_on(cluster: Any) -> Iterator[Callable[..., dict[str, Any]]]:
    """`Client.run`: calls a function on both workers, or one."""
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)  # one may have been killed before
        yield client.run


@pytest.fixture
def remote(cluster: Any, project: Any, run_on: Any) -> Callable[..., Any]:
    """A runner whose jobs go to the cluster, which has both workers."""

    def start(**changes: Any) -> Any:
        settings = {"scheduler": cluster.scheduler_address, "frontends": MACHINES, **changes}
        return project.pool(**settings)

    return start


def images(outcomes: Sequence[object]) -> list[bytes]:
    assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
    return [outcome.blob.read() for outcome in outcomes if isinstance(outcome, Done)]


class Watching(Observer):
    """Calls a function when the first job begins, once; and remembers notes."""

    def __init__(self, function: Callable[[], object] = lambda: None) -> None:
        self.function, self.calls, self.notes = function, 0, []

    def job_started(self, job_id: str) -> None:
        self.calls += 1
        if self.calls == 1:
            self.function()

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_images_are_those_of_this_machine(project, cluster, tmp_path: Path) -> None:
    made = []
    for name, settings in (
        ("here", {}),
        ("a blank é", {"scheduler": cluster.scheduler_address}),
    ):
        root = tmp_path / name
        (root / "include").mkdir(parents=True)
        there = type(project)(root)
        (root / "k.fake").write_text('include "include/h ü.inc"\nkernel add(x: tensor)\n')
        (root / "include/h ü.inc").write_text("ä\n")
        targets = ("sm_80", "compute_90")
        jobs = there.keyed(*(there.job(bm, target=t) for bm in (1, 2) for t in targets))
        with there.pool(**settings) as pool:
            made.append(images(pool.compile(jobs)))
            assert pool._pool.started == (0 if settings else 1)
        assert there.observer.notes == []
        with there.pool() as pool:
            assert all(outcome.cached for outcome in pool.compile(jobs))
    assert made[0] == made[1]


def test_a_job_that_fails_tells_of_the_projects_files(project, remote) -> None:
    bad = project.job(1, fail=f"no luck with {project.root}/k.fake")
    with remote() as pool:
        outcomes = pool.compile(project.keyed(bad, project.job(2)))
    error = error_of(outcomes[0])
    assert error.what == f"no luck with {project.root}/k.fake"
    assert isinstance(error, CompileError)
    assert (Path(error.kept) / "k.fake").exists()
    assert isinstance(outcomes[1], Done)


def test_files_outside_of_the_project_and_unchecked_flags_stay_here(project, remote) -> None:
    (job,) = project.keyed(project.job())
    outside = dataclasses.replace(job.files[0], name="../lib.py")
    free = project.keyed(project.job(2, **{"unchecked-flags": True}))
    with remote() as pool:
        images(pool.compile([dataclasses.replace(job, files=(outside, *job.files)), *free]))
        assert pool._pool.started == 1
    assert project.observer.notes == [
        "some jobs are compiled on this machine: ../lib.py lies outside of the project",
        "some jobs are compiled on this machine: k.fake has flags that are not checked",
    ]


def test_what_one_worker_cannot_do_goes_elsewhere_three_times(project, remote) -> None:
    jobs = project.keyed(project.job(1, crash="SIGSEGV"), project.job(2))
    with remote() as pool:
        outcomes = pool.compile(jobs)
    error = error_of(outcomes[0])
    assert error.what.startswith(
        "add-BM1-sm_90: the process that compiles it was killed by SIGSEGV, tried 4 times on "
    )
    assert project.compiled.count("add-BM1-sm_90") == 4
    assert "_misbehave" in error.log
    images(outcomes[1:])


def test_a_job_that_hangs_is_ended_with_its_children_each_time(project, remote) -> None:
    hang = project.root / "pids"
    jobs = project.keyed(project.job(1, hang=str(hang), timeout=0.3))
    with remote() as pool:
        error = error_of(*pool.compile(jobs))
    assert error.what.startswith(
        "add-BM1-sm_90: compiling it did not end within 0.3 s, tried 4 times on "
    )
    assert all(ends(int(pid)) for pid in hang.read_text().split())


def test_a_group_is_one_unit_and_one_that_crashes_is_compiled_one_by_one(project, remote) -> None:
    group = tuple(Member(symbol="add", axes=(("BM", bm),)) for bm in (1, 2, 3))
    jobs = [
        dataclasses.replace(project.job(bm, grouped=True, crash="SIGSEGV"), group=group)
        for bm in (1, 2, 3)
    ]
    with remote() as pool:
        assert len(set(images(pool.compile(project.keyed(*jobs))))) == 3
    assert "compiled in one go" in project.observer.notes[0]
    assert project.compiled.count(jobs[0].id) == 2


def test_a_worker_that_is_killed_costs_no_job(project, cluster, remote) -> None:
    victim = next(iter(cluster.workers.values())).pid
    jobs = project.keyed(*(project.job(bm, sleep=0.2) for bm in range(8)))
    observer = Watching(lambda: os.kill(victim, signal.SIGKILL))
    with remote(observer=observer) as pool:
        images(pool.compile(jobs))
    assert observer.calls == 8


def test_a_worker_with_other_tools_is_left_out_and_named(project, remote, run_on) -> None:
    first, *_ = run_on(os.getpid)
    jobs = project.keyed(*map(project.job, range(4)))
    run_on(_set_fakec, "2.0", workers=[first])
    try:
        with remote() as pool:
            images(pool.compile(jobs))
        (note,) = project.observer.notes
        assert note.startswith(f"a worker of the cluster is left out: {socket.gethostname()} ")
        assert "fakec 1.0 (" in note
        assert "is wanted, it has 2.0 (" in note
        run_on(_set_fakec, "2.0")
        again = project.pool(scheduler=remote()._scheduler, frontends=MACHINES)
        with again as pool, pytest.raises(MissingError) as caught:
            pool.compile(jobs, fresh=True)
        assert caught.value.what.startswith("no worker of the cluster can do the build's jobs:\n")
        assert caught.value.what.count("fakec 1.0") == 2
    finally:
        run_on(_set_fakec, "1.0")


def _set_fakec(version: str) -> None:
    os.environ["FAKEC"] = version


def test_a_worker_that_loses_its_disk_is_left_out(project, remote, run_on) -> None:
    jobs = project.keyed(*(project.job(bm, sleep=0.1) for bm in range(6)))
    first, *_ = run_on(os.getpid)
    observer = Watching(lambda: run_on(_lose_disk, workers=[first]))
    with remote(observer=observer) as pool:
        images(pool.compile(jobs))
    (note,) = observer.notes
    assert "its disk" in note


def _lose_disk(dask_worker: Any) -> None:
    for folder in Path(dask_worker.local_directory).glob("tilec-*"):
        shutil.rmtree(folder)


def test_leaving_ends_what_the_workers_do(project, remote, run_on) -> None:
    pids = project.root / "pids"

    def stop() -> None:
        assert becomes(lambda: pids.exists() and pids.read_text().endswith("\n"))
        raise KeyboardInterrupt

    jobs = project.keyed(project.job(1, hang=str(pids), timeout=600.0))
    with pytest.raises(KeyboardInterrupt), remote(observer=Watching(stop)) as pool:
        pool.compile(jobs)
    assert all(ends(int(pid)) for pid in pids.read_text().split())
    assert set(run_on(_left).values()) == {()}


def _left(dask_worker: Any) -> tuple[str, ...]:
    files = Path(dask_worker.local_directory).glob("tilec-[!s]*")
    plugins = [name for name in dask_worker.plugins if name.startswith("tilec")]
    return (*plugins, *map(str, files))


# --- the remote cache


@pytest.mark.parametrize(
    ("fault", "compiles", "note"),
    [
        ("", 3, ""),
        ("PUT", 3, "cannot write to the remote cache: it answers 403"),
        ("GET", 6, "images return through the scheduler: the remote cache"),
    ],
)
def test_digests_return_where_workers_can_write(
    fault: str, compiles: int, note: str, project, remote
) -> None:
    jobs = project.keyed(*map(project.job, range(3)))
    with CacheServer() as server:
        server.fault = lambda one: "403" if one.method == fault else ""
        session = open_remote(
            Access(url=RemoteUrl.parse(server.url), write=True),
            project.cache,
            note=project.observer.note,
        )
        assert session
        with session, remote(remote=session) as pool:
            here = images(pool.compile(jobs, fresh=True))
        stored = {sha256(data) for (kind, _), data in server.objects.items() if kind == "cas"}
    assert len(project.compiled) == compiles
    assert fault == "PUT" or {sha256(data) for data in here} <= stored
    assert [note in text for text in project.observer.notes[:1]] == [True] * bool(note)
    with project.pool(cache=Cache(None, note=pytest.fail)) as pool:
        assert images(pool.compile(jobs)) == here


# --- rarer misfortunes


@pytest.mark.long
def test_a_job_that_takes_its_workers_down_is_given_up(project, remote) -> None:
    jobs = project.keyed(project.job(1, fatal="BM1-"), project.job(2))
    with remote() as pool:
        outcomes = pool.compile(jobs)
    assert error_of(outcomes[0]).what.startswith(
        "add-BM1-sm_90: the process that compiles it was lost with its worker each time, tried 4 times on "
    )
    images(outcomes[1:])


@pytest.mark.long
def test_a_worker_that_freezes_is_done_without(
    project, cluster, remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_SILENT", 4.0)
    monkeypatch.setattr(pools, "_CLOSE", 1.0)
    victim = next(iter(cluster.workers.values())).pid
    jobs = project.keyed(*(project.job(bm, sleep=0.2, timeout=2.0) for bm in range(8)))
    observer = Watching(lambda: os.kill(victim, signal.SIGSTOP))
    try:
        with remote(observer=observer) as pool:
            images(pool.compile(jobs))
    finally:
        os.kill(victim, signal.SIGCONT)
    assert ["it went silent" in note for note in observer.notes] == [True]
