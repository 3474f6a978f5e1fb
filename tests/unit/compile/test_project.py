"""A project on disk: what of it is missing, and what can be compiled although some of it cannot be
read.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, write
from tilec.compile.cache import Cache
from tilec.compile.declare import declare, may_select
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.files import reference_problems
from tilec_runtime.errors import ManifestError, MissingError, ToolchainError
from tilec_runtime.model.kernel import ToolInfo


def problems(root: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        open_project(root / "tilec.toml", ToolSearch())
    return [problem.render().replace(f"{root}/", "") for problem in caught.value.problems]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "project", HEAD + TWICE)


def test_only_the_languages_of_a_project_are_imported(root: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from tilec.compile.project import open_project\n"
        "from tilec.frontends.base import BUILTIN, SUFFIXES, ToolSearch\n"
        "assert BUILTIN.keys() == SUFFIXES.keys()\n"
        f"open_project(Path({str(root / 'tilec.toml')!r}), ToolSearch())\n"
        "print([name for name in BUILTIN if f'tilec.frontends.{name}.frontend' in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['cuda']\n"


def test_licence_files_that_are_not_there(tmp_path: Path) -> None:
    head = HEAD.replace(
        'version = "1.0.0"', 'version = "1.0.0"\nlicense-files = ["LICENSE", "NOTICE"]'
    )
    root = write(tmp_path, head + TWICE, {"LICENSE": "text"})
    assert [text.split("\n")[0] for text in problems(root)] == [
        "tilec.toml:6:29: error: package.license-files[1]: no such file 'NOTICE'"
    ]


class Lacking:
    """A frontend whose tools are not there."""

    def __init__(self, error: MissingError) -> None:
        self.error = error

    def toolchain(self) -> list[ToolInfo]:
        raise self.error


NO_NUMBA = ToolchainError("numba-cuda is not installed", fix="pip install 'tilec[simt]'")
OLD_TRITON = ToolchainError(
    "triton is of version 2.0", cause="it changes", fix="pip install 'tilec[triton]'"
)
NO_PTXAS = MissingError(
    "ptxas not found; looked for:\n  bin/ptxas", fix="pip install 'tilec[build]'"
)


@pytest.mark.parametrize(
    ("frontends", "told"),
    [
        ({"simt": NO_NUMBA}, "numba-cuda is not installed\n  fix: pip install 'tilec[simt]'"),
        (
            {"cuda": NO_PTXAS, "tile": NO_PTXAS},
            "ptxas not found; looked for:\n  bin/ptxas\n  fix: pip install 'tilec[build]'",
        ),
        (
            {"cuda": NO_PTXAS, "simt": NO_NUMBA, "tile": NO_PTXAS, "triton": OLD_TRITON},
            """kernels of these languages cannot be compiled: cuda, simt, tile, triton
  ptxas not found; looked for:
    bin/ptxas
  numba-cuda is not installed
  triton is of version 2.0
    cause: it changes
  fix: pip install 'tilec[build]'; pip install 'tilec[simt]'; pip install 'tilec[triton]'""",
        ),
    ],
)
def test_tools_that_several_languages_lack_are_told_at_once(
    root: Path, tmp_path: Path, frontends: dict[str, MissingError], told: str
) -> None:
    opened = open_project(root / "tilec.toml", ToolSearch())
    cache = Cache(tmp_path / "cache", max_bytes=1 << 20, note=pytest.fail)
    lacking = {name: Lacking(error) for name, error in frontends.items()}
    with pytest.raises(MissingError) as caught:
        declare(dataclasses.replace(opened, frontends=lacking), None, cache)  # type: ignore[arg-type]
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("select", "kernel", "may"),
    [
        ((), "add", True),
        (("add",), "add", True),
        (("add",), "adder", False),
        (("add-f16*",), "add", True),
        (("add-f16*",), "gemm", False),
        (("*-sm_90",), "add", True),
        (("*",), "add", True),
        (("[a-c]dd-*",), "add", True),
        (("[b-c]dd-*",), "add", False),
        (("add[-x]f16",), "add", True),
        (("ad?*sm_90",), "add", True),
        (("g*-sm_90", "a*"), "add", True),
        (("g*",), "add", False),
    ],
)
def test_a_selection_may_concern_a_kernel(select: tuple[str, ...], kernel: str, may: bool) -> None:
    assert may_select(select, kernel) is may


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"def twice(x):\n    return 2 * x\n", ""),
        (b"async def twice(x):\n    return 2 * x\n", ""),
        (b"from other import *\n", ""),
        (b"", "ref.py has no function 'twice'"),
        (b"# to be written\n", "ref.py has no function 'twice'"),
        (
            b"def twise(x):\n    return 2 * x\n",
            "ref.py has no function 'twice'; did you mean 'twise'",
        ),
        (b"X = 1\ndef twice(x:\n", "ref.py is no Python: '(' was never closed, line 2"),
        (b"def twice(x): return '\xff'\n", "ref.py is no Python: "),
    ],
)
def test_references_that_a_run_would_not_find(root: Path, text: bytes, told: str) -> None:
    """A check reads the file: kernels that only a GPU runs would miss their references on the
    machine that has one.
    """
    manifest = root / "tilec.toml"
    manifest.write_text(
        manifest.read_text()
        + '[kernel.twice.case.some]\ninputs.x = { shape = [4] }\nreference = "ref.py:twice"\n'
    )
    (root / "ref.py").write_bytes(text)
    found = [
        problem.message
        for problem in reference_problems(open_project(manifest, ToolSearch()).manifest)
    ]
    assert len(found) == bool(told)
    assert all(
        message.removeprefix("kernel.twice.case.some.reference: ").startswith(told)
        for message in found
    )
