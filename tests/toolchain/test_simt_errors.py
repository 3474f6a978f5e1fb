"""What is wrong with a SIMT kernel is told at the user's place, in words that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.simt_jobs import COMMON, frontend, job, scalar, tensor, write
from tilec.frontends.simt import api
from tilec.frontends.tools.packages import require_minor
from tilec.model.job import Source
from tilec_runtime.errors import CompileError, ToolchainError
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

pytestmark = pytest.mark.toolchain
pytest.importorskip("numba_cuda")

HEAD = """import numpy as np
from numba import cuda, float32
from tilec import simt
from . import common
T, N = simt.dtype("T"), simt.size("N")
@cuda.jit(device=True)
def nothing(v):
    return v.nothing
@cuda.jit(device=True)
def count(z, i):
    cuda.atomic.add(z, i, 1)
@cuda.jit(device=True)
def again(v):
    return again(v - 1) if v > 0 else 0
@cuda.jit(device=True)
def write(z):
    z[0] = 1
"""
FIRST = HEAD.count("\n") + 1
Z = (tensor("z", "T", out=True),)


def compiled(
    folder: Path,
    text: str,
    *,
    params: tuple[Param, ...] = Z,
    abi: tuple[AbiSlot, ...] = (),
    axes: dict[str, object] | None = None,
) -> CompileError:
    root = write(folder, {"k/__init__.py": "", "k/common.py": COMMON, "k/a.py": HEAD + text})
    with pytest.raises(CompileError) as caught:
        frontend().compile(
            job(root, "k", params=params, abi=abi, axes={"T": "f32"} if axes is None else axes)
        )  # type: ignore[arg-type]
    return caught.value


# (kernel, what is wrong, its line counted from the decorator's, hint)
SOURCES = {
    "unknown name": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    factor = 2\n    z[0] = factr\n",
        "name 'factr' is not defined",
        3,
        "did you mean 'factor'",
    ),
    "try": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    try:\n        z[0] = 1\n    except ValueError:\n        pass\n",
        "No implementation of function exception_match found",
        4,
        "numba-cuda's documentation lists what Python it compiles",
    ),
    "with": (
        '@simt.kernel\ndef k(z: simt.Mut[T]):\n    with open("x") as f:\n        z[0] = 1\n',
        "The 'with (context manager) as (variable):' construct is not supported",
        0,
        "numba-cuda's documentation",
    ),
    "yield": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    yield 1\n",
        "a kernel runs to its end: it cannot yield or await",
        1,
        "",
    ),
    "return": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    return z[0]\n",
        "a kernel returns nothing, and this one returns float32",
        1,
        "simt.Mut",
    ),
    "store": (
        "@simt.kernel\ndef k(z: simt.Ref[T]):\n    z[0] = 1\n",
        "z is only read (simt.Ref[T]), and the kernel stores to it",
        1,
        "simt.Mut[T]",
    ),
    "atomic": (
        "@simt.kernel\ndef k(z: simt.Ref[T]):\n    cuda.atomic.add(z, 0, 1)\n",
        "z is only read (simt.Ref[T])",
        1,
        "z: simt.Mut[T]",
    ),
    "store in a function": (
        "@simt.kernel\ndef k(z: simt.Ref[T]):\n    write(z)\n",
        "setitem(readonly array",
        -1,
        "annotate it with simt.Mut",
    ),
    "atomic in a function": (
        "@simt.kernel\ndef k(z: simt.Ref[T]):\n    count(z, 3)\n",
        "cuda.atomic.add of a read-only array",
        -7,
        "annotate it with simt.Mut",
    ),
    "atomic of a part in a function": (
        "@simt.kernel\ndef k(z: simt.Ref[T]):\n    count(z[2:], 3)\n",
        "cuda.atomic.add of a read-only array",
        -7,
        "annotate it with simt.Mut",
    ),
    "extent": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    s = cuda.shared.array(z.size, float32)\n    z[0] = s[0]\n",
        "No implementation of function shared.array found",
        2,
        "extents are constants",
    ),
    "atomic of a dtype": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    cuda.atomic.and_(z, 0, 1)\n",
        "No implementation of function cuda.atomic.and_ found",
        2,
        "",
    ),
    "list of the module": (
        "M = [1, 2]\n@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = M[1]\n",
        "make it a tuple",
        3,
        "",
    ),
    "rank": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0, 0] = 1\n",
        "No implementation of function setitem found",
        2,
        "",
    ),
    "allocation": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    y = np.zeros(4)\n    z[0] = y[0]\n",
        "function zeros",
        2,
        "cuda.shared.array",
    ),
    "function of NumPy": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = np.sqrt(z[1])\n",
        "numba-cuda does not compile numpy.sqrt in kernels",
        2,
        "take the function of the module math",
    ),
    "arguments of a function": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = nothing(z[0], 2)\n",
        "a function of (v) is called with (float32, Literal[int](2)): too many positional arguments",
        2,
        "",
    ),
    "function of the host": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    cuda.to_device(z)\n",
        "kernels have no numba.cuda.to_device",
        2,
        "",
    ),
    "set": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    s = {1, 2}\n    z[0] = 1 in s\n",
        "kernels have no set",
        2,
        "",
    ),
    "tuple": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0], z[1] = (1, 2, 3)\n",
        "wrong tuple length: expected 2, got 3",
        2,
        "",
    ),
    "recursion": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = again(3)\n",
        "a function calls itself",
        -4,
        "",
    ),
    "annotation": (
        "@simt.kernel\ndef k(z: simt.Mut[T], q: str):\n    z[0] = 1\n",
        "q: <class 'str'> is no dtype",
        1,
        "simt.Const[int]",
    ),
    "text": (
        '@simt.kernel\ndef k(z: "simt.Mutt[T]"):\n    z[0] = 1\n',
        "an annotation cannot be read: AttributeError: module 'tilec.simt' has no attribute 'Mutt'",
        1,
        "simt.Ref[T]",
    ),
    "rank of four": (
        "@simt.kernel\ndef k(z: simt.Mut[T, 4]):\n    z[0] = 1\n",
        "a rank of 1 to 3, as in Mut[T, 2]",
        1,
        "",
    ),
    "any number": (
        "@simt.kernel\ndef k(*z):\n    z[0] = 1\n",
        "a kernel takes a fixed number of arguments",
        1,
        "",
    ),
    "f8": (
        '@simt.kernel\ndef k(z: simt.Mut["f8e4m3"]):\n    z[0] = 1\n',
        "'f8e4m3' is no dtype of a SIMT kernel",
        1,
        "",
    ),
    "packed struct": (
        '@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Struct[np.dtype([("a", "i1"), ("b", "f8")])]):\n    z[0] = b.b\n',
        "is not aligned, as it would be in C",
        1,
        "make the dtype with align=True",
    ),
    "packed struct inside": (
        (
            'IN = np.dtype([("x", "u1"), ("y", "f4")])\nBOX = np.dtype([("n", IN), ("p", "u1", (3,))], align=True)\n@simt.kernel\n'
            "def k(z: simt.Mut[T], b: simt.Struct[BOX]):\n    z[0] = b.n.y\n"
        ),
        "is not aligned, as it would be in C",
        3,
        "and the structs in it",
    ),
    "struct of odd size": (
        (
            'BOX = np.dtype([("n", np.dtype([("x", "f4")])), ("p", "u1")], align=True)\n@simt.kernel\n'
            "def k(z: simt.Mut[T], b: simt.Struct[BOX]):\n    z[0] = b.n.x\n"
        ),
        "is not aligned, as it would be in C",
        2,
        "",
    ),
    "empty struct": (
        "@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Struct[np.dtype([])]):\n    z[0] = 1\n",
        "has no fields",
        1,
        "",
    ),
    "byte order": (
        '@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Struct[np.dtype([("x", ">f4")])]):\n    z[0] = b.x\n',
        "numba has no type for a field of",
        1,
        "",
    ),
    "no struct": (
        '@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Struct[np.dtype("f4")]):\n    z[0] = 1\n',
        "takes a structured NumPy dtype",
        1,
        "",
    ),
    "an array of structs that is only read": (
        '@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Ref[np.dtype([("x", "f4")])]):\n    z[0] = b[0].x\n',
        "no array of structs is only read",
        1,
        "annotate it with simt.Mut: b: simt.Mut[",
    ),
    "an array of structs whose fields are not aligned": (
        '@simt.kernel\ndef k(z: simt.Mut[T], b: simt.Mut[np.dtype([("a", "i1"), ("x", "f4")])]):\n    z[0] = 1\n',
        "is not aligned, as it would be in C",
        1,
        "align=True",
    ),
    "GPU at import": (
        "held = cuda.to_device(np.zeros(3))\n@cuda.jit\ndef k(z):\n    z[0] = 1\n",
        "the module asks for a GPU when it is imported",
        0,
        "move such calls under",
    ),
    "linked": (
        'act = cuda.declare_device("act", "float32(float32)")\n@cuda.jit(link=["a.cu"])\ndef k(z):\n    z[0] = act(z[0])\n',
        "which is defined nowhere",
        2,
        "define it in CUDA C++",
    ),
    "two decorators": (
        "@simt.kernel\n@cuda.jit\ndef k(z):\n    z[0] = 1\n",
        "is put on a function, not on a CUDADispatcher",
        0,
        "",
    ),
    "axis without values": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = N\n",
        "Untyped global name 'N'",
        2,
        "give the axis values",
    ),
    "arithmetic of axes": (
        "M = N * 2\n@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = M\n",
        "axis N has no value outside of a kernel",
        0,
        "",
    ),
    "too much shared memory": (
        "@simt.kernel\ndef k(z: simt.Mut[T]):\n    s = cuda.shared.array(100000, float32)\n    s[0] = z[0]\n    z[1] = s[1]\n",
        "uses too much shared data",
        1,
        "",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_kernel_cannot_be(name: str, tmp_path: Path) -> None:
    text, what, line, hint = SOURCES[name]
    error = compiled(tmp_path, text, params=(tensor("z", "T", out="simt.Ref" not in text),))
    first = error.diagnostics[0]
    assert what in first.message, error
    assert first.location is not None
    assert (first.location.file, first.location.line) == ("k/a.py", FIRST + line)
    assert hint in first.hint
    assert " at 0x" not in first.message


def test_a_signature_compiles_nothing_when_a_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.cuda.cudadrv import error

    def refuse() -> None:
        raise error.CudaSupportError("Error at driver init: CUDA driver library cannot be found.")

    api.load()
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", refuse)
    text = '@cuda.jit("void(float32[:])")\ndef k(z):\n    z[0] = 1\n'
    root = write(tmp_path, {"k/__init__.py": "", "k/common.py": COMMON, "k/a.py": HEAD + text})
    (decl,) = frontend().declare(Source(root=str(root), path="k/a.py"))
    assert (decl.name, decl.refused) == ("k", ())


def test_an_error_in_a_function_names_the_call(tmp_path: Path) -> None:
    error = compiled(tmp_path, "@simt.kernel\ndef k(z: simt.Mut[T]):\n    z[0] = nothing(z[1])\n")
    inner, outer = error.diagnostics
    assert (inner.message, inner.excerpt) == (
        "Unknown attribute 'nothing' of type float32",
        "    return v.nothing",
    )
    assert (outer.message, outer.severity, outer.excerpt) == (
        "called from here",
        "note",
        "    z[0] = nothing(z[1])",
    )
    assert error.what.startswith("k/a.py: kernel 'k' does not compile for sm_90: ")


PLAIN = "@cuda.jit\ndef k(z, q):\n    z[0] = q\n"


@pytest.mark.parametrize(
    ("text", "params", "axes", "what"),
    [
        (PLAIN, Z, None, "neither params nor an axis of the matrix says what parameter 'q' is"),
        (
            PLAIN,
            (*Z, Param(name="q", kind=ParamKind.STRUCT, size=8)),
            None,
            "nothing says what is in the struct 'q'",
        ),
        (
            PLAIN,
            (*Z, Param(name="q", kind=ParamKind.PTR)),
            None,
            "parameter 'q' is a bare address in the manifest",
        ),
        (PLAIN, (*Z, scalar("q", "f8e4m3")), None, "parameter 'q': numba has no dtype f8e4m3"),
        (
            PLAIN,
            (tensor("z", "T", rank=4, out=True), scalar("q", "f32")),
            None,
            "parameter 'z' has rank 4",
        ),
        (
            "@simt.kernel\ndef k(z: simt.Mut[T], q: simt.Const[int]):\n    z[0] = q\n",
            Z,
            {"T": "f32", "q": 1.5},
            "the matrix gives it 1.5",
        ),
        (
            "@simt.kernel\ndef k(z: simt.Mut[T], q: simt.Const[int]):\n    z[0] = q\n",
            (*Z, scalar("q", "i32")),
            None,
            "'q' is a compile-time constant in the kernel and a launch parameter in the manifest",
        ),
    ],
)
def test_kernel_and_manifest_that_do_not_fit(
    text: str, params: tuple[Param, ...], axes: dict[str, object] | None, what: str, tmp_path: Path
) -> None:
    error = compiled(tmp_path, text, params=params, axes=axes)
    assert error.what.startswith("kernel 'k' and the manifest do not fit together: ")
    (told,) = error.diagnostics
    assert what in told.message
    assert told.location is not None
    assert told.location.line == FIRST + 1


def test_the_simulator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    api.load()
    monkeypatch.setattr("numba.cuda.core.config.ENABLE_CUDASIM", 1)
    with pytest.raises(ToolchainError, match="numba's simulator is in the place of its compiler"):
        api.load()


def test_the_installed_version_is_the_one_that_is_wrapped() -> None:
    import numba_cuda

    require_minor("numba-cuda", numba_cuda.__version__, api.TESTED, api.FIX)
