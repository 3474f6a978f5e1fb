"""tilec's own wheel in a clean environment: it makes, checks and builds a project there, and the
user's wheel installs beside it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import tilec
from tests.e2e.distributions import ROOT, install, run, wheel_of
from tests.e2e.harness import environment, tree

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tilec's wheel, built from this checkout."""
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with tilec and its runtime from their wheels; what tilec depends on is
    borrowed from this one.
    """
    place = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    install(place, wheel, wheel_of(ROOT / "runtime", tmp_path_factory.mktemp("wheel")))
    (site,) = place.glob("lib/python*/site-packages")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
    return place


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = environment(tmp_path_factory.mktemp("cache"))
    return {
        name: value
        for name, value in kept.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }


@pytest.mark.parametrize("half", ["tilec", "tilec_runtime"])
def test_what_the_wheel_holds(half: str, wheel: Path, tmp_path: Path) -> None:
    home = ROOT if half == "tilec" else ROOT / "runtime"
    with zipfile.ZipFile(wheel if half == "tilec" else wheel_of(home, tmp_path)) as file:
        names = file.namelist()
    own = {path.relative_to(home).as_posix() for path in (home / half).rglob("*.py")}
    templates = (
        {f"tilec/_templates/{name}" for name in tree(ROOT / "templates")}
        if half == "tilec"
        else set()
    )
    bundles = {"tilec_runtime/kernels/kernels.tilec"} if half == "tilec_runtime" else set()
    assert own | templates | bundles | {f"{half}/py.typed"} <= set(names)
    rest = set(names) - own - templates
    assert {name.partition("/")[0] for name in rest} <= {half, names[-1].partition("/")[0]}
    assert not [
        name
        for name in names
        if "__pycache__" in name or "/." in name or name.startswith(("tests", "examples"))
    ]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_halves_have_one_version() -> None:
    texts = [(home / "pyproject.toml").read_text() for home in (ROOT, ROOT / "runtime")]
    versions = {re.search(r'^version = "(.+)"$', text, re.MULTILINE)[1] for text in texts}
    assert versions == {tilec.__version__}
    assert f'"tilec-runtime=={tilec.__version__}"' in texts[0]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "runtime" / "LICENSE").read_bytes()


def test_the_command_works_from_the_wheel(
    installed: Path, env: dict[str, str], tmp_path: Path
) -> None:
    tilec = installed / "bin" / "tilec"
    where = run(
        installed / "bin" / "python",
        "-c",
        "import tilec; print(tilec.__file__)",
        cwd=tmp_path,
        env=env,
    ).stdout
    assert Path(where.strip()).is_relative_to(installed)
    assert run(tilec, "--version", cwd=tmp_path, env=env).stdout.startswith("tilec ")
    schema = json.loads(run(tilec, "schema", cwd=tmp_path, env=env).stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")

    run(tilec, "new", "demo", "--kind", "mixed", cwd=tmp_path, env=env)
    project = tmp_path / "demo"
    assert run(tilec, "check", cwd=project, env=env).stdout.startswith(
        "tilec.toml: no problems; 2 kernels"
    )
    built = run(
        tilec,
        "build",
        "--targets",
        "sm_90",
        "--emit",
        "wheel",
        cwd=project,
        env=env,
    )
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
    said = run(
        installed / "bin" / "python",
        "-I",
        "-c",
        USE,
        cwd=cwd,
        env={**env, "CUDA_VISIBLE_DEVICES": ""},
    ).stdout
    assert "\n  cause: " in said
    assert "\n  fix: " in said
    shown = run(
        installed / "bin" / "tilec", "inspect", wheel, "--verify", "--json", cwd=cwd, env=env
    ).stdout
    assert [kernel["name"] for kernel in json.loads(shown)["kernels"]] == ["scale", "axpy"]


def test_nothing_of_a_build_is_left_in_the_checkout(wheel: Path) -> None:
    assert not os.path.lexists(ROOT / "build")
    assert not list(ROOT.glob("*.egg-info"))
