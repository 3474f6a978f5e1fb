"""Reads the documentation's pages into steps, and carries them out in a scratch project as a reader
would.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import find_tool
from tilec.model.toml import tomllib

ROOT = Path(__file__).parent.parent
# What an HTML comment in front of a block makes of it. Without one, bash and console blocks are run
# and Python is compiled.
DIRECTIVES = {
    "project": "without a block: the page begins in the built project of `tilec new demo`",
    "file": "the block is written to the file that is named",
    "append": "the block is added to it",
    "edit": "`FILE: OLD -> NEW`, without a block: a text is replaced in a file",
    "fragment": "part of a manifest: loaded with what it lacks",
    "run": "Python that is run, without a GPU; an `output` block behind it is what it prints",
    "output": "what the block before it prints",
    "install": "set-up commands: read by bash, not run",
    "template": "equal to a file that `tilec new` writes",
    "plugin": "entry points of the package in plugin/, which is put on Python's path",
    "ci": "mark of the README that .ci/run reads",
    "generated": "mark of what a script writes",
}
MARKS = {"ci", "generated"}
_PROGRESS = re.compile(
    r"^(?:building \d+ jobs?.*|\[ *\d+/\d+\] .*|… and \d+ more failed jobs?)\n",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A directive, a fenced block, or a block with the directive in front of it.

    Attributes:
        page: the page's path from the root. line: where it stands.
        directive: `file` of `<!-- file: kernels/a.py -->`, empty for none. value: what follows it.
        language: of the block, empty where there is none. text: the block's.
    """

    page: str
    line: int
    directive: str = ""
    value: str = ""
    language: str = ""
    text: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def steps(page: str) -> list[Step]:
    """The directives and blocks of a page, in order."""
    found: list[Step] = []
    pending: tuple[str, str] | None = None
    lines = text_of(page).split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("```"):
            start = number
            while lines[number] != "```":
                number += 1
            directive, value = pending or ("", "")
            text = "\n".join(lines[start:number]) + "\n"
            found.append(
                Step(
                    page=page,
                    line=start,
                    directive=directive,
                    value=value,
                    language=line[3:].strip(),
                    text=text,
                )
            )
            pending = None
            number += 1
        elif match := re.fullmatch(r"<!-- (\w+)(?:: (.+))? -->", line):
            assert match[1] in DIRECTIVES, f"{page}:{number}: unknown directive {match[1]!r}"
            if match[1] in ("edit", "project"):
                found.append(Step(page=page, line=number, directive=match[1], value=match[2] or ""))
            elif match[1] not in MARKS:
                pending = (match[1], match[2] or "")
        else:
            assert pending is None or not line.strip(), (
                f"{page}:{number}: a directive without a block"
            )
    return found


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables under a heading, header rows left out."""
    section = re.split(rf"^#+ {re.escape(heading)}$", text_of(page), flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    lines = [line for line in section.split("\n") if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    following = [*(row[0] for row in cells[1:]), ""]
    return [
        row
        for row, after in zip(cells, following, strict=False)
        if not after.startswith("---") and not row[0].startswith("---")
    ]


class Reader:
    """Somebody who follows a page: types its commands, writes its files, and looks at what is
    printed.

    Args:
        home: an empty directory.
        env: the environment of commands.
    """

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.env = dict(env)
        self.cwd = home
        self.printed = ""

    def follow(self, step: Step) -> None:
        """Carry out one step."""
        match step.directive, step.language:
            case "project", _:
                self._begin_in_project(step.value or "tile")
            case "file", _:
                self._write(step.value, step.text)
            case "append", _:
                path = self.cwd / step.value
                self._write(step.value, f"{path.read_text()}\n{step.text}")
            case "edit", _:
                self._edit(step)
            case "plugin", "toml":
                self._install_plugin(step)
            case "run", "python":
                self.printed = self._run_python(step)
            case "output", _:
                assert matches(step.text, self.printed), (
                    f"{step.place}: printed was\n{self.printed}"
                )
            case "", "bash":
                self._shell(step, step.text)
            case "", "console":
                for command, expected in _dialogue(step.text):
                    self._look(step, command, expected)

    def _write(self, name: str, text: str) -> None:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _edit(self, step: Step) -> None:
        name, _, change = step.value.partition(": ")
        old, _, new = change.partition(" -> ")
        text = (self.cwd / name).read_text()
        assert text.count(old) == 1, f"{step.place}: {old!r} is {text.count(old)} times in {name}"
        self._write(name, text.replace(old, new))

    def _install_plugin(self, step: Step) -> None:
        """What installing the package in `plugin` would leave: its metadata, and its modules on
        Python's path.
        """
        ((group, points),) = tomllib.loads(step.text)["project"]["entry-points"].items()
        info = self.cwd / "plugin" / "acme_plugin-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugin\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(
            "\n".join([f"[{group}]", *(f"{name} = {where}" for name, where in points.items()), ""])
        )
        self.env["PYTHONPATH"] = str(self.cwd / "plugin")

    def _shell(self, step: Step, text: str) -> None:
        script = f"set -euo pipefail\n{text}\npwd > {self.home}/.cwd\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, (
            f"{step.place}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        )
        self.cwd = Path((self.home / ".cwd").read_text().strip())
        self.printed = done.stdout

    def _look(self, step: Step, command: str, expected: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=240,
        )
        failed = expected.rstrip().split("\n")[-1].startswith("error:")
        assert (done.returncode != 0) == failed, (
            f"{step.place}: `{command}` exits with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        shown = _PROGRESS.sub("", done.stderr) + done.stdout
        assert matches(expected, shown), f"{step.place}: `{command}` prints\n{shown}"

    def _begin_in_project(self, kind: str) -> None:
        """Make the project that pages share, with its package built for the cpu device."""
        for command in (f"new demo --kind {kind}", "build --targets tileir"):
            subprocess.run(
                ["tilec", *command.split()],
                cwd=self.cwd,
                env=self.env,
                check=True,
                capture_output=True,
                timeout=240,
            )
            self.cwd = self.home / "demo"

    def _run_python(self, step: Step) -> str:
        """What a block prints in a process of its own, with the built packages on its path."""
        done = subprocess.run(
            [sys.executable, "-"],
            input=step.text,
            cwd=self.cwd,
            env={**self.env, "PYTHONPATH": "dist"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{step.place}: exit {done.returncode}\n{done.stderr}"
        return done.stdout


def environment(cache: Path) -> dict[str, str]:
    """A reader's environment: this Python's scripts first on PATH, a cache of its own, nothing that
    changes how commands print.
    """
    left_out = (
        "CI",
        "NO_COLOR",
        "FORCE_COLOR",
        "TILEC_CACHE_MAX",
        "CUDA_HOME",
        "CUDA_PATH",
        "PYTHONPATH",
        "TILEC_DEBUG",
    )
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {
        **kept,
        "TILEC_CACHE_DIR": str(cache),
        "TERM": "dumb",
        "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}",
    }


def with_nvcc(env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which `nvcc` is a command, as it is where a toolkit is installed."""
    return {**env, "PATH": f"{env['PATH']}:{Path(find_tool('nvcc', ToolSearch()).path).parent}"}


def matches(expected: str, shown: str) -> bool:
    """Whether a text is what a page shows: `…` stands for any text; times, sizes, digests and the
    width of gaps may differ.
    """
    pattern = re.escape(_plain(expected)).replace("…", ".*?")
    return re.fullmatch(pattern, _plain(shown), re.DOTALL) is not None


def _plain(text: str) -> str:
    text = re.sub(r"\b[0-9.]+ (s|B|KiB|MiB)(?![A-Za-z0-9])", r"# \1", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "#", text)
    return "\n".join(
        re.sub(r"(?<=\S) {2,}", " ", line).rstrip()
        for line in text.strip("\n").rstrip().split("\n")
    )


def _dialogue(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it prints."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    yield from zip(parts[1::2], parts[2::2], strict=True)
