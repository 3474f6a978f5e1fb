"""Names of the tools and packages that compile SIMT kernels."""

from __future__ import annotations

LINKER = "libnvJitLink"
TOOLS = ("libnvvm", "libnvrtc", "libnvrtc-builtins", "ptxas", "headers", "crt-headers", LINKER)
# Distributions by the modules that they install.
PACKAGES = {"numba-cuda": "numba_cuda", "numba": "numba", "llvmlite": "llvmlite"}
