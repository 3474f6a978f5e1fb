"""What takes part in compiling a Triton kernel, with versions and digests; Triton is not imported
for it.
"""

from __future__ import annotations

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools import packages as python
from tilec.frontends.tools.search import require
from tilec.frontends.triton import api
from tilec_runtime.model.kernel import ToolInfo


def toolchain(search: ToolSearch) -> tuple[ToolInfo, ...]:
    """Triton, Python (which executes the module and parses its source) and ptxas.

    Raises:
        ToolchainError: something is missing, half installed, or a Triton that tilec was not written
            against.
    """
    part = "triton/__init__.py"
    package = python.package(
        "triton", "triton", part, whose="Triton", fix=api.FIX, verify=search.verify
    )
    python.require_minor("triton", package.version, api.TESTED, api.FIX)
    tools = require(("ptxas",), search)
    return (
        package,
        python.interpreter(),
        *(ToolInfo(name=t.name, version=t.version, digest=t.digest) for t in tools.values()),
    )
