"""The bundle of tests/samples/watched, which is kept for machines without compilers, is of the
sources beside it.
"""

from __future__ import annotations

from pathlib import Path

from tilec.case.cases import expand_cases
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.digest import sha256

WATCHED = Path(__file__).parents[1] / "samples" / "watched"


def test_the_bundle_is_of_these_sources() -> None:
    info = Bundle.open(WATCHED / "watched.tilec").info
    sources = {path.name: sha256(path.read_bytes()) for path in WATCHED.glob("*.cu")}
    assert dict(info.sources) == sources, (
        "renew the bundle, as tests/samples/watched/tilec.toml says"
    )
    manifest = open_project(WATCHED / "tilec.toml", ToolSearch()).manifest
    built = {kernel.name: kernel for kernel in info.kernels}
    assert list(built) == [kernel.name for kernel in manifest.kernels]
    assert all(expand_cases(kernel, built[kernel.name]) for kernel in manifest.kernels)
    assert {
        str(image.target)
        for kernel in info.kernels
        for variant in kernel.variants
        for image in variant.images
    } == {"sm_80", "sm_90"}
