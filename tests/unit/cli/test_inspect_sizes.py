"""`tilec inspect --sizes` and `--coverage`: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runtime_samples import ADD, IMAGES, image, kernel, slot
from tests.unit.conftest import Cli
from tilec.package.write import write_bundle
from tilec_runtime.model.kernel import BundleInfo, PackageInfo, VariantInfo

DEAD = kernel(
    "scale",
    (),
    (
        VariantInfo(
            id="scale",
            abi=(slot("i32", "1"),),
            images=(image("s", "sm_90"), image("s", "sm_90a"), image("s", "tileir")),
        ),
    ),
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    info = BundleInfo(
        package=PackageInfo(name="acme", version="1.0", module="acme"), kernels=(ADD, DEAD)
    )
    write_bundle(tmp_path / "acme.tilec", info, IMAGES.__getitem__)
    return tmp_path / "acme.tilec"


TEXT = """\
target  images  size  packed  dead  taken by
sm_80        1  26 B    26 B     0  sm_80, sm_86, sm_89
sm_90        3  73 B    73 B     1  sm_90
sm_90a       1  21 B    21 B     0  sm_90
tileir       1  21 B    21 B     0  cpu; \
sm_80, sm_86, sm_87, sm_88, sm_89, sm_100, sm_103, sm_107, sm_110, sm_120, sm_121 where TILEC_JIT_FALLBACK=allow

6 images, 141 B in the bundle, 20 B of it dead
  scale-sm_90  20 B, devices that could run it take sm_90a
"""


def test_sizes(cli: Cli, bundle: Path) -> None:
    done = cli("inspect", str(bundle), "--sizes")
    assert (done.code, done.out) == (0, TEXT)
    done = cli("inspect", str(bundle), "--sizes", "--deny", "dead")
    assert (done.code, done.out) == (1, TEXT)
    document = json.loads(cli("inspect", str(bundle), "--sizes", "--json").out)
    assert document["kind"] == "sizes"
    assert [row["target"] for row in document["targets"]] == ["sm_80", "sm_90", "sm_90a", "tileir"]
    assert [(row["id"], row["instead"]) for row in document["dead"]] == [
        ("scale-sm_90", ["sm_90a"])
    ]


def test_coverage(cli: Cli, bundle: Path) -> None:
    done = cli("inspect", str(bundle), "--coverage", "sm_90,sm_86")
    assert done.code == 1
    assert done.out == (
        "sm_90  machine code for 3 variants, with drivers from CUDA 11.8 (driver branch 520 or later)\n"
        "sm_86  2 of 3 variants have no machine code\n"
        "  sm_90: a cubin runs on compute capability 9.0 and later 9.x only, not on 8.6\n"
        "    add-a16\n"
        "  sm_90: a cubin runs on compute capability 9.0 and later 9.x only, not on 8.6; sm_90a: an architecture-specific cubin runs on"
        " compute capability 9.0 only, not on 8.6; tileir: Tile IR that the driver would compile, and jit-fallback is deny by default\n"
        "    scale\n"
        "  fix: add sm_86 to [targets] and build again\n"
    )
    assert cli("inspect", str(bundle), "--coverage", "sm_90").code == 0
    document = json.loads(cli("inspect", str(bundle), "--coverage", "sm_90", "--json").out)
    assert [(row["device"], row["complete"]) for row in document["devices"]] == [("sm_90", True)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--deny", "dead"), "--deny goes with --sizes"),
        (("--sizes", "--coverage", "sm_90"), "--coverage and --sizes cannot be combined"),
        (("--coverage", "sm_91"), "no architecture 'sm_91'"),
        (("--coverage", ""), "it names nothing"),
        (("--coverage", ","), "it names nothing"),
    ],
)
def test_wrong_options(options: tuple[str, ...], message: str, cli: Cli, bundle: Path) -> None:
    done = cli("inspect", str(bundle), *options)
    assert done.code == 2
    assert message in done.err
