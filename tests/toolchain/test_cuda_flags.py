"""Flags of the manifest before real compilers: the list is theirs, and no text of a manifest
becomes a command.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import compile_text
from tilec.frontends.tools.cpp.flags import KNOWN
from tilec_runtime.errors import UsageError

pytestmark = pytest.mark.toolchain

KERNEL = "__global__ void k(float* x) { x[0] = 1; }"
VALUES = ("true", "900", "64", "2", "on", "inline", "mid", "legacy", "ca", "wb", "FOO", "reorder")
NAMED = {
    "reorder": ("-Werror", "--Werror", "--warning-as-error"),
    "FOO": ("-U", "--undefine-macro"),
    "64": ("-jtd", "--jump-table-density"),
}
# Each of these forbids another, or wants another architecture.
ALONE = (
    "--minimal",
    "-minimal",
    "--device-float128",
    "-device-float128",
    "-Ofc",
    "--Ofast-compile",
    "-Xptxas",
    "--ptxas-options",
    "-no-err-no",
    "--no-display-error-number",
)


def listed(tool: str) -> tuple[str, ...]:
    """Every flag of a program that goes with the others, in every spelling, with a value."""
    flags = []
    for (program, name), (pattern, _) in KNOWN.items():
        if program == tool and name not in ALONE:
            named = next((value for value, names in NAMED.items() if name in names), "")
            value = named or next((text for text in VALUES if re.fullmatch(pattern, text)), "")
            flags.append(name if not pattern else f"{name}{'' if len(name) == 2 else '='}{value}")
    return tuple(flags)


@pytest.mark.parametrize("tool", ["nvrtc", "nvcc", "ptxas"])
def test_the_list_is_what_the_programs_take(tmp_path: Path, tool: str) -> None:
    """All at once, and nothing but the source is there afterwards."""
    flags = listed(tool)
    through = tuple(f"-Xptxas={flag}" for flag in flags) if tool == "ptxas" else flags
    assert len(flags) > 30
    compile_text(
        tmp_path,
        KERNEL,
        options={"flags": through, "compiler": "nvrtc" if tool == "ptxas" else tool},
    )
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.cu"]


@pytest.mark.parametrize("value", ["$(touch made)1", "`touch made`1", "\\$(touch made)"])
def test_a_macro_runs_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "__global__ void k(float* x) { x[0] = 1; }"
    with pytest.raises(UsageError, match="hands to a shell"):
        compile_text(tmp_path, text, options={"compiler": "nvcc", "define": (("X", value),)})
    compile_text(tmp_path, text, options={"define": (("X", value),)})  # NVRTC takes it as it is
    assert not list(tmp_path.rglob("made"))


def test_a_directory_runs_no_command(tmp_path: Path) -> None:
    from tests.toolchain.cuda_jobs import frontend, job, write

    root = write(tmp_path, {"$(touch made)/a.cu": KERNEL})
    with pytest.raises(UsageError) as caught:
        frontend().compile(job(root, path="$(touch made)/a.cu", options={"compiler": "nvcc"}))
    assert str(caught.value) == (
        "$(touch made) has '$' in its name, which nvcc hands to a shell or takes for two names\n"
        "  fix: rename the directory"
    )
    assert [path.name for path in root.iterdir()] == ["$(touch made)"]


def test_no_name_of_a_directory_reaches_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc starts its parts through a shell, with the names of its temporary files."""
    folder = tmp_path / "$(touch made)"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(
        UsageError,
        match=r"has '\$' in its name, which nvcc hands to a shell or takes for two names",
    ):
        compile_text(tmp_path / "project", KERNEL, "k", options={"compiler": "nvcc"})
