"""`tilec bench` with planned times: what is written and refused, and how it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench_samples import (
    BENCH,
    GIVEN,
    H200,
    PlannedDevice,
    app,
    bound,
    manifest,
    opened,
)
from tilec.bench.measure import ClockReading
from tilec.cli import bench_run
from tilec.cli.bench_run import Files, measure_cases
from tilec_runtime.errors import OutputError, UsageError

AGAINST = BENCH + ', against = ["numpy:add(x, y)", "torch:add(x, y)"]'
CASES = (("4k", 4096, AGAINST), ("bare", 1003, BENCH))
Plan = Callable[[str, int], float]


def times(case: str, _measured: int) -> float:
    return {"4k": 13.0e-6, "bare": 250e-6, "other": 1e-3}[case]


@dataclasses.dataclass
class Desk:
    """Somebody's project, in which they measure."""

    root: Path
    cases: tuple[tuple[str, int, str], ...] = CASES

    def bench(
        self,
        plan: Plan = times,
        *,
        json: bool = False,
        device: PlannedDevice | None = None,
        **given: Any,
    ) -> tuple[int, PlannedDevice]:
        found = manifest(*self.cases, root=self.root)
        here = app(self.root, json=json)
        wish = dataclasses.replace(GIVEN, **given)
        files = Files(here, types.SimpleNamespace(manifest=found), wish)  # type: ignore[arg-type]
        device = device or PlannedDevice(plan)
        plan = bench_run.BenchPlan(cases=[(case, None) for case in bound(found)])
        return measure_cases(here, wish, files, device, opened(), plan, found), device


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def slower(case: str, measured: int) -> float:
    return times(case, measured) * (1.08 if case == "4k" else 1.0)


