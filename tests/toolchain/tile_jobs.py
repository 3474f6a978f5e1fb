"""Small jobs over tests/samples/tile_project, shared by the tests of the tile frontend."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.frontend import TileFrontend
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.arch import Target
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import Assumption, Param, ParamKind

SAMPLE = Path(__file__).parents[1] / "samples" / "tile_project"
HEADER = "import cuda.tile as ct\n"


def frontend(**changes: str) -> TileFrontend:
    return TileFrontend(ToolSearch(path=os.environ.get("PATH", ""), **changes))


def sample_at(folder: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, folder / "project", dirs_exist_ok=True))


def tensor(name: str, dtype: str = "f32", rank: int = 1, **fields) -> Param:
    return Param(name=name, kind=ParamKind.TENSOR, dtype=dtype, rank=rank, **fields)


def scalar(name: str, dtype: str = "f32") -> Param:
    return Param(name=name, kind=ParamKind.SCALAR, dtype=dtype)


def vectors(*names: str, dtype: str = "f32", **fields) -> tuple[Param, ...]:
    """Rank-1 tensors; the last one is written."""
    return tuple(tensor(n, dtype, out=n == names[-1], **fields) for n in names)


def job(
    tile: TileFrontend,
    root: Path,
    path: str,
    kernel: str,
    params: tuple[Param, ...],
    *,
    target: str = "sm_80",
    hints: dict[str, int] | None = None,
    assume: tuple[Assumption, ...] = (),
    axes: dict[str, object] | None = None,
    **spec,
) -> Job:
    source = Source(root=str(root), path=path)
    decl = (
        next((d for d in tile.declare(source) if d.name == kernel), None) or tile.declare(source)[0]
    )
    return Job(
        spec=KernelSpec(
            name=spec.pop("name", kernel),
            language="tile",
            source=source,
            decl=decl,
            symbol="",
            params=params,
            **spec,
        ),
        variant=Variant(kernel=kernel, id=kernel, axes=tuple((axes or {}).items()), assume=assume),
        target=Target.parse(target),
        hints=tuple((hints or {}).items()),
    )


def safe_ir(tile: TileFrontend, root: Path, checks: Checks) -> str:
    """Tile IR of kernel `k` of k.py, which writes z, reads x and y, all of rank 2, and takes a
    number n: as text.
    """
    params = (
        tensor("z", "T", 2, out=True),
        tensor("x", "T", 2),
        tensor("y", "T", 2),
        scalar("n", "i32"),
    )
    made = job(
        tile,
        root,
        "k.py",
        "k",
        params,
        target="tileir",
        axes={"T": "f32", "BM": 16, "BN": 16},
        checks=checks,
    )
    return render(read_module(tile.compile(made).data))
