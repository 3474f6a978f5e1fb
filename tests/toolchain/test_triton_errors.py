"""What is refused of Triton kernels, each with the words and the place that a user sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.triton_jobs import (
    ADD_ABI,
    ADD_PARAMS,
    FAST,
    dot_job,
    frontend,
    job,
    scalar,
    slot,
    tensor,
    write,
)
from tilec.model.job import Job, Source
from tilec_runtime.errors import CompileError
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

pytestmark = pytest.mark.toolchain
pytest.importorskip("triton")

HEAD = "import triton\nimport triton.language as tl\n\n\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("triton"))


def refused(job: Job) -> CompileError:
    with pytest.raises(CompileError) as caught:
        frontend().compile(job)
    return caught.value


def refused_text(tmp_path: Path, text: str, **changes: Any) -> CompileError:
    changes = {"params": (tensor("x"), scalar("n", "i32")), "abi": (), "axes": {"B": 64}, **changes}
    with pytest.raises(CompileError) as caught:
        frontend().compile(job(write(tmp_path, {"k/a.py": HEAD + text}), "f", **changes))
    return caught.value


def places(error: CompileError) -> list[tuple[str, str]]:
    return [(str(d.location), d.message) for d in error.diagnostics]


def test_an_error_of_the_language_is_at_the_users_place(tmp_path: Path) -> None:
    error = refused_text(
        tmp_path,
        "@triton.jit\ndef f(x, n, B: tl.constexpr):\n    o = tl.arange(0, B)\n    tl.store(x + o, offset)\n",
    )
    assert places(error) == [("k/a.py:8:21", "offset is not defined")]
    assert error.what == "k/a.py: kernel 'f' does not compile for sm_90: offset is not defined"
    assert error.diagnostics[0].excerpt == "    tl.store(x + o, offset)"
    assert error.diagnostics[0].hint.startswith("kernels see their parameters")


def test_an_error_in_a_helper_names_the_call(tmp_path: Path) -> None:
    text = "@triton.jit\ndef g(x):\n    return x + tl.arange(0, 3)\n\n\n@triton.jit\ndef f(x, n, B: tl.constexpr):\n    tl.store(g(x), 1)\n"
    error = refused_text(tmp_path, text)
    (first, *more) = places(error)
    assert first == ("k/a.py:7:16", "arange's range must be a power of 2")
    assert more[-1] == ("k/a.py:12:14", "called from here")


def test_types_that_do_not_fit(tmp_path: Path) -> None:
    body = "    a = tl.zeros((B, B), tl.float32)\n    tl.store(x, tl.dot(a, tl.zeros((16, B), tl.float32)))\n"
    text = "@triton.jit\ndef f(x, n, B: tl.constexpr):\n" + body
    ((place, _),) = places(refused_text(tmp_path, text))
    assert place == "k/a.py:8:17"


def test_an_error_of_the_native_compiler_has_its_words_and_the_kernels_place(
    tmp_path: Path,
) -> None:
    body = """    om, ok = tl.arange(0, B), tl.arange(0, 64)
    total = tl.zeros((B, B), dtype=tl.float32)
    for k in tl.range(0, n, 64, warp_specialize=True):
        left = tl.load(x + om[:, None] * n + ok[None, :] + k)
        total = tl.dot(left, tl.load(x + (ok[:, None] + k) * B + om[None, :]), total)
    tl.store(x + om[:, None] * B + om[None, :], total.to(tl.float16))
"""
    params = (tensor("x", "f16", align=16), scalar("n", "i32"))
    error = refused_text(
        tmp_path,
        "@triton.jit\ndef f(x, n, B: tl.constexpr):\n" + body,
        params=params,
        axes={"B": 128},
    )
    assert places(error) == [("k/a.py:6:5", "unsupported load type for producer commit")]
    by = "Triton's pass NVGPUWarpSpecialization, in stage ttgir, does not take it"
    assert [d.hint for d in error.diagnostics] == [by]
    assert "LLVM ERROR: unsupported load type for producer commit" in error.log


@pytest.mark.parametrize(
    ("body", "place", "what", "hint"),
    [
        (
            "return tl.arange(0, B)",
            "k/a.py:6:5",
            "a kernel returns nothing, and this one returns a value",
            "store results through a pointer",
        ),
        ("f[(1,)](x, n, B)", "k/a.py:7:5", "a kernel cannot be launched from within a kernel", ""),
        (
            "tl.store(x, plain(n))",
            "k/a.py:7:17",
            "Cannot access global variable plain from within @jit'ed function.",
            "by @triton.jit",
        ),
    ],
)
def test_what_triton_has_other_words_for(
    tmp_path: Path, body: str, place: str, what: str, hint: str
) -> None:
    error = refused_text(
        tmp_path,
        f"@triton.jit\ndef f(x, n, B: tl.constexpr):\n    {body}\n\n\ndef plain(v):\n    return v\n",
    )
    first = error.diagnostics[0]
    assert first.message.startswith(what)
    assert str(first.location) == place
    assert hint in first.hint


@pytest.mark.parametrize(
    "body", ["tl.store(x, d.load([0]))", "d.store([0, 0], n)", "_ = d.load([\n        n])"]
)
def test_a_descriptor_that_is_passed_as_an_address(tmp_path: Path, body: str) -> None:
    text = f"@triton.jit\ndef f(x, d, n, B: tl.constexpr):\n    {body}\n\n\n@triton.jit\ndef g(x, n):\n    tl.store(x, n)\n"
    params = (tensor("x"), tensor("d"), scalar("n", "i32"))
    error = refused_text(tmp_path, text, params=params)
    assert places(error) == [
        ("k/a.py:6:10", "'d' is a tensor descriptor, and the manifest passes something else")
    ]
    assert "descriptor(x, BM, BK)" in error.fix
    # Other kernels of the source are built.
    other = job(tmp_path, "g", params=(tensor("x"), scalar("n", "i32")), abi=(), axes={})
    assert frontend().compile(other).info.symbol == "g"


def test_a_declaration_says_at_how_many_offsets_tiles_are_read(tmp_path: Path) -> None:
    body = "    d.store([0, n], d.load([0, n]))\n    e.load([n])\n    e.load([n, n])\n    f.load([*n])\n    tl.store(x, n)\n"
    write(tmp_path, {"k/a.py": HEAD + "@triton.jit\ndef move(x, d, e, f, n):\n" + body})
    (decl,) = frontend().declare(Source(root=str(tmp_path), path="k/a.py"))
    assert [(param.name, param.rank) for param in decl.params] == [
        ("x", -1),
        ("d", 2),
        ("e", -1),
        ("f", -1),
        ("n", -1),
    ]


MOVE = """@triton.jit
def move(d, n, B: tl.constexpr):
    tile = d.load([0, n])
    d.store([n, 0], tile)
