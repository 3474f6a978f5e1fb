"""Which target is tuned for: what the device runs, of those that the project has."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tilec.manifest.load import load_text
from tilec.manifest.types import Manifest
from tilec.testing.fake_driver import H200
from tilec.tune.targets import target_for
from tilec_runtime.cpu.driver import CPU
from tilec_runtime.errors import UsageError

HEAD = 'edition = 1\n[package]\nname = "a"\nversion = "1.0"\n[targets]\ndefault = [{}]\ngroups.more = [{}]\n[kernel.k]\nsource = "k.py"\n'
B200 = dataclasses.replace(H200, name="B200", cc=(10, 0))


def project(*default: str, more: str = "sm_80", jit: str = "deny") -> Manifest:
    text = HEAD.format(", ".join(f'"{name}"' for name in default), f'"{more}"')
    text = text.replace("[kernel.k]", f'jit-fallback = "{jit}"\n[kernel.k]')
    return load_text(text, Path("tilec.toml"), languages={"tile": (".py",)})


@pytest.mark.parametrize(
    ("default", "more", "device", "found"),
    [
        (("sm_80", "sm_90"), "sm_100", H200, "sm_90"),
        (("sm_80",), "sm_90", H200, "sm_90"),
        (("sm_90", "sm_90a"), "sm_80", H200, "sm_90a"),
        (("sm_80", "compute_80", "tileir"), "sm_80", H200, "compute_80"),
        (("sm_90", "tileir"), "sm_80", CPU, "tileir"),
        (("sm_80", "compute_80", "compute_90"), "sm_80", B200, "compute_90"),
    ],
)
def test_the_best_of_the_project_that_the_device_runs(default, more, device, found) -> None:
    assert str(target_for(project(*default, more=more, jit="allow"), "k", device, "")) == found


def test_tunes_for_ptx_only_where_jit_fallback_allows_it() -> None:
    found = project("sm_80", "compute_80", "lto_80", "tileir")
    with pytest.raises(
        UsageError, match=r"cannot be tuned on .*: no target of this project runs there"
    ) as caught:
        target_for(found, "k", H200, "")
    assert caught.value.fix.startswith("add sm_90 to [targets]; ")
    with pytest.raises(
        UsageError,
        match=r"--target compute_80: .* would have to compile it at load, and jit-fallback is deny",
    ) as caught:
        target_for(found, "k", H200, "compute_80")
    assert caught.value.fix == 'say jit-fallback = "allow" in [targets], or tune for machine code'
    with pytest.raises(UsageError, match="--target lto_80 does not run on device 0"):
        target_for(project("lto_80", jit="allow"), "k", H200, "lto_80")


def test_without_a_device_the_only_machine_code_is_meant() -> None:
    assert str(target_for(project("sm_80", "tileir"), "k", None, "")) == "sm_80"
    with pytest.raises(UsageError) as caught:
        target_for(project("sm_90", "sm_100"), "k", None, "")
    assert (
        caught.value.what
        == "this project has 3 targets that are machine code: say which to tune for"
    )
    assert caught.value.fix.startswith("--target sm_100;")


@pytest.mark.parametrize(
    ("wanted", "device", "said"),
    [
        ("sm_91", None, "--target: unknown architecture"),
        ("sm_100", None, "--target sm_100 is no target of this project"),
        ("sm_80", H200, "--target sm_80 does not run on device 0 (Fake H200)"),
        ("sm_90", CPU, "--target sm_90 does not run on the cpu device"),
    ],
)
def test_a_target_that_does_not_do_is_refused(wanted: str, device, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        target_for(project("sm_80", "sm_90"), "k", device, wanted)
    assert said in caught.value.what
