"""A tuning table from the manifest to launches on the cpu device: taken up, refused, never stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied
from tilec import build as building
from tilec import planning
from tilec.compile.cache import Cache
from tilec.compile.events import Observer
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.tuning_file import record_text
from tilec.model.tuning import TunedDevice, TunedEntry, TuningRecord, bucket_of, size_expressions
from tilec.planning import digest_of, runner_of
from tilec_runtime import Device, Module, load
from tilec_runtime.model.arch import Target

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "dispatch_project"


@pytest.fixture(scope="module")
def project(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copied(SAMPLE, tmp_path_factory.mktemp("tuned") / "project")
    manifest = (root / "tilec.toml").read_text().replace('["sm_90", "tileir"]', '["tileir"]')
    (root / "tilec.toml").write_text(
        manifest.replace("BN = 32 } }", 'BN = 32 }, table = "tuning/blend.json" }')
    )
    return root


def record_of(root: Path, *points: tuple[int, int, int]) -> TuningRecord:
    """A record of the cpu device, of (rows, BM, BN)."""
    project = open_project(root / "tilec.toml", ToolSearch())
    request = planning.BuildRequest(manifest_path=root / "tilec.toml", aside=True)
    observer = Observer()
    plan = planning.plan_only(request, observer)
    work, cache = building.WorkDir(root), Cache(None, max_bytes=0, note=observer.note)
    with runner_of(project, request, cache, observer, work.spool, work.kept) as runner:
        declared = building.declare(project, runner, Cache(None, max_bytes=0, note=observer.note))
    (kernel,) = plan.kernels
    sizes = size_expressions(kernel.info)
    entries = tuple(
        TunedEntry(
            case="odd",
            ranges=(bucket_of(rows), (1, 1 << 20)),
            at=(rows, 64),
            point=(("T", "f32"), ("BM", bm), ("BN", bn)),
            variant=f"blend-f32-BM{bm}-BN{bn}",
            median_us=2.5,
            interval_us=(2.0, 3.0),
            samples=10,
        )
        for rows, bm, bn in points
    )
    device = TunedDevice(
        name="CPU", cc=(0, 0), multiprocessors=1, target=Target.parse("tileir"), entries=entries
    )
    return TuningRecord(
        kernel="blend",
        kernel_digest=digest_of(project, declared, project.manifest.kernels[0]),
        space_digest=kernel.space,
        toolchain=declared.tools["tile"],
        sizes=sizes,
        devices=(device,),
    )


def write(root: Path, record: TuningRecord) -> None:
    path = root / "tuning" / "blend.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(record_text(record))


def taken(root: Path, rows: int, **axes: Any) -> str:
    """The variant that a launch runs, which gives the right answer."""
    module: Module = load(root / "dist" / "blends-1.0.tilec", "cpu")
    x, z = np.ones((rows, 33), np.float32), np.zeros((rows, 33), np.float32)
    module.blend(z, x, x, **axes)
    Device("cpu").sync()
    assert (z == 3).all()
    return str(module.blend.explain(z, x, x, **axes).variant.id)


def test_a_table_from_the_manifest_to_a_launch(cli: Cli, project: Path) -> None:
    missing = cli(project, "build")
    assert missing.code == 2
    assert (
        "tilec.toml:14:46: error: kernel.blend.dispatch.table: no such file 'tuning/blend.json': `tilec tune blend` writes it"
        in missing.err
    )
    assert cli(project, "run", "--device", "cpu").code == 0  # all variants, without a table

    record = record_of(project, (64, 4, 32), (128, 16, 16))
    assert record.sizes == ("z.shape[0]", "z.shape[1]")
    write(project, record)
    cli.good(project, "build")
    assert [taken(project, rows) for rows in (64, 127, 128, 300)] == [
        "blend-f32-BM4-BN32-contiguous",
        "blend-f32-BM4-BN32-contiguous",
        "blend-f32-BM16-BN16-contiguous",
        "blend-f32-BM16-BN32-contiguous",
    ]
    assert taken(project, 64, BM=16) == "blend-f32-BM16-BN32-contiguous"
    assert cli(project, "build", "--json").json()["up_to_date"]

    write(project, record_of(project, (64, 16, 16)))
    again = cli(project, "build", "--json").json()
    assert (again["up_to_date"], again["compiled"]) == (False, 0)
    assert taken(project, 64) == "blend-f32-BM16-BN16-contiguous"

    assert (
        "tuned by tuning/blend.json: CPU (1 entry)"
        in cli.good(project, "inspect", "dist/blends").out
    )
    (kernel,) = json.loads(cli.good(project, "inspect", "dist/blends", "--json").out)["kernels"]
    assert kernel["table"]["sizes"] == ["z.shape[0]", "z.shape[1]"]
    assert kernel["table"]["devices"][0]["entries"][0]["point"] == [
        ["T", "f32"],
        ["BM", 16],
        ["BN", 16],
    ]
    text = (project / "dist" / "blends" / "__init__.pyi").read_text()
    assert "BM: Literal[16, 4] | None = None" in text or "BM: Literal[4, 16] | None = None" in text
    assert "by the tuning table or 16 by default" in text
