"""Device functions in Python that CUDA C++ kernels are linked with: what they become, and what is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import frontend, job, write
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import CompileError
from tilec_runtime.model.image import Image
from tilec_runtime.model.job import Job, Source

pytestmark = pytest.mark.toolchain
pytest.importorskip("numba_cuda")

ACT = """from numba import cuda, float32, int32

from tilec import simt
from lib.shared import positive

T = simt.dtype("T")


@cuda.jit(device=True)
def relu(x: float32) -> float32:
    if x > 1000:
        raise ValueError("too large")
    return positive(x)


@cuda.jit(device=True)
def total(x: simt.Ref[float32], scale: "f32", n: int) -> float32:
    out = float32(0)
    for i in range(min(n, x.size)):
        out += x[i] * scale
    return out


@cuda.jit(device=True)
def store(y: simt.Mut[float32, 2], i: int32) -> None:
    y[i, 0] = 7.5
"""
SHARED = """from numba import cuda


@cuda.jit(device=True)
def positive(x):
    return max(x, 0.125)
"""
KERNEL = """extern "C" __device__ float relu(float x);
extern "C" __device__ float total(const float* x, long long size, float scale, int n);
extern "C" __device__ void store(float* y, long long rows, long long columns, int i);
extern "C" __global__ void k(float* y, const float* x, int n) {
    __shared__ float tile[8];
    tile[threadIdx.x % 8] = x[threadIdx.x];
    __syncthreads();
    store(y, n, 4, 3);
    y[0] = relu(y[1]) + total(tile, 8, 2.0f, n);
}
"""
ONE = 'extern "C" __device__ {};\nextern "C" __global__ void k(float* y, const float* x, int n) {{ y[0] = relu(y[1]); }}\n'
HEAD = "from numba import cuda, float32\nfrom tilec import simt\nT = simt.dtype('T')\n\n"


def linked(tmp_path: Path, target: str, *names: str, kernel: str = KERNEL, **files: str) -> Job:
    """A job of the kernel, linked with functions of `act.py`."""
    write(tmp_path, {"k/a.cu": kernel, "act.py": files.pop("act", ACT), "lib/__init__.py": "", "lib/shared.py": SHARED})
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    link = tuple(name.rstrip(":") if ":" in name else f"act.py:{name}" for name in names)
    return job(tmp_path, "k", target, options={"link": link})


def made(tmp_path: Path, target: str, *names: str, **files: str) -> Image:
    return frontend().compile(linked(tmp_path, target, *names, **files))


def refused(tmp_path: Path, body: str, kernel: str = ONE.format("float relu(float)")) -> CompileError:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, "sm_90", "relu", act=HEAD + body, kernel=kernel)
    return caught.value


# --- what they become -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a"])
def test_functions_become_part_of_the_kernels_machine_code(tmp_path: Path, target: str) -> None:
    image = made(tmp_path, target, "relu", "total", "store")
    assert [kernel.name for kernel in read_cubin(image.data).kernels] == ["k"]
    assert image.info.resources.stack == 0, "all of it is inlined"
    bare = made(tmp_path, target, "relu", kernel=ONE.format("float relu(float)"))
    assert (image.info.resources.code or 0) > (bare.info.resources.code or 0) > 0


def test_ptx_holds_their_code_and_calls_nothing(tmp_path: Path) -> None:
    text = made(tmp_path, "compute_80", "relu", "total", "store").data.decode()
    assert ".target sm_80" in text
    assert "0d3FC0000000000000" in text, "positive's constant, of the module that act.py imports"
    assert "0f40F00000" in text or "1089470464" in text, "what store stores"
    assert "ld.shared.f32" in text, "an array may be in shared memory"
    assert "trap;" in text, "C knows no exceptions: what Python raises stops the kernel"
    assert ".extern .func" not in text
    assert "call" not in text


def test_what_two_files_share_is_no_conflict(tmp_path: Path) -> None:
    other = ACT.replace("relu", "gelu").replace("0.125", "0.25")
    kernel = 'extern "C" __device__ float relu(float), gelu(float);\n' + KERNEL.split("int i);\n")[1].replace("store(y, n, 4, 3);", "")
    kernel = kernel.replace("total(tile, 8, 2.0f, n)", "gelu(y[2])")
    image = made(tmp_path, "compute_80", "relu", "other.py:gelu", kernel=kernel, other=other)
    assert image.data.decode().count("0d3FC0000000000000") == 2


def test_fastmath_and_the_architecture_are_the_functions_own(tmp_path: Path) -> None:
    body = "import math\n@cuda.jit(device=True{})\ndef relu(x: float32) -> float32:\n    return math.sin(x)\n"
    plain = made(tmp_path / "a", "compute_90", "relu", act=HEAD + body.format(""), kernel=ONE.format("float relu(float)"))
    fast = made(tmp_path / "b", "compute_90", "relu", act=HEAD + body.format(", fastmath=True"), kernel=ONE.format("float relu(float)"))
    assert b"sin.approx" in fast.data
    assert b"sin.approx" not in plain.data
    assert b".target sm_90" in fast.data


def test_another_place_makes_the_same(tmp_path: Path) -> None:
    first = made(tmp_path / "a", "sm_90", "relu", "total", "store").data
    assert made(tmp_path / "b", "sm_90", "relu", "total", "store").data == first


def test_what_they_are_made_of_are_inputs(tmp_path: Path) -> None:
    one = linked(tmp_path, "sm_90", "relu")
    names = [file.name for file in frontend().inputs(one.spec.source)]
    assert {"act.py", "k/a.cu", "lib/__init__.py", "lib/shared.py"} <= set(names)
    assert any(name.startswith("<simt>/numba-cuda 0.30") for name in names)
    bare = Source(root=one.spec.source.root, path="k/a.cu")
    assert not any(file.name.startswith("<simt>") for file in frontend().inputs(bare))


def test_an_edit_of_an_imported_module_is_seen_by_the_same_process(tmp_path: Path) -> None:
    one = linked(tmp_path, "compute_80", "relu", kernel=ONE.format("float relu(float)"))
    made_by = frontend()
    assert "0d3FC0000000000000" in made_by.compile(one).data.decode()
    (tmp_path / "lib/shared.py").write_text(SHARED.replace("0.125", "0.25"), encoding="utf-8")
    assert "0d3FD0000000000000" in made_by.compile(one).data.decode()


# --- what is refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("double relu(double)", "double relu(double) is declared"),
        ("float relu(float x, int n = 1)", "float relu(float, int) is declared"),
        ("int relu(float x)", "int relu(float) is declared"),
        ("float relu(const float* x)", "float relu(float*) is declared"),
    ],
)
def test_another_signature_names_both_sides(tmp_path: Path, declared: str, words: str) -> None:
    kernel = ONE.format(declared).replace("relu(y[1])", "relu(x)" if "*" in declared else "relu(y[1])")
    error = refused(tmp_path, "@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    return x\n", kernel)
    assert words in error.what
    assert 'the function of Python at act.py:6:5 is extern "C" __device__ float relu(float);' in error.what
    assert [str(d.location).rpartition(":")[0] for d in error.diagnostics] == ["k/a.cu:1", "act.py:6"]
    assert error.fix == 'declare extern "C" __device__ float relu(float);'


@pytest.mark.parametrize(
    "declared",
    ["real relu(const real value)", "float relu(one x)", "float (relu)(float)", "auto relu(float) -> float"],
)
def test_a_type_that_the_text_does_not_tell_is_taken_at_its_word(tmp_path: Path, declared: str) -> None:
    kernel = "using real = float;\ntypedef float one;\n" + ONE.format(declared)
    assert made(tmp_path, "sm_90", "relu", kernel=kernel).info.symbol == "k"


def test_pointers_are_compared_by_what_they_point_to(tmp_path: Path) -> None:
    named = "typedef const float* pointer;\n" + KERNEL.replace("const float* x, long long size, float", "pointer, long long, float")
    made(tmp_path, "sm_90", "relu", "total", "store", kernel=named)
    made(tmp_path, "sm_90", "relu", "total", "store", kernel=KERNEL.replace("const float* x, long", "const float x[], long"))
    wrong = KERNEL.replace("const float* x, long", "const double* __restrict__ x, long").replace("float tile[8]", "double tile[8]")
    with pytest.raises(CompileError, match=r"float total\(double\*, long long, float, int\) is declared"):
        made(tmp_path, "sm_90", "total", kernel=wrong)


def test_a_declaration_in_a_linked_source_is_compared_too(tmp_path: Path) -> None:
    (tmp_path / "other.cu").write_text(
        'extern "C" __device__ int relu(int);\n__device__ int other(int x) { return relu(x); }\n', encoding="utf-8"
    )
    with pytest.raises(CompileError) as caught:
        made(tmp_path, "sm_90", "relu", "other.cu:", kernel=ONE.format("float relu(float)"))
    assert str(caught.value.diagnostics[0].location).startswith("other.cu:1")


def test_a_declaration_without_c_linkage(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, "sm_90", "relu", kernel=ONE.format("float relu(float)").replace('extern "C" __device__', "__device__"))
    assert caught.value.diagnostics[0].message == "relu (_Z4reluf) is declared and defined nowhere, called by k"
    assert caught.value.fix == 'act.py:relu has C linkage: declare it extern "C"'


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("@cuda.jit(device=True)\ndef relu(x) -> float32:\n    return x\n", 6, "function 'relu': x has no annotation"),
        ("@cuda.jit(device=True)\ndef relu(x: float32):\n    return x\n", 6, "function 'relu': what it returns has no annotation"),
        ("@cuda.jit(device=True)\ndef relu(x: T) -> float32:\n    return x\n", 6, "x is of an axis of a matrix"),
        ("@cuda.jit(device=True)\ndef relu(x: simt.Ref[T]) -> float32:\n    return x[0]\n", 6, "x is of an axis of a matrix"),
        ("@cuda.jit(device=True)\ndef relu(x: 'f16') -> float32:\n    return 1.0\n", 6, "x is f16, which C++ and numba pass"),
        ("@cuda.jit(device=True)\ndef relu(x: bool) -> float32:\n    return 1.0\n", 6, "x is bool, which C++ and numba pass"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> str:\n    return x\n", 6, "its result is annotated <class 'str'>, which is no"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> 'int32x':\n    return x\n", 6, "return: its annotation 'int32x' cannot be read"),
        ("@cuda.jit(device=True)\ndef relu(x: str) -> float32:\n    return 1.0\n", 6, "x: <class 'str'> is no dtype of a SIMT function"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> int:\n    return x\n", 6, "it returns float32, and is annotated -> i32"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> None:\n    return x\n", 6, "it returns float32, and is annotated -> None"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    pass\n", 6, "it returns none, and is annotated -> f32"),
        ("@cuda.jit(device=True)\ndef relu(x: simt.Const[int]) -> float32:\n    return 1.0\n", 6, "x is simt.Const"),
        ("@cuda.jit(device=True)\ndef relu(*x: float32) -> float32:\n    return 1.0\n", 6, "'x' is no plain parameter: a function takes"),
        ("@cuda.jit(device=True)\ndef relu(x: simt.Ref[float32]) -> None:\n    x[0] = 1.0\n", 6, "x is only read"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    return nowhere(x)\n", 7, "nowhere"),
        ("@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    return relu(x)\n", 7, "a function calls itself, which numba"),
        ("@simt.kernel\ndef relu(x: simt.Mut[float32]):\n    x[0] = 1.0\n", 1, "'relu' is a kernel, which no kernel can call"),
        ("def relu(x: float32) -> float32:\n    return x\n", 5, "'relu' is no device function"),
        ("@cuda.jit(device=True)\ndef rely(x: float32) -> float32:\n    return x\n", 1, "no device function 'relu'; did you mean 'rely'"),
        (("out = cuda.declare_device('out', float32(float32))\n"
          "@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    return out(x)\n"),
         7, "it needs out, which is in no Python file"),
        (("import pathlib; pathlib.Path(__file__).with_name('table.txt').read_text()\n"
          "@cuda.jit(device=True)\ndef relu(x: float32) -> float32:\n    return x\n"),
         7, "its module reads table.txt when it is imported"),
        ("@cuda.jit('float32(float32)', device=True)\ndef relu(x):\n    return x\n", 5, "the module asks for a GPU when it is imported"),
        ("relu = (\n", 5, "'(' was never closed"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_linked(tmp_path: Path, body: str, line: int, words: str) -> None:
    (tmp_path / "table.txt").write_text("1", encoding="utf-8")
    error = refused(tmp_path, body)
    assert words in error.what or any(words in d.message for d in error.diagnostics), (error.what, error.diagnostics)
    places = [d.location for d in error.diagnostics if d.location]
    assert (places[0].file, places[0].line) == ("act.py", line)
