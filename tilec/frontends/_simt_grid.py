"""The barrier of a whole grid: numba calls two functions of CUDA's device runtime for it, which are made here of CUDA's own headers."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilec.errors import ToolchainError
from tilec.frontends import _simt_text as text
from tilec.frontends._cuda_nvrtc import load
from tilec.frontends._tools import Tool

# By what numba calls them. The headers declare functions of these names too, with other types.
_NAMES = {"cudaCGGetIntrinsicHandle": "tilec_grid_handle", "cudaCGSynchronize": "tilec_grid_sync"}
# Group 1 is the grid, the one group that numba asks for.
_SOURCE = """#include <cooperative_groups.h>
extern "C" __device__ unsigned long long tilec_grid_handle(unsigned int group) { return group; }
extern "C" __device__ unsigned int tilec_grid_sync(unsigned long long, unsigned int) {
    cooperative_groups::this_grid().sync();
    return 0;
}
"""


def with_barrier(ptx: str, *, arch: str, tools: Mapping[str, Tool], timeout: float) -> str:
    """PTX that calls the barrier, with the barrier in it; no other PTX is changed.

    Raises:
        ToolchainError: CUDA's headers do not compile.
    """
    if not any(name in ptx for name in _NAMES):
        return ptx
    paths = (tools["libnvrtc"].path, tools["libnvrtc-builtins"].path, tools["headers"].path)
    return text.spliced(ptx, _barrier(paths, arch, timeout), _NAMES)


@functools.lru_cache(maxsize=16)
def _barrier(paths: tuple[str, str, str], arch: str, timeout: float) -> str:
    library, builtins, headers = paths
    options = [f"-arch={arch}", "-rdc=true", "-std=c++17", f"-I{headers}", f"-I{headers}/cccl"]
    made = load(library, builtins).compile(_SOURCE.encode(), "grid.cu", options, names=(), ptx=True, timeout=timeout)
    if not made.ok:
        raise ToolchainError(
            f"cooperative groups do not compile for {arch}: {made.log or made.result}",
            cause="a kernel that synchronizes its grid needs CUDA's own headers",
            fix="pip install --force-reinstall 'tilec[build]'",
        )
    return made.ptx
