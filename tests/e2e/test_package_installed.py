"""tilec's own wheel in a clean environment: it makes, checks and builds a project there, and the user's wheel installs beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.e2e.harness import environment, tree

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

ROOT = Path(__file__).parents[2]


def run(*command: object, cwd: Path, env: dict[str, str] | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=240, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tilec's wheel, built from this checkout."""
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, ROOT, cwd=place)
    (made,) = place.glob("tilec-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with tilec from its wheel; what tilec depends on is borrowed from this one."""
    place = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    install(place, wheel)
    (site,) = place.glob("lib/python*/site-packages")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
    return place


def install(place: Path, wheel: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python", place / "bin" / "python")
    run(*pip, "install", "--no-deps", "--no-index", "--no-cache-dir", "--no-compile", wheel, cwd=place)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = environment(tmp_path_factory.mktemp("cache"))
    return {name: value for name, value in kept.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}


def test_what_the_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tilec").rglob("*.py")}
    templates = {f"tilec/_templates/{name}" for name in tree(ROOT / "templates")}
    assert own | templates | {"tilec/py.typed", "runtime/tilec_runtime/kernels/kernels.tilec"} <= set(names)
    rest = set(names) - own - templates
    assert {name.partition("/")[0] for name in rest} <= {"tilec", names[-1].partition("/")[0]}
    assert not [name for name in names if "__pycache__" in name or "/." in name or name.startswith(("tests", "examples"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_command_works_from_the_wheel(installed: Path, env: dict[str, str], tmp_path: Path) -> None:
    tilec = installed / "bin" / "tilec"
    where = run(installed / "bin" / "python", "-c", "import tilec; print(tilec.__file__)", cwd=tmp_path, env=env).stdout
    assert Path(where.strip()).is_relative_to(installed)
    assert run(tilec, "--version", cwd=tmp_path, env=env).stdout.startswith("tilec ")
    schema = json.loads(run(tilec, "schema", cwd=tmp_path, env=env).stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")

    run(tilec, "new", "demo", "--kind", "mixed", cwd=tmp_path, env=env)
    project = tmp_path / "demo"
    assert run(tilec, "check", cwd=project, env=env).stdout.startswith("tilec.toml: no problems; 2 kernels")
    built = run(tilec, "build", "--targets", "sm_90", "--select", "*-f32-*", "--emit", "wheel", cwd=project, env=env)
    assert "Traceback" not in built.stderr
    assert sorted(tree(project / "dist")) == ["demo-0.1.0-py3-none-any.whl"]
    use_the_users_wheel(installed, project / "dist" / "demo-0.1.0-py3-none-any.whl", env, tmp_path)


USE = """
import sys
import demo
from tilec_runtime.errors import NoDeviceError
assert demo.__file__.startswith(sys.prefix), demo.__file__
try:
    demo.load(0)
except NoDeviceError as exc:
    print(exc)
"""


def use_the_users_wheel(installed: Path, wheel: Path, env: dict[str, str], cwd: Path) -> None:
    """Installed by pip, the user's package imports, and says what it needs where there is no GPU."""
    install(installed, wheel)
    said = run(installed / "bin" / "python", "-I", "-c", USE, cwd=cwd, env={**env, "CUDA_VISIBLE_DEVICES": ""}).stdout
    assert "\n  cause: " in said
    assert "\n  fix: " in said
    shown = run(installed / "bin" / "tilec", "inspect", wheel, "--verify", "--json", cwd=cwd, env=env).stdout
    assert [kernel["name"] for kernel in json.loads(shown)["kernels"]] == ["vector_add", "scale"]


def test_nothing_of_a_build_is_left_in_the_checkout(wheel: Path) -> None:
    assert not os.path.lexists(ROOT / "build")
    assert not list(ROOT.glob("*.egg-info"))
