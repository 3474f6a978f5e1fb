"""A build with a remote cache ends well whatever the remote does, with the bytes of compiling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.remote_server import CacheServer, Request
from tests.unit.compile.conftest import Project
from tilec.compile.cache import Cache
from tilec.compile.events import Done
from tilec.compile.keys import KeyedJob
from tilec.compile.remote import session
from tilec.compile.remote.access import Access
from tilec.compile.remote.session import open_remote
from tilec.compile.remote.usage import Usage
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.errors import CompileError
from tilec_runtime.model.digest import sha256

JOBS = 3


class Farm:
    """Machines with one remote: checkouts with caches of their own."""

    def __init__(self, root: Path, url: str) -> None:
        self._root = root
        self.url = url
        self.usages: list[Usage] = []

    def machine(self, name: str) -> Project:
        root = self._root / name
        root.mkdir(exist_ok=True)
        return Project(root)

    def build(
        self,
        project: Project,
        *,
        write: bool = False,
        fill: bool = False,
        own: bool = True,
        pins: dict[str, str] | None = None,
        fresh: bool = False,
        seconds: float = 5.0,
        wait: float = 20.0,
        options: dict[str, Any] | None = None,
    ) -> list[Done]:
        """Build as a new process would: nothing but the cache's files is kept."""
        cache = Cache(project.root / "cache", note=project.observer.note)
        access = Access(url=RemoteUrl.parse(self.url), write=write or fill, fill=fill, own=own)
        remote = open_remote(access, cache, note=project.observer.note, wait=wait, seconds=seconds)
        assert remote
        remote.pins = pins or {}
        with remote, project.pool(cache=cache, remote=remote) as pool:
            done = pool.compile(jobs(project, **(options or {})), fresh=fresh)
        self.usages.append(remote.usage)
        assert all(isinstance(one, Done) for one in done), done
        return [one for one in done if isinstance(one, Done)]


def jobs(project: Project, **options: Any) -> list[KeyedJob]:
    # The counter's path would be in the keys, which are those of every machine.
    options = {"count": "/dev/null", **options}
    return project.keyed(*(project.job(bm, **options) for bm in range(JOBS)))


def images(done: list[Done]) -> list[bytes]:
    return [one.blob.read() for one in done]


def compiled(done: list[Done]) -> int:
    return sum(not one.cached for one in done)


@pytest.fixture
def farm(tmp_path: Path, server: CacheServer) -> Farm:
    return Farm(tmp_path, server.url)


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[tuple[str, str], bytes], list[Done]]:
    """What a server holds after a build, and the build's images."""
    with CacheServer() as server:
        farm = Farm(tmp_path_factory.mktemp("built"), server.url)
        done = farm.build(farm.machine("writer"), write=True)
        return server.objects, done


@pytest.fixture
def filled(
    built: tuple[dict[tuple[str, str], bytes], list[Done]], server: CacheServer
) -> list[bytes]:
    """What the images are; the remote has them all."""
    server.objects.update(built[0])
    return images(built[1])


def test_two_machines_and_one_remote(url: str, tmp_path: Path) -> None:
    farm = Farm(tmp_path, url)
    first, second = farm.machine("one"), farm.machine("two")
    built = farm.build(first, write=True)
    assert compiled(built) == JOBS
    pins = {job.key: one.row for job, one in zip(jobs(first), built, strict=True)}
    fetched = farm.build(second, own=False, pins=pins)
    assert compiled(fetched) == 0
    assert images(fetched) == images(built)
    assert [one.row for one in fetched] == [one.row for one in built]
    assert first.observer.notes == second.observer.notes == []
    wrote, read = farm.usages
    assert (wrote.misses, wrote.uploaded, wrote.failed, read.hits) == (JOBS, JOBS, 0, JOBS)
    assert wrote.up == read.down > JOBS * 256
    assert read.saved == pytest.approx(sum(one.seconds for one in built), abs=1e-6)
    finished = [event for event in second.observer.events if event[0] == "job_finished"]
    assert ("started", JOBS, 0) in second.observer.events
    assert len(finished) == JOBS


