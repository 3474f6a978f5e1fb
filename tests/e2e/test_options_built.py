"""Axes that are compiler hints, from the manifest to a launch: built, shown, chosen, and refused
where they were not built.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, Cli, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

ROOT = Path(__file__).resolve().parents[2]
TUNED = ADD.replace(
    "matrix = { TILE = [128] }",
    "matrix = { TILE = [128], occupancy = [1, 4] }\ndispatch = { default = { occupancy = 4 } }",
)
USE = """
import numpy as np
import acme
from tilec_runtime.errors import VariantError
from tilec_runtime import Device, Tensor, use_device

kernels = acme.load("cpu")
z, x = np.zeros(1000, np.float32), np.ones(1000, np.float32)
print(kernels["add"].explain(z, x).variant.id, kernels["add"].options(occupancy=1).explain(z, x).variant.id)
kernels.add(z, x, occupancy=1)
Device("cpu").sync()
print(z[0])
with use_device("cpu"):
    t = Tensor.from_foreign(z)
    t, _ = acme.add(t, x).options(occupancy=1).sync()
    try:
        acme.add(t, x).options(occupancy=2)
    except VariantError as error:
        print(error)
    print(t)
"""


def test_hints_of_the_matrix(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path / "project", HEAD + TUNED)
    cli.good(root, "build", "--targets", "sm_90,tileir")
    jobs = cli.good(root, "build", "--list").out
    assert "add-TILE128-occupancy1-sm_90" in jobs
    assert "add-TILE128-occupancy4-sm_90" in jobs
    shown = cli.good(root, "inspect", "dist/acme").out
    assert "occupancy = 1, 4 (default 4)" in shown
    assert "add-TILE128-occupancy1  (occupancy=1)" in shown
    (kernel,) = json.loads(cli.good(root, "inspect", "dist/acme", "--json").out)["kernels"]
    assert [variant["hints"] for variant in kernel["variants"]] == [
        {target: {"occupancy": value} for target in ("sm_90", "tileir")} for value in (1, 4)
    ]
    images = {
        variant["id"]: [image["sha256"] for image in variant["images"]]
        for variant in kernel["variants"]
    }
    assert len({digest for digests in images.values() for digest in digests}) == 4, (
        "each hint made code of its own"
    )
    text = (root / "dist" / "acme" / "__init__.pyi").read_text()
    assert "occupancy: Literal[1, 4] | None = None" in text
    assert "sm_90: occupancy=1; " in text

    code = f"import sys; sys.path[:0] = [{str(root / 'dist')!r}, {str(ROOT)!r}]\n{USE}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[:5] == [
        "add-TILE128-occupancy4 add-TILE128-occupancy1",
        "2.0",
        "add: no variant was built with the options occupancy=2; options that were built: occupancy=1; occupancy=4",
        "  fix: choose what was built, or add the option to the matrix of kernel.add (occupancy = [...]) and build again",
        "<Tensor f32[1000] on cpu>",
    ]
