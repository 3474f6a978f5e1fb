from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.watched_project import write_tool


@pytest.fixture
def debug(watched, tmp_path: Path):
    write_tool(tmp_path, "cuda-gdb", "exit 7")
    return functools.partial(watched, "debug")


def test_in_scripts_it_asks_nothing(debug, tmp_path: Path) -> None:
    done = debug(
        "scale/some", "--bundle", "acme.tilec", "--batch", "--ex", "run", "--ex", "backtrace"
    )
    assert (done.code, done.out) == (7, "")
    assert (tmp_path / "calls").read_text().startswith("-q\n-batch\n-ex\n")


def test_the_kernel_is_built_for_debugging(debug, tmp_path: Path, fake_build: ModuleType) -> None:
    requests = []

    def build(request: object, observer: object) -> SimpleNamespace:
        requests.append(request)
        return SimpleNamespace(
            outputs=[SimpleNamespace(kind="bundle", path=str(tmp_path / "acme.tilec"))], notes=()
        )

    fake_build.build = build  # type: ignore[attr-defined]
    fake_build.concerned = lambda project, targets: {"scale"}  # type: ignore[attr-defined]
    assert debug("scale/some").code == 7
    (request,) = requests
    assert (request.profile, request.lineinfo, request.aside) == ("debug", True, True)
    assert (request.targets, request.select) == (("sm_90",), ("scale",))


def test_without_cuda_gdb(debug, tmp_path: Path) -> None:
    (tmp_path / "bin" / "cuda-gdb").unlink()
    done = debug("scale/some")
    assert done.code == 3
    assert "error: cuda-gdb not found; looked in PATH, " in done.err
    assert (
        "fix: install cuda-gdb, with the CUDA toolkit or alone: `apt-get install cuda-gdb-13-0` (or dnf; from NVIDIA's"
        in done.err
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("scale/sme",), "no case 'sme'; did you mean 'some'"),
        (("scale/some", "--batch"), "--batch without --ex"),
        (("scale/some", "--device", "0"), "--device: '0' is no GPU"),
    ],
)
def test_command_lines_that_are_off(
    debug, tmp_path: Path, args: tuple[str, ...], words: str
) -> None:
    done = debug(*args)
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "calls").exists()
