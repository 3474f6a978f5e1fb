"""What takes part in compiling a SIMT kernel, with versions and digests; numba is not imported for
it.
"""

from __future__ import annotations

from tilec.frontends.base import ToolSearch
from tilec.frontends.simt import api
from tilec.frontends.tools import packages as python
from tilec.frontends.tools.search import require
from tilec_runtime.model.kernel import ToolInfo

LINKER = "libnvJitLink"
TOOLS = ("libnvvm", "libnvrtc", "libnvrtc-builtins", "ptxas", "headers", "crt-headers", LINKER)


def toolchain(search: ToolSearch) -> tuple[ToolInfo, ...]:
    """numba-cuda, numba and llvmlite, Python (which executes the module, and whose bytecode is
    compiled), and the toolkit's part.

    Raises:
        ToolchainError: something is missing, half installed, or a numba-cuda that tilec was not
            written against.
    """
    made = [
        python.package(name, stem, part, whose="SIMT Python", fix=api.FIX, verify=search.verify)
        for name, stem, part in (
            ("numba-cuda", "numba_cuda", "numba_cuda/__init__.py"),
            ("numba", "numba", "numba/__init__.py"),
            ("llvmlite", "llvmlite", "llvmlite/__init__.py"),
        )
    ]
    python.require_minor("numba-cuda", made[0].version, api.TESTED, api.FIX)
    tools = require(TOOLS, search)
    rows = (
        ToolInfo(name=t.name, version=t.version, digest=t.digest)
        for t in tools.values()
        if t.name != "crt-headers"
    )
    return (*made, python.interpreter(), *rows)
