"""SIMT kernels that call device functions of CUDA C++: what is put into their PTX, what are inputs,
and what is refused where.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.toolchain.simt_jobs import frontend, job, tensor, write
from tilec.model.job import Source
from tilec_runtime.errors import CompileError
from tilec_runtime.model.image import Image

pytestmark = pytest.mark.toolchain
pytest.importorskip("numba_cuda")

KERNEL = """from numba import cuda, float32
from tilec import simt

act = cuda.declare_device("act", "float32(float32)", abi="c")


@simt.kernel
def apply(y: simt.Mut[float32], x: simt.Ref[float32]):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = act(x[i])
"""
ACT = """#include "table.cuh"
__device__ __noinline__ float helper(float x) { return x * TABLE[1]; }
extern "C" __device__ float act(float x) { return x > 0.0f ? x : helper(x); }
extern "C" __device__ float unused(float x) { return x; }
"""
FILES = {
    "k/__init__.py": "",
    "k/a.py": KERNEL,
    "k/act.cu": ACT,
    "k/table.cuh": "__constant__ float TABLE[2] = {1.0f, 0.125f};\n",
}
PARAMS = (tensor("y", out=True), tensor("x"))


def compiled(root: Path, *link: str, target: str = "compute_80", **files: str) -> Image:
    write(root, {**FILES, **{f"k/{name.replace('__', '.')}": text for name, text in files.items()}})
    made = job(root, "apply", target, params=PARAMS, axes={})
    source = dataclasses.replace(made.spec.source, options=(("link", link),))
    return frontend().compile(
        dataclasses.replace(made, spec=dataclasses.replace(made.spec, source=source))
    )


def refused(root: Path, *link: str, **files: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compiled(root, *link, **files)
    return caught.value


def test_what_is_called_is_in_the_kernels_code_and_nothing_else(tmp_path: Path) -> None:
    text = compiled(tmp_path, "k/act.cu").data.decode()
    assert "helper" in text
    assert "unused" not in text
    assert ".extern" not in text
    assert compiled(tmp_path, "k/act.cu", target="sm_90").info.resources.registers > 0


def test_linked_sources_and_their_headers_are_inputs(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    source = Source(root=str(tmp_path), path="k/a.py", options=(("link", ("k/act.cu",)),))
    names = [file.name for file in frontend().inputs(source)]
    assert names == sorted(names)
    assert {"k/a.py", "k/act.cu", "k/table.cuh"} <= set(names)
    before = compiled(tmp_path, "k/act.cu").data
    assert (
        compiled(
            tmp_path, "k/act.cu", table__cuh="__constant__ float TABLE[2] = {1.0f, 0.25f};\n"
        ).data
        != before
    )


def test_what_is_defined_nowhere(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert "it calls act, which is defined nowhere" in error.what
    assert (
        error.fix
        == 'define it in CUDA C++, extern "C" __device__, and link that: [kernel.apply] link = ["act.cu"]'
    )
    mangled = ACT.replace('extern "C" __device__ float act', "__device__ float act")
    assert (
        "it calls act, which is defined nowhere"
        in refused(tmp_path, "k/act.cu", act__cu=mangled).what
    )


def test_a_declaration_that_is_not_the_definitions(tmp_path: Path) -> None:
    doubles = ACT.replace("float act(float x)", "double act(double x)")
    what = refused(tmp_path, "k/act.cu", act__cu=doubles).what
    assert "act takes or gives back parameters of other sizes than Python declares" in what
    numbas = KERNEL.replace(', abi="c"', "")
    error = refused(tmp_path, "k/act.cu", a__py=numbas)
    assert "act takes or gives back parameters of other sizes" in error.what
    assert 'abi="c"' in error.fix


@pytest.mark.parametrize("call", ["act(x[i], 2)", "act()", "act((x[i], 1))"])
def test_a_call_with_other_arguments_than_declared(tmp_path: Path, call: str) -> None:
    error = refused(tmp_path, "k/act.cu", a__py=KERNEL.replace("act(x[i])", call))
    assert "a function of cuda.declare_device" in error.diagnostics[0].message
    assert str(error.diagnostics[0].location) == "k/a.py:11"
    assert error.diagnostics[0].hint.startswith("call it as cuda.declare_device has it")
    assert "object at 0x" not in error.what


def test_two_definitions_of_one_function(tmp_path: Path) -> None:
    again = 'extern "C" __device__ float act(float x) { return x; }\n'
    assert (
        "k/more.cu: link error" in refused(tmp_path, "k/act.cu", "k/more.cu", more__cu=again).what
    )


def test_errors_of_a_linked_source_are_at_its_lines(tmp_path: Path) -> None:
    error = refused(tmp_path, "k/act.cu", act__cu=ACT.replace("x * TABLE[1]", "x * TABEL[1]"))
    assert error.what == "k/act.cu, which k/a.py is linked with, does not compile for compute_80"
    place = error.diagnostics[0].location
    assert place is not None
    assert (place.file, place.line) == ("k/act.cu", 2)
    assert "k/act.cu: it holds a zero byte" in refused(tmp_path, "k/act.cu", act__cu="\0").what


def test_a_library_cannot_be_linked(tmp_path: Path) -> None:
    error = refused(tmp_path, "k/libact.a")
    assert (
        error.what
        == "k/libact.a: it is a device library, and a SIMT kernel is linked with CUDA C++ sources alone"
    )
    assert error.fix.startswith("link the .cu file")
