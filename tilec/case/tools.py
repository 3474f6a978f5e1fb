"""Finds NVIDIA's tools that observe a launch: ncu, cuda-gdb and compute-sanitizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import wheel_programs
from tilec_runtime.errors import ToolchainError

# Where installers put them outside of PATH; the last by name is the newest.
_PLACES: dict[str, tuple[str, ...]] = {
    "ncu": (
        "usr/local/cuda/bin/ncu",
        "opt/nvidia/nsight-compute/*/ncu",
        "usr/local/cuda-*/bin/ncu",
    ),
    "cuda-gdb": ("usr/local/cuda/bin/cuda-gdb", "usr/local/cuda-*/bin/cuda-gdb"),
    "compute-sanitizer": (
        "usr/local/cuda/bin/compute-sanitizer",
        "usr/local/cuda/compute-sanitizer/compute-sanitizer",
        "usr/local/cuda-*/bin/compute-sanitizer",
        "usr/local/cuda-*/compute-sanitizer/compute-sanitizer",
    ),
}
_GET = {
    "ncu": "install Nsight Compute, with the CUDA toolkit or alone: `apt-get install cuda-nsight-compute-13-0` (or dnf; from NVIDIA's "
    "repository, for the driver's release of CUDA)",
    "cuda-gdb": "install cuda-gdb, with the CUDA toolkit or alone: `apt-get install cuda-gdb-13-0` (or dnf; from NVIDIA's repository, for "
    "the driver's release of CUDA)",
    "compute-sanitizer": "install it with `pip install nvidia-cuda-sanitizer-api` (take the driver's major version, such as "
    "'nvidia-cuda-sanitizer-api==13.*'), or with the CUDA toolkit (package cuda-sanitizer of NVIDIA's repository)",
}


def find_outside_tool(name: str, search: ToolSearch) -> str:
    """Return the path of a tool: on PATH, in installed wheels, in CUDA_HOME or a usual folder.

    Args:
        name: `ncu`, `cuda-gdb` or `compute-sanitizer`.
        search: PATH and CUDA_HOME.

    Raises:
        ToolchainError: it was not found; the message has the places and what to install.
    """
    program = shutil.which(name, path=search.path) if search.path else None
    if program:
        return program
    home = [Path(search.cuda_home) / "bin" / name] if search.cuda_home else []
    named = [*wheel_programs(name), *home]
    usual = [
        path for pattern in _PLACES[name] for path in sorted(Path("/").glob(pattern), reverse=True)
    ]
    for path in (*named, *usual):
        if shutil.which(str(path)):
            return str(path)
    searched = ["PATH", *map(str, named), *(f"/{pattern}" for pattern in _PLACES[name])]
    raise ToolchainError(
        f"{name} not found; looked in {', '.join(searched)}", fix=f"{_GET[name]}, or put it on PATH"
    )
