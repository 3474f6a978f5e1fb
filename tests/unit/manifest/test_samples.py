"""Sample manifests: good ones load, bad ones give exactly the messages of the golden file beside
them (`--renew-golden` writes them).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilec.manifest.load import load
from tilec_runtime.errors import ManifestError

LANGUAGES = {
    "tile": (".py",),
    "cuda": (".cu", ".cuh"),
    "triton": (),
    "simt": (),
    "prebuilt": (".ptx", ".cubin"),
}
SAMPLES = Path(__file__).parents[2] / "samples" / "manifests"
GOOD = sorted((SAMPLES / "good").glob("*.toml"))
BAD = sorted((SAMPLES / "bad").glob("*.toml"))


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_good(path: Path) -> None:
    manifest = load(path, languages=LANGUAGES)
    assert manifest.kernels
    assert manifest.root == str(path.parent.absolute())


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_bad(path: Path, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(ManifestError) as caught:
        load(path, languages=LANGUAGES, shown="tilec.toml")
    places = [problem.location for problem in caught.value.problems]
    assert all(place is not None and place.line and place.column for place in places)
    assert places == sorted(
        places, key=lambda place: (place.line, place.column) if place else (0, 0)
    )
    golden(path.with_suffix(".txt"), f"{caught.value}\n")