def test_the_gate_fails_a_case_that_is_slower_twice(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.bench(save="main")[0] == 0
    assert capsys.readouterr().out.endswith("\nsaved 2 cases as .tilec/bench/main.json\n")
    code, device = desk.bench(slower, against_saved="main", fail_slower=0.05, against=False)
    assert code == 1
    assert device.measured == ["4k", "4k", "bare"]
    assert "1 slower, 1 same" in capsys.readouterr().out
    # Without the gate it is told all the same.
    assert desk.bench(slower, against_saved="main", against=False)[0] == 0


def test_the_gate_passes_a_case_that_was_slower_once(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.bench(save="main")
    code, _ = desk.bench(
        lambda case, n: times(case, n) * (1.5 if n == 0 else 1.0),
        against_saved="main",
        fail_slower=0.05,
    )
    shown = capsys.readouterr().out
    assert code == 0
    assert "+0.0% against saved (-0.2% to +0.2%): same when measured again, not at first" in shown
    assert shown.splitlines()[-1] == "ok: 2 cases compared with saved times, 5% allowed: 2 same"
    assert shown.count("  numpy:add(x, y)") == 2  # once in each run


def test_a_run_that_fails_is_not_saved_over_what_it_failed_against(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.bench(save="main")
    before = (desk.root / ".tilec/bench/main.json").read_bytes()
    assert desk.bench(slower, against_saved="main", save="main", fail_slower=0.05)[0] == 1
    assert (desk.root / ".tilec/bench/main.json").read_bytes() == before
    assert "nothing was saved as .tilec/bench/main.json" in capsys.readouterr().err


def test_cases_that_are_not_measured_stay_saved_and_are_named(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.bench(save="main")
    desk.cases = (("4k", 4096, BENCH),)
    desk.bench(save="main")
    assert (
        "saved 1 case as .tilec/bench/main.json, and kept 1 saved before" in capsys.readouterr().out
    )
    desk.cases = (("other", 4096, BENCH), ("4k", 8192, BENCH))
    assert desk.bench(against_saved="main", fail_slower=0.05)[0] == 1
    shown = capsys.readouterr().out
    assert "not compared: add/other: there are no saved times of it\n" in shown
    assert "not compared: add/4k: its inputs have changed\n" in shown
    assert "saved, but not measured in this run: add/bare\n" in shown
    assert "FAIL: 0 cases compared with saved times, 5% allowed: nothing to compare" in shown


def test_measurements_of_another_place_are_refused(desk: Desk) -> None:
    desk.bench(save="main")
    elsewhere = dataclasses.replace(
        H200, device="NVIDIA A100", multiprocessors=108, driver="570.1", cold=False
    )
    device = PlannedDevice(times, setting=elsewhere)
    with pytest.raises(UsageError) as caught:
        desk.bench(device=device, against_saved="main")
    assert device.measured == []
    assert str(caught.value) == (
        ".tilec/bench/main.json holds times of another device or state: device 'Fake H200', now 'NVIDIA A100'; multiprocessors 132, now 108; "
        "driver '580.95.05', now '570.1'; L2 cache cold, now hot\n"
        "  cause: the times are not comparable\n"
        "  fix: save new times here with --save"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "main.json holds no saved measurements: Expecting property name"),
        ("[]", "main.json holds no saved measurements"),
        ('{"kind": "other"}', "main.json holds no saved measurements"),
        (
            '{"kind": "tilec-bench", "schema_version": 9}',
            "is of schema version 9, and this tilec reads 1",
        ),
        (
            '{"kind": "tilec-bench", "schema_version": 1}',
            "is damaged: Object missing required field `setting`",
        ),
        ("\x00\xff", "holds no saved measurements"),
    ],
)
def test_files_that_are_none_are_refused(desk: Desk, text: str, said: str) -> None:
    path = desk.root / ".tilec" / "bench" / "main.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        desk.bench(against_saved="main")
    with pytest.raises(UsageError):  # nor is something written over that nobody can read
        desk.bench(save="main")
    assert path.read_text(encoding="latin-1") == text


def test_a_name_that_was_never_saved_says_what_was(desk: Desk) -> None:
    desk.bench(save="main")
    with pytest.raises(UsageError) as caught:
        desk.bench(against_saved="mian")
    assert caught.value.what == "nothing was saved as .tilec/bench/mian.json; did you mean 'main'"
    with pytest.raises(UsageError, match="'a b' is no valid name"):
        desk.bench(save="a b")


# ruff: noqa: E501 - a row of a table is a line
MARKDOWN = """\
**tilec bench** on Fake H200, driver 580.95.05

| case | time | 95% | launch | GB/s | TFLOP/s | of max | variant | against saved | against |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
| add/4k | 14.0 us | ±0.1% | 3.40 us | 3.50 | <0.01 | 88% mem | add-a16 | +8.0% slower | numpy:add(x, y): 21.37x as long (21.35 to 21.39); torch:add(x, y): not measured |
| add/bare | 250.0 us | ±0.1% | 3.40 us | 0.05 | <0.01 | 1% mem | add-a16 | +0.0% same |  |
"""


def test_a_table_for_comments(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.bench(save="ci/h200.json")
    desk.bench(slower, against_saved="ci/h200.json", markdown="bench.md")
    assert (desk.root / "bench.md").read_text() == MARKDOWN
    assert "wrote bench.md" in capsys.readouterr().out
    assert not (desk.root / ".tilec").exists()


def test_json_holds_every_sample_and_where_it_was_measured(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.bench(save="main")
    capsys.readouterr()
    code, _ = desk.bench(slower, json=True, against_saved="main", fail_slower=0.05)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["ok"], found["kind"], found["schema_version"]) == (1, False, "bench", 1)
    assert found["setting"] == dataclasses.asdict(H200)
    assert found["ceilings"]["products"] == {"bf16": 785e12, "f32": 400e12}
    first = found["cases"][0]
    assert (first["name"], len(first["image"]), first["host_seconds"]) == ("add/4k", 64, 3.4e-6)
    assert first["time"]["median"] == pytest.approx(14.04e-6)
    assert len(first["time"]["samples"]) >= 30
    assert (first["work"]["bytes"], first["work"]["dtype"]) == (49152, "f32")
    assert first["rates"]["bound"] == "memory"
    assert first["against"][0]["ratio"] == pytest.approx(300 / 14.04, rel=1e-3)
    assert first["against"][1]["reason"] == "torch is not installed"
    assert (first["change"]["standing"], first["change"]["same_image"]) == ("slower", True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"markdown": "file/bench.md"}, OutputError),
        ({"save": "file/x.json"}, OutputError),
        ({"markdown": "."}, UsageError),
        ({"markdown": "/dev/stdout"}, UsageError),
        ({"save": "./pipe"}, UsageError),
    ],
)
def test_refuses_places_before_it_measures(
    desk: Desk, given: dict[str, str], error: type[Exception]
) -> None:
    (desk.root / "file").write_text("")
    os.mkfifo(desk.root / "pipe")
    device = PlannedDevice(times)
    with pytest.raises(error):
        desk.bench(device=device, **given)
    assert device.measured == []


