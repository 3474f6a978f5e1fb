"""Rates, ceilings, and which of them bounds a launch."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from tilec.bench import apart, ceilings
from tilec.bench.apart import measured_apart
from tilec.bench.ceilings import (
    NO_TORCH,
    Ceilings,
    ceilings_json,
    keep_ceilings,
    known_ceilings,
    measure_ceilings,
    path_of,
    read_ceilings,
)
from tilec.bench.work import NO_RATES, Work, amount_of, rates_of
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime.errors import MissingError

DEVICE = Ceilings(copy=4e12, products={"bf16": 800e12})


def test_a_launch_is_held_against_the_ceiling_that_allows_least() -> None:
    streaming = rates_of(Work(flops=1e9, bytes=12e9, dtype="bf16"), 4e-3, DEVICE)
    assert (streaming.bytes, streaming.flops) == (pytest.approx(3e12), pytest.approx(2.5e11))
    assert (streaming.share, streaming.bound) == (pytest.approx(0.75), "memory")
    product = rates_of(Work(flops=8e12, bytes=1e9, dtype="bf16"), 20e-3, DEVICE)
    assert (product.share, product.bound) == (pytest.approx(0.5), "compute")


def test_without_the_ceiling_that_matters_there_is_no_share() -> None:
    """A product of a dtype that was not measured may be bound by arithmetic; a copy of it may not."""
    assert rates_of(Work(flops=8e12, bytes=1e9, dtype="f8e4m3"), 20e-3, DEVICE).share is None
    assert rates_of(Work(flops=1e9, bytes=12e9, dtype="f8e4m3"), 4e-3, DEVICE).bound == "memory"
    assert rates_of(Work(bytes=12e9), 4e-3, DEVICE).share == pytest.approx(0.75)
    assert rates_of(Work(bytes=12e9), 4e-3, Ceilings(copy=None)).share is None
    assert rates_of(Work(flops=1e9, bytes=12e9), 4e-3).share is None
    assert rates_of(Work(), 4e-3, DEVICE) == NO_RATES


@pytest.mark.parametrize(
    ("value", "amount"),
    [(3, 3.0), (2.5, 2.5), (0, 0.0), (-1, None), (True, None), (float("inf"), None), ("x", None)],
)
def test_what_is_an_amount(value: object, amount: float | None) -> None:
    assert amount_of(value) == amount


def test_ceilings_are_kept_and_read_back(tmp_path: Path) -> None:
    path = path_of(tmp_path, H200, "GPU-1", "580.95.05")
    assert path != path_of(tmp_path, H200, "GPU-1", "595.1")
    assert path != path_of(tmp_path, H200, "GPU-2", "580.95.05")
    assert read_ceilings(path) is None
    keep_ceilings(path, DEVICE, {"device": "H200"})
    assert read_ceilings(path) == DEVICE
    assert json.loads(path.read_text())["device"] == "H200"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2}',
        '{"schema_version": 1, "copy": -1, "products": {}, "by": ""}',
    ],
)
def test_ceilings_that_cannot_be_read_are_measured_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    assert read_ceilings(path) is None


def test_a_copy_is_measured_where_there_is_no_torch_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "COPY", 1 << 10)  # the fake driver copies for real
    driver, path = FakeDriver(devices=(H200,)), tmp_path / "devices" / "c.json"
    ticks = iter(range(10_000))

    def known(*, torch: bool = False) -> Ceilings:
        return known_ceilings(
            path,
            {},
            lambda: measure_ceilings(H200, driver, None, clock=lambda: float(next(ticks))),
            torch_is_there=lambda: torch,
        )

    found = known()
    assert found.copy is not None
    assert (dict(found.products), found.missing) == ({}, NO_TORCH)
    copies = driver.calls.count("copy_async")
    assert copies > 0
    assert known() == found
    assert driver.calls.count("copy_async") == copies
    known(torch=True)  # which may measure products now
    assert driver.calls.count("copy_async") > copies


def test_behind_products_a_gpu_rests_and_behind_kept_ones_it_need_not(tmp_path: Path) -> None:
    """Else the first case would be held back for the power that they took."""
    rested: list[float] = []
    for _ in range(2):
        assert (
            known_ceilings(
                tmp_path / "c.json",
                {},
                lambda: DEVICE,
                torch_is_there=lambda: True,
                rest=rested.append,
            )
            == DEVICE
        )
    assert rested == [ceilings.REST]


def saying(text: str, code: int = 0) -> tuple[str, ...]:
    return (
        sys.executable,
        "-c",
        f"import sys; print({text!r}, file=sys.{'stderr' if code else 'stdout'}); sys.exit({code})",
    )


def test_a_process_of_its_own_measures_them() -> None:
    """Nothing of what it did is left where kernels are measured."""
    assert (
        measured_apart(
            "cuda:0", saying(f"a library says something\n{json.dumps(ceilings_json(DEVICE))}")
        )
        == DEVICE
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (saying("there is no GPU number 7", 1), "there is no GPU number 7"),
        (saying("[]"), "the process that measures them says nothing"),
        (
            saying('{"copy": -1, "products": {}, "by": "", "missing": ""}'),
            "the process that measures them says nothing",
        ),
        (("/no/such/python",), "[Errno 2] No such file or directory: '/no/such/python'"),
    ],
)
def test_a_process_that_gives_none_says_why(command: tuple[str, ...], why: str) -> None:
    assert measured_apart("cuda:0", command) == Ceilings(missing=f"they cannot be measured: {why}")


def test_what_the_process_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = FakeDriver(devices=(H200,))
    monkeypatch.setattr(apart, "driver_of", lambda _name: driver)
    monkeypatch.setattr(
        apart, "measure_ceilings", lambda *_args, **_more: dataclasses.replace(DEVICE, products={})
    )
    for what, missing in (
        ("torch is not installed", NO_TORCH),
        ("torch 2.13.0+cpu sees no GPU", "torch 2.13.0+cpu sees no GPU"),
    ):

        def refuse(*_args: object, what: str = what) -> None:
            raise MissingError(what)

        monkeypatch.setattr(apart, "open_library", refuse)
        assert apart.main(["cuda:0"]) == 0
        assert json.loads(capsys.readouterr().out)["missing"] == missing
    assert apart.main(["cuda:3"]) == 1
    assert capsys.readouterr().err == "there is no device 3: this process sees 1, numbered from 0\n"


def test_a_cache_that_cannot_be_written_costs_measuring_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep_ceilings(tmp_path / "file" / "c.json", DEVICE, {})
    assert (tmp_path / "file").read_text() == ""


def test_ceilings_of_a_device_that_refuses_are_not_kept(tmp_path: Path) -> None:
    path, none = tmp_path / "c.json", Ceilings(missing="they cannot be measured: no memory")
    assert known_ceilings(path, {}, lambda: none, torch_is_there=lambda: True) == none
    assert not path.exists()
