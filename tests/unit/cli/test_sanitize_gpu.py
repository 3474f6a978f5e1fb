"""`tilec sanitize --device cuda` with a compute-sanitizer that is a shell script and a GPU that is
pretended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.watched_project import write_tool
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import NoDeviceError


@pytest.fixture
def sanitize(watched, tmp_path: Path):
    write_tool(tmp_path, "compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'")

    def call(*args: str, bundle: str = "acme.tilec", device: str = "cuda:0"):
        given = ("--bundle", bundle) if bundle else ()
        return watched("sanitize", *args, "--device", device, *given)

    return call


def ending(tool: str, code: int) -> str:
    """A tool that ends so, where the others find nothing."""
    return f'[ "$2" != {tool} ] || exit {code}'


@pytest.mark.parametrize(
    ("script", "code", "status", "words"),
    [
        (ending("racecheck", 86), 86, "findings", "3 clean, 1 with findings"),
        (ending("racecheck", 1), 1, "error", "3 clean, 1 could not be checked"),
        ("kill -9 $$", 1, "error", "4 could not be checked"),
    ],
)
def test_findings_and_failed_tools_set_the_exit_code(
    sanitize, tmp_path: Path, script: str, code: int, status: str, words: str
) -> None:
    write_tool(tmp_path, "compute-sanitizer", script)
    done = sanitize("--case", "some")
    assert done.code == code
    assert f"4 runs of compute-sanitizer on Fake H200: {words}\n" in done.out
    document = json.loads(sanitize("--case", "some", "--json").out)
    run = document["runs"][1]
    assert (run["case"], run["tool"], run["status"]) == ("scale/some", "racecheck", status)
    assert run["report"] == str(tmp_path / ".tilec" / "sanitize" / "scale.some.racecheck.report")


def test_without_a_gpu(sanitize, monkeypatch) -> None:
    def none() -> None:
        raise NoDeviceError("the CUDA driver is not installed")

    monkeypatch.setattr(_driver, "driver", none)
    done = sanitize(bundle="")
    assert done.code == 3
    assert "compute-sanitizer needs a GPU (cuda:0): the CUDA driver is not installed" in done.err


@pytest.mark.parametrize(
    ("args", "device", "words"),
    [
        ((), "gpu", "'gpu' is no device that can check: take cpu, cuda, or cuda:N"),
        ((), "", "'' is no device that can check"),
        (("--tool", "memchek"), "cuda", "no such tool: 'memchek'; did you mean 'memcheck'"),
        (("--tool", ""), "cuda", "no such tool: ''; there are memcheck,"),
        (
            ("--nan",),
            "cuda",
            "--nan means nothing for --device cuda\n  fix: pass --device cpu, or leave --nan out",
        ),
        (("--seed", "1"), "cuda", "--seed means nothing for --device cuda"),
        (("--steps", "5"), "cuda", "--steps means nothing for --device cuda"),
        (
            ("--tool", "all"),
            "cpu",
            "--tool means nothing for --device cpu\n  fix: pass --device cuda, or leave --tool out",
        ),
        (("--profile", "debug"), "cpu", "--profile means nothing for --device cpu"),
        (("scael",), "cuda", "no kernel 'scael'; did you mean 'scale'"),
        (
            ("--case", "sme"),
            "cuda",
            "no case 'sme'; did you mean 'some'\n  fix: cases are scale/some, scale/more",
        ),
    ],
)
def test_command_lines_that_are_off(
    sanitize, tmp_path: Path, args: tuple[str, ...], device: str, words: str
) -> None:
    done = sanitize(*args, device=device)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert not (tmp_path / "calls").exists()
