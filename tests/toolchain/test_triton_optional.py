"""Triton kernels whose tensors may be None: what is compiled of them, and that it is what Triton's
own compiler makes of a None.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.test_triton_same_code import by_triton, same_tools  # noqa: F401 - a fixture
from tests.toolchain.triton_jobs import frontend, job, ptr, scalar, slot, tensor, write
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import section
from tilec_runtime.errors import CompileError
from tilec_runtime.model.signature import Assumption

pytestmark = pytest.mark.toolchain
pytest.importorskip("triton")

KERNEL = """import triton
import triton.language as tl


@triton.jit
def shift(y, x, b, n, stride, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + o, mask=o < n)
    if b is not None:
        value += tl.load(b + o * stride, mask=o < n)
    tl.store(y + o, value, mask=o < n)


@triton.jit
def boxed(y, x, BM: tl.constexpr, BN: tl.constexpr):
    if x is not None:
        y.store([0, 0], x.load([0, 0]))


@triton.jit
def needs(y, x, b, n, stride, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o) + tl.load(b + o))
"""
NONE = Assumption(param="b", absent=True)
ALIGNED = tuple(Assumption(param=name, align=16) for name in "yxb")
PARAMS = (
    tensor("y", out=True),
    tensor("x"),
    tensor("b", optional=True, stride=(None,)),
    scalar("s", "f32"),
)
ABI = (
    ptr("y.ptr"),
    ptr("x.ptr"),
    ptr("b.ptr"),
    slot("i32", "x.size", 4),
    slot("i32", "b.stride[0]", 4),
)


def shift(root: Path, *assume: Assumption, kernel: str = "shift", target: str = "sm_90") -> Job:
    write(root, {"k/__init__.py": "", "k/a.py": KERNEL})
    return job(root, kernel, target, params=PARAMS, abi=ABI, axes={"BLOCK": 128}, assume=assume)


def test_what_is_none_is_no_argument_and_what_is_computed_of_it_is_0(tmp_path: Path) -> None:
    given, without = (frontend().compile(shift(tmp_path, *facts)) for facts in ((), (NONE,)))
    assert [slot.expr for slot in given.abi] == [
        "y.ptr",
        "x.ptr",
        "b.ptr",
        "x.size",
        "b.stride[0]",
        "0",
        "0",
    ]
    assert [slot.expr for slot in without.abi] == ["y.ptr", "x.ptr", "x.size", "0", "0", "0"]
    assert [slot.type for slot in without.abi] == ["ptr", "ptr", "i32", "i32", "u64", "u64"]
    assert (given.info.resources.code or 0) > (without.info.resources.code or 0) > 0


@pytest.mark.usefixtures("same_tools")
@pytest.mark.parametrize("facts", [(), ALIGNED[:2]], ids=["any", "aligned"])
def test_it_is_the_code_that_triton_makes_of_a_none(
    tmp_path: Path, facts: tuple[Assumption, ...]
) -> None:
    own = shift(tmp_path, *facts, NONE)
    types = {
        "y": "*fp32",
        "x": "*fp32",
        "b": "constexpr",
        "n": "i32",
        "stride": "i32",
        "BLOCK": "constexpr",
    }
    theirs = by_triton(own, "shift", types, {2: None, 5: 128}, (*((0, 1) if facts else ()), 4)).asm[
        "cubin"
    ]
    assert section(frontend().compile(own).data, ".text.shift") == section(theirs, ".text.shift")


def test_a_descriptor_may_be_none_too(tmp_path: Path) -> None:
    write(tmp_path, {"k/__init__.py": "", "k/a.py": KERNEL})
    facts: dict[str, Any] = {"align": 16, "stride": (None, 1)}
    params = (
        tensor("y", "f16", 2, out=True, **facts),
        tensor("b", "f16", 2, optional=True, **facts),
    )
    abi = (
        slot("descriptor", "descriptor(y, BM, BN)", 128),
        slot("descriptor", "descriptor(b, BM, BN)", 128),
    )
    made = job(tmp_path, "boxed", params=params, abi=abi, axes={"BM": 64, "BN": 64}, assume=(NONE,))
    image = frontend().compile(made)
    assert [slot.expr for slot in image.abi if slot.type.startswith("tensormap")] == ["y.ptr"]
    assert not any("b." in slot.expr for slot in image.abi)


def test_a_kernel_that_cannot_do_without_says_so_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        frontend().compile(shift(tmp_path, NONE, kernel="needs"))
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert (place.file, place.line) == ("k/a.py", 23)
    assert "'NoneType' object has no attribute 'dtype'" in caught.value.what
    assert caught.value.diagnostics[0].hint.startswith(
        "b may be None, and is in this variant: use it under `if … is not None`"
    )
