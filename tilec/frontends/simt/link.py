"""Functions that numba's code calls and does not hold: CUDA C++ that comes with numba, and the barrier of a grid; as PTX or LTO-IR."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from tilec.frontends.simt import text as text
from tilec.frontends.tools.cpp.nvrtc import Folders, Program, compile_nowhere, load
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.search import Tool
from tilec_runtime.errors import ToolchainError

# What numba calls for `cuda.cg.this_grid().sync()` is CUDA's device runtime; the same is in CUDA's headers, which declare these names
# with other types. Cooperative groups with type traits of their own: nothing here needs libcu++, reading which takes ten times as long.
_BARRIER = {"cudaCGGetIntrinsicHandle": "tilec_grid_handle", "cudaCGSynchronize": "tilec_grid_sync"}
_SOURCE = """#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>
extern "C" __device__ unsigned long long tilec_grid_handle(unsigned int group) { return group; }
extern "C" __device__ unsigned int tilec_grid_sync(unsigned long long, unsigned int) {
    cooperative_groups::this_grid().sync();
    return 0;
}
"""


def complete(ptx: str, sources: Sequence[str], *, arch: str, tools: Mapping[str, Tool], timeout: float) -> str:
    """PTX with the functions that it declares as external, where these are in CUDA C++ `sources` or are the barrier's.

    Raises:
        ToolchainError: the CUDA C++ does not compile.
    """
    called = text.external(ptx)
    paths = (tools["libnvrtc"].path, tools["libnvrtc-builtins"].path, tools["headers"].path)
    if called & _BARRIER.keys():
        ptx = text.spliced(ptx, _compiled(_SOURCE, paths, arch, timeout), _BARRIER)
    for source in sources:
        library = _compiled(source, paths, arch, timeout)
        ptx = text.spliced(ptx, library, {name: name for name in sorted(called & text.functions(library))})
    return ptx


def own_names(modules: Sequence[str]) -> list[str]:
    """LLVM modules that call the barrier's functions by their names here."""
    called = re.compile("|".join(rf"\b{name}\b" for name in _BARRIER))
    return [called.sub(lambda found: _BARRIER[found[0]], module) for module in modules]


def pieces(ptx: str, sources: Sequence[str], *, arch: str, tools: Mapping[str, Tool], timeout: float) -> list[Piece]:
    """LTO-IR of the CUDA C++ that `complete` would take functions of.

    Raises:
        ToolchainError: the CUDA C++ does not compile.
    """
    called = text.external(ptx)
    paths = (tools["libnvrtc"].path, tools["libnvrtc-builtins"].path, tools["headers"].path)
    needed = [_SOURCE] if called & _BARRIER.keys() else []
    needed += [source for source in sources if called & text.functions(_compiled(source, paths, arch, timeout))]
    made = [_program(source, paths, arch, timeout, lto=True).ltoir for source in needed]
    return [Piece(name=f"numba{number}.cu", kind="LTOIR", data=data) for number, data in enumerate(made)]


@functools.lru_cache(maxsize=64)
def _compiled(source: str, paths: tuple[str, str, str], arch: str, timeout: float) -> str:
    return _program(source, paths, arch, timeout).ptx


def _program(source: str, paths: tuple[str, str, str], arch: str, timeout: float, *, lto: bool = False) -> Program:
    library, builtins, headers = paths
    options = [f"-arch={arch}", "-rdc=true", "-std=c++17"]
    nvrtc = load(library, builtins)
    if lto:
        options += ["-dlto", "-frandom-seed=tilec"]
        folders = Folders(root=headers, toolkit=headers)
        made = compile_nowhere(nvrtc, source.encode(), "numba.cu", options, folders, timeout=timeout)
    else:
        options += [f"-I{headers}", f"-I{headers}/cccl"]
        made = nvrtc.compile(source.encode(), "numba.cu", options, names=(), ptx=True, timeout=timeout)
    if not made.ok:
        raise ToolchainError(
            f"what numba takes of CUDA C++ does not compile for {arch}: {made.log or made.result}",
            cause="kernels with f16, bf16 or a grid's barrier need CUDA's own headers, of the release that NVRTC is of",
            fix="pip install --force-reinstall 'tilec[build]'",
        )
    return made
