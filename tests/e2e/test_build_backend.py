"""Kernel projects as pip and `python -m build` see them: through the build backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilec.cli.new import render, write

CALL = """
import demo
import numpy as np
from tilec_runtime import api, use_device

with use_device("cpu"):
    x = api.from_host(np.arange(40, dtype=np.float32)).sync()
    y, *_ = demo.ops.scale(api.zeros((40,), "f32"), x, factor=3.0).sync()
    print(demo.__file__, bool((y.to_host() == 3 * np.arange(40)).all()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    values = {"name": "demo", "module": "demo", "tilec_version": "0.1.0"}
    write(tmp_path / "project", render("tile", values))
    return tmp_path / "project"


def run(*command: str, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python without the checkout's working directory on its path."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def pip(project: Path, *arguments: str, site: Path) -> subprocess.CompletedProcess[str]:
    """Install a project into `site`, with the tilec of these tests."""
    options = ("--no-build-isolation", "--no-deps", "--quiet", "--target", str(site))
    return run("-m", "pip", "install", *options, *arguments, cwd=project)


def hook(project: Path, call: str) -> subprocess.CompletedProcess[str]:
    """Call a function of the backend in the project, as frontends do."""
    return run("-c", f"from tilec import build_backend as b; print(b.{call})", cwd=project)


def test_pip_installs_what_the_project_builds(project: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = pip(project, "-C", "targets=tileir", ".", site=site)
    assert done.returncode == 0, done.stderr
    called = run("-c", CALL, cwd=tmp_path, path=str(site))
    assert called.stdout.split() == [str(site / "demo" / "__init__.py"), "True"], called.stderr
    metadata = (site / "demo-0.1.0.dist-info" / "METADATA").read_text()
    assert "Requires-Dist: tilec-runtime" in metadata


@pytest.mark.long
def test_an_editable_installation_follows_later_builds(project: Path, tmp_path: Path) -> None:
    named = hook(project, f"build_editable({str(tmp_path)!r}, {{'targets': 'tileir'}})")
    assert named.stdout.split()[-1:] == ["demo-0.1.0-py3-none-any.whl"], named.stderr
    site = tmp_path / "site"
    done = pip(tmp_path, named.stdout.strip(), site=site)
    assert done.returncode == 0, done.stderr
    kernel = project / "kernels.py"
    before = kernel.read_text()
    assert " * factor" in before
    kernel.write_text(before.replace(" * factor", " + factor"))
    built = run("-m", "tilec", "build", "--targets", "tileir", cwd=project)
    assert built.returncode == 0, built.stderr
    start = f"import site; site.addsitedir({str(site)!r})\n"
    called = run("-c", start + CALL, cwd=tmp_path)
    assert called.stdout.split() == [str(project / "dist" / "demo" / "__init__.py"), "False"]


@pytest.mark.parametrize(
    ("project_table", "settings", "told"),
    [
        ("", "{'colour': 'red'}", "the build backend has no option 'colour'"),
        ("", "{'targets': 'sm_5'}", "sm_5"),
        ('[project]\nname = "other"', "{}", "project.name = 'other', tilec.toml says 'demo'"),
        ("[project]\nscripts = {}", "{}", "does not read project.scripts"),
    ],
)
def test_refuses_with_the_cause(
    project: Path, tmp_path: Path, project_table: str, settings: str, told: str
) -> None:
    toml = project / "pyproject.toml"
    toml.write_text(toml.read_text() + project_table)
    done = hook(project, f"build_wheel({str(tmp_path)!r}, {settings})")
    assert done.returncode != 0
    assert told in done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_a_dependency_of_the_project_is_one_of_its_wheel(project: Path, tmp_path: Path) -> None:
    toml = project / "pyproject.toml"
    toml.write_text(toml.read_text() + '[project]\ndependencies = ["numpy>=1.26"]')
    folder = hook(project, f"prepare_metadata_for_build_wheel({str(tmp_path)!r})").stdout.strip()
    metadata = (tmp_path / folder / "METADATA").read_text()
    assert "Requires-Dist: numpy>=1.26\n" in metadata
    assert not (project / "dist").exists(), "metadata compiles nothing"