"""


@pytest.mark.parametrize(
    ("expr", "changes", "target", "what"),
    [
        (
            "descriptor(x, B, 64)",
            {},
            "sm_80",
            "'d' is a tensor descriptor made on the host, which sm_80 has no copy engine for",
        ),
        (
            "descriptor(x, B, 64)",
            {"dtype": "f4e2m1"},
            "sm_90",
            "parameter 'd': Triton has no dtype f4e2m1",
        ),
    ],
)
def test_descriptors_that_cannot_be_made(
    tmp_path: Path, expr: str, changes: dict[str, Any], target: str, what: str
) -> None:
    write(tmp_path, {"k/a.py": HEAD + MOVE})
    x = Param(
        name="x", kind=ParamKind.TENSOR, **{"dtype": "f16", "rank": 2, "align": 16, **changes}
    )
    box = AbiSlot(type="descriptor", expr=expr, size=128, align=64)
    params, abi = (x, scalar("n", "i32")), (box, slot("i32", "n", 4))
    error = refused(job(tmp_path, "move", target, params=params, abi=abi, axes={"B": 64}))
    assert what in error.what
    assert places(error)[0][0] == "k/a.py:6:10"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"abi": (), "params": ADD_PARAMS},
            "neither params nor an axis of the matrix says what parameter 'x_ptr' is",
        ),
        ({"abi": ADD_ABI[:3]}, "args give nothing for parameter 'n'"),
        (
            {"params": (*(tensor(n, "f8e8m0") for n in "xyz"),)},
            "parameter 'x_ptr': Triton has no dtype f8e8m0",
        ),
        (
            {"abi": (*ADD_ABI[:3], slot("f8e5m2", "1", 1))},
            "parameter 'n': a Triton kernel takes no f8e5m2 by value",
        ),
        (
            {"params": (*ADD_PARAMS, Param(name="BLOCK", kind=ParamKind.SCALAR, dtype="i32"))},
            "'BLOCK' is a compile-time constant in the kernel and a launch parameter in the manifest",
        ),
    ],
)
def test_a_manifest_that_does_not_fit(root: Path, changes: dict[str, Any], what: str) -> None:
    error = refused(job(root, **changes))
    assert error.what == f"kernel 'add' and the manifest do not fit together: {what}"
    assert error.diagnostics[0].location is not None
    assert error.diagnostics[0].location.line == 8


def test_annotations_are_held_against_the_manifest(root: Path) -> None:
    params = (tensor("x", "f16"), tensor("y"), scalar("n", "i64"))
    error = refused(job(root, "cast", params=params, abi=(), axes={"D": "f16"}))
    assert [message for _, message in places(error)] == [
        "parameter 'x' is annotated as a pointer to f32, and the manifest passes a pointer to f16",
        "parameter 'n' is annotated as i32, and the manifest passes i64",
    ]


@pytest.mark.parametrize(
    ("hints", "target", "what"),
    [
        ({"num_warps": 3}, "sm_90", "the hint num_warps is 3, and must be a power of two"),
        ({"num_stages": 0}, "sm_90", "the hint num_stages is 0, and must be at least 1"),
        ({"fp_fusion": 2}, "sm_90", "the hint fp_fusion is 2, and must be 0 or 1"),
        ({"num_ctas": 2}, "sm_80", "num_ctas > 1 requires NVIDIA SM90+"),
        ({"num_stages": 24}, "sm_80", "bytes of shared memory, and sm_80 has 166912"),
    ],
)
def test_hints_that_do_not_fit(root: Path, hints: dict[str, int], target: str, what: str) -> None:
    assert what in refused(dot_job(root, target, hints=hints, assume=FAST)).what


def test_a_kernel_that_is_gone(root: Path, tmp_path: Path) -> None:
    gone = job(write(tmp_path), "add")
    write(tmp_path, {"k/a.py": HEAD + "@triton.jit\ndef ad(x):\n    pass\n"})
    assert refused(gone).what == "k/a.py: there is no Triton kernel 'add'; there is ad"
