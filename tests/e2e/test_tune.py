"""`tilec tune` on the cpu device: real compiles and checks; how long candidates take is planted, so
that the best is known. Their worker is in this process, except after Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli, edit, processes_of, write
from tests.waiting import becomes
from tilec.bench.timer import KernelTimer
from tilec.cli import tune_flow
from tilec.cli.main import run
from tilec.tune import wire, worker
from tilec_runtime import load
from tilec_runtime.model import expr

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

HEAD = """edition = 1
[package]
name = "acme"
version = "1.0.0"
[targets]
default = ["tileir", "sm_90"]
[kernel.add]
source = "k/add.py"
launch = { requires = ["x.shape == z.shape"], grid = ["cdiv(z.shape[0], TILE)"] }
[kernel.add.matrix]
TILE = [16, 32, 64, 128]
MODE = [0, 1, 2, 3]
[kernel.add.params]
z = { dtype = "f32", rank = 1, out = true }
x = { dtype = "f32", rank = 1 }
[kernel.add.case.big]
inputs.x = { shape = [4096], dtype = "f32" }
inputs.z = { shape = [4096], dtype = "f32", dist = "empty" }
reference = "k/ref.py:add"
"""
# MODE 1 is wrong, MODE 2 is the code of MODE 0, MODE 3 does not compile, MODE 4 never ends.
ADD = """import cuda.tile as ct


@ct.kernel
def add(z, x, TILE: ct.Constant[int], MODE: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (TILE,)) + 1.0
    if MODE == 1:
        tile = tile + 1.0
    if MODE == 3:
        tile = ct.load(x, (i,), (3,))
    if MODE == 4:
        n = 1
        while n > 0:
            n = n * 1
        tile = tile * n
    ct.store(z, (i,), tile)
"""
REFERENCE = "def add(x):\n    return x + 1\n"
MICROSECONDS = "10 + max(TILE - 64, 64 - TILE)"
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("acme"), HEAD, {"k/add.py": ADD, "k/ref.py": REFERENCE})


@pytest.fixture
def project(built: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, and this process with the environment of the command's."""
    monkeypatch.setenv("TILEC_CACHE_DIR", cli.env["TILEC_CACHE_DIR"])
    return Path(shutil.copytree(built, tmp_path / "acme"))


class PlannedTimer(KernelTimer):
    """Launches that take a time by their tile."""

    def __init__(self, device: Any, driver: Any, make: Any, *, clocks: Any) -> None:
        super().__init__(device, driver, make, clocks=clocks)
        self._axes = dict(make()[0].explain().variant.axes)

    def seconds(self, launches: int) -> float:
        return 1e-6 * launches * float(expr.parse(MICROSECONDS).evaluate(self._axes))


class InProcess:
    """A `Workplace` whose worker is in this process."""

    def __init__(self, name: str, **_rest: object) -> None:
        self.name = name
        self._worker = worker.Worker(name)

    def start(self) -> wire.Ready:
        return self._worker.ready

    def ask(self, request: wire.Request, _limit: float) -> wire.Measured:
        return self._worker.answer(request)

    def stop(self) -> None: ...

    close = stop


