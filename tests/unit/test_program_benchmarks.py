"""The benchmarks of launches: their shapes, classes, steps, statistics and the packing of the C
loop, without a GPU.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilec_runtime import api, use_device
from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    import c_loop
    import large_package
    import program_cases as cases
    import serving
finally:
    sys.path.pop(0)
    sys.modules.pop("common", None)  # examples/pipelines has a module of that name too


def test_extents_are_distinct_and_the_same_every_time() -> None:
    extents = cases.distinct_extents(10_300)
    assert len(set(extents)) == 10_300
    assert min(extents) >= 257
    assert extents == cases.distinct_extents(10_300)
    assert extents != sorted(extents)


def test_classes_are_fifty_and_their_layouts_are_what_they_say() -> None:
    assert len(set(cases.CLASSES)) == 50
    by_layout = {layout: cases.strided("float32", layout, 7, 2) for layout in cases.LAYOUTS}
    assert {layout: (one.shape, one.strides, one.offset) for layout, one in by_layout.items()} == {
        "aligned": ((7, 48), (48, 1), 0),
        "odd": ((7, 51), (51, 1), 0),
        "offset": ((7, 48), (48, 1), 1),
        "padded": ((7, 48), (80, 1), 0),
        "odd pitch": ((7, 48), (53, 1), 0),
        "transposed": ((7, 48), (1, 16), 0),
    }
    assert [by_layout[layout].extent for layout in ("aligned", "offset", "padded")] == [
        336,
        337,
        528,
    ]
    with pytest.raises(ValueError, match="no such layout: none"):
        cases.strided("float32", "none", 1, 1)


def test_a_table_has_no_shape_twice_in_a_class_and_changes_the_class_each_time() -> None:
    views = cases.table(5000)
    classes = [cases.CLASSES[place % 50] for place in range(5000)]
    assert [view.dtype for view in views] == [dtype for dtype, _ in classes]
    assert max(Counter(zip(classes, (view.shape for view in views), strict=True)).values()) == 1
    assert all(one != other for one, other in itertools.pairwise(classes))


def test_a_row_takes_ratios_within_rounds_and_the_percentile_of_all() -> None:
    """A machine whose clock changes from round to round has the same ratios."""
    base = [[1000.0] * 99 + [5000.0], [2000.0] * 100]
    each = [[1560.0] * 99 + [9060.0], [3060.0] * 100]
    assert cases.row(base) == {"median_us": 1.5, "p99_us": 2.0}
    assert cases.row(each, base, timer=60.0) == {
        "median_us": 2.25,
        "p99_us": 3.0,
        "times_c_loop": 1.5,
    }


def test_steps_of_a_serving_loop_change_and_repeat_for_a_seed() -> None:
    first = list(itertools.islice(cases.steps(seed=3), 500))
    assert first == list(itertools.islice(cases.steps(seed=3), 500))
    assert first != list(itertools.islice(cases.steps(seed=4), 500))
    assert {step.graph for step in first} == {0, 1}
    assert all(1 <= step.tokens <= 32 * 64 and 1 <= len(step.lengths) <= 32 for step in first)
    assert len({step.tokens for step in first}) > 350


def tensor(address: int, *shape: int, stride: tuple[int, ...]) -> SimpleNamespace:
    return SimpleNamespace(
        shape=shape, stride=lambda: stride, data_ptr=lambda: address, element_size=lambda: 4
    )


def test_the_c_loop_packs_what_the_index_says() -> None:
    slots = [
        ("ptr", "x.ptr"),
        ("i32", "x.shape[1]"),
        ("i64", "x.stride[0]"),
        ("f32", "alpha"),
        ("i32", "R * 2"),
    ]
    plan = c_loop.Plan(
        function=7,
        params=("x", "alpha"),
        axes={"R": 4},
        abi=[AbiSlot(type=kind, expr=text, size=8, align=8) for kind, text in slots],
        grid=[parse("cdiv(x.shape[0], R)")],
        block=(128, 1, 1),
        shared=64,
    )
    packed = plan.packed(tensor(0x1000, 10, 3, stride=(5, 1)), 0.5)
    assert [value.value for value in packed._values] == [0x1000, 3, 5, 0.5, 8]
    launch = packed.launch
    assert (launch.function, list(launch.grid), list(launch.block), launch.shared) == (
        7,
        [3, 1, 1],
        [128, 1, 1],
        64,
    )
    addresses = (c_loop.ctypes.c_void_p * 5).from_address(launch.params)
    assert list(addresses) == [c_loop.ctypes.addressof(value) for value in packed._values]


def test_the_c_loop_reads_tensors_of_tilec_and_leaves_them_unclaimed() -> None:
    with use_device("cpu"):
        own = api.zeros((2, 3), dtype="f32").sync()
    found = c_loop.symbol(own)
    assert (found.ptr, found.shape, found.stride, found.size, found.nbytes) == (
        own.ptr,
        (2, 3),
        (3, 1),
        6,
        24,
    )
    own.share()  # which a claim would refuse


def test_an_error_of_a_step_ends_its_loop() -> None:
    def advance(step: cases.Step) -> None:
        raise RuntimeError("lost")

    loop = serving.Loop(advance, seed=0)
    loop.end = math.inf
    loop.run()
    assert (loop.steps, str(loop.error)) == (0, "lost")


def test_the_large_project_has_a_hundred_kernels_and_seven_hundred_images(tmp_path: Path) -> None:
    from tilec.build import BuildRequest, plan_only
    from tilec.compile.events import SilentObserver

    large_package.write(tmp_path, 100)
    plan = plan_only(BuildRequest(manifest_path=tmp_path / "tilec.toml"), SilentObserver())
    assert len(plan.jobs) == 700
    assert len({job.spec.name for job in plan.jobs}) == 100