def test_keys_without_a_pin_are_not_looked_up(
    farm: Farm, filled: list[bytes], built: Any, server: CacheServer
) -> None:
    reader = farm.machine("reader")
    pinned = jobs(reader)[0]
    done = farm.build(reader, own=False, pins={pinned.key: built[1][0].row})
    assert [one.cached for one in done] == [True, *[False] * (JOBS - 1)]
    assert images(done) == filled
    assert {one.name for one in server.requests if one.kind == "ac"} == {pinned.key}


def on(method: str, kind: str, fault: str) -> Callable[[Request], str]:
    return lambda one: fault if (one.method, one.kind) == (method, kind) else ""


LEFT, UNUSED = "is not used for the rest of this build: ", "is not used ("
READING = [
    ("GET", "ac", "500", f"{LEFT}it answers 500"),
    ("GET", "ac", "401", f"{LEFT}it answers 401"),
    ("GET", "ac", "redirect", f"{LEFT}it redirects"),
    ("GET", "ac", "noise", f"{LEFT}the connection was cut"),
    ("GET", "ac", "slow", f"{LEFT}it took more than 0.3 s"),
    ("GET", "ac", "drip headers", f"{LEFT}it gave 0 answers in 1 s"),
    ("GET", "ac", "truncated", f"{LEFT}the connection was cut"),
    ("GET", "ac", "html", f"{UNUSED}its action result is not tilec's"),
    ("GET", "ac", "endless", f"{UNUSED}it is larger than it says"),
    ("GET", "cas", "truncated", f"{LEFT}the connection was cut"),
    ("GET", "cas", "wrong", f"{UNUSED}its bytes are not those of its digest"),
    ("GET", "cas", "endless", f"{UNUSED}it is larger than it says"),
]


