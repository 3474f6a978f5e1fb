"""Schedulers of a cluster that cannot be reached, go away or come back."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.compile.test_cluster import Watching, images
from tilec.compile.cluster import pool as pools
from tilec_runtime.errors import MissingError


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_CONNECT", 0.3)


def test_a_scheduler_that_cannot_be_reached_is_an_error_or_is_done_without(
    project, no_patience
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    jobs = project.keyed(project.job())
    with project.pool(scheduler=address) as pool, pytest.raises(MissingError) as caught:
        pool.compile(jobs)
    assert caught.value.what.startswith(f"the scheduler {address} cannot be reached: ")
    with project.pool(scheduler=address, fallback=True) as pool:
        images(pool.compile(jobs))
    (note,) = project.observer.notes
    assert note.startswith(f"the scheduler {address} cannot be reached")
    assert note.endswith(": the rest is compiled on this machine")


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def test_a_scheduler_that_is_silent_is_not_waited_for(project, silent, no_patience) -> None:
    with (
        project.pool(scheduler=silent) as pool,
        pytest.raises(MissingError, match="cannot be reached"),
    ):
        pool.compile(project.keyed(project.job()))


CLUSTER = """
import sys, time
from distributed import LocalCluster
with LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0",
    scheduler_port=int(sys.argv[1]),
) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def doomed() -> Iterator[Any]:
    """A cluster in a process of its own; `address` is its scheduler's."""
    with contextlib.ExitStack() as stack:

        def start(port: str = "0") -> tuple[str, Callable[[], None]]:
            process = subprocess.Popen(
                [sys.executable, "-c", CLUSTER, port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout
            return process.stdout.readline().strip(), process.kill

        address, kill = start()

        def restart() -> None:
            kill()
            assert start(address.rpartition(":")[2])[0] == address

        yield SimpleNamespace(address=address, kill=kill, restart=restart)


@pytest.mark.parametrize(
    ("end", "fallback"),
    [
        pytest.param("kill", False, marks=pytest.mark.long),
        pytest.param("restart", False, marks=pytest.mark.long),
        ("kill", True),
    ],
)
def test_a_scheduler_that_goes_away_costs_no_image(
    project, doomed, end: str, fallback: bool
) -> None:
    jobs = project.keyed(*(project.job(bm, sleep=0.1, only="BM1") for bm in range(6)))
    done: list[str] = []

    class Killing(Watching):
        def job_finished(self, job_id: str, outcome: object) -> None:
            done.append(job_id)
            if len(done) == 1:
                getattr(doomed, end)()

    observer = Killing()
    with project.pool(scheduler=doomed.address, fallback=fallback, observer=observer) as pool:
        if fallback:
            images(pool.compile(jobs))
            assert any("went away" in note for note in observer.notes)
        else:
            with pytest.raises(MissingError, match="went away while the build was running"):
                pool.compile(jobs)
    assert done
    with project.pool() as pool:
        known = [outcome.cached for outcome in pool.compile(jobs)]
    assert sum(known) >= len(done)
