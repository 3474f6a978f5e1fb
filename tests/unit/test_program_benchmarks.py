"""The benchmarks of programs, without a GPU: what the C loop packs, and the large package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    import c_loop
    import large_package
finally:
    sys.path.pop(0)
    sys.modules.pop("common", None)  # examples/pipelines has a module of that name too


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


def test_the_large_project_has_a_hundred_kernels_and_seven_hundred_images(tmp_path: Path) -> None:
    from tilec.compile.events import Observer
    from tilec.planning import BuildRequest, plan_only

    large_package.write(tmp_path, 100)
    plan = plan_only(BuildRequest(manifest_path=tmp_path / "tilec.toml"), Observer())
    assert len(plan.jobs) == 700
    assert len({job.spec.name for job in plan.jobs}) == 100
