"""What a shell completes, of manifests that are whole, half written or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import tilec
from tilec.cli.app import App
from tilec.cli.main import cli, run
from tilec.cli.settings import read_settings

MANIFEST = """edition = 1
[targets]
default = ["sm_90a", "tileir"]
groups = { nightly = ["sm_80"] }
[profile.fast]
[kernel.twice]
matrix = { T = ["f32", "f16"], TILE = [128], FAST = [true], exclude = [{ T = "f16" }] }
[kernel.twice.case.small]
inputs.x = { shape = [100] }
inputs.n = 3
[kernel.fill.case.odd]
inputs.y = { shape = [100] }
"""


def words(folder: Path, *line: str) -> list[str]:
    """What the last word of a command line may become."""
    app = App(settings=read_settings({}, folder))
    found = BashComplete(cli, {"obj": app}, "tilec", "_TILEC_COMPLETE").get_completions(
        list(line[:-1]), line[-1]
    )
    return [one.value for one in found]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tilec.toml").write_text(MANIFEST)
    (tmp_path / "below").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (("run", ""), ["twice", "fill"]),
        (("run", "f"), ["fill"]),
        (("sanitize", "t"), ["twice"]),
        (("tune", "t"), ["twice"]),
        (("run", "--case", ""), ["small", "odd"]),
        (("run", "fill", "--case", ""), ["odd"]),
        (("tune", "fill", "--case", ""), ["odd"]),
        (("run", "-k", "tw"), ["twice"]),
        (("run", "--trace", "fill/"), ["fill/odd"]),
        (("run", "--device", "c"), ["cpu", "cuda", "cuda:0"]),
        (("build", "--targets", "n"), ["nightly"]),
        (("build", "--targets", "nightly,sm_9"), ["nightly,sm_90a"]),
        (("check", "--targets", "t"), ["tileir"]),
        (("build", "--select", "t"), ["twice"]),
        (("build", "--profile", "f"), ["fast"]),
        (("build", "--emit", "bundle,w"), ["bundle,wheel"]),
        (("inspect", "--why", "t"), ["twice"]),
        (("profile", "t"), ["twice/small"]),
        (("debug", ""), ["twice/small", "fill/odd"]),
        (("debug", "fill/odd", "--profile", "d"), ["debug"]),
        (("sanitize", "--device", "c"), ["cpu", "cuda", "cuda:0"]),
        (("bench", "--device", "cu"), ["cuda", "cuda:0"]),
        (("tune", "--device", "cp"), ["cpu"]),
        (("watch", "b"), ["build", "bench"]),
        (("watch", "run", "t"), ["twice", "twice/small"]),
    ],
)
def test_words(project: Path, line: tuple[str, ...], found: list[str]) -> None:
    assert words(project, *line) == found
    assert words(project / "below", *line) == found, "the manifest of a directory above will do"


@pytest.mark.parametrize(
    "text",
    [
        "broken [",
        "kernel = 3",
        "[kernel]\na = 3",
        "[kernel.a]\ncase = []\nmatrix = 4",
        "[kernel.a.case]\nb = 4",
        "\xff",
        "a = " + "[" * 20000,
    ],
    ids=range(7),
)
def test_a_manifest_that_is_being_written_is_no_trouble(
    project: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "tilec.toml").write_bytes(text.encode("latin-1"))
    for option in ("--case", "--trace", "-k"):
        assert set(words(project, "run", option, "")) <= {"a", "b", "a/b"}
    assert words(project, "build", "--targets", "tile") in ([], ["tileir"])
    assert words(project, "build", "--profile", "r") in ([], ["release"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("line", ["tilec nonsense x ", "tilec run --no-such ", "tilec inspect "])
def test_nothing_is_said_in_the_middle_of_a_command_line(
    project: Path, line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in (
        ("_TILEC_COMPLETE", "bash_complete"),
        ("COMP_WORDS", line),
        ("COMP_CWORD", str(len(line.split()))),
    ):
        monkeypatch.setenv(name, value)
    assert run([], {"TILEC_CACHE_MAX": "nonsense"}, project) in (0, 1)
    assert capfd.readouterr().err == ""


def test_bash_completes(project: Path) -> None:
    """As the help says to set it up, in bash itself."""
    command = project / "bin" / "tilec"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilec "$@"\n')
    command.chmod(0o755)
    script = 'eval "$(tilec completion bash)"; COMP_WORDS=(tilec debug t) COMP_CWORD=2; _tilec_completion tilec; echo "${COMPREPLY[@]}"'
    env = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(tilec.__file__).parents[1]),
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "twice/small\n"
