"""Parts of the frontend of SIMT Python that need no numba."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from tilec import simt
from tilec.frontends.base import BUILTIN, ToolSearch
from tilec.frontends.simt import api, errors
from tilec.frontends.simt.compiler import symbol_of
from tilec.frontends.simt.frontend import SimtFrontend
from tilec.frontends.simt.function import with_constants
from tilec.frontends.simt.link import misdeclared, undefined
from tilec.frontends.tools.packages import require_minor
from tilec_runtime.errors import ToolchainError, UsageError
from tilec_runtime.model.arch import Target

FACTOR = 3


def test_annotations() -> None:
    T = simt.dtype("T")  # noqa: N806 - a variable as users have it
    assert simt.Ref[T] == simt.Array(simt.Access.READ, T, 1)
    assert simt.Mut["f32", 3] == simt.Array(simt.Access.WRITE, "f32", 3)
    assert simt.Const[int].kind is int
    assert simt.Struct["layout"].layout == "layout"
    assert simt.size("BLOCK") == simt.SizeAxis("BLOCK") != simt.dtype("BLOCK")


@pytest.mark.parametrize(
    ("annotation", "means"),
    [
        (int, "i32"),
        (float, "f32"),
        (bool, "bool"),
        ("bf16", "bf16"),
        (np.float64, "f64"),
        (np.dtype("f8"), "f64"),
        (np.dtype("i8"), "i64"),
        (np.dtype("?"), "bool"),
        (np.dtype("V3"), ""),
        (np.zeros(2), ""),
        ([float], ""),
        (1, ""),
    ],
    ids=repr,
)
def test_dtypes(annotation: Any, means: str) -> None:
    assert api.dtype_named(annotation) == means


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: simt.Ref["f32", 4], r"Ref\[f32, 4\]: an array has a dtype and a rank of 1 to 3"),
        (lambda: simt.Mut["f32", 1, 2], r"Mut\[f32, 1, 2\]"),
        (lambda: simt.Mut["f32", "2"], r"a slice is Mut\[T\]"),
        (lambda: simt.Const[str], r"Const\[str\]: a constant is an int, a float or a bool"),
        (lambda: simt.dtype("a b"), "the name of an axis is a word"),
        (lambda: simt.size(4), "the name of an axis is a word"),  # type: ignore[arg-type]
        (lambda: simt.kernel(launch_bounds=(1, 2, 3, 4)), "one to three positive numbers"),
        (lambda: simt.kernel(launch_bounds=0), "one to three positive numbers"),
        (lambda: simt.kernel(max_registers=256), "at most 255"),
        (lambda: simt.kernel(print), "put on a function, not on a builtin_function_or_method"),  # type: ignore[call-overload]
    ],
)
def test_wrong_words_are_refused(make: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        make()


def test_a_kernel_is_not_called() -> None:
    @simt.kernel
    def plain(x: Any) -> None: ...

    @simt.kernel(bounds=True, fastmath=True, launch_bounds=128, max_registers=32)
    def optioned(x: Any) -> None: ...

    assert plain.options == simt.Options()
    assert optioned.options == simt.Options(
        bounds=True, fastmath=True, launch_bounds=(128,), max_registers=32
    )
    with pytest.raises(UsageError, match="plain is a kernel: it is not called from Python"):
        plain(1)


def test_targets() -> None:
    frontend = SimtFrontend(ToolSearch())
    assert (
        frontend.refuse(Target.parse("tileir"))
        == "SIMT Python makes no portable Tile IR: use compute_80 (PTX)"
    )
    assert [
        frontend.refuse(Target.parse(name)) for name in ("sm_75", "sm_100f", "compute_90a")
    ] == ["", "", ""]
    assert BUILTIN["simt"] == "tilec.frontends.simt.frontend:SimtFrontend"


@pytest.mark.parametrize("version", ["0.29.9", "0.31.0", "1.30.0"])
def test_other_versions_of_numba_cuda_are_refused(version: str) -> None:
    with pytest.raises(
        ToolchainError, match=rf"numba-cuda is of version {version}, and tilec compiles with 0\.30"
    ) as caught:
        require_minor("numba-cuda", version, api.TESTED, api.FIX)
    assert caught.value.fix == "pip install 'tilec[simt]'"


def test_a_field_that_a_struct_does_not_have_is_said_to_be_none() -> None:
    """All that numba says of `box.width` is "'width'"."""
    assert errors._first("'width'") == "width is not known: the struct has no such field"
    assert (
        errors._first("Untyped global name 'width': of no type")
        == "Untyped global name 'width': of no type"
    )


# --- text
# -------------------------------------------------------------------------------------------------------------------------------


PTX = """.extern .func  (.param .b32 func_retval0) theirs
(
\t.param .b64 theirs_param_0
)
;
.extern .func vprintf
\t{ // callseq 0, 0
\tmov.u64 \t%rd14, ours;
\tmov.u64 \t%rd15, table;
\tcall (retval0), %rd14, (param0), prototype_0;
"""


def test_functions_that_linked_code_lacks_or_has_otherwise() -> None:
    assert undefined(PTX) == {"theirs"}
    assert misdeclared(PTX, {"ours", "theirs"}) == ["ours"]


def test_symbols_are_those_of_c() -> None:
    assert [symbol_of(name) for name in ("add_2", "größe")] == ["add_2", "gr_uf6__udf_e"]


# --- constants
# --------------------------------------------------------------------------------------------------------------------------

SOURCE = """def outer(scale):
    def k(z, BLOCK: int = 4, x=None):
        return z + BLOCK * scale * FACTOR, x
    return k
"""


def test_constants_are_closed_over() -> None:
    scope: dict[str, Any] = {"FACTOR": FACTOR}
    exec(compile(SOURCE, "k.py", "exec"), scope)
    function: FunctionType = scope["outer"](10)
    node = next(
        n for n in ast.walk(ast.parse(SOURCE)) if isinstance(n, ast.FunctionDef) and n.name == "k"
    )
    made = with_constants(function, node, {"BLOCK": 2})
    assert made(1, 5) == (1 + 2 * 10 * FACTOR, 5)
    assert made.__code__.co_varnames == ("z", "x")
    assert (made.__code__.co_filename, made.__code__.co_firstlineno, made.__qualname__) == (
        "k.py",
        2,
        function.__qualname__,
    )
    scope["FACTOR"] = 1
    assert made(0, None)[0] == 20, "globals are the module's own"