def test_tells_what_makes_times_doubtful(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    hot = PlannedDevice(
        times,
        reading=ClockReading(sm=1500, memory=3201, held_back=("heat",)),
        clocks_missing="the clocks cannot be read: x",
    )
    desk.bench(device=hot, samples=6, seconds=0.0)
    shown = capsys.readouterr().out
    assert "note: the clocks cannot be read: x\n" in shown
    assert "clocks were throttled (heat) during add/4k, add/bare\n" in shown


def test_cases_that_cannot_run_there_are_skipped_and_none_at_all_is_no_measurement(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = desk.bench(device=PlannedDevice(times, refused={"4k": "it needs a GPU"}))
    shown = capsys.readouterr().out
    assert code == 0
    assert "add/4k                  skip\n" in shown
    assert "skipped add: it needs a GPU\n" in shown
    assert (
        desk.bench(
            device=PlannedDevice(times, refused=dict.fromkeys(("4k", "bare"), "it needs a GPU")),
            save="main",
        )[0]
        == 3
    )
    assert not (desk.root / ".tilec" / "bench").exists()


def test_a_case_that_goes_wrong_costs_itself_alone(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.cases = (("4k", 4096, 'bytes = "z.size // (x.size - y.size)"'), ("bare", 1003, BENCH))
    code, device = desk.bench(save="main")
    shown = capsys.readouterr().out
    assert code == 1
    assert device.measured == ["bare"]
    assert "ERROR" in shown
    assert "add/4k: bench.bytes = 'z.size // (x.size - y.size)'" in shown
    assert "\n  tilec.toml:" in shown, "a place is said from where one works"
    assert "1 case could not be measured" in shown
    assert not (desk.root / ".tilec" / "bench" / "main.json").exists()


def test_a_rival_that_raises_is_no_failure_of_the_kernel(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.cases = (("4k", 4096, BENCH + ', against = ["numpy:matmul(x, y.reshape(3, 3))"]'),)
    assert desk.bench()[0] == 0
    assert (
        "not measured: it raised ValueError: cannot reshape array of size 4096 into shape (3,3)"
        in capsys.readouterr().out
    )


def test_functions_of_a_file_are_rivals_too(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    (desk.root / "mine.py").write_text(
        "def twice(x, y):\n    return x + y\n\n\ndef other(q):\n    return q\n"
    )
    desk.cases = (("4k", 4096, BENCH + ', against = ["numpy:mine.py:twice"]'),)
    assert desk.bench()[0] == 0
    assert "  numpy:mine.py:twice   300.0 us" in capsys.readouterr().out
    desk.cases = (("4k", 4096, BENCH + ', against = ["numpy:mine.py:other"]'),)
    assert desk.bench()[0] == 1
    assert (
        "rival 'other' does not fit: it takes 'q', which is no input of the case"
        in capsys.readouterr().out
    )
    desk.cases = (("4k", 4096, BENCH + ', against = ["numpy:mine.py:twise"]'),)
    assert desk.bench()[0] == 1
    assert "mine.py has no function 'twise'; did you mean 'twice'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--fail-slower", "5%"), "--fail-slower needs --against-saved"),
        (
            ("--fail-slower", "fast", "--against-saved", "x"),
            "'fast' is not a positive percentage: write 5%",
        ),
        (
            ("--fail-slower", "0%", "--against-saved", "x"),
            "'0%' is not a positive percentage: write 5%",
        ),
        (("--samples", "2"), "2 is not in the range"),
        (("--seconds", "-1"), "-1.0 is not in the range"),
        (("--seconds", "soon"), "'soon' is not a valid float range"),
        *(
            ((option, ""), f"Invalid value for '{option}': the value is empty")
            for option in ("--save", "--against-saved", "--markdown", "--bundle")
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(cli, args: tuple[str, ...], said: str) -> None:
    ran = cli("bench", *args)
    assert ran.code == 2
    assert said in ran.err
