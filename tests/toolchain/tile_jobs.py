"""Small jobs over tests/samples/tile_project, shared by the tests of the tile frontend."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from tests.toolchain.projects import SEARCH, scalar, tensor, write
from tilec.frontends.tile.frontend import TileFrontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.arch import Target
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import Assumption, Param

SAMPLE = Path(__file__).parents[1] / "samples" / "tile_project"
HEADER = "import cuda.tile as ct\n"


def frontend(**changes: str) -> TileFrontend:
    return TileFrontend(dataclasses.replace(SEARCH, **changes))


def sample_at(folder: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, folder / "project", dirs_exist_ok=True))


def vectors(*names: str, **fields) -> tuple[Param, ...]:
    """Rank-1 tensors; the last one is written."""
    return tuple(tensor(n, out=n == names[-1], **fields) for n in names)


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


def declared(tile: TileFrontend, root: Path, text: str) -> KernelDecl:
    """The one kernel of k.py, which has this text."""
    write(root, {"k.py": text})
    (decl,) = tile.declare(Source(root=str(root), path="k.py"))
    return decl


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
