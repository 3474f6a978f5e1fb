"""A project on disk: what of it is missing, and what can be compiled although some of it cannot be
read.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, write
from tilec.compile.cache import Cache
from tilec.compile.declare import declare, may_select
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.files import reference_problems
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Source
from tilec_runtime.errors import Location, ManifestError, MissingError, ToolchainError
from tilec_runtime.model.kernel import ToolInfo


def problems(root: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        open_project(root / "tilec.toml", ToolSearch())
    return [problem.render().replace(f"{root}/", "") for problem in caught.value.problems]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "project", HEAD + TWICE)


def test_opens_a_project_whose_files_exist(root: Path) -> None:
    project = open_project(root / "tilec.toml", ToolSearch())
    assert project.sources["twice"].path == "k/twice.cu"
    assert list(project.frontends) == ["cuda"]


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


def test_a_link_to_nowhere(root: Path) -> None:
    path = root / "k" / "twice.cu"
    path.unlink()
    path.symlink_to("gone.cu")
    assert "'k/twice.cu' is a link to 'gone.cu', which is not there" in problems(root)[0]


def test_a_link_out_of_the_project(root: Path, tmp_path: Path) -> None:
    path = root / "k" / "twice.cu"
    path.rename(tmp_path / "outside.cu")
    path.symlink_to(tmp_path / "outside.cu")
    (problem,) = problems(root)
    assert (
        f"'k/twice.cu' is a link that leaves the project: it leads to {tmp_path}/outside.cu\n"
        in problem
    )
    assert problem.endswith("hint: copy the file into the project, or remove the link")


def test_include_directories_that_are_not_there(tmp_path: Path) -> None:
    own = TWICE.replace("launch", 'include = ["own", "k/twice.cu"]\nlaunch')
    root = write(tmp_path, f'{HEAD}\n[frontend.cuda]\ninclude = ["inc"]\n[frontend.tile]\n{own}')
    assert [text.split("\n")[0] for text in problems(root)] == [
        "tilec.toml:12:12: error: frontend.cuda.include[0]: directory 'inc' is not there",
        "tilec.toml:19:12: error: kernel.twice.include[0]: directory 'own' is not there",
        "tilec.toml:19:19: error: kernel.twice.include[1]: directory 'k/twice.cu' is a file, not a directory",
    ]


def test_licence_files_that_are_not_there(tmp_path: Path) -> None:
    head = HEAD.replace(
        'version = "1.0.0"', 'version = "1.0.0"\nlicense-files = ["LICENSE", "NOTICE"]'
    )
    root = write(tmp_path, head + TWICE, {"LICENSE": "text"})
    assert [text.split("\n")[0] for text in problems(root)] == [
        "tilec.toml:6:29: error: package.license-files[1]: no such file 'NOTICE'"
    ]


class Pool:
    """Declares what it is asked for, and counts."""

    asked = 0

    def declare(self, sources: Sequence[tuple[str, Source]]) -> list[tuple[KernelDecl, ...]]:
        self.asked += len(sources)
        return [
            (
                KernelDecl(
                    name="twice", qualified="twice", location=Location(file=source.path, line=1)
                ),
            )
            for _, source in sources
        ]


class Reader:
    """A frontend whose sources are one file, and whose tools are none."""

    def toolchain(self) -> list[ToolInfo]:
        return []

    def inputs(self, source: Source) -> list[InputFile]:
        return [InputFile(name=source.path, digest="0" * 64)]


def test_sources_are_declared_once_or_whenever_it_is_forced(root: Path, tmp_path: Path) -> None:
    project = dataclasses.replace(
        open_project(root / "tilec.toml", ToolSearch()), frontends={"cuda": Reader()}
    )
    pool, cache = Pool(), Cache(tmp_path / "cache", max_bytes=1 << 20, note=pytest.fail)
    for fresh, asked in ((False, 1), (False, 1), (True, 2)):
        assert list(declare(project, pool, cache, fresh=fresh).kernels) == ["twice"]
        assert pool.asked == asked


class Lacking(Reader):
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
    """Whether they are missed when tools are looked for, or only when a worker imports them."""
    opened, cache = (
        open_project(root / "tilec.toml", ToolSearch()),
        Cache(tmp_path / "cache", max_bytes=1 << 20, note=pytest.fail),
    )
    lacking = {name: Lacking(error) for name, error in frontends.items()}
    with pytest.raises(MissingError) as caught:
        declare(
            dataclasses.replace(opened, frontends={"prebuilt": Reader(), **lacking}), Pool(), cache
        )
    assert str(caught.value) == told

    class Failing(Pool):
        def declare(self, sources: Sequence[tuple[str, Source]]) -> list[MissingError]:
            return [frontends[language] for language, _ in sources]

    (twice,) = opened.manifest.kernels
    kernels = tuple(
        dataclasses.replace(twice, name=f"{n}_{name}", language=name)
        for name in frontends
        for n in "ab"
    )
    sources = {
        kernel.name: dataclasses.replace(opened.sources["twice"], path=f"{kernel.name}.cu")
        for kernel in kernels
    }
    project = dataclasses.replace(
        opened,
        manifest=dataclasses.replace(opened.manifest, kernels=kernels),
        frontends={name: Reader() for name in frontends},
        sources=sources,
    )
    with pytest.raises(MissingError) as caught:
        declare(project, Failing(), cache)
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
