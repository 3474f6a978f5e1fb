"""Sources that need nvcc, and parameters that are empty tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools.abi import derive
from tilec.frontends.tools.cpp.declare import kernels
from tilec.frontends.tools.cpp.host import note, with_compiler
from tilec.model.job import EMPTY, Options, Source

KERNEL = "__global__ void k(float* x, int n) {}\n"
HEADERS = {
    "guarded.hpp": '// ours\n#ifndef GUARDED\n#define GUARDED\n#include "inner.hpp"\n#endif\n',
    "inner.hpp": '#pragma once\n#include "guarded.hpp"\n#include <vector>\n',
    "hiding.hpp": "#ifndef __CUDACC_RTC__\n#include <vector>\n#endif\n",
    "branching.hpp": "#ifndef __CUDA_ARCH__\n#include <vector>\n#endif\n",
}


@pytest.mark.parametrize(
    ("text", "options", "compiler"),
    [
        (KERNEL + "int main() { return 0; }\n", (), "nvcc"),
        (KERNEL + "static int main(int argc, char** argv) {}\n", (), "nvcc"),
        (KERNEL + "int main() {}\n", (("compiler", "nvrtc"),), "nvrtc"),
        (KERNEL + "// int main() {}\nint domain() { return 0; }\n", (), None),
        ("/* how to call it:\nint main() { k<<<1, 1>>>(); }\n*/\n" + KERNEL, (), None),
        ('const char* s = R"(\nint main() {}\n)";\n' + KERNEL, (), None),
        ("#ifndef __CUDACC_RTC__\nint main() {}\n#endif\n" + KERNEL, (), None),
        ("#include <float.h>\n" + KERNEL, (), "nvcc"),
        ("#  include <vector>\n" + KERNEL, (), "nvcc"),
        ("#include <sys/time.h>\n" + KERNEL, (), "nvcc"),
        ("#include <vector>\n" + KERNEL, (("compiler", "nvrtc"),), "nvrtc"),
        ("#include <cuda/std/limits>\n#include <cuda_fp16.h>\n" + KERNEL, (), None),
        ("#ifdef HOST\n#include <vector>\n#endif\n" + KERNEL, (), None),
        ("#if __has_include(<vector>)\n#endif\n" + KERNEL, (), None),
        ("// #include <vector>\n" + KERNEL, (), None),
        ("#include <own>\n" + KERNEL, (), None),
        ("#include <apart>\n" + KERNEL, (("include", ("inc",)),), None),
        ("#include <apart>\n" + KERNEL, (), "nvcc"),
        ("#include <thrust/sort.h>\n" + KERNEL, (), "nvcc"),
        ("#include <thrust/tuple.h>\n" + KERNEL, (), None),
        ('#include "deep/guarded.hpp"\n' + KERNEL, (), "nvcc"),
        ('#include "deep/guarded.hpp"\n' + KERNEL, (("compiler", "nvrtc"),), "nvrtc"),
        ('#ifdef HOST\n#include "deep/guarded.hpp"\n#endif\n' + KERNEL, (), None),
        ('#include "deep/hiding.hpp"\n' + KERNEL, (), None),
        ('#include "deep/branching.hpp"\n' + KERNEL, (), None),
        ('#include "missing.hpp"\n' + KERNEL, (), None),
    ],
)
def test_host_code_and_host_headers_are_compiled_with_nvcc(
    tmp_path: Path, text: str, options: Options, compiler: str | None
) -> None:
    (tmp_path / "k.cu").write_text(text)
    (tmp_path / "own").write_text("")
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "apart").write_text("")
    (tmp_path / "deep").mkdir()
    for name, header in HEADERS.items():
        (tmp_path / "deep" / name).write_text(header)
    source = Source(root=str(tmp_path), path="k.cu", options=options)
    assert dict(with_compiler(source).options).get("compiler") == compiler


def test_the_note_names_the_header_that_needs_nvcc(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include "a.hpp"\n' + KERNEL)
    (tmp_path / "a.hpp").write_text("#pragma once\n#include <vector>\n")
    text = note(Source(root=str(tmp_path), path="k.cu"))
    assert text.startswith("k.cu includes <vector> in a.hpp: it is compiled with nvcc")


@pytest.mark.parametrize(
    "tag", ["std::bool_constant<B>", "cuda::std::integral_constant<int, 4>", "::std::true_type"]
)
def test_an_empty_tag_needs_no_argument(tmp_path: Path, tag: str) -> None:
    text = f"template <bool B> __global__ void k(float* x, {tag} how, int n) {{}}\n"
    (tmp_path / "k.cu").write_text(text)
    (found,) = kernels(Source(root=str(tmp_path), path="k.cu"), ())
    assert [param.given for param in found.params] == [True, False, True]
    assert derive(found.params, ())[1] == EMPTY
