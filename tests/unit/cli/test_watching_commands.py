"""`tilec profile`, `debug` and `sanitize --device cuda`: how they call NVIDIA's tools, which are
shell scripts here, and what they refuse.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.watched_project import calls, write_ncu, write_tool


@pytest.fixture
def debug(watched, tmp_path: Path):
    write_tool(tmp_path, "cuda-gdb", "exit 7")
    return functools.partial(watched, "debug")


def test_in_scripts_it_asks_nothing(debug, tmp_path: Path) -> None:
    done = debug(
        "scale/some", "--bundle", "acme.tilec", "--batch", "--ex", "run", "--ex", "backtrace"
    )
    assert (done.code, done.out) == (7, "")
    assert (tmp_path / "calls").read_text().startswith("-q\n-batch\n-ex\n")


def test_the_kernel_is_built_for_debugging(debug, tmp_path: Path, fake_build: ModuleType) -> None:
    requests = []

    def build(request: object, observer: object) -> SimpleNamespace:
        requests.append(request)
        return SimpleNamespace(
            outputs=[SimpleNamespace(kind="bundle", path=str(tmp_path / "acme.tilec"))], notes=()
        )

    fake_build.build = build  # type: ignore[attr-defined]
    assert debug("scale/some").code == 7
    (request,) = requests
    assert (request.profile, request.lineinfo, request.aside) == ("debug", True, True)
    assert (request.targets, request.select) == (("sm_90",), ("scale",))


@pytest.fixture
def profile(watched, tmp_path: Path):
    write_ncu(tmp_path)
    return functools.partial(watched, "profile", "--bundle", "acme.tilec")


def test_how_ncu_is_called(profile, tmp_path: Path) -> None:
    assert profile("scale/some", "--set", "basic", "-o", "a.ncu-rep").code == 0
    run = calls(tmp_path)[0]
    at = {word: run[number + 1] for number, word in enumerate(run[:-1])}
    assert (at["--clock-control"], at["--set"], at["--export"]) == (
        "none",
        "basic",
        str(tmp_path / "a.ncu-rep"),
    )
    assert (at["--kernel-name-base"], at["--kernel-name"], at["--launch-count"]) == (
        "mangled",
        "regex:^(scale)$",
        "1",
    )
    assert run[-5:] == [
        "tilec.cli.launch_case",
        str(tmp_path / "tilec.toml"),
        str(tmp_path / "acme.tilec"),
        "scale/some",
        "cuda:0",
    ]


@pytest.mark.parametrize(
    ("script", "code"), [("echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1", 1), ("true", 0)]
)
def test_no_report_is_an_error_whatever_ncu_returns(
    profile, tmp_path: Path, script: str, code: int
) -> None:
    old = tmp_path / ".tilec" / "profile" / "scale.some.ncu-rep"
    old.parent.mkdir(parents=True)
    old.write_text("of a run before")
    write_tool(tmp_path, "ncu", script)
    done = profile("scale/some")
    assert (done.code, done.out) == (1, "")
    assert f"error: ncu wrote no report of scale/some (exit code {code})\n" in done.err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (
            ("sanitize", "--device", "gpu"),
            2,
            "'gpu' is no device of this command\n  fix: use cpu, cuda, or cuda:N",
        ),
        (("sanitize", "--device", ""), 2, "'' is no device"),
        (
            ("sanitize", "--device", "cuda", "--tool", "memchek"),
            2,
            "there is no 'memchek'; did you mean 'memcheck'",
        ),
        (
            ("sanitize", "--device", "cuda", "--tool", ""),
            2,
            "Invalid value for '--tool': the value is empty",
        ),
        (
            ("sanitize", "--device", "cuda", "--nan"),
            2,
            "--nan has no effect with --device cuda: pass --device cpu, or leave it out",
        ),
        (
            ("sanitize", "--device", "cuda", "--seed", "1"),
            2,
            "--seed has no effect with --device cuda",
        ),
        (
            ("sanitize", "--device", "cuda", "--steps", "5"),
            2,
            "--steps has no effect with --device cuda",
        ),
        (
            ("sanitize", "--device", "cpu", "--tool", "all"),
            2,
            "--tool has no effect with --device cpu: pass --device cuda, or leave it out",
        ),
        (
            ("sanitize", "--device", "cpu", "--profile", "debug"),
            2,
            "--profile has no effect with --device cpu",
        ),
        (("sanitize", "--device", "cuda", "scael"), 2, "no kernel 'scael'; did you mean 'scale'"),
        (
            ("sanitize", "--device", "cuda", "--case", "sme"),
            2,
            "no case 'sme'; did you mean 'some'\n  fix: cases are scale/some, scale/more",
        ),
        (("sanitize", "--device", "cuda:7"), 3, "compute-sanitizer needs a GPU (cuda:7)"),
        (("debug", "scale/some", "--batch"), 2, "--batch needs --ex"),
        (("profile", "scael/some"), 2, "no kernel 'scael'; did you mean 'scale'"),
        (("profile", "scale/sme"), 2, "no case 'sme'; did you mean 'some'"),
        (("profile", "scale"), 2, "'scale' is not the name of a case\n  fix: write KERNEL/CASE"),
        (
            ("profile", "scale/some[f16]"),
            2,
            "'scale/some[f16]' matches none of the cases: name one\n  fix: cases are scale/some",
        ),
        (
            ("profile", "scale/some", "--device", "cpu"),
            2,
            "--device: 'cpu' is no device of this command",
        ),
        (("profile", "scale/some", "--device", "cuda:7"), 3, "needs a GPU (cuda:7)"),
        (
            ("profile", "scale/some", "-o", ""),
            2,
            "Invalid value for '-o' / '--out': the value is empty",
        ),
        (("profile", "scale/some", "-o", "x.txt"), 2, "x.txt: not the name of a .ncu-rep file"),
        (("profile",), 2, "Missing argument 'CASE'"),
    ],
)
def test_command_lines_that_are_off(
    watched, tmp_path: Path, args: tuple[str, ...], code: int, words: str
) -> None:
    write_ncu(tmp_path)
    for tool in ("cuda-gdb", "compute-sanitizer"):
        write_tool(tmp_path, tool, "exit 7")
    done = watched(*args, "--bundle", "acme.tilec")
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("command", "tool", "fix"),
    [
        ("profile", "ncu", "install Nsight Compute"),
        ("debug", "cuda-gdb", "install cuda-gdb, with the CUDA toolkit or alone: `apt-get install"),
    ],
)
def test_without_the_tool(watched, command: str, tool: str, fix: str) -> None:
    done = watched(command, "scale/some")  # nothing is built for nothing
    assert done.code == 3
    assert f"error: {tool} not found; looked in PATH, " in done.err
    assert f"fix: {fix}" in done.err


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
    watched, tmp_path: Path, script: str, code: int, status: str, words: str
) -> None:
    write_tool(tmp_path, "compute-sanitizer", script)
    sanitize = functools.partial(
        watched, "sanitize", "--device", "cuda:0", "--bundle", "acme.tilec", "--case", "some"
    )
    done = sanitize()
    assert done.code == code
    assert f"4 runs of compute-sanitizer on Fake H200: {words}\n" in done.out
    document = json.loads(sanitize("--json").out)
    run = document["runs"][1]
    assert (run["case"], run["tool"], run["status"]) == ("scale/some", "racecheck", status)
    assert run["report"] == str(tmp_path / ".tilec" / "sanitize" / "scale.some.racecheck.report")


def test_a_gpu_checks_no_chains(watched, tmp_path: Path) -> None:
    """They are named, and the kernels are checked."""
    chain = '[chain.twice]\nsteps = ["scale(y)", "scale(y)"]\n[chain.twice.case.some]\n'
    with (tmp_path / "tilec.toml").open("a") as file:
        file.write(f"{chain}inputs.y = [300]\n")
    write_tool(tmp_path, "compute-sanitizer", "exit 0")
    done = watched("sanitize", "--device", "cuda", "--bundle", "acme.tilec", "--tool", "memcheck")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == (
        "not checked: twice: compute-sanitizer does not check chains; the cpu device does"
    )
