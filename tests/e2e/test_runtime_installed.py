"""tilec-runtime's own wheel, alone in a clean environment: a generated package runs on the cpu
device there, without the build half.
"""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.e2e.distributions import ROOT, install, run, wheel_of

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

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
USE = """
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
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a user's package."""
    project = tmp_path_factory.mktemp("acme")
    (project / "k.py").write_text(KERNEL)
    (project / "tilec.toml").write_text(MANIFEST)
    run(sys.executable, "-m", "tilec", "build", cwd=project)
    (made,) = (project / "dist").glob("acme-*.whl")
    return made


def test_a_generated_package_runs_without_the_build_half(
    users: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    install(place, wheel_of(ROOT / "runtime", tmp_path_factory.mktemp("wheel")), users)
    (site,) = place.glob("lib/python*/site-packages")
    # What the wheel depends on is borrowed by name: all of this environment would bring the build
    # half along.
    for name in ("numpy", "numpy.libs", "ml_dtypes", "cuda"):
        for home in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
            if Path(home, name).exists() and not (site / name).exists():
                (site / name).symlink_to(Path(home, name))
    done = run(place / "bin" / "python", "-I", "-c", USE, cwd=place)
    assert done.stdout == "\n"


def test_the_users_wheel_depends_on_the_runtime_alone(users: Path) -> None:
    with zipfile.ZipFile(users) as file:
        (metadata,) = (
            file.read(name).decode() for name in file.namelist() if name.endswith("METADATA")
        )
    assert [line for line in metadata.split("\n") if line.startswith("Requires-Dist")] == [
        "Requires-Dist: tilec-runtime>=0.1,<0.2"
    ]
