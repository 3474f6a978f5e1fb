"""`tilec bench` from its command line to a device: a pretended GPU whose launches take time by
number, the cpu device, and none.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bench_samples import BENCH, CASE, HEAD
from tests.bundle_samples import write_kernels
from tests.runtime_samples import ADD, fake_driver
from tilec.bench import device as bench_device
from tilec.bench.ceilings import measure_ceilings
from tilec.bench.clocks import Clocks
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import MissingError

EACH = 50e-6  # seconds of a launch


class TimedDriver(FakeDriver):
    """A pretended GPU: between two marks, each launch took as long as any other, and copies moved 4
    GB/s.
    """

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        super().record_event(ordinal, event, stream, since)
        self.__dict__.setdefault("marks", {})[event] = (
            len(self.launches),
            self.calls.count("copy_async"),
        )

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        launches, copies = (
            after - before for before, after in zip(self.marks[start], self.marks[end], strict=True)
        )
        return launches * EACH + copies * 0.5


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that was built elsewhere: manifest and bundle."""
    cases = CASE.format(
        name="4k", size=4096, bench=BENCH + ', against = ["torch:add(x, y)"]'
    ) + CASE.format(name="odd", size=1003, bench=BENCH)
    (tmp_path / "tilec.toml").write_text(HEAD + cases)
    (tmp_path / "add.cu").write_text("")  # nothing is built of it
    write_kernels(tmp_path / "sample.tilec", ADD)
    return tmp_path


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = TimedDriver((dataclasses.replace(H200, l2=1 << 18),), fake_driver(ADD).kernels)

    def missing(name: str, *_: object) -> None:
        raise MissingError(f"{name} is not installed")

    monkeypatch.setattr(_driver, "driver", lambda: driver)
    monkeypatch.setattr(bench_device, "Clocks", lambda _uuid: Clocks("", object()))
    monkeypatch.setattr(bench_device, "uuid_of", lambda _ordinal: "GPU-1")
    monkeypatch.setattr(bench_device, "open_library", missing)
    monkeypatch.setattr("tilec.bench.ceilings.COPY", 1 << 20)
    monkeypatch.setattr(
        bench_device,
        "measured_apart",
        lambda _name: measure_ceilings(
            driver.device(0), driver, MissingError("no torch"), clock=time.perf_counter
        ),
    )
    return driver


BARE = ("--bundle", "sample.tilec", "--no-against")


def test_on_a_gpu_graphs_of_launches_on_other_memory_are_timed(
    cli: Any, project: Path, gpu: FakeDriver
) -> None:
    ran = cli("bench", *BARE, "--json", "--samples", "30", "--save", "main")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["setting"] == {
        "kind": "cuda",
        "device": "Fake H200",
        "multiprocessors": 132,
        "driver": "CUDA 13.0",
        "cold": True,
    }
    assert found["ceilings"]["copy"] == pytest.approx(2 * (1 << 20) / 0.5)
    first, odd = found["cases"]
    assert (first["variant"], first["l2"], odd["variant"], odd["l2"]) == (
        "add-a16",
        "rotated",
        "add",
        "rotated",
    )
    for case in (first, odd):
        assert case["time"]["median"] == pytest.approx(EACH)
        assert case["time"]["launches_per_sample"] == 40
        assert case["host_seconds"] > 0
    assert first["rates"]["bytes_per_second"] == pytest.approx(3 * 4 * 4096 / EACH)
    assert gpu.calls.count("launch_graph") > 60
    ran = cli("bench", *BARE, "--samples", "30", "--against-saved", "main", "--fail-slower", "5%")
    assert (ran.code, ran.out.splitlines()[-1]) == (
        0,
        "ok: 2 cases compared with saved times, 5% allowed: 2 same",
    )
    ran = cli("bench", *BARE, "--samples", "30", "--hot", "--against-saved", "main")
    assert ran.code == 2
    assert "L2 cache cold, now hot" in ran.err
    assert "pass --cold or --hot as for the saved times" in ran.err


CHAIN = """
[chain.twice]
steps = ["add(z, x, y)", "add(x, z, y)"]
[chain.twice.case.4k]
inputs.x = { shape = [4096] }
inputs.y = { shape = [4096], seed = 1 }
inputs.z = { shape = [4096], dist = "empty" }
bench = { bytes = "6 * nbytes(x)", flops = "2 * x.size", against = ["torch:add(add(x, y), y)"] }
"""


