"""`tilec tune` as far as it goes without compiling: durations, options that do not go together,
devices, and how results are shown.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
import pytest

from tests.tune_samples import kernel_with
from tilec.bench.measure import Measurement
from tilec.bench.statistics import ratio_of
from tilec.cli import tune_show
from tilec.cli.app import App
from tilec.cli.settings import Settings
from tilec.cli.tune import duration
from tilec.cli.tune_flow import _devices
from tilec.model.tuning import Status, TuningRecord
from tilec.testing.fake_driver import H200, FakeDriver
from tilec.tune.session import CaseResult
from tilec.tune.space import Space
from tilec.tune.trial import Trial
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import NoDeviceError

OTHER = dataclasses.replace(H200, ordinal=1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("90", 90.0),
        ("10m", 600.0),
        ("10min", 600.0),
        ("1h30m", 5400.0),
        ("0.5h", 1800.0),
        ("1m 5s", 65),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "soon", "5d", "m", "1e9h", "40000h"])
def test_refuses_times_that_cannot_be_read(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration: write 90s, 10m or 1h30m"):
        duration(text)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a KERNEL to tune, or a kit with --measure"),
        (("gemm", "--measure", "k.tune"), "--measure takes all from the kit"),
        (("--measure", "k.tune", "--target", "sm_90"), "--measure takes all from the kit"),
        (("gemm", "--prepare", "--resume"), "--prepare only writes a kit"),
        (("gemm", "-o", "x.tune"), "--out needs --prepare"),
        (
            ("gemm", "add", "--record", "x.json"),
            "--record names one file: tune one kernel at a time",
        ),
        (("gemm", "add", "--prepare", "-o", "x.tune"), "--out names one file"),
        (("gemm", "--budget", "soon"), "'soon' is not a duration"),
        (("gemm", "--max-candidates", "0"), "0 is not in the range"),
        (("gemm", "--search", "best"), "'best' is not one of"),
    ],
)
def test_options_that_do_not_go_together_are_refused(cli, args: tuple[str, ...], said: str) -> None:
    ran = cli("tune", *args)
    assert ran.code == 2
    assert said in ran.err


def test_a_kit_that_is_none_is_refused(cli, tmp_path: Path) -> None:
    assert "k.tune is no kit: no such file" in cli("tune", "--measure", "k.tune").err
    (tmp_path / "k.tune").write_bytes(b"something else")
    ran = cli("tune", "--measure", "k.tune")
    assert ran.code == 2
    assert "k.tune is no kit: the file is damaged, or of another kind" in ran.err


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver(devices=(H200, OTHER))
    monkeypatch.setattr(_driver, "driver", lambda: driver)
    return driver


def test_all_gpus_of_one_kind_share_the_work(gpus: FakeDriver) -> None:
    assert [name for name, _ in _devices(())] == ["cuda:0", "cuda:1"]
    assert [name for name, _ in _devices(("cuda:1", "cuda:0"))] == ["cuda:1", "cuda:0"]
    gpus.devices = (H200, dataclasses.replace(OTHER, name="Other"))
    assert [name for name, _ in _devices(())] == ["cuda:0"]


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_it_says_what_can_be_done() -> None:
    with pytest.raises(NoDeviceError) as caught:
        _devices(())
    assert (
        caught.value.what
        == "tuning needs a GPU (cuda:0): the CUDA driver (libcuda) cannot be loaded: not found"
    )
    assert "tilec tune --prepare" in caught.value.fix
    assert "--device cpu" in caught.value.fix


def app(tmp_path: Path, **kwargs: bool) -> App:
    return App(settings=Settings(cwd=tmp_path), **kwargs)


def result_of(space: Space) -> CaseResult:
    wrong, best, second = (
        Trial(case=space.case.name, point=point, status=Status.MEASURED) for point in space.points
    )
    wrong = dataclasses.replace(wrong, status=Status.WRONG, reason="c[0] is 1, expected 2")
    fast = Measurement(
        samples=(8.123e-4,) * 29 + (5e-3,), launches=1, steady=True, held_back=("power",)
    )
    slow = Measurement(samples=(9e-4,) * 30, launches=1, steady=False)
    best = dataclasses.replace(best, measurement=fast)
    second = dataclasses.replace(second, measurement=slow)
    pairs = ratio_of(fast.samples[:29], slow.samples[:29])
    return CaseResult(
        space=space,
        at=(),
        best=best,
        second=second,
        runoff=pairs,
        pairs=29,
        trials=(wrong, best, second),
        untried=2,
        why_untried="x",
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "project/tuning/gemm.json",
            'commit it and add to [kernel.gemm.dispatch]: table = "tuning/gemm.json"',
        ),
        (
            "project/gpu/h200.json",
            'commit it and add to [kernel.gemm.dispatch]: table = "gpu/h200.json"',
        ),
        (
            "project/../h200.json",
            'copy it into the project, commit it and add to [kernel.gemm.dispatch]: table = "h200.json"',
        ),
        (
            "tuning/gemm.json",
            'copy it into the project, commit it and add to [kernel.gemm.dispatch]: table = "tuning/gemm.json"',
        ),
    ],
)
def test_a_record_is_named_as_the_manifest_finds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, said: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "tilec.toml").write_text("")
    record = TuningRecord(
        kernel="gemm",
        kernel_digest="a" * 64,
        space_digest="b" * 64,
        toolchain=(),
        sizes=(),
        devices=(),
    )
    here = dataclasses.replace(app(tmp_path), directory="project")
    tune_show.print_record(here, tmp_path / path, record, kernel_with())
    assert capsys.readouterr().out.splitlines()[-1] == f"to build with it, {said}"
