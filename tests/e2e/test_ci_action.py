"""action.yml and the workflows: they fit GitHub's schemas, and the action's shell steps do what its
outputs say.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.e2e.harness import Cli
from tilec.cli.new import KINDS, render

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
NAMES = {"name": "acme", "module": "acme", "tilec_version": "1.2.3"}
_PATH = re.compile(r"\b(?:inputs|runner|github|steps)(?:\.[\w-]+)+")
_PLACE = re.compile(r"\$\{\{(.*?)\}\}")


def test_action_and_workflows_fit_githubs_schemas(tmp_path: Path) -> None:
    workflows = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    for kind in KINDS:
        files = render(kind, NAMES)
        assert files[".github/actions/tilec/action.yml"] == (ROOT / "action.yml").read_bytes()
        path = tmp_path / f"{kind}.yml"
        path.write_bytes(files[".github/workflows/kernels.yml"])
        workflows.append(path)
    for schema, files in (("actions", [ROOT / "action.yml"]), ("workflows", workflows)):
        command = [sys.executable, "-m", "check_jsonschema"]
        command += ["--builtin-schema", f"vendor.github-{schema}", *map(str, files)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout


def test_the_action_takes_inputs_by_environment_and_pins_other_actions() -> None:
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")]
    used = re.findall(r"uses: (\S+) # v\d+\.\d+\.\d+\n", (ROOT / "action.yml").read_text())
    assert used == [step["uses"] for step in STEPS if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each) for each in used)


class Runner:
    """Runs the shell steps of the action in order, as a runner does.

    Attributes:
        github: the context of this name. outputs: of the action, once it ran.
        installed: what pip was asked for; it installs nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.github: dict[str, Any] = {
            "action_path": str(ROOT),
            "event_name": "push",
            "ref_protected": True,
        }
        self.outputs: dict[str, str] = {}
        self.log = ""
        self._folder = folder
        self._tools = folder / "tools"
        self._tools.mkdir()
        python = sys.executable
        self._tool("tilec", f'exec {python} -c "from tilec.cli.main import main; main()" "$@"')
        self._tool(
            "python",
            f'if [ "$1 $2 $3" = "-m pip install" ]; then printf "%s\\n" "${{@:4}}" > {folder}/pip; else exec {python} "$@"; fi',
        )

    def _tool(self, name: str, text: str) -> None:
        path = self._tools / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    @property
    def installed(self) -> list[str]:
        return (self._folder / "pip").read_text().splitlines()

    def run(self, **given: str) -> int:
        """Return the exit code of the first step that fails, or 0."""
        inputs = {name: row.get("default", "") for name, row in ACTION["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        contexts: dict[str, Any] = {
            "inputs": inputs,
            "runner": {"temp": str(self._folder), "os": "Linux"},
            "github": self.github,
            "steps": {},
        }
        for step in STEPS:
            if "run" not in step or not _value(step.get("if", "true"), contexts):
                continue
            output = self._folder / "output"
            output.write_text("")
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=_filled(step.get("working-directory", str(self._folder)), contexts),
                env={
                    **os.environ,
                    "PATH": f"{self._tools}:{os.environ['PATH']}",
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}",
                    "RUNNER_TEMP": str(self._folder),
                    "GITHUB_OUTPUT": str(output),
                    **{name: _filled(text, contexts) for name, text in step["env"].items()},
                },
                capture_output=True,
                encoding="utf-8",
                check=False,
            )
            self.log += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
            if "id" in step:
                lines = (line.partition("=") for line in output.read_text().splitlines())
                contexts["steps"][step["id"]] = {"outputs": {name: v for name, _, v in lines}}
        rows = ACTION["outputs"].items()
        self.outputs = {name: _filled(row["value"], contexts) for name, row in rows}
        return 0


def _filled(text: str, contexts: dict[str, Any]) -> str:
    return _PLACE.sub(lambda match: str(_value(match[1], contexts)), text)


def _value(expression: str, contexts: dict[str, Any]) -> Any:
    def look(match: re.Match[str]) -> str:
        value: Any = contexts
        for name in match[0].split("."):
            value = value[name]
        return repr(value)

    text = _PATH.sub(look, expression.strip()).replace("||", " or ").replace("&&", " and ")
    return True if text == "true" else eval(text)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.mark.long
def test_the_action_builds_and_runs_a_new_project(cli: Cli, tmp_path: Path, runner: Runner) -> None:
    cli.good(tmp_path, "new", "acme")
    project = tmp_path / "acme"
    assert runner.run(directory=str(project), version="1.2.3", targets="tileir") == 0, runner.log
    assert runner.installed == ["tilec[build]==1.2.3"]
    bundle = Path(runner.outputs["bundle"])
    assert bundle == project / "dist" / "acme-0.1.0.tilec"
    data = bundle.read_bytes()
    assert runner.outputs["digest"] == hashlib.sha256(data).hexdigest()
    assert runner.outputs["size"] == str(len(data))
    sizes = json.loads(runner.outputs["sizes"])
    assert sizes[str(bundle)] == len(data)
    assert sizes == {path: Path(path).stat().st_size for path in sizes}
    assert "on the cpu device" in runner.log
    # What is pinned now is what the next build gives.
    assert (project / "tilec.lock").is_file()
    before = dict(runner.outputs)
    assert runner.run(directory=str(project), targets="tileir", run="false") == 0, runner.log
    assert runner.outputs == before
    assert runner.installed == [f"{ROOT}/runtime", f"{ROOT}[build]"]


@pytest.mark.long
def test_a_project_whose_kernels_all_need_a_gpu_passes(
    cli: Cli, tmp_path: Path, runner: Runner
) -> None:
    cli.good(tmp_path, "new", "acme", "--kind", "cuda")
    assert runner.run(directory=str(tmp_path / "acme"), targets="sm_90") == 0, runner.log
    assert "::notice::every case needs a GPU: none was run" in runner.log


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emit", 'bundle"; touch "$RUNNER_TEMP/owned"; "'),
        ("emit", "package"),
    ],
)
def test_inputs_are_words_and_never_code(
    cli: Cli, tmp_path: Path, runner: Runner, name: str, value: str
) -> None:
    cli.good(tmp_path, "new", "acme", "--kind", "cuda")
    given = {"directory": str(tmp_path / "acme"), "targets": "sm_90", "extras": "a$(touch owned)"}
    assert runner.run(**{**given, name: value}) != 0
    assert runner.installed[-1] == f"{ROOT}[a$(touch owned)]"
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.parametrize(
    ("event", "protected", "given", "mode"),
    [
        ("push", True, "", "write"),
        ("push", False, "", "read"),
        ("pull_request", True, "", "read"),
        ("pull_request", False, "write", "write"),
    ],
)
def test_only_pushes_to_protected_branches_write_to_the_remote_cache(
    event: str, protected: bool, given: str, mode: str
) -> None:
    (build,) = (step for step in STEPS if step.get("id") == "build")
    github = {"event_name": event, "ref_protected": protected}
    contexts = {"inputs": {"remote-mode": given}, "github": github}
    assert _filled(build["env"]["TILEC_REMOTE_MODE"], contexts) == mode
