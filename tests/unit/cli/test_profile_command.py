from __future__ import annotations

from pathlib import Path

import pytest

from tests.watched_project import calls, write_ncu, write_tool


@pytest.fixture
def profile(watched, tmp_path: Path):
    write_ncu(tmp_path)

    def call(*args: str, bundle: str = "acme.tilec"):
        return watched("profile", *args, *(("--bundle", bundle) if bundle else ()))

    return call


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
    profile, tmp_path: Path, args: tuple[str, ...], code: int, words: str
) -> None:
    done = profile(*args)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not (tmp_path / "calls").exists()


def test_without_ncu(profile, tmp_path: Path) -> None:
    (tmp_path / "bin" / "ncu").unlink()
    done = profile("scale/some", bundle="")  # nothing is built for nothing
    assert done.code == 3
    assert "error: ncu not found; looked in PATH, " in done.err
    assert "fix: install Nsight Compute" in done.err


# --- what runs under the tools
# ----------------------------------------------------------------------------------------------------
