"""The kernels of examples/kernels against their twins in cuda.tile: the same operations, or the
same machine code.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.vendor_candidates import FAMILIES
from tests.toolchain.projects import machine_code
from tests.toolchain.tile_jobs import job, scalar, tensor
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.signature import Assumption

pytestmark = pytest.mark.toolchain
ROOT = Path(__file__).resolve().parents[2]
SAME_OPERATIONS = (
    "add",
    "saxpy",
    "swiglu",
    "rope",
    "dropout",
    "softmax",
    "rms_norm",
    "layer_norm",
    "add_rms_norm",
    "argmax",
)
# What is worked out twice there, tileiras works out once.
SAME_CODE = (
    "softmax_long",
    "argmax_long",
    "gemm",
    "gemm_rest",
    "linear",
    "batched_gemm",
    "attention",
)
# These check, or put right, an index that is data; their twins read wherever it says.
CHECKED = {"embedding", "kv_append", "grouped_gemm"}
NO_TWIN = {"group_peaks", "top_k"}
# What the safe kernels are not written like, and why: docs/background/vendor-kernels.md.
TWIN_ONLY = {name for name, family in FAMILIES.items() if family.twin_only}


def compiled(tile, root, name, module, target):
    family = FAMILIES[name]
    shutil.copy(ROOT / "examples" / "kernels" / family.source, root / family.source)
    shutil.copy(ROOT / "benchmarks" / "raw_kernels.py", root / "raw_kernels.py")
    axes = dict(family.points[0])
    if (
        module == "raw_kernels.py"
        and target != "tileir"
        and any(isinstance(d, str) for each in family.divisible.values() for d in each)
    ):
        axes["CHECK"] = False  # what the safe kernel knows from the facts, its twin is told
    hints = {
        hint: axes.pop(hint)
        for hint in ("num_worker_warps", "num_ctas", "occupancy")
        if hint in axes
    }
    arrays = tuple(tensor(array, dtype, rank, out=out) for array, dtype, rank, out in family.arrays)
    params = (*arrays, *(scalar(each, dtype) for each, dtype in family.scalars.items()))
    assume = tuple(assumption(each, family, axes) for each in arrays)
    made = job(
        tile,
        root,
        module,
        family.name,
        params,
        target=target,
        axes=axes,
        hints=hints,
        assume=assume,
        name="k",
    )
    return tile.compile(made)


def assumption(array, family, axes):
    """As the manifest's sets make them: axes have their values, free strides are divisible by the
    innermost extent's divisor.
    """
    shape, stride = (
        tuple(axes.get(divisor, divisor) for divisor in family.divisible.get(array.name, ())),
        tuple(family.pitch.get(array.name, ())),
    )
    if shape and array.rank > 1:
        stride = (*[shape[-1]] * (array.rank - 1), 1)
    return Assumption(
        param=array.name, shape=shape, stride=stride, align=16 if shape or stride else 1
    )


def operations(image):
    """The Tile IR as text, without places in the source; values are renumbered by their first use,
    and a constant counts once.
    """
    text = re.sub(r" *//.*", "", render(read_module(image.data)))
    numbers: dict[str, str] = {}
    lines = sorted(
        re.sub(r"%\d+", lambda found: numbers.setdefault(found[0], "%"), line)
        for line in text.split("\n")
    )
    return [
        line
        for place, line in enumerate(lines)
        if " = constant " not in line or line not in lines[:place]
    ]


def test_every_family_is_accounted_for():
    assert {*SAME_OPERATIONS, *SAME_CODE} | CHECKED | NO_TWIN | TWIN_ONLY == set(FAMILIES)
    assert {"axpy", "gemm_split"} == TWIN_ONLY


@pytest.mark.parametrize("name", SAME_OPERATIONS)
def test_the_operations_are_the_same(tile, tmp_path, name):
    safe, plain = (
        compiled(tile, tmp_path, name, module, "tileir")
        for module in (FAMILIES[name].source, "raw_kernels.py")
    )
    assert len(operations(safe)) > 10
    assert operations(safe) == operations(plain)


@pytest.mark.long
@pytest.mark.parametrize("name", SAME_CODE)
def test_the_machine_code_is_the_same(tile, tmp_path, name):
    safe, plain = (
        compiled(tile, tmp_path, name, module, "sm_90")
        for module in (FAMILIES[name].source, "raw_kernels.py")
    )
    assert safe.info.resources == plain.info.resources
    code = machine_code(safe, tmp_path)
    assert len(code) > 100
    assert code == machine_code(plain, tmp_path)
    assert not any(re.match(r"(LDL|STL)\b", line) for line in code)  # no local memory
    if not name.endswith("_long"):  # the tensor cores of Hopper, fed by its copy engine
        assert any(line.startswith(("HGMMA", "QGMMA")) for line in code)
        assert any("UTMALDG" in line for line in code)