def test_a_chain_is_timed_as_one_launch_of_all_its_steps(
    cli: Any, project: Path, gpu: FakeDriver
) -> None:
    manifest = project / "tilec.toml"
    manifest.write_text(manifest.read_text() + CHAIN)
    ran = cli("bench", "twice", *BARE, "--json", "--samples", "30", "--save", "main")
    assert ran.code == 0, ran.err
    (case,) = json.loads(ran.out)["cases"]
    assert (case["name"], case["variant"], case["l2"]) == (
        "twice/4k",
        "add-a16 -> add-a16",
        "rotated",
    )
    assert case["time"]["median"] == pytest.approx(2 * EACH)  # each step is a launch
    assert case["time"]["launches_per_sample"] == 20
    assert case["rates"]["bytes_per_second"] == pytest.approx(6 * 4 * 4096 / (2 * EACH))
    again = cli(
        "bench", "twice", *BARE, "--samples", "30", "--against-saved", "main", "--fail-slower", "5%"
    )
    assert (again.code, again.out.splitlines()[-1]) == (
        0,
        "ok: 1 case compared with saved times, 5% allowed: 1 same",
    )


def test_a_sweep_measures_a_case_at_each_size(cli: Any, project: Path, gpu: FakeDriver) -> None:
    sizes = ("--case", "odd", "--sweep", "n=1003,2006,4112", "--set", "x=[n]")
    ran = cli("bench", *BARE, *sizes, "--samples", "6", "--save", "main", "--html", "sweep.html")
    assert ran.code == 0, ran.err
    rows = [line.split()[1:4] for line in ran.out.splitlines() if line.startswith("add/odd n=")]
    assert rows == [["n=1003", "50.0", "us"], ["n=2006", "50.0", "us"], ["n=4112", "50.0", "us"]]
    assert "wrote sweep.html: 3 cases" in ran.out
    assert "<h2>add/odd by n</h2>" in (project / "sweep.html").read_text()
    again = json.loads(
        cli("bench", *BARE, *sizes, "--samples", "6", "--json", "--against-saved", "main").out
    )
    assert again["sweep"] == {"name": "n", "values": ["1003", "2006", "4112"]}
    assert [case["name"] for case in again["cases"]] == [
        f"add/odd n={n}" for n in (1003, 2006, 4112)
    ]
    assert again["cases"][2]["point"] == {"case": "add/odd", "at": "4112", "variant": None}
    assert [case["work"]["flops"] for case in again["cases"]] == [1003, 2006, 4112]
    assert all(case["change"]["standing"] == "same" for case in again["cases"])


def test_points_that_the_kernel_refuses_are_left_out_as_long_as_some_are_not(
    cli: Any, project: Path, gpu: FakeDriver
) -> None:
    text = (
        (project / "tilec.toml")
        .read_text()
        .replace('inputs.y = { shape = ["x.shape[0]"]', "inputs.y = { shape = [1003]")
    )
    (project / "tilec.toml").write_text(text)
    ran = cli(
        "bench",
        *BARE,
        "--case",
        "odd",
        "--sweep",
        "n=1003,2006",
        "--set",
        "x=[n]",
        "--samples",
        "6",
    )
    assert ran.code == 0, ran.err
    assert "skipped add: n=2006: " in ran.out
    ran = cli(
        "bench",
        *BARE,
        "--case",
        "odd",
        "--sweep",
        "n=2006,4012",
        "--set",
        "x=[n]",
        "--samples",
        "6",
        "--json",
    )
    assert (ran.code, {case["status"] for case in json.loads(ran.out)["cases"]}) == (1, {"skipped"})


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--sweep", "m=1,2"), "--sweep m=1,2: kernel add has no parameter or axis 'm'"),
        (("--sweep", "x=1,2"), "--sweep x=1,2: add takes a tensor for x"),
        (("--sweep", "n=1,2", "--set", "x=[n,"), "--set x=[n,"),
        (("--sweep", "n=1,2", "--set", "x=[k*n]"), "--set x=[k*n], with n = 1: "),
        (("--sweep", "n=1..2..3"), "'1..2..3' is no range"),
        (("--sweep", ""), "'--sweep': the value is empty"),
        (("--sweep", "n=1,2", "--sweep", "m=1,2"), "'--sweep': give one sweep"),
        (("--set", "q=1"), "--set q=1: kernel add has no parameter or axis 'q'"),
        (("--html", "bench.txt"), "bench.txt: not the name of a .html file"),
    ],
)
def test_sweeps_that_are_none_measure_nothing(
    cli: Any, project: Path, gpu: FakeDriver, args: tuple[str, ...], said: str
) -> None:
    before = sorted(project.iterdir())
    ran = cli("bench", *BARE, *args)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert (gpu.launches, sorted(project.iterdir())) == ([], before)