@pytest.fixture
def tune(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """The command in this process, with planned times."""
    monkeypatch.setattr(tune_flow, "Workplace", InProcess)
    monkeypatch.setattr(worker, "KernelTimer", PlannedTimer)

    def call(*args: str, code: int = 0) -> str:
        ended = run(["-C", str(project), "tune", *args])
        call.out, call.err = capfd.readouterr()
        assert ended == code, call.out + call.err
        return call.out

    return call


def entry(project: Path) -> dict[str, Any]:
    record = json.loads((project / "tuning" / "add.json").read_text())
    (device,) = record["devices"]
    assert (device["name"], device["cc"], device["target"]) == ("CPU", "0.0", "tileir")
    (found,) = device["entries"]
    assert isinstance(found, dict)
    return found


def taken(project: Path, size: int) -> int:
    """The tile of a launch's variant."""
    x, z = np.ones(size, np.float32), np.zeros(size, np.float32)
    add = load(project / "dist" / "acme-1.0.0.tilec", "cpu").kernels["add"]
    add(z, x)
    assert (z == 2).all()
    return dict(add.explain(z, x).variant.axes)["TILE"]


def statuses(found: dict[str, Any]) -> dict[tuple[int, int], str]:
    return {(c["point"]["TILE"], c["point"]["MODE"]): c["status"] for c in found["candidates"]}


@pytest.mark.parametrize("search", ["halving", pytest.param("bayes", marks=pytest.mark.long)])
def test_the_planted_best_is_found_and_what_is_wrong_is_none(
    tune, project: Path, search: str
) -> None:
    out = tune("add", *CPU, "--search", search)
    found = entry(project)
    assert found["point"]["TILE"] == 64
    assert found["point"]["MODE"] in (0, 2)
    assert (found["case"], found["at"], found["ranges"], found["median_us"]) == (
        "big",
        [4096],
        [[4096, 8191]],
        10.0,
    )
    assert found["variant"] == f"add-TILE64-MODE{found['point']['MODE']}"
    all_of_them = statuses(found)
    assert {all_of_them[tile, 1] for tile in (16, 32, 64, 128)} == {"wrong"}
    assert {all_of_them[tile, 3] for tile in (16, 32, 64, 128)} == {"failed"}
    assert sorted((all_of_them[64, 0], all_of_them[64, 2])) == ["best", "pruned"]
    reasons = " ".join(c["reason"] for c in found["candidates"])
    assert "it does not compile: " in reasons
    assert "the same code and launch as TILE=64" in reasons
    assert "expected" in reasons
    assert "faster than TILE=32" in out
    assert 'table = "tuning/add.json"' in out
    assert "times of the cpu device are no measure of a GPU" in tune.err
    assert (project / ".tilec" / ".gitignore").read_text() == "*\n"
    left = {path.name for path in (project / ".tilec" / "tune" / "add").iterdir()}
    assert left == {"add-tileir-cpu.jsonl", "add-tileir-cpu.lock"}, (
        "candidates and results of references are gone"
    )


def test_a_build_takes_the_record_up(tune, project: Path, cli: Cli) -> None:
    edit(project / "tilec.toml", "MODE = [0, 1, 2, 3]", "MODE = [0]")
    edit(project / "tilec.toml", "TILE = [16, 32, 64, 128]", "TILE = [32, 64]")
    edit(
        project / "tilec.toml",
        "[kernel.add.params]",
        '[kernel.add.dispatch]\ntable = "tuning/add.json"\n[kernel.add.params]',
    )
    build = ("build", "--targets", "tileir", "--select", "add")
    missing = cli(project, *build)
    assert missing.code == 2
    assert "no such file 'tuning/add.json': `tilec tune add` writes it" in missing.err
    tune("add", *CPU, "--search", "grid")
    cli.good(project, *build)
    assert [taken(project, size) for size in (4096, 8191, 9000)] == [64, 64, 32]
    edit(project / "tuning" / "add.json", "8191", "9000")
    again = cli.good(project, *build, "--json").json()
    assert (again["up_to_date"], again["compiled"], taken(project, 9000)) == (False, 0, 64)
    assert (
        "tuned by tuning/add.json: CPU (1 entry)" in cli.good(project, "inspect", "dist/acme").out
    )
    assert "by the tuning table" in (project / "dist" / "acme" / "__init__.pyi").read_text()
    edit(project / "k" / "add.py", "+ 1.0\n    if MODE == 1", "+ 2.0\n    if MODE == 1")
    refused = cli(project, *build)
    assert refused.code == 2
    assert "the kernel has changed since it was tuned" in refused.err
    tune("add", "--confirm", code=2)
    assert (
        "tuning/add.json: the code of TILE=64 MODE=0 for tileir is not the measured code (case big)"
        in tune.err
    )
    edit(project / "k" / "add.py", "+ 2.0\n    if MODE == 1", "+ 1.0  # again\n    if MODE == 1")
    assert cli(project, *build).code == 2
    assert "confirmed" in tune("add", "--confirm")
    cli.good(project, *build)


@pytest.mark.long
def test_a_kit_is_measured_where_no_project_is(tune, project: Path, tmp_path: Path) -> None:
    out = tune("add", "--prepare", "--target", "tileir", "-o", str(tmp_path / "add.tune"))
    assert "12 candidates for tileir" in out
    assert "it does not compile: " in out
    shutil.rmtree(project)
    project.mkdir()
    tune("--measure", str(tmp_path / "add.tune"), *CPU, "--search", "grid")
    found = entry(project)
    assert found["point"] == {"TILE": 64, "MODE": 0}
    assert set(statuses(found).values()) == {"best", "measured", "pruned", "wrong", "failed"}
    tune("--measure", str(tmp_path / "add.tune"), *CPU, "--search", "grid", "--resume")
    (tmp_path / "half.tune").write_bytes((tmp_path / "add.tune").read_bytes()[:5000])
    tune("--measure", str(tmp_path / "half.tune"), *CPU, code=2)
    assert "half.tune is no kit" in tune.err


@pytest.mark.long
def test_ctrl_c_leaves_a_log_and_says_how_to_go_on(project: Path, cli: Cli) -> None:
    """The real command, clock and kernel: the second candidate never ends, so that Ctrl-C comes
    while it runs.
    """
    edit(project / "tilec.toml", "MODE = [0, 1, 2, 3]", "MODE = [0, 4]")
    edit(project / "tilec.toml", "TILE = [16, 32, 64, 128]", "TILE = [16]")
    with cli.start(project, "tune", "add", "--device", "cpu", "--search", "grid") as process:
        log = project / ".tilec" / "tune" / "add" / "add-tileir-cpu.jsonl"
        assert becomes(lambda: log.exists() and log.read_bytes().count(b"\n") > 1, collect=False)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.endswith("interrupted: the results are logged; continue with --resume\n")
    assert "Traceback" not in err
    assert not (project / "tuning").exists()
    assert not processes_of(cli.env["TILEC_CACHE_DIR"])
    before = log.read_bytes()
    log.write_bytes(before + b'{"case":"add/bi')  # as a kill leaves it
    done = cli.good(
        project,
        "tune",
        "add",
        "--device",
        "cpu",
        "--search",
        "grid",
        "--resume",
        "--limit",
        "2s",
        "--json",
    )
    assert log.read_bytes().startswith(before)
    assert log.read_bytes().count(b"\n") == 3
    (kernel,) = done.json()["kernels"]
    assert kernel["ok"]
    assert kernel["device"] == {"kind": "cpu", "name": "CPU", "driver": ""}
    assert [c["status"] for c in kernel["cases"][0]["candidates"]] == ["measured", "hung"]
