from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.watched_project import IMAGE, INFO, calls, driver, write_ncu, write_project, write_tool
from tilec.cli import launch_case
from tilec.package.write import write_bundle
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import DriverError
from tilec_runtime.model.table import DispatchRule, TuningTable


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    write_project(tmp_path)
    write_ncu(tmp_path)
    fake = driver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    return tmp_path


@pytest.fixture
def profile(cli, folder: Path):
    def call(*args: str, bundle: str = "acme.tilec"):
        env = {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "CUDA_HOME": str(folder),
            "TILEC_CACHE_DIR": "off",
        }
        return cli("profile", *args, *(("--bundle", bundle) if bundle else ()), env=env)

    return call


def test_how_ncu_is_called(profile, folder: Path) -> None:
    assert profile("scale/some", "--set", "basic", "-o", "a.ncu-rep").code == 0
    run = calls(folder)[0]
    at = {word: run[number + 1] for number, word in enumerate(run[:-1])}
    assert (at["--clock-control"], at["--set"], at["--export"]) == (
        "none",
        "basic",
        str(folder / "a.ncu-rep"),
    )
    assert (at["--kernel-name-base"], at["--kernel-name"], at["--launch-count"]) == (
        "mangled",
        "regex:^(scale)$",
        "1",
    )
    assert run[-5:] == [
        "tilec.cli.launch_case",
        str(folder / "tilec.toml"),
        str(folder / "acme.tilec"),
        "scale/some",
        "cuda:0",
    ]


@pytest.mark.parametrize("by", ["rules", "table"])
def test_ncu_looks_for_every_kernel_that_a_rule_or_a_table_may_choose(
    profile, folder: Path, by: str
) -> None:
    (kernel,) = INFO.kernels
    (plain_variant,) = kernel.variants
    (image,) = plain_variant.images
    variants = tuple(
        dataclasses.replace(
            plain_variant,
            id=f"scale-B{size}",
            axes=(("B", size),),
            images=(dataclasses.replace(image, symbol=f"scale_{size}"),),
        )
        for size in (1, 2)
    )
    choosing: dict[str, Any] = {
        "rules": (DispatchRule(when="y.size > 100", take=(("B", 2),)),) if by == "rules" else (),
        "table": TuningTable(source="tuning/scale.json", sizes=(), devices=())
        if by == "table"
        else None,
    }
    chosen = dataclasses.replace(
        kernel, axes=(("B", (1, 2)),), default=(("B", 1),), variants=variants, **choosing
    )
    write_bundle(
        folder / "acme.tilec", dataclasses.replace(INFO, kernels=(chosen,)), lambda _digest: IMAGE
    )
    profile("scale/some")
    run = calls(folder)[0]
    assert run[run.index("--kernel-name") + 1] == "regex:^(scale_1|scale_2)$"


def test_json(profile, folder: Path) -> None:
    document = json.loads(profile("scale/some", "--json").out)
    assert (document["kind"], document["case"], document["kernel"]) == (
        "profile",
        "scale/some",
        "scale",
    )
    assert document["report"] == str(folder / ".tilec" / "profile" / "scale.some.ncu-rep")


@pytest.mark.parametrize(
    ("script", "code"), [("echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1", 1), ("true", 0)]
)
def test_no_report_is_an_error_whatever_ncu_returns(
    profile, folder: Path, script: str, code: int
) -> None:
    old = folder / ".tilec" / "profile" / "scale.some.ncu-rep"
    old.parent.mkdir(parents=True)
    old.write_text("of a run before")
    write_tool(folder, "ncu", script)
    done = profile("scale/some")
    assert (done.code, done.out) == (1, "")
    assert f"error: ncu wrote no report of scale/some (exit code {code})\n" in done.err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("scael/some",), 2, "no kernel 'scael'; did you mean 'scale'"),
        (("scale/sme",), 2, "no case 'sme'; did you mean 'some'"),
        (("scale",), 2, "'scale' names no case\n  fix: name one as KERNEL/CASE"),
        (
            ("scale/some[f16]",),
            2,
            "'scale/some[f16]' is none of the cases: name one\n  fix: cases are scale/some",
        ),
        (("scale/some", "--device", "cpu"), 2, "--device: 'cpu' is no GPU"),
        (("scale/some", "--device", "cuda:7"), 3, "needs a GPU (cuda:7)"),
        (("scale/some", "-o", ""), 2, "Invalid value for '-o' / '--out': it names nothing"),
        (("scale/some", "-o", "x.txt"), 2, "--out x.txt: no name of a report of ncu"),
        (("scale/some", "-o", "none/x.ncu-rep"), 2, "there is no directory none"),
        ((), 2, "Missing argument 'CASE'"),
    ],
)
def test_command_lines_that_are_off(
    profile, folder: Path, args: tuple[str, ...], code: int, words: str
) -> None:
    done = profile(*args)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not (folder / "calls").exists()


def test_without_ncu(profile, folder: Path) -> None:
    (folder / "bin" / "ncu").unlink()
    done = profile("scale/some", bundle="")  # nothing is built for nothing
    assert done.code == 3
    assert "error: ncu not found; looked in PATH, " in done.err
    assert "fix: install Nsight Compute" in done.err


# --- what runs under the tools
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def launch(folder: Path, monkeypatch):
    def call(*options: str) -> int:
        command = launch_case.command(
            folder / "tilec.toml", folder / "acme.tilec", "scale/some", 0, *options
        )
        monkeypatch.setattr(sys, "argv", command[3:])
        return launch_case.main()

    return call


def test_initcheck_leaves_empty_inputs_unwritten(launch, folder: Path, monkeypatch) -> None:
    """Else the tool would take what tilec fills it with for something that the kernel may read."""
    copied: list[int] = []
    monkeypatch.setattr(
        type(_driver.driver()),
        "copy_in",
        lambda _self, _ordinal, address, *_rest: copied.append(address),
    )
    text = (folder / "tilec.toml").read_text()
    (folder / "tilec.toml").write_text(text.replace('dist = "ones"', 'dist = "empty"'))
    counts = {}
    for options in ((launch_case.SMALL,), (launch_case.SMALL, launch_case.UNSET)):
        assert launch(*options) == 0
        counts[len(options)] = len(copied)
        copied.clear()
    assert counts == {1: 1, 2: 0}


def test_a_launch_that_fails_says_why(launch, monkeypatch, capsys) -> None:
    def fails(*_: object) -> None:
        raise DriverError("the launch failed", result="CUDA_ERROR_LAUNCH_FAILED", code=719)

    monkeypatch.setattr(type(_driver.driver()), "synchronize", fails)
    assert launch() != 0
    assert capsys.readouterr().err.startswith("error: the launch failed")
