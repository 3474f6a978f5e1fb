"""The pool: every job gets its outcome, whatever its compiler does, and nothing is compiled twice."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from tests.runtime_samples import IMAGES, image
from tests.waiting import becomes, ends
from tilec.compile import worker
from tilec.compile.cache import Cache
from tilec.compile.events import Done, Outcome
from tilec.frontends.base import load_frontend
from tilec.model.job import Variant
from tilec_runtime.errors import CompileError, TilecError, ToolchainError
from tilec_runtime.model.image import Image


def error_of(outcome: Outcome) -> TilecError:
    assert isinstance(outcome, TilecError), outcome
    return outcome


def done_of(outcome: Outcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def test_an_image_of_files_that_were_changed_meanwhile_is_not_kept(project) -> None:
    """The key stands for the files as they were when it was made: what is compiled of others is
    nobody's.
    """
    (project.root / "k.fake").write_text('include "h.inc"\nkernel add(x: tensor)\n')
    (project.root / "h.inc").write_text("before\n")
    (job,) = project.keyed(project.job())
    (project.root / "h.inc").write_text("after\n")
    with project.pool() as pool:
        error = error_of(*pool.compile([job]))
        assert (
            error.what
            == "k.fake, or a file that it includes, imports or reads, was changed while it was compiled"
        )
        assert error.fix == "build again"
        (project.root / "h.inc").write_text("before\n")
        assert not done_of(*pool.compile([job])).cached
        (project.root / "h.inc").write_text("after\n")
        assert not done_of(*pool.compile(project.keyed(project.job()))).cached


def test_nothing_to_do_starts_no_process(project) -> None:
    jobs = project.keyed(project.job())
    with project.pool() as pool:
        pool.compile(jobs)
        assert pool._pool.started == 1
    with project.pool() as pool:
        assert done_of(pool.compile(jobs)[0]).cached
        assert pool.compile([]) == ()
        assert pool.declare([]) == ()
        assert pool._pool.started == 0
        assert not (project.root / "spool").exists()


MISDEEDS = [
    ({"crash": "SIGSEGV"}, "the process that compiles it was killed by SIGSEGV"),
    ({"crash": "SIGABRT"}, "the process that compiles it was killed by SIGABRT"),
    ({"crash": "SIGKILL"}, "the process that compiles it was killed by SIGKILL"),
    ({"exit": 3}, "the process that compiles it exited with status 3"),
    ({"exit": 0}, "the process that compiles it exited with status 0"),
    ({"raise": "RecursionError"}, "the fake frontend failed: RecursionError: raised on demand"),
    ({"raise": "SystemExit"}, "the fake frontend failed: SystemExit: raised on demand"),
    (
        {"raise": "KeyboardInterrupt"},
        "the fake frontend failed: KeyboardInterrupt: raised on demand",
    ),
    ({"raise": "MemoryError"}, "the fake frontend failed: MemoryError: raised on demand"),
    ({"pickle": 1}, "the fake frontend failed: raised on demand"),
]


def test_a_misdeed_is_that_jobs_error_and_the_build_goes_on(project) -> None:
    jobs = [
        project.job(bm, print="nearly there", **misdeed) for bm, (misdeed, _) in enumerate(MISDEEDS)
    ]
    with project.pool(workers=2) as pool:
        *outcomes, last = pool.compile(project.keyed(*jobs, project.job(99)))
    assert isinstance(last, Done)
    for job, outcome, (misdeed, words) in zip(jobs, outcomes, MISDEEDS, strict=True):
        error = error_of(outcome)
        assert isinstance(error, CompileError)
        assert error.what.startswith(f"{job.id}: {words}")
        assert (error.kernel, error.target) == (job.variant.id, "sm_90")
        assert (Path(error.kept) / "k.fake").exists()
        assert "nearly there" in (Path(error.kept) / "log.txt").read_text()
        if "raise" in misdeed:
            assert "bug in tilec" in error.fix
            assert "Traceback (most recent call last)" in error.log
            assert "_misbehave" in error.log
    segfault, _, killed = map(error_of, outcomes[:3])
    assert "_misbehave" in segfault.log, "the Python stack of the crash is in the log"
    assert killed.cause == "the machine ran out of memory"
    assert "-j" in killed.fix


def test_a_job_that_hangs_is_killed_with_its_children(project, hanging) -> None:
    jobs = project.keyed(*(project.job(bm, only="BM2-", hang=str(hanging)) for bm in (1, 2, 3)))
    with project.pool() as pool:
        outcomes = pool.compile(jobs)
        assert pool._pool.started == 2
    assert [type(outcome).__name__ for outcome in outcomes] == ["Done", "CompileError", "Done"]
    error = error_of(outcomes[1])
    assert error.what == "add-BM2-sm_90: compiling it did not end within 20 s"
    assert (
        error.fix
        == "raise `timeout` in [toolchain], in seconds, or exclude the variant from the matrix"
    )
    assert (error.kernel, error.target) == ("add-BM2", "sm_90")
    assert all(ends(int(pid)) for pid in hanging.read_text().split())


def test_processes_of_a_tool_that_reached_its_time_limit_are_killed_with_its_worker(
    project,
) -> None:
    child = project.root / "child"
    jobs = project.keyed(project.job(1, only="BM1-", overtime=str(child)), project.job(2))
    with project.pool() as pool:
        outcomes = pool.compile(jobs)
        assert ends(int(child.read_text())), "also while the pool is open"
    assert error_of(outcomes[0]).what == "fakec took more than 1 s, and was stopped"
    assert isinstance(outcomes[1], Done)


@pytest.mark.parametrize("place", ["tilec.nowhere:X", "tilec.testing.fakes:Nobody", "nonsense", ""])
def test_a_frontend_that_cannot_be_loaded_is_a_missing_tool(place) -> None:
    with pytest.raises(ToolchainError) as caught:
        load_frontend(place, "fake")
    assert caught.value.what.startswith(
        f"the frontend for language 'fake' cannot be loaded from {place}"
    )


def test_workers_that_cannot_start_end_the_build_with_their_words(project, monkeypatch) -> None:
    monkeypatch.setattr(
        "tilec.compile.own._START", "import sys; sys.exit('cannot import name {path!r:.0}soap')"
    )
    words = "a worker process exited with status 1 before it could do anything:\ncannot import name soap"
    with pytest.raises(ToolchainError, match=words), project.pool(workers=3) as pool:
        pool.compile(project.keyed(*map(project.job, range(1, 9))))
    assert not (project.root / "spool").exists()


def test_an_idle_worker_that_dies_fails_no_job(project) -> None:
    with project.pool() as pool:
        pool.compile(project.keyed(project.job(1)))
        (seat,) = pool._pool._seats
        os.kill(seat.worker.pid, signal.SIGKILL)
        assert becomes(lambda: not seat.worker.running)
        assert isinstance(pool.compile(project.keyed(project.job(2)))[0], Done)
        assert pool._pool.started == 2


def test_the_current_directory_shadows_no_module(project, monkeypatch) -> None:
    (project.root / "json.py").write_text("raise SystemExit('the wrong json')")
    (project.root / "tilec.py").write_text("raise SystemExit('the wrong tilec')")
    monkeypatch.chdir(project.root)
    with project.pool() as pool:
        assert isinstance(pool.compile(project.keyed(project.job()))[0], Done)


def test_results_that_lie_are_refused() -> None:
    info = image("k")
    good = Image(info=info, data=IMAGES[info.digest], abi=())
    worker.check_image(good)
    with pytest.raises(ValueError, match="are not those of the image's bytes"):
        worker.check_image(dataclasses.replace(good, data=b"y"))
    with pytest.raises(TypeError, match="compile gave a NoneType where an Image was due"):
        worker.check_image(None)


def test_leaving_the_pool_brings_the_cache_to_its_bound(project) -> None:
    cache = Cache(project.root / "cache", max_bytes=10_000, note=project.observer.note)
    with project.pool(cache=cache) as pool:
        outcomes = pool.compile(project.keyed(*(project.job(bm, size=4000) for bm in (1, 2, 3, 4))))
        assert [done_of(outcome).blob.size for outcome in outcomes] == [4000] * 4
    assert 0 < cache.info().bytes <= 10_000


def test_ids_that_are_no_file_names_are_kept_under_one_that_is(project) -> None:
    odd = dataclasses.replace(
        project.job(fail="no"), variant=Variant(kernel="add", id="../a/b é" + "x" * 300)
    )
    with project.pool() as pool:
        error = error_of(pool.compile(project.keyed(odd))[0])
    assert isinstance(error, CompileError)
    kept = Path(error.kept)
    assert kept.parent == project.root / "kept"
    assert (kept / "log.txt").exists()
