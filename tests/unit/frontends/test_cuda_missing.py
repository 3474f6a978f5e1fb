"""Includes that are nowhere: those that a source certainly makes, and none of which a conditional decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.frontends.test_cuda_includes import project
from tilec.frontends.cuda.missing import missing_includes


def missing(root: Path, text: str, *, host: bool = False, **files: str) -> list[str]:
    (root / "toolkit").mkdir(exist_ok=True)
    (root / "toolkit" / "cuda_fp16.h").touch()
    project(root, {"p/k/a.cu": text, **{f"p/{name}": held for name, held in files.items()}})
    found = missing_includes(str(root / "p"), "k/a.cu", ("include",), (root / "toolkit",), host=host)
    assert all(one.message.startswith("cannot open source file ") for one in found)
    return [f"{one.location} {one.message.split()[-1]}" for one in found]


def test_where_an_include_is_not_found(tmp_path: Path) -> None:
    text = '#include <cuda_fp16.h>\n  #  include "near.h" // here\n#include "far.h"\n#include <gone.h>\n#inc\\\nlude "split.h"\n'
    found = missing(tmp_path, text, **{"k/near.h": '#include "../deeper.h"\n#include "none.h"\n', "include/far.h": "", "deeper.h": ""})
    assert found == ['k/a.cu:4:10 "gone.h"', 'k/a.cu:5 "split.h"', 'k/near.h:2:10 "none.h"']


@pytest.mark.parametrize(
    "text",
    [
        '#ifdef _WIN32\n#include "windows.h"\n#endif\n',
        '#if __has_include("maybe.h")\n#include "maybe.h"\n#endif\n',
        '#if 1\n#else\n#include "other.h"\n#endif\n',
        '// #include "comment.h"\n/*\n#include "comment.h"\n*/\n',
        'auto s = R"(\n#include "raw.h"\n)";\n',
        "#include MACRO\n",
        '#ifndef A_H\n#include "once.h"\n#endif\n',
        '#ifndef A_H\n#define A_H\n#else\n#include "twice.h"\n#endif\n',
        '#include "k/gone/../near.h"\n#include <cuda_fp16.h>\n'.replace("k/gone/../", ""),
    ],
)
def test_what_may_be_right_is_left_alone(tmp_path: Path, text: str) -> None:
    assert missing(tmp_path, text, **{"k/near.h": ""}) == []


@pytest.mark.parametrize("guard", ["#ifndef A_H\n#define A_H\n", "#if !defined(A_H)\n#define A_H 1\n", "#pragma once\n"])
def test_guards_of_headers_decide_nothing(tmp_path: Path, guard: str) -> None:
    end = "#endif\n" if guard.startswith("#if") else ""
    lines = guard.count("\n")
    assert missing(tmp_path, '#include "a.h"\n', **{"k/a.h": f'{guard}#include "b.h"\n{end}'}) == [f'k/a.h:{lines + 1}:10 "b.h"']


def test_headers_of_the_host_compiler_are_its_own(tmp_path: Path) -> None:
    assert missing(tmp_path, '#include <vector>\n#include "vector"\n#include "mine.h"\n', host=True) == ['k/a.cu:3:10 "mine.h"']
    assert missing(tmp_path, "#include <vector>\n") == ['k/a.cu:1:10 "vector"']


def test_files_that_cannot_be_read_and_circles_end(tmp_path: Path) -> None:
    assert missing(tmp_path, '#include "a.h"\n', **{"k/a.h": '#include "a.h"\n#include "a.cu"\n'}) == []
    assert missing_includes(str(tmp_path), "none.cu", (), ()) == []
