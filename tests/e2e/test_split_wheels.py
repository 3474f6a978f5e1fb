"""Wheels that are split by architecture, as pip installs, upgrades, mixes and removes them."""

from __future__ import annotations

import hashlib
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.distributions import NEEDED, Venv, run
from tests.e2e.harness import Cli, edit, tree

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

KERNEL = """
import cuda.tile as ct

@ct.kernel
def scale(y, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(TILE,)) * FACTOR)
"""
MANIFEST = """
edition = 1
package = { name = "acme-demo", version = "VERSION", module = "acme" }
targets = { default = ["sm_80", "sm_90", "tileir"] }
output = { emit = ["wheel"], wheel = { split = "arch" } }

[kernel.scale]
source = "k.py"
params = { y = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 } }
matrix = { TILE = [16] }
launch = { grid = ["cdiv(y.size, TILE)"], requires = ["x.shape == y.shape"] }
"""
# What a program sees: results on the cpu device, and what a device of compute capability 9.0 takes.
PROGRAM = """
import numpy, acme, sys
from tilec_runtime.bundle.choose import DeviceFacts, choose_image, require_image
from tilec_runtime.errors import TilecError

x = numpy.ones(32, "f4")
y = numpy.zeros_like(x)
acme.load("cpu").scale(y, x)
print(y[0])
bundle = acme._tilec_package_.bundle
try:
    facts = DeviceFacts(cc=(9, 0), driver=(13, 4), missing=bundle.parts.missing((9, 0)))
    choice = choose_image(bundle.kernel("scale").variants[0].images, facts)
    image = require_image(choice, facts).image
    print(image.target, len(bundle.image(image.digest)) == image.size)
except TilecError as error:
    print(type(error).__name__, error.what.splitlines()[0], error.fix, sep="\\n")
print("acme_sm90" in sys.modules)
"""


def build(cli: Cli, project: Path, version: str, factor: str) -> dict[str, str]:
    """Build a version; return the digests of its wheels."""
    project.mkdir(exist_ok=True)
    (project / "k.py").write_text(KERNEL.replace("FACTOR", factor))
    (project / "tilec.toml").write_text(MANIFEST.replace("VERSION", version))
    cli.good(project, "build")
    wheels = (project / "dist").glob(f"*-{version}-*.whl")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels}


@pytest.fixture(scope="module")
def house(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of wheels: two versions of a package."""
    place = tmp_path_factory.mktemp("split")
    first = build(cli, place / "acme", "1.0", "2.0")
    assert sorted(first) == [
        "acme_demo-1.0-py3-none-any.whl",
        "acme_demo_sm80-1.0-py3-none-any.whl",
        "acme_demo_sm90-1.0-py3-none-any.whl",
    ]
    assert build(cli, place / "again", "1.0", "2.0") == first, "another build gives other bytes"
    build(cli, place / "acme", "2.0", "3.0")
    return place / "acme" / "dist"


def program(venv: Venv) -> list[str]:
    return run(venv.python, "-I", "-B", "-c", PROGRAM, cwd=venv.place).stdout.splitlines()


def installed(venv: Venv) -> list[str]:
    return sorted(path.name for path in venv.site.glob("acme*"))


@pytest.mark.long  # a dozen runs of pip
def test_a_user_installs_upgrades_mixes_and_removes(
    house: Path, runtime_wheel: Path, tmp_path: Path
) -> None:
    shutil.copy(runtime_wheel, house)
    venv = Venv(tmp_path / "venv", *NEEDED)
    install = partial(venv.install, "--find-links", house)
    install("acme-demo==1.0")
    assert installed(venv) == ["acme", "acme_demo-1.0.dist-info"]
    assert program(venv) == [
        "2.0",  # the cpu device needs no more than the small wheel
        "NoImageError",
        "no image runs on GPU (compute capability 9.0, driver of CUDA 13.4)",
        "pip install 'acme-demo[sm90]==1.0'",
        "False",
    ]
    install("acme-demo[sm90]==1.0")  # the line of the error
    assert program(venv) == ["2.0", "sm_90 True", "False"]

    said = install("--upgrade", "acme-demo")  # the small wheel alone
    assert "acme-demo-sm90 1.0 requires acme-demo==1.0, but you have acme-demo 2.0" in said
    assert program(venv)[1] == "BundleError"
    install("--upgrade", "acme-demo[sm90]")
    assert installed(venv) == [
        "acme",
        "acme_demo-2.0.dist-info",
        "acme_demo_sm90-2.0.dist-info",
        "acme_sm90",
    ]
    assert program(venv) == ["3.0", "sm_90 True", "False"]

    install("acme-demo[all]")
    assert "acme_sm80" in installed(venv)
    venv.pip("uninstall", "-y", "acme-demo-sm90", "acme-demo-sm80")
    assert installed(venv) == ["acme", "acme_demo-2.0.dist-info"]
    assert "pip install 'acme-demo[sm90]==2.0'" in program(venv)
    venv.pip("uninstall", "-y", "acme-demo")
    assert installed(venv) == []


def test_wheels_are_inspected_beside_each_other(cli: Cli, house: Path, tmp_path: Path) -> None:
    small, provider = (f"acme_demo{part}-2.0-py3-none-any.whl" for part in ("", "_sm90"))
    assert "every image verified" in cli.good(house, "inspect", small, "--verify").out
    assert cli.good(house, "inspect", small, "--sizes").out.count("sm_90") == 2
    assert "holds machine code of acme-demo 2.0 alone" in cli(house, "inspect", provider).err
    shutil.copy(house / small, tmp_path)
    alone = cli(tmp_path, "inspect", small, "--verify")
    assert (alone.code, "pip install 'acme-demo[sm80]==2.0'" in alone.err) == (1, True)


def test_a_build_that_makes_fewer_removes_the_rest(cli: Cli, house: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(house.parent, tmp_path / "acme"))
    edit(project / "tilec.toml", '"sm_80", ', "")
    cli.good(project, "build")
    assert sorted(path.name for path in (project / "dist").glob("acme*-2.0-*")) == [
        "acme_demo-2.0-py3-none-any.whl",
        "acme_demo_sm90-2.0-py3-none-any.whl",
    ]
    edit(project / "tilec.toml", 'arch" }', 'arch", max-size = "2 KiB" }')
    before = tree(project / "dist")
    done = cli(project, "build")
    assert (done.code, "more than [output.wheel] max-size = 2.0 KiB" in done.err) == (1, True)
    assert tree(project / "dist") == before
    cli.good(project, "clean")
    assert not list((project / "dist").glob("acme*"))
