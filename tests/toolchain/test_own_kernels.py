"""The bundle of tilec's own kernels, which is committed, holds what its sources give: `python
scripts/build_kernels.py` renews it.
"""

from __future__ import annotations

import io
import zipfile

import pytest

from scripts.build_kernels import BUNDLE, built
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.digest import sha256

pytestmark = pytest.mark.toolchain


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_committed_bundle_is_of_these_sources():
    sources = Bundle.open(BUNDLE.read_bytes()).info.sources
    changed = [
        name for name, digest in sources if sha256((BUNDLE.parent / name).read_bytes()) != digest
    ]
    assert not changed, "sources changed: run scripts/build_kernels.py"


@pytest.mark.long
def test_the_committed_bundle_is_what_its_sources_give():
    committed, fresh = BUNDLE.read_bytes(), built()
    old, new = Bundle.open(committed).info, Bundle.open(fresh).info
    assert new.sources == old.sources, "sources changed: run scripts/build_kernels.py"
    if (
        new.toolchain != old.toolchain
    ):  # another release of the compilers: other code, for the same launches
        assert [(k.name, k.params, k.launch, k.axes, len(k.variants)) for k in new.kernels] == [
            (k.name, k.params, k.launch, k.axes, len(k.variants)) for k in old.kernels
        ]
        return
    # Content, not the file itself: another zlib packs it otherwise.
    assert members(fresh) == members(committed), "the bundle is stale: run scripts/build_kernels.py"
