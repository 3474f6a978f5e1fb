"""Builds the bundle of tilec's own kernels (runtime/tilec_runtime/kernels) from its manifest, in a
folder of its own, and puts it there.

usage: python scripts/build_kernels.py [--check]. Needs tilec[build], and no GPU. With --check
nothing is written: exit code 1 says that the bundle is not what its sources give.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tilec.build import build
from tilec.compile.events import Observer
from tilec.planning import BuildRequest

HOME = Path(__file__).resolve().parents[1] / "runtime" / "tilec_runtime" / "kernels"
BUNDLE = HOME / "kernels.tilec"


def main() -> int:
    """Build, and write or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    data = built()
    same = BUNDLE.is_file() and BUNDLE.read_bytes() == data
    if not arguments.check and not same:
        BUNDLE.write_bytes(data)
    state = (
        "is up to date"
        if same
        else "is not what its sources give"
        if arguments.check
        else "was renewed"
    )
    print(f"{BUNDLE.name} ({len(data) / 1024:.0f} KiB) {state}")
    return 1 if arguments.check and not same else 0


def built() -> bytes:
    """The bundle as the sources give it, compiled anew."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "kernels"
        project.mkdir()
        for source in (*HOME.glob("*.cu"), *HOME.glob("*.cuh"), HOME / "tilec.toml"):
            shutil.copy(source, project)
        request = BuildRequest(manifest_path=project / "tilec.toml", workers=2)
        result = build(request, Observer())
        return Path(
            next(output.path for output in result.outputs if output.kind == "bundle")
        ).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
