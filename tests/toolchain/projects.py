"""Files, parameters, tools and builds, for the tests of all frontends."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tilec.build import BuildResult, build
from tilec.compile.events import Observer
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import find_tool
from tilec.planning import BuildRequest
from tilec_runtime.model.image import Image
from tilec_runtime.model.signature import Param, ParamKind

SEARCH = ToolSearch(path=os.environ.get("PATH", ""))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def tensor(name: str, dtype: str = "f32", rank: int = 1, **facts: Any) -> Param:
    return Param(name=name, kind=ParamKind.TENSOR, dtype=dtype, rank=rank, **facts)


def scalar(name: str, dtype: str = "f32") -> Param:
    return Param(name=name, kind=ParamKind.SCALAR, dtype=dtype)


def built(root: Path) -> BuildResult:
    """What building the project of a directory gives."""
    request = BuildRequest(manifest_path=root / "tilec.toml", workers=1, search=SEARCH)
    return build(request, Observer())


def tool(name: str) -> str:
    """Where a tool of the toolkit lies."""
    return find_tool(name, SEARCH).path


def run_tool(name: str, *args: str | Path, cwd: Path | None = None) -> str:
    """What a tool of the toolkit prints."""
    return subprocess.run(
        [tool(name), *args], cwd=cwd, capture_output=True, encoding="utf-8", check=True, timeout=240
    ).stdout


def machine_code(image: Image, folder: Path) -> list[str]:
    """The instructions of a cubin."""
    file = folder / "k.cubin"
    file.write_bytes(image.data)
    shown = run_tool("cuobjdump", "-sass", file)
    return re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(.*?);", shown, re.MULTILINE)
