"""A project of fake kernels, and pools over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilec.compile.cache import Cache
from tilec.compile.execute import JobRunner
from tilec.compile.keys import KeyedJob, KeyMaker
from tilec.compile.process import WorkerProcess
from tilec.frontends.base import ToolSearch
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec.testing.fakes import FakeFrontend, MemoryObserver
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target

FRONTENDS = {"fake": "tilec.testing.fakes:FakeFrontend"}
PLACE = Location(file="k.fake", line=1, column=8)
DECL = KernelDecl(
    name="add",
    qualified="add",
    location=PLACE,
    params=(ParamDecl(name="x", kind="tensor", dtype="f32", location=PLACE),),
)


class Project:
    """A directory with `k.fake`, a cache, and everything that a pool needs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "k.fake").write_text("kernel add(x: tensor)\n")
        self.observer = MemoryObserver()
        self.cache = Cache(root / "cache", note=self.observer.note)
        self.counter = root / "count.txt"

    def source(self, **options: Any) -> Source:
        options.setdefault("count", str(self.counter))
        return Source(root=str(self.root), path="k.fake", options=tuple(sorted(options.items())))

    def job(
        self, bm: int = 64, *, target: str = "sm_90", timeout: float = 20.0, **options: Any
    ) -> Job:
        spec = KernelSpec(
            name="add",
            language="fake",
            source=self.source(**options),
            decl=DECL,
            symbol="add",
            params=(),
            timeout=timeout,
        )
        return Job(
            spec=spec,
            variant=Variant(kernel="add", id=f"add-BM{bm}", axes=(("BM", bm),)),
            target=Target.parse(target),
        )

    def keyed(self, *jobs: Job) -> list[KeyedJob]:
        frontend = FakeFrontend(ToolSearch())
        found = []
        for job in jobs:
            inputs = frontend.inputs(job.spec.source)
            maker = KeyMaker(tools={"fake": frontend.toolchain()}, inputs={"add": inputs})
            found.extend(maker.keyed([job]))
        return found

    def pool(self, *, workers: int = 1, grace: float = 0.1, **changes: Any) -> JobRunner:
        settings: dict[str, Any] = {
            "frontends": FRONTENDS,
            "search": ToolSearch(),
            "cache": self.cache,
            "workers": workers,
            "observer": self.observer,
            "spool": self.root / "spool",
            "kept": self.root / "kept",
            "grace": grace,
        }
        return JobRunner(**{**settings, **changes})

    @property
    def compiled(self) -> list[str]:
        """The id of every job that a compiler was called for, in any process."""
        return self.counter.read_text().split() if self.counter.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that a worker writes its process id to when it hangs.

    Its time limit passes at once then: the limits of jobs may be as generous as a slow machine
    needs.
    """
    pids, receive = tmp_path / "pids", WorkerProcess.receive

    def hangs(worker: WorkerProcess) -> bool:
        text = pids.read_text() if pids.exists() else ""
        return text.endswith("\n") and worker.pid == int(text.split()[0])

    def receive_or_time_out(worker: WorkerProcess, timeout: float) -> Any:
        while (message := receive(worker, 0.01)) is None and not hangs(worker):
            pass
        return message

    monkeypatch.setattr(WorkerProcess, "receive", receive_or_time_out)
    return pids
