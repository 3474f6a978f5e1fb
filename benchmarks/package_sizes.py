"""What a package of 19 kernels for six architectures weighs: as one wheel, as a wheel for each
architecture, and if its images were packed by other methods; with the time to unpack them.

The package is `examples/kernels`, of whose variants some are built (`--select`), which takes some
minutes. `--project FOLDER` takes a copy that is built. Zstandard is tried where `zstandard` can be
imported; tilec does not need it.
"""

from __future__ import annotations

import importlib
import lzma
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import ROOT, median, options, save, tilec

from tilec_runtime.bundle.format import images_of
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.arch import TargetKind

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "tileir")
SELECT = "*-bf16-*6-*"
MANIFEST = """
[output.wheel]
split = "arch"
"""

Pack = Callable[[bytes], bytes]


def main() -> None:
    """Build, measure, write `results/package_sizes.json`."""
    parser = options(__doc__ or "", repeats=5)
    parser.add_argument("--project", type=Path, help="a copy of examples/kernels to build in")
    parser.add_argument("--select", default=SELECT, help="which variants are built")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = given.project or Path(folder, "kernels")
        if not project.exists():
            shutil.copytree(ROOT / "examples" / "kernels", project)
        split, whole = _wheels(project, given.select)
        (path,) = (project / "dist").glob("*.tilec")
        bundle = Bundle.open(path)
        result = {
            "package": _counts(bundle),
            "one_wheel": whole,
            "split": split,
            "methods": _methods(bundle, given.repeats),
        }
    save("package_sizes", given.out, result, _rows(result))


def _wheels(project: Path, select: str) -> tuple[dict[str, int], int]:
    """Build the package in both forms; return the sizes of the split wheels, and of the one."""
    manifest = project / "tilec.toml"
    text = manifest.read_text(encoding="utf-8").replace(MANIFEST, "")
    found: list[dict[str, int]] = []
    for form in (text, text + MANIFEST):
        for old in (project / "dist").glob("*.whl"):
            old.unlink()
        manifest.write_text(form, encoding="utf-8")
        targets = ("--targets", ",".join(TARGETS), "--select", select)
        subprocess.run(
            [tilec(), "build", "--emit", "bundle,wheel", *targets], cwd=project, check=True
        )
        wheels = sorted((project / "dist").glob("*.whl"))
        found.append({path.name.split("-")[0]: path.stat().st_size for path in wheels})
    (whole,) = found[0].values()
    return found[1], whole


def _counts(bundle: Bundle) -> dict[str, int]:
    info = bundle.info
    return {
        "kernels": len(info.kernels),
        "variants": sum(len(kernel.variants) for kernel in info.kernels),
        "images": len({image.digest for image in images_of(info)}),
        "bytes": sum({image.digest: image.size for image in images_of(info)}.values()),
    }


def _methods(bundle: Bundle, repeats: int) -> dict[str, dict[str, Any]]:
    """Pack all machine code by each method: every image alone, and those of an architecture in one
    piece; and time what unpacks the images of sm_90.
    """
    images: dict[str, dict[str, bytes]] = {}
    for image in images_of(bundle.info):
        if image.target.kind is TargetKind.CUBIN:
            of_target = images.setdefault(str(image.target), {})
            of_target[image.digest] = bundle.image(image.digest)
    rows = {}
    for name, (pack, unpack) in _packers().items():
        alone = {target: [pack(data) for data in each.values()] for target, each in images.items()}
        pieces = {target: pack(b"".join(each.values())) for target, each in images.items()}
        rows[name] = {
            "each_alone": sum(map(len, (data for each in alone.values() for data in each))),
            "in_one_piece": sum(map(len, pieces.values())),
            "sm_90_each_alone": sum(map(len, alone["sm_90"])),
            "sm_90_in_one_piece": len(pieces["sm_90"]),
            "unpack_sm_90_ms": 1e3 * _seconds(unpack, alone["sm_90"], repeats),
            "unpack_sm_90_piece_ms": 1e3 * _seconds(unpack, [pieces["sm_90"]], repeats),
            "unpack_largest_ms": 1e3 * _seconds(unpack, [max(alone["sm_90"], key=len)], repeats),
        }
    return rows


def _packers() -> Mapping[str, tuple[Pack, Pack]]:
    """What packs and what unpacks, by name; the first is what bundles use."""
    found: dict[str, tuple[Pack, Pack]] = {
        "deflate 6": (lambda data: zlib.compress(data, 6), zlib.decompress),
        "deflate 9": (lambda data: zlib.compress(data, 9), zlib.decompress),
        "xz 6": (lambda data: lzma.compress(data, preset=6), lzma.decompress),
    }
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        return found
    unpack = zstandard.ZstdDecompressor().decompress
    for level in (3, 19):
        packer = zstandard.ZstdCompressor(level=level)
        found[f"zstd {level}"] = (packer.compress, unpack)
    return found


def _seconds(unpack: Pack, packed: Sequence[bytes], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        for data in packed:
            unpack(data)
        times.append(time.perf_counter() - begun)
    return median(times)


def _rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    counts, split = result["package"], result["split"]
    kernels, variants, images = (counts[name] for name in ("kernels", "variants", "images"))
    rows = [
        (
            "package",
            f"{kernels} kernels, {variants} variants, {images} images, {_kib(counts['bytes'])}",
        ),
        ("one wheel", _kib(result["one_wheel"])),
        *((f"split: {name}", _kib(size)) for name, size in split.items()),
        ("split: all", _kib(sum(split.values()))),
    ]
    for name, row in result["methods"].items():
        sizes = f"{_kib(row['each_alone'])} each alone, {_kib(row['in_one_piece'])} an architecture in one piece"
        times = f"sm_90 unpacked in {row['unpack_sm_90_ms']:.1f} and {row['unpack_sm_90_piece_ms']:.1f} ms"
        rows.append((name, f"{sizes}; {times}"))
    return rows


def _kib(size: int) -> str:
    return f"{size / 1024:.0f} KiB"


if __name__ == "__main__":
    main()
