"""The closure of headers: exact where names are plain, too large where they are not, never too
small.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools.cpp.includes import closure, includes, kernel_files
from tilec_runtime.errors import CompileError


def project(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(root)


def names(root: str, path: str = "k/a.cu", include: tuple[str, ...] = ("include",)) -> list[str]:
    return [f.name for f in closure(root, path, include)]


def test_includes_of_a_text() -> None:
    text = """
    #include "a.h"
      #  include <b/c.h>
    // #include "no1.h"
    /* #include "no2.h"
    #include "no3.h" */ #include "after.h"
    const char* s = "\\n#include \\"no4.h\\"";
    auto r = R"(
    #include "no5.h"
    )";
    #if 0
    #include "branch.h"
    #endif
    #include \\
      "carried.h"
    #if __has_include(<maybe.h>) && __has_include("other.h")
    #endif
    #include MACRO
    """
    assert [i.name for i in includes(text)] == [
        "a.h",
        "b/c.h",
        "after.h",
        "branch.h",
        "carried.h",
        "maybe.h",
        "other.h",
        "",
    ]


def test_includes_in_other_spellings() -> None:
    text = '%:include "a.h"\n\f#include "b.h"\n#inc\\\nlude "c.h"\nauto s = STR"(no raw string";\n#include "d.h"\n'
    assert [i.name for i in includes(text)] == ["a.h", "b.h", "c.h", "d.h"]
    assert [i.name for i in includes('#inc\\\nlude "c.h"\n')] == ["c.h"]


def test_two_slashes_in_a_name_start_no_comment() -> None:
    text = '#include <a//b.h>\n#include "c//d.h"\n// #include <e.h>\n#include <f.h> // <g.h>\n'
    assert [i.name for i in includes(text)] == ["a//b.h", "c//d.h", "f.h"]


def test_closure_follows_headers(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "k/a.cu": '#include "near.h"\n#include <far.h>\n#include <cuda_fp16.h>\n',
            "k/near.h": '#include "../k/deep/d.h"\n',
            "k/deep/d.h": "#pragma once\n",
            "include/far.h": '#include "far2.h"\n',
            "include/far2.h": '#include "far.h"\n',
            "include/unused.h": "",
        },
    )
    assert names(root) == ["include/far.h", "include/far2.h", "k/a.cu", "k/deep/d.h", "k/near.h"]


def test_an_edit_is_seen(tmp_path: Path) -> None:
    root = project(tmp_path, {"k/a.cu": "int a;\n"})
    before = closure(root, "k/a.cu", ())
    project(tmp_path, {"k/a.cu": '#include "b.h"\n', "k/b.h": ""})
    after = closure(root, "k/a.cu", ())
    assert [f.name for f in after] == ["k/a.cu", "k/b.h"]
    assert before[0].digest != after[0].digest


def test_a_computed_include_takes_every_header(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "k/a.cu": "#define H <x.h>\n#include H\n",
            "k/side.cuh": "",
            "include/x.h": "",
            "include/sub/y.hpp": "",
            "include/no.txt": "",
        },
    )
    assert names(root) == ["include/sub/y.hpp", "include/x.h", "k/a.cu", "k/side.cuh"]


@pytest.mark.parametrize(
    "files",
    [
        {"k/a.cu": '#define H "../other/x.cfg"\n#include H\n', "other/x.cfg": ""},
        {
            "k/a.cu": '#include "x.h"\n#include H\n',
            "include/x.h": '#define H "../other/x.cfg"\n',
            "other/x.cfg": "",
        },
        {
            "k/a.cu": "#include <x.h>\n",
            "include/x.h": "#define H <beside.h>\n#include H\n",
            "k/beside.h": "",
        },
        {
            "k/a.cu": '#define H "../other/x.h"\n#include H\n',
            "other/x.h": '#undef H\n#define H "../other/deep/y.cfg"\n#include H\n',
            "other/deep/y.cfg": "",
        },
    ],
)
def test_a_computed_include_takes_what_macros_name(tmp_path: Path, files: dict[str, str]) -> None:
    assert names(project(tmp_path, files)) == sorted(files)


def test_what_macros_name_outside_of_the_project_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.h").touch()
    text = f'#define A "{tmp_path}/x.h"\n#define B "../../x.h"\n#define C "{"x" * 5000}"\n#define D 1 < 2 && 2 > 1\n#include H\n'
    assert names(project(tmp_path / "project", {"k/a.cu": text})) == ["k/a.cu"]


def test_a_link_out_of_the_project_is_an_error(tmp_path: Path) -> None:
    outside = tmp_path / "outside.h"
    outside.write_text("")
    root = project(tmp_path / "p", {"k/a.cu": 'int a;\n#include "link.h"\n'})
    (Path(root) / "k/link.h").symlink_to(outside)
    with pytest.raises(
        CompileError, match=r"link\.h leaves the project through a symbolic link"
    ) as caught:
        closure(root, "k/a.cu", ())
    assert str(caught.value.diagnostics[0].location) == "k/a.cu:2"
    assert "copy the file into the project" in caught.value.fix


def test_a_path_out_of_the_project_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "outside.h").write_text("")
    root = project(tmp_path / "p", {"k/a.cu": '#include "../../outside.h"\n'})
    with pytest.raises(CompileError, match="leaves the project through its path"):
        closure(root, "k/a.cu", ())


def test_headers_with_kernels(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "k/a.cu": '#include "b.cuh"\n#include "c.h"\n__global__ void a() {}',
            "k/b.cuh": "__global__ void b() {}",
            "k/c.h": "",
        },
    )
    assert kernel_files(root, "k/a.cu", ()) == ["k/b.cuh"]
