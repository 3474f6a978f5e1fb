"""What `tilec profile` and `tilec debug` build: aside, for the GPU at hand, with source lines, and
nothing of what is shipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, tree, write
from tests.watched_project import write_tool
from tilec.cli.main import run
from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import machine_code
from tilec.inspection.lines import sass_listing
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device import driver as _driver

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]
CASE = """
[kernel.twice.case.some]
inputs.x = { shape = [256], dtype = "f32" }
inputs.y = { shape = [256], dtype = "f32", dist = "empty" }
"""


def test_the_kernel_is_built_with_source_lines(tmp_path: Path, monkeypatch, capsys) -> None:
    root = write(
        tmp_path / "mixed",
        (HEAD + ADD + TWICE + CASE).replace('default = ["sm_90"]', 'default = ["sm_80", "sm_90"]'),
    )
    assert '["sm_80", "sm_90"]\n' in (root / "tilec.toml").read_text()
    write_tool(tmp_path, "cuda-gdb", "exit 0")
    fake = FakeDriver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    env = {
        "HOME": str(tmp_path),
        "TILEC_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
    }
    code = run(["debug", "twice/some", "--profile", "release"], env, root)
    assert code == 0, capsys.readouterr().err
    (path,) = (root / ".tilec" / "run").glob("*.tilec")
    bundle = Bundle.open(path)
    (kernel,) = bundle.info.kernels
    images = [image for variant in kernel.variants for image in variant.images]
    assert {str(image.target) for image in images} == {"sm_90"}
    assert not (root / "dist").exists()
    assert "tilec.lock" not in tree(root)
    listing = sass_listing(
        machine_code(bundle.image(images[0].digest), images[0].symbol, ToolSearch(), places=True)[1]
    )
    assert {places[0][0] for places in listing.places if places} == {"k/twice.cu"}
    assert str(path) in (tmp_path / "calls").read_text().splitlines()
