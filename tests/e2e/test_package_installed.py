"""The wheels of tilec and its runtime in clean environments: the command works, and a generated
package runs without the build half.
"""

from __future__ import annotations

import json
import re
import sysconfig
import zipfile
from pathlib import Path

import pytest

import tilec
from tests.e2e.distributions import NEEDED, ROOT, Venv, run, wheel_of
from tests.e2e.harness import Cli, environment, tree

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tilec's wheel, built from this checkout."""
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, runtime_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """A virtual environment with tilec and its runtime from their wheels; what tilec depends on is
    borrowed from this one.
    """
    venv = Venv(tmp_path_factory.mktemp("whole") / "venv")
    venv.install("--no-deps", wheel, runtime_wheel)
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (venv.site / "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
    return venv


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = environment(tmp_path_factory.mktemp("cache"))
    return {
        name: value
        for name, value in kept.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }


@pytest.mark.parametrize("half", ["tilec", "tilec_runtime"])
def test_what_the_wheel_holds(half: str, wheel: Path, runtime_wheel: Path) -> None:
    home = ROOT if half == "tilec" else ROOT / "runtime"
    with zipfile.ZipFile(wheel if half == "tilec" else runtime_wheel) as file:
        names = file.namelist()
    own = {path.relative_to(home).as_posix() for path in (home / half).rglob("*.py")}
    templates = (
        {f"tilec/_templates/{name}" for name in (*tree(ROOT / "templates"), "action.yml")}
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


@pytest.mark.long
def test_the_command_works_from_the_wheel(
    installed: Venv, env: dict[str, str], tmp_path: Path
) -> None:
    def tilec(*words: object, cwd: Path) -> str:
        done = run(installed.place / "bin" / "tilec", *words, cwd=cwd, env=env)
        assert "Traceback" not in done.stderr
        return done.stdout

    found = "import tilec; print(tilec.__file__)"
    where = run(installed.python, "-c", found, cwd=tmp_path, env=env).stdout
    assert Path(where.strip()).is_relative_to(installed.place)
    assert tilec("--version", cwd=tmp_path).startswith("tilec ")
    schema = json.loads(tilec("schema", cwd=tmp_path))
    assert schema["$schema"].startswith("https://json-schema.org/")

    tilec("new", "demo", "--kind", "mixed", cwd=tmp_path)
    project = tmp_path / "demo"
    assert tilec("check", cwd=project).startswith("tilec.toml: no problems; 2 kernels")
    tilec("build", "--targets", "sm_90", "--emit", "wheel", cwd=project)
    assert sorted(tree(project / "dist")) == ["demo-0.1.0-py3-none-any.whl"]

    # Installed by pip, the user's package imports, and says what it needs where there is no GPU.
    wheel = project / "dist" / "demo-0.1.0-py3-none-any.whl"
    installed.install("--no-deps", wheel)
    alone = {**env, "CUDA_VISIBLE_DEVICES": ""}
    said = run(installed.python, "-I", "-c", USE, cwd=tmp_path, env=alone).stdout
    assert "\n  cause: " in said
    assert "\n  fix: " in said
    shown = json.loads(tilec("inspect", wheel, "--verify", "--json", cwd=tmp_path))
    assert [kernel["name"] for kernel in shown["kernels"]] == ["scale", "axpy"]


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


KERNEL = """
import cuda.tile as ct

@ct.kernel
def twice(y, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (TILE,)) * 2)
"""


MANIFEST = """
edition = 1
[package]
name = "acme"
version = "1.0"
[targets]
default = ["tileir"]
[kernel.twice]
source = "k.py:twice"
matrix = { T = ["f32"], TILE = [64] }
params = { y = { dtype = "T", rank = 1, out = true }, x = { dtype = "T", rank = 1 } }
launch = { grid = ["cdiv(y.shape[0], TILE)"] }
[output]
emit = ["wheel"]
"""


LAUNCH = """
import importlib.util, sys
import numpy as np
import acme
import tilec_runtime as rt
assert importlib.util.find_spec("tilec") is None
for module in (acme, rt):
    assert module.__file__.startswith(sys.prefix), module.__file__
x, y = np.arange(100, dtype=np.float32), np.zeros(100, dtype=np.float32)
acme.load("cpu").twice(y, x)
np.testing.assert_array_equal(y, 2 * x)
print(*sorted(name for name in sys.modules if name == "tilec" or name.startswith("tilec.")))
"""


@pytest.fixture(scope="module")
def users(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a user's package."""
    project = tmp_path_factory.mktemp("acme")
    (project / "k.py").write_text(KERNEL)
    (project / "tilec.toml").write_text(MANIFEST)
    cli.good(project, "build")
    (made,) = (project / "dist").glob("acme-*.whl")
    return made


def test_a_generated_package_runs_without_the_build_half(
    users: Path, runtime_wheel: Path, tmp_path: Path
) -> None:
    venv = Venv(tmp_path / "venv", *NEEDED)
    venv.install("--no-deps", runtime_wheel, users)
    assert run(venv.python, "-I", "-c", LAUNCH, cwd=tmp_path).stdout == "\n"


def test_the_users_wheel_depends_on_the_runtime_alone(users: Path) -> None:
    with zipfile.ZipFile(users) as file:
        (metadata,) = (
            file.read(name).decode() for name in file.namelist() if name.endswith("METADATA")
        )
    assert [line for line in metadata.split("\n") if line.startswith("Requires-Dist")] == [
        "Requires-Dist: tilec-runtime>=0.1,<0.2"
    ]
