"""Whatever shapes, strides and offsets arguments have: the variant that is taken fits them, and the
answer is right.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.dispatch_cases import Cut, arguments, check_choice, cut
from tilec.build import build
from tilec.compile.events import Observer
from tilec.planning import BuildRequest
from tilec_runtime import Device, Module, load
from tilec_runtime.errors import LayoutError

pytestmark = pytest.mark.toolchain

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "dispatch_project"
FORCED = st.sampled_from([{}, {}, {"BM": 4}, {"BM": 16, "BN": 16}, {"BN": 32}])


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    root = tmp_path_factory.mktemp("blends") / "project"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("dist", ".tilec", "__pycache__"))
    build(
        BuildRequest(manifest_path=root / "tilec.toml", workers=2, targets=("tileir",)),
        Observer(),
    )
    return load(root / "dist" / "blends-1.0.tilec", "cpu")


Array = np.ndarray[Any, Any]


def view(base: Array, how: Cut, place: tuple[int, int, int, int]) -> Array:
    m, n, *strides = place
    steps = [stride * base.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(base[how.offset :], (m, n), steps)


def facts(tensor: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return (
        tensor.shape,
        tuple(step // tensor.itemsize for step in tensor.strides),
        tensor.ctypes.data if tensor.size else 0,
    )


@examples(60)
@given(arguments(), FORCED)
def test_any_arguments_get_the_right_answer(
    module: Module,
    given_: tuple[tuple[int, int], tuple[Cut, Cut, Cut], int, int],
    forced: dict[str, Any],
) -> None:
    shape, cuts, more, seed = given_
    bases = [cut(shape, how, more, seed + number) for number, how in enumerate(cuts)]
    z, x, y = (view(base, how, place) for (base, place), how in zip(bases, cuts, strict=True))
    before, wanted = bases[0][0].copy(), x * 2 + y
    why = module.blend.explain(z, x, y, **forced)
    check_choice(why, {"z": facts(z), "x": facts(x), "y": facts(y)})
    assert forced.items() <= dict(why.axes).items()
    for _ in range(2):  # with all checks, then by what the first launch left behind
        module.blend(z, x, y, **forced)
        Device("cpu").sync()
    np.testing.assert_array_equal(z, wanted)
    view(before, cuts[0], bases[0][1])[...] = wanted
    np.testing.assert_array_equal(bases[0][0], before)  # nothing beside the view was written


def test_strides_that_the_compiler_was_told_not_to_expect_are_refused(module: Module) -> None:
    """Tile kernels are compiled for strides that are not negative."""
    x, z = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros((4, 16), np.float32)
    for view in (x[::-1], x[:, ::-1]):
        with pytest.raises(
            LayoutError,
            match=r"blend: argument 'x' has strides \(.*\), and tile kernels take none that is negative",
        ):
            module.blend(z, view, x)
    module.blend(z[:1], x[3:4][::-1], x[:1])  # the stride of one row is used by no access
    Device("cpu").sync()
    np.testing.assert_array_equal(z[0], 2 * x[3] + x[0])
