"""Find the tools of tile kernels."""

from __future__ import annotations

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.packages import FIX
from tilec.frontends.tools.search import Tool, require
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version

# tileiras loads libnvvm and starts ptxas, both from its own toolkit.
TOOLS = ("tileiras", "ptxas", "libnvvm")
OLDEST: Version = (13, 2)


def find(search: ToolSearch, *, digest: bool = True) -> dict[str, Tool]:
    """Return tileiras and the tools that it uses, of one toolkit release.

    Raises:
        ToolchainError: something is missing, too old or half installed.
    """
    tools = require(TOOLS, search, digest=digest)
    assembler = tools["tileiras"]
    if assembler.release != (0, 0) and assembler.release < OLDEST:
        raise ToolchainError(
            f"tileiras is of version {assembler.version}, and tile kernels need {OLDEST[0]}.{OLDEST[1]} or newer ({assembler.path})",
            fix=FIX,
        )
    return tools
