"""Cold build of the tile examples against the time that the assembler alone takes: sum of tileiras runs / cores.

The assembler's time is measured by itself: on the portable bytecode of every variant and for every target, one run after another. Builds
and sums take turns.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from common import TILE_KERNELS, example_project, median, options, save, tilec, timed, toolkit


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "")
    parser.add_argument("--targets", default="sm_80,sm_90,sm_120", help="cubin targets to build for")
    parser.add_argument("--kernels", default=",".join(TILE_KERNELS), help="kernels to build")
    arguments = parser.parse_args()
    targets = arguments.targets.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = example_project(folder)
        build(project, folder, [*targets, "tileir"], arguments.kernels, arguments.jobs)
        modules = bytecode(project)
        builds, sums = [], []
        for _ in range(arguments.repeats):
            builds.append(build(project, folder, targets, arguments.kernels, arguments.jobs))
            sums.append(sum(assemble(path, target, folder) for path in modules for target in targets))
    ours, alone = median(builds), median(sums)
    ideal = alone / arguments.jobs
    table = [
        ("jobs", f"{len(modules) * len(targets)} ({len(modules)} variants x {', '.join(targets)})"),
        ("tilec build, cold", f"{ours:.2f} s with {arguments.jobs} workers"),
        ("sum of tileiras", f"{alone:.2f} s, {ideal:.2f} s on {arguments.jobs} cores"),
        ("over the assembler alone", f"{(ours / ideal - 1) * 100:+.1f} % (wanted: at most +10 %)"),
    ]
    save("tile_build", arguments.out, {"builds": builds, "tileiras": sums, "targets": targets, "ratio": ours / ideal}, table)


def build(project: Path, folder: Path, targets: list[str], kernels: str, jobs: int) -> float:
    """Seconds of a build with nothing cached."""
    cache = folder / "cache"
    for path in (cache, project / ".tilec", project / "dist"):
        shutil.rmtree(path, ignore_errors=True)
    command = [tilec(), "build", "-C", str(project), "--targets", ",".join(targets), "--select", kernels, "-j", str(jobs), "-q"]
    return timed(command, env={"TILEC_CACHE_DIR": str(cache), "CUDA_TILE_CACHE_DIR": "off"})


def bytecode(project: Path) -> list[Path]:
    """The portable bytecode of every variant as a file."""
    from tilec.inspection.container import open_container

    bundle = open_container(project / "dist").bundle
    found = []
    for kernel in bundle.info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                if image.target.kind.value != "tileir":
                    continue
                path = project / f"{variant.id}.tileirbc"
                path.write_bytes(bundle.image(image.digest))
                found.append(path)
    return found


def assemble(path: Path, target: str, folder: Path) -> float:
    """Seconds of one run of the assembler."""
    command = [str(toolkit() / "bin" / "tileiras"), str(path), "-o", str(folder / "out.cubin"), "--gpu-name", target, "-O3"]
    return timed(command)


if __name__ == "__main__":
    main()
