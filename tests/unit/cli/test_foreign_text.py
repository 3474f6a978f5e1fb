"""Text of bundles, manifests and compilers reaches a terminal without the control characters in it."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path

import pytest

from tests.bundle_samples import Sample
from tests.unit.conftest import Cli
from tilec.cli.style import echo, style
from tilec.package.write import write_bundle
from tilec_runtime.errors import Location, TilecError

# A title, a cleared screen, a colour, an erased line, C1's form of the same, DEL, and text that
# runs backwards.
NASTY = "\x1b]0;owned\x07 \x1b[2J \x1b[31mred\x1b[0m \rline \x9b2J \x7f \u202egnp\u2066 \x00"
SHOWN = (
    r"\x1b]0;owned\x07 \x1b[2J \x1b[31mred\x1b[0m \rline \x9b2J \x7f \u202egnp\u2066 \x00".replace(
        r"\r", r"\x0d"
    )
)


def clean(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


def test_colours_of_others_are_escaped_and_those_of_tilec_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    echo(f"{style(f'bold {NASTY}', bold=True)} {NASTY}", color=True)
    assert capsys.readouterr().out == f"\x1b[1mbold {SHOWN}\x1b[0m {SHOWN}\n"
    echo(f"{style('bold', bold=True)} {NASTY}", color=False)
    assert capsys.readouterr().out == f"bold {SHOWN}\n"


def test_errors_escape_it_wherever_they_are_shown() -> None:
    error = TilecError(
        f"what {NASTY}", cause=NASTY, fix="one\ntwo", location=Location(file=f"a{NASTY}.cu", line=3)
    )
    error.op = NASTY
    assert clean(str(error))
    assert str(error).count(SHOWN) == 4
    assert "one\ntwo" in str(error)
    assert error.what == f"what {NASTY}", "programs read what was said"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle whose texts of several lines hold control characters; its names cannot."""
    sample = Sample()
    info = sample.info()
    kernel = dataclasses.replace(info.kernels[0], doc=f"Adds. {NASTY}", language="cuda")
    kernel = dataclasses.replace(
        kernel, launch=dataclasses.replace(kernel.launch, requires=(f"1 == 1 {NASTY}",))
    )
    package = dataclasses.replace(info.package, description=NASTY, license=NASTY)
    info = dataclasses.replace(info, package=package, kernels=(kernel, *info.kernels[1:]))
    write_bundle(tmp_path / "b.tilec", info, sample.images.__getitem__)
    return tmp_path / "b.tilec"


@pytest.mark.parametrize(
    "options", [(), ("--verify",), ("--safety",), ("--diff", "b.tilec"), ("--color", "always")]
)
def test_inspect(cli: Cli, bundle: Path, options: tuple[str, ...]) -> None:
    done = cli("inspect", str(bundle), *options)
    text = (
        (done.out + done.err).replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[36m", "")
    )
    assert done.code == 0, done.err
    assert clean(text)
    assert (SHOWN in text) == ("--diff" not in options)


@pytest.mark.parametrize("command", [("check",), ("build", "--list"), ("build",), ("run",)])
def test_manifests(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    text = json.dumps(NASTY).replace("\x7f", "\\u007f")
    (tmp_path / "tilec.toml").write_text(
        f"[package]\nname = {text}\nversion = {text}\n[kernel.{text}]\nsource = {text}\n",
        encoding="utf-8",
    )
    done = cli(*command)
    assert done.code == 2
    assert clean(done.out + done.err)
    assert r"\x1b]0;owned" in done.out + done.err


def test_commands_print_through_one_function() -> None:
    """`click.echo`, `print` and the streams themselves are for what is no text of others."""
    allowed = {
        "style.py": {"echo"},
        "app.py": {"echo"},
        "schema.py": {"echo"},
        "completion.py": {"echo"},
        "launch_case.py": {"print"},
    }
    for path in (Path(__file__).parents[3] / "tilec" / "cli").glob("*.py"):
        used: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="click"), attr="echo" | "secho" as name)
                ):
                    used.add(name)
                case ast.Call(func=ast.Name(id="print")):
                    used.add("print")
                case ast.Call(
                    func=ast.Attribute(attr="write", value=ast.Attribute(value=ast.Name(id="sys")))
                ):
                    used.add("write")
        assert used <= allowed.get(path.name, set()), path