@pytest.mark.parametrize(("method", "kind", "fault", "note"), READING)
def test_faults_while_reading(
    method: str,
    kind: str,
    fault: str,
    note: str,
    farm: Farm,
    filled: list[bytes],
    server: CacheServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The build succeeds with equal bytes, and the user hears of it once."""
    server.fault = on(method, kind, fault)
    if fault == "drip headers":
        monkeypatch.setattr(session, "_FREE", 1.0)
    reader = farm.machine("reader")
    done = farm.build(reader, seconds=0.3 if fault == "slow" else 5.0)
    assert images(done) == filled
    assert compiled(done) == JOBS
    (told,) = reader.observer.notes
    assert note in told
    server.fault = lambda _: ""


TAKES_NONE = "takes no uploads: it answers"
WRITING = [
    ("PUT", "cas", "507", f"{TAKES_NONE} 507 (Insufficient Storage); 3 images were not uploaded"),
    ("PUT", "cas", "403", f"{TAKES_NONE} 403"),
    ("PUT", "cas", "cut", "takes no uploads: the connection was cut"),
    ("PUT", "ac", "401", f"{TAKES_NONE} 401"),
    ("PUT", "ac", "slow", "takes no uploads: it took more than 0.3 s"),
]


@pytest.mark.parametrize(("method", "kind", "fault", "note"), WRITING)
def test_faults_while_writing(
    method: str, kind: str, fault: str, note: str, farm: Farm, server: CacheServer
) -> None:
    server.fault = on(method, kind, fault)
    writer = farm.machine("writer")
    done = farm.build(writer, write=True, seconds=0.3 if fault == "slow" else 5.0)
    assert compiled(done) == JOBS
    (told,) = writer.observer.notes
    assert note in told
    assert not any(kind == "ac" for kind, _ in server.objects)
    (usage,) = farm.usages
    assert (usage.uploaded, usage.failed) == (0, JOBS)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with CacheServer() as gone:
        farm = Farm(tmp_path, gone.url)
    project = farm.machine("one")
    assert compiled(farm.build(project, write=True)) == JOBS
    (told,) = project.observer.notes
    assert told == (
        f"the remote cache {gone.url} is not used for the rest of this build: it cannot be reached"
    )


def test_a_bucket_that_is_not_there(bucket: str, tmp_path: Path) -> None:
    farm = Farm(tmp_path, "s3://no-such-bucket/tilec")
    project = farm.machine("one")
    assert compiled(farm.build(project, write=True)) == JOBS
    (told,) = project.observer.notes
    assert "takes no uploads: there is no such bucket; 3 images were not uploaded" in told


def test_a_build_waits_for_uploads_only_so_long(farm: Farm, server: CacheServer) -> None:
    server.fault = on("PUT", "cas", "slow")
    writer = farm.machine("writer")
    assert compiled(farm.build(writer, write=True, wait=0.05)) == JOBS
    (told,) = writer.observer.notes
    assert told == (
        f"3 images were not uploaded to the remote cache {server.url} within 0.05 s; "
        "--remote-wait SECS waits longer"
    )


def test_a_build_that_fails_shares_what_it_compiled(farm: Farm, server: CacheServer) -> None:
    writer = farm.machine("writer")
    with pytest.raises(CompileError):
        build_and_fail(farm, writer, CompileError("no"))
    assert sum(kind == "ac" for kind, _ in server.objects) == JOBS


def test_an_interrupted_build_waits_for_nothing(farm: Farm, server: CacheServer) -> None:
    server.fault = on("PUT", "cas", "slow")
    with pytest.raises(KeyboardInterrupt):
        build_and_fail(farm, farm.machine("writer"), KeyboardInterrupt())


def build_and_fail(farm: Farm, project: Project, error: BaseException) -> None:
    cache = Cache(project.root / "cache", note=project.observer.note)
    access = Access(url=RemoteUrl.parse(farm.url), write=True)
    remote = open_remote(access, cache, note=project.observer.note, wait=600.0)
    assert remote
    with remote, project.pool(cache=cache, remote=remote) as pool:
        pool.compile(jobs(project))
        raise error


def test_what_is_there_is_not_uploaded_again(
    farm: Farm, filled: list[bytes], server: CacheServer
) -> None:
    done = farm.build(farm.machine("second"), write=True, fresh=True)
    assert (compiled(done), images(done)) == (JOBS, filled)
    asked = [server.asked("GET"), server.asked("HEAD"), server.asked("PUT")]
    assert asked == [JOBS, JOBS, 0]
    assert farm.usages == [Usage()]


@pytest.mark.parametrize("what", ["wrong", "evicted", "wrong bytes"])
def test_an_entry_of_no_use_is_replaced(
    what: str, farm: Farm, filled: list[bytes], server: CacheServer
) -> None:
    bad = jobs(farm.machine("reader"))[2].key
    image = "cas", sha256(filled[2])
    if what == "wrong":
        server.objects["ac", bad] = b"<html>"
    elif what == "evicted":
        del server.objects[image]
    else:
        server.objects[image] = b"x" * len(filled[2])
    farm.build(farm.machine("second"), write=True)
    done = farm.build(farm.machine("third"))
    assert (compiled(done), images(done)) == (0, filled)


def test_what_the_private_cache_had_fills_a_remote_on_request(
    farm: Farm, server: CacheServer
) -> None:
    one = farm.machine("one")
    with one.pool() as pool:
        pool.compile(jobs(one))
    assert compiled(farm.build(one, write=True)) == 0
    assert server.requests == []
    assert compiled(farm.build(one, fill=True)) == 0
    assert farm.usages[-1].uploaded == JOBS
    assert compiled(farm.build(farm.machine("two"))) == 0


def test_two_writers_at_once(farm: Farm, server: CacheServer) -> None:
    """Each compiles and uploads; a third machine gets whole images, whoever was last."""
    builds = [
        threading.Thread(target=farm.build, args=(farm.machine(name),), kwargs={"write": True})
        for name in ("one", "two")
    ]
    for build in builds:
        build.start()
    for build in builds:
        build.join()
    third = farm.machine("three")
    done = farm.build(third)
    assert compiled(done) == 0
    assert third.observer.notes == []


def test_workers_get_no_credentials(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ("TILEC_REMOTE_TOKEN", "TILEC_REMOTE_CACHE", "AWS_SECRET_ACCESS_KEY")
    for name in (*cache, "HTTPS_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "https://me:hunter2@h")
    project = farm.machine("one")
    with project.pool() as pool:
        pool.compile(jobs(project))
        (pid,) = {seat.worker.pid for seat in pool._pool._seats if seat.worker}
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"PATH=" in environ
    assert b"hunter2" not in environ


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Threads of the cache end with their calls; those that hang end with the server."""
    yield
    for thread in threading.enumerate():
        if thread.name == "remote cache":
            thread.join(10)
            assert not thread.is_alive()