def test_memory_and_graphs_are_given_back(cli: Any, project: Path, gpu: FakeDriver) -> None:
    assert cli("bench", *BARE, "--samples", "6", "--case", "odd").code == 0
    assert gpu.calls.count("instantiate_graph") == gpu.calls.count("destroy_executable") > 0
    assert gpu.calls.count("create_stream") == gpu.calls.count("destroy_stream")
    assert gpu.calls.count("create_event") == gpu.calls.count("destroy_event")


def test_a_gpu_that_fails_costs_cases_and_not_the_report(
    cli: Any, project: Path, gpu: FakeDriver
) -> None:
    gpu.fail = {"begin_capture": "CUDA_ERROR_UNKNOWN"}
    ran = cli("bench", *BARE, "--save", "main")
    assert ran.code == 1
    assert "2 cases could not be measured" in ran.out
    assert "Traceback" not in ran.err
    assert not (project / ".tilec" / "bench" / "main.json").exists()


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_nothing_is_measured(cli: Any, project: Path) -> None:
    ran = cli("bench", "--bundle", "sample.tilec")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(
        "error: measuring needs a GPU (cuda:0): the CUDA driver (libcuda) cannot be loaded: not found\n"
        "  cause: none is installed\n  fix: copy the"
    )
    assert "--device cpu" in ran.err
    ran = cli("bench", "--bundle", "sample.tilec", "--json", "--against-saved", "none")
    assert ran.code == 2
    assert json.loads(cli("bench", "--bundle", "sample.tilec", "--json").out)["exit_code"] == 3


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("ad",), "no kernel 'ad'; did you mean 'add'"),
        (("--device", "gpu"), "'gpu' is no device"),
        (("-k", "gemm/*"), "no case matches"),
        (("--save", "a b"), "'a b' is no valid name"),
        (("--bundle", "other.tilec"), "other.tilec"),
    ],
)
def test_refuses_unknown_kernels_devices_and_files(
    cli: Any, project: Path, args: tuple[str, ...], said: str
) -> None:
    ran = cli("bench", "--bundle", "sample.tilec", "--device", "cpu", *args)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert not (project / ".tilec").exists()


@pytest.mark.usefixtures("no_driver")
def test_a_rival_that_is_none_is_refused_where_it_is_written(cli: Any, project: Path) -> None:
    text = (
        (project / "tilec.toml")
        .read_text()
        .replace('"torch:add(x, y)"', '"torch:add(x, y)", "tourch:add(x, y)"')
    )
    (project / "tilec.toml").write_text(text)
    ran = cli("bench", "--bundle", "sample.tilec", "--device", "cpu")
    assert ran.code == 1
    line, column = next(
        (n, row.index('"tourch') + 1)
        for n, row in enumerate(text.splitlines(), 1)
        if "tourch" in row
    )
    assert f"tilec.toml:{line}:{column}: " in ran.err
    assert "unknown library 'tourch'; did you mean 'torch'" in ran.err
    assert ran.out == ""


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("option", ["--hot", "--cold", "--measure-ceilings"])
def test_refuses_options_that_the_cpu_device_ignores(cli: Any, project: Path, option: str) -> None:
    ran = cli("bench", "--bundle", "sample.tilec", "--device", "cpu", option)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {option}: the cpu device has no L2 c")
    assert "leave it out\n" in ran.err


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    "command", [("bench", "--device", "cpu"), ("run", "--device", "cpu"), ("sanitize",)]
)
def test_targets_are_not_ignored_beside_a_bundle(
    cli: Any, project: Path, command: tuple[str, ...]
) -> None:
    ran = cli(*command, "--bundle", "sample.tilec", "--targets", "sm_90")
    assert ran.code == 2
    assert (
        "--targets sm_90: a bundle is built already\n  fix: leave --targets or --bundle out"
        in ran.err
    )
