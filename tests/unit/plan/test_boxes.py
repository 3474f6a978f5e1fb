"""Tensor descriptors in a manifest: what is wrong with a box is told by `check`, before anything is
compiled.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.plan.test_optional import norm, planned_of
from tilec.manifest.types import Kernel, Launch, Matrix, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import Location, ManifestError

DECL = KernelDecl(
    name="copy",
    location=Location(file="k.py", line=3),
    params=(ParamDecl(name="y", kind="tensor", rank=2), ParamDecl(name="x", kind="tensor", rank=2)),
)


def copied(*args: str, **facts: object) -> Kernel:
    tensor = {"dtype": "T", "rank": 2, "aligned": 16, "stride": (None, 1)}
    params = (ParamTable(name="y", out=True, **tensor), ParamTable(name="x", **{**tensor, **facts}))  # type: ignore[arg-type]
    matrix = Matrix(axes=(("T", ("f16", "f32")), ("BM", (64,)), ("BN", (64, 128))))
    base = norm(name="copy", function="copy", symbol="copy", cases=(), params=params, matrix=matrix)
    return dataclasses.replace(
        base, args=args or None, launch=Launch(grid=("cdiv(y.shape[0], BM)",))
    )


@pytest.mark.parametrize(
    ("box", "facts", "what"),
    [
        (
            "descriptor(x, BM)",
            {},
            "args[1]: descriptor(x, BM) has a box of 1 extents, and x has rank 2",
        ),
        (
            "descriptor(x, BM, 48)",
            {},
            "args[1]: descriptor(x, BM, 48): a box has extents that are powers of two, and these are 64, 48",
        ),
        (
            "descriptor(x, BM, BN * 3)",
            {},
            "args[1]: descriptor(x, BM, BN * 3): a box has extents that are powers of two, and these are 64, 192",
        ),
        (
            "descriptor(x, BM, 4)",
            {},
            "args[1]: descriptor(x, BM, 4): a row of a box has 16 bytes at least, and 4 x 2 are 8: widen the last extent",
        ),
        (
            "descriptor(x, x.shape[0], BN)",
            {},
            "the extents of a box are numbers and axes of the matrix",
        ),
        (
            "descriptor(BM, BM, BN)",
            {},
            "args[1]: descriptor(BM, BM, BN): 'BM' is no tensor of the launcher",
        ),
        (
            "descriptor(x, BM, BN)",
            {"aligned": 8},
            "args[1]: x is passed as a tensor descriptor, and nothing says that it is aligned: params.x.aligned = 16",
        ),
        (
            "x.ptr",
            {},
            "args[1]: 'x.ptr' is an address, and the source takes tiles of x at 2 offsets: args = [",
        ),
        (
            "descriptor(x, BM, BN, 1)",
            {"rank": 3, "stride": (None, None, 1)},
            "params.x.rank: rank 3, but the source takes tiles of x at 2 offsets",
        ),
    ],
)
def test_boxes_that_are_wrong(box: str, facts: dict[str, object], what: str) -> None:
    with pytest.raises(ManifestError) as caught:
        planned_of(copied("descriptor(y, BM, BN)", box, **facts), DECL)
    assert what in str(caught.value)


def test_without_args_a_kernel_that_reads_tiles_is_told_how() -> None:
    with pytest.raises(
        ManifestError,
        match=r"kernel\.copy: the source takes tiles of y at 2 offsets: args = \[\"descriptor\(x, BM, BK\)\"",
    ):
        planned_of(copied(), DECL)
