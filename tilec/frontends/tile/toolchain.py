"""Find the tools of tile kernels, with versions and digests; does not import cuda.tile."""

from __future__ import annotations

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.patches import TESTED
from tilec.frontends.tools.packages import FIX, interpreter, package, require_minor
from tilec.frontends.tools.search import Tool, require
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.kernel import ToolInfo

# tileiras loads libnvvm and starts ptxas, both from its own toolkit.
TOOLS = ("tileiras", "ptxas", "libnvvm")
OLDEST: Version = (13, 2)


def toolchain(search: ToolSearch) -> tuple[ToolInfo, ...]:
    """Return every tool of a tile compile.

    Python is one of them: it executes and parses the kernel's module.

    Raises:
        ToolchainError: something is missing, half installed, or a cuda-tile that tilec was not
            written against.
    """
    compiler = package("cuda-tile", "cuda/tile/__init__.py", verify=search.verify)
    require_minor("cuda-tile", compiler.version, TESTED, FIX)
    return (
        compiler,
        interpreter(),
        *(tool.info for tool in find(search).values()),
    )


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
