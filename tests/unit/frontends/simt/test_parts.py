"""Parts of the frontend of SIMT Python that need no numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilec import simt
from tilec.frontends.base import BUILTIN, ToolSearch
from tilec.frontends.simt import api
from tilec.frontends.simt.frontend import SimtFrontend
from tilec.frontends.simt.link import misdeclared, undefined
from tilec_runtime.errors import UsageError
from tilec_runtime.model.arch import Target


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
        (lambda: simt.dtype("a b"), "is not the name of an axis"),
        (lambda: simt.size(4), "is not the name of an axis"),  # type: ignore[arg-type]
        (lambda: simt.kernel(launch_bounds=(1, 2, 3, 4)), "one to three positive numbers"),
        (lambda: simt.kernel(launch_bounds=0), "one to three positive numbers"),
        (lambda: simt.kernel(max_registers=256), "at most 255"),
        (lambda: simt.kernel(print), "put on a function, not on a builtin_function_or_method"),  # type: ignore[call-overload]
    ],
)
def test_wrong_words_are_refused(make: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        make()


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
