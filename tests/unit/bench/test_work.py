"""Rates, ceilings, and which of them bounds a launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilec.bench import ceilings
from tilec.bench.ceilings import NO_TORCH, Ceilings, keep_ceilings, known_ceilings, path_of, read_ceilings
from tilec.bench.work import NO_RATES, Work, amount_of, rates_of
from tilec.testing.fake_driver import H200, FakeDriver

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


@pytest.mark.parametrize(("value", "amount"), [(3, 3.0), (2.5, 2.5), (0, 0.0), (-1, None), (True, None), (float("inf"), None), ("x", None)])
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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "copy": -1, "products": {}, "by": ""}'])
def test_ceilings_that_cannot_be_read_are_measured_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    assert read_ceilings(path) is None


def test_a_copy_is_measured_where_there_is_no_torch_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "COPY", 1 << 10)  # the fake driver copies for real
    driver, path = FakeDriver(devices=(H200,)), tmp_path / "devices" / "c.json"
    ticks = iter(range(10_000))
    found = known_ceilings(path, H200, driver, None, {}, clock=lambda: float(next(ticks)))
    assert found.copy is not None
    assert (dict(found.products), found.missing) == ({}, NO_TORCH)
    copies = driver.calls.count("copy_async")
    assert copies > 0
    assert known_ceilings(path, H200, driver, None, {}, clock=lambda: float(next(ticks))) == found
    assert driver.calls.count("copy_async") == copies


def test_behind_products_a_gpu_rests_and_behind_kept_ones_it_need_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first case would be held back for the power that they took."""
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_args, **_more: DEVICE)
    driver, path, rested = FakeDriver(devices=(H200,)), tmp_path / "c.json", []
    for _ in range(2):
        assert known_ceilings(path, H200, driver, object(), {}, clock=lambda: 0.0, rest=rested.append) == DEVICE
    assert rested == [ceilings.REST]


def test_a_cache_that_cannot_be_written_costs_measuring_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep_ceilings(tmp_path / "file" / "c.json", DEVICE, {})
    assert (tmp_path / "file").read_text() == ""


def test_a_device_that_refuses_has_no_ceilings(tmp_path: Path) -> None:
    driver = FakeDriver(devices=(H200,))
    driver.fail = {"allocate": "CUDA_ERROR_OUT_OF_MEMORY"}
    found = known_ceilings(tmp_path / "c.json", H200, driver, None, {}, clock=lambda: 0.0)
    assert found.copy is None
    assert found.missing.startswith("they cannot be measured: ")
    assert not (tmp_path / "c.json").exists()
