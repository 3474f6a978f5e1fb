from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tilec.cli import main
from tilec_runtime.errors import BundleError, NoDeviceError, UsageError


def python(code: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **kwargs
    )  # type: ignore[call-overload]


def imported_by(*args: str) -> list[str]:
    code = f"import sys\nfrom tilec.cli.main import run\nassert run({list(args)!r}) == 0\nprint('|'.join(sys.modules))"
    done = python(code, check=True)
    return done.stdout.splitlines()[-1].split("|")


def test_help_imports_no_command_and_little_of_tilec() -> None:
    mine = [m for m in imported_by("--help") if m.startswith("tilec")]
    commands = {f"tilec.cli.{name}" for name in main.COMMANDS}
    assert commands.isdisjoint(mine)
    assert len(mine) <= 15, mine


def test_help_of_no_command_imports_numpy() -> None:
    code = (
        "import importlib, sys, tilec.cli.main as main\n"
        "[importlib.import_module(f'tilec.cli.{name}') for name in main.COMMANDS]\n"
        "print('numpy' in sys.modules)"
    )
    assert python(code, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("bild",),
            "error: no such command: bild; did you mean `build`?\n  fix: see `tilec --help`\n",
        ),
        (("inspect",), "error: Missing argument 'FILE'.\n  fix: see `tilec inspect --help`\n"),
        (
            ("build", "-j", "0"),
            "error: Invalid value for '-j' / '--jobs': 0 is not in the range 1<=x<=1024.\n  fix: see `tilec build --help`\n",
        ),
        (
            ("build", "--emit", "fatbim"),
            (
                "error: Invalid value for '--emit': there is no 'fatbim'; did you mean 'fatbin'; "
                "there are bundle, package, wheel, sbom, provenance, hub, fatbin, cubin, ptx\n  fix: see `tilec build --help`\n"
            ),
        ),
        (
            ("build", "--list", "--explain", "x"),
            "error: --list and --explain cannot be combined\n  fix: see `tilec build --help`\n",
        ),
    ],
)
def test_usage_errors(cli, args: tuple[str, ...], message: str) -> None:
    done = cli(*args)
    assert (done.code, done.out, done.err) == (2, "", message)


@pytest.mark.parametrize("args", [(), ("cache",)])
def test_a_group_alone_shows_its_help(cli, args: tuple[str, ...]) -> None:
    done = cli(*args)
    assert (done.code, done.out) == (2, "")
    assert done.err == cli(*args, "--help").out


@pytest.mark.parametrize(
    ("exc", "code", "first"),
    [
        (UsageError("off", fix="do it right"), 2, "error: off"),
        (NoDeviceError("no GPU", cause="none is there"), 3, "error: no GPU"),
        (BundleError("damaged"), 1, "error: damaged"),
        (OSError(28, "No space left on device", "/x/y"), 1, "error: /x/y: No space left on device"),
        (OSError(5, "Input/output error"), 1, "error: cannot write output: Input/output error"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.exceptions.Exit(7), 7, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_ending_has_its_exit_code(
    cli, monkeypatch, exc: BaseException, code: int, first: str
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise exc

    monkeypatch.setattr("tilec.manifest.keys.json_schema", fail)
    done = cli("schema")
    assert done.code == code
    assert done.err.strip().split("\n")[0] == first
    assert "Traceback" not in done.err


def test_ctrl_c_with_json_is_one_document(cli, monkeypatch) -> None:
    def press() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilec.compile.project.open_project", lambda *_: press())
    monkeypatch.setattr("tilec.cli.app.App.manifest_path", lambda app: app.base)
    done = cli("run", "--json")
    assert (done.code, done.err.strip()) == (130, "interrupted")
    assert json.loads(done.out) == {
        "schema_version": 1,
        "kind": "error",
        "command": "run",
        "ok": False,
        "exit_code": 130,
        "error": {"type": "StoppedError", "what": "interrupted"},
    }


def test_a_bug_shows_its_traceback(cli, monkeypatch) -> None:
    monkeypatch.setattr("tilec.manifest.keys.json_schema", lambda: 1 / 0)
    done = cli("schema")
    assert done.err.startswith("Traceback (most recent call last)")
    assert done.err.endswith(
        "error: this is a bug in tilec: ZeroDivisionError: division by zero\n"
        "  fix: please report it with the traceback above\n"
    )


def test_debug_shows_the_traceback_of_expected_errors_too(cli) -> None:
    assert "Traceback" not in cli("build").err
    assert "Traceback" in cli("--debug", "build").err


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("nosuch", "--json"), "no such command: nosuch; commands are "),
        (("--json", "bild"), "No such option"),
        (("build", "--json", "--nosuch"), "No such option"),
        (("build", "--nosuch", "--json"), "No such option"),
        (("inspect", "--json"), "Missing argument 'FILE'."),
        (("build", "-j", "0", "--json"), "Invalid value for '-j' / '--jobs'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_command_lines_with_json_are_answered_in_json(
    cli, args: tuple[str, ...], what: str
) -> None:
    done = cli(*args)
    document = json.loads(done.out)
    assert (done.code, document["kind"], document["ok"], document["exit_code"]) == (
        2,
        "error",
        False,
        2,
    )
    assert document["error"]["type"] == "UsageError"
    assert document["error"]["what"].startswith(what)
    assert document["error"]["fix"].startswith("see `tilec")
    assert what in done.err


def test_a_directory_that_does_not_exist(cli, project: Path) -> None:
    for line in (("-C", "nowhere", "check"), ("check", "-C", "nowhere")):
        done = cli(*line)
        assert done.code == 2
        assert done.err.startswith("error: -C nowhere: not a directory\n")


def test_a_parent_directory_is_no_part_of_the_project_in_it(cli, project: Path) -> None:
    done = cli("-C", "..", "check")
    assert done.code == 2
    assert done.err.startswith(f"error: no tilec.toml in {project.parent} or any directory above")


def test_completion_scripts(cli) -> None:
    assert "complete -o nosort -F _tilec_completion tilec" in cli("completion", "bash").out
    assert "#compdef tilec" in cli("completion", "zsh").out
    assert "complete --no-files --command tilec" in cli("completion", "fish").out
    assert cli("completion", "csh").code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a Linux device")
def test_full_output_is_one_clear_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from tilec.cli.main import main; main()", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: cannot write output: No space left on device\n  fix: make room on that disk and run again\n"
    )


@pytest.mark.parametrize("words", [["schema"], ["--help"], ["run", "--help"]])
def test_a_pipe_that_nobody_reads_ends_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code = "from tilec.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        f"os.mkdir({str(tmp_path / 'gone')!r}); os.chdir({str(tmp_path / 'gone')!r}); os.rmdir({str(tmp_path / 'gone')!r})\n"
        "from tilec.cli.main import run\n"
        "sys.exit(run(['check']))"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (
        2,
        "error: the working directory no longer exists\n  fix: cd to an existing directory\n",
    )


def test_a_path_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "核").mkdir()
    code = "import sys; sys.argv[1:] = ['-C', '\\u6838', 'new', 'acme']; from tilec.cli.main import main; main()"
    done = python(code, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == r"created \u6838/acme; next: cd \u6838/acme && tilec run"
