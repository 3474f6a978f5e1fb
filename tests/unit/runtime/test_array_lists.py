"""Lists of arrays in calls: their length chooses the variant, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.runtime_samples import TENSOR, Array, bundle_of, image, kernel, slot
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module
from tilec_runtime.errors import (
    ArgumentError,
    BundleError,
    DTypeError,
    OwnershipError,
    VariantError,
)
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, ListParam, Param
from tilec_runtime.tensors.tensor import Tensor


def _grouped() -> KernelInfo:
    """Lists c and a of two or four arrays, and a vector behind them."""
    params = tuple(
        Param(name=f"{name}_{place}", kind=TENSOR, dtype="f32", rank=1, out=out, optional=place > 1)
        for name, out in (("c", True), ("a", False))
        for place in range(4)
    )

    def variant(count: int) -> VariantInfo:
        return VariantInfo(
            id=f"grouped-G{count}",
            axes=(("G", count),),
            assume=tuple(
                Assumption(param=param.name, absent=True)
                for param in params
                if int(param.name[-1]) >= count
            ),
            abi=tuple(slot("ptr", f"{p.name}.ptr") for p in params if int(p.name[-1]) < count),
            images=(image(f"grouped_{count}"),),
        )

    return kernel(
        "grouped",
        (*params, Param(name="x", kind=TENSOR, dtype="f32", rank=1)),
        (variant(2), variant(4)),
        axes=(("G", (2, 4)),),
        lists=tuple(
            ListParam(name=name, first=first, most=4, axis="G")
            for name, first in (("c", 0), ("a", 4))
        ),
        launch=LaunchInfo(
            grid=("G",), requires=tuple(f"c_{i}.shape == a_{i}.shape" for i in range(4))
        ),
    )


GROUPED = _grouped()
FIXED = kernel(
    "fixed",
    (
        Param(name="y", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="a_0", kind=TENSOR, dtype="f32", rank=1),
        Param(name="a_1", kind=TENSOR, dtype="f32", rank=1),
    ),
    (
        VariantInfo(
            id="fixed",
            abi=tuple(slot("ptr", f"{name}.ptr") for name in ("y", "a_0", "a_1")),
            images=(image("fixed"),),
        ),
    ),
    lists=(ListParam(name="a", first=1, most=2),),
    launch=LaunchInfo(grid=("1",)),
)


KERNELS = (GROUPED, FIXED)


def arrays(count: int, at: int) -> list[Array]:
    return [Array(64, ptr=0x10000 * (at + place)) for place in range(count)]


X = Array(64, ptr=0x900000)


def test_the_length_of_the_lists_chooses_the_variant(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    for _ in range(3):  # the first, what makes later ones fast, and a later one
        module.grouped(arrays(2, 1), arrays(2, 11), X, stream=5)
        module.grouped(tuple(arrays(4, 1)), arrays(4, 11), x=X, stream=5)
        module.fixed(X, arrays(2, 1), stream=5)
    assert [(launch.symbol, launch.shape.grid[0]) for launch in driver.launches] == [
        ("grouped_2", 2),
        ("grouped_4", 4),
        ("fixed", 1),
    ] * 3
    assert driver.launches[-3].arguments == (0x10000, 0x20000, 0xB0000, 0xC0000)
    assert "G is the length of c" in str(module.grouped.explain(arrays(2, 1), arrays(2, 11), X))


def test_ops_take_lists_and_give_them_back(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    made: Any = driver

    def tensor() -> Tensor:
        return Tensor.uninitialized((64,), "f32", driver=made, ordinal=0, stream=0)

    for count in (2, 4):
        c, a, x = [tensor() for _ in range(count)], [tensor() for _ in range(count)], tensor()
        first = module.ops.fixed(c[0], [a[0], a[1]]).first()
        op = module.ops.grouped([first, *c[1:]], [tensor() for _ in range(count)], x)
        with pytest.raises(OwnershipError):
            module.ops.fixed(tensor(), [c[1], a[0]])
        new_c, new_a, same_x = op.sync()
        assert (len(new_c), len(new_a), same_x) == (count, count, x)
        assert list(new_c) == c
    assert [launch.symbol for launch in driver.launches] == [
        "fixed",
        "grouped_2",
        "fixed",
        "grouped_4",
    ]


C, A = arrays(2, 1), arrays(2, 11)


@pytest.mark.parametrize(
    ("args", "axes", "kind", "text"),
    [
        ((*C, *A, X), {}, ArgumentError, "takes 3 arguments (c, a, x), got 5"),
        ((*C, *A, X), {}, ArgumentError, "pass each list as one argument: c, a"),
        ((C, A), {}, ArgumentError, "the argument is missing: 'x'"),
        (
            (C, C[0], X),
            {},
            ArgumentError,
            "argument 'a' takes a list of 2 or 4 arrays, got a Array",
        ),
        ((C[:1], A[:1], X), {}, ArgumentError, "argument 'c' takes 2 or 4 arrays, got 1"),
        ((C[:1], A[:1], X), {}, ArgumentError, "add 1 to G in kernel.grouped.matrix"),
        (([], [], X), {}, ArgumentError, "argument 'c' takes 2 or 4 arrays, got 0"),
        ((C, arrays(4, 11), X), {}, ArgumentError, "argument 'a' has 4 arrays, and 'c' has 2"),
        ((C, [A[0], None], X), {}, ArgumentError, "argument 'a' has None at place 1"),
        ((C, [A[0], Array(64, dtype="f16")], X), {}, DTypeError, "argument 'a_1' takes f32"),
        ((C, A, X), {"G": 4}, VariantError, "G is 4 for this launch, and 'c' has 2 arrays"),
    ],
)
def test_refuses_wrong_lists(
    gpu: tuple[Module, FakeDriver],
    args: tuple[Any, ...],
    axes: dict[str, Any],
    kind: type[Exception],
    text: str,
) -> None:
    module, driver = gpu
    with pytest.raises(kind) as caught:
        module.grouped(*args, **axes, stream=5)
    assert text in str(caught.value)
    assert not driver.launches


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"first": 1}, "'c_2' is no array of a list"),
        ({"most": 12}, "has more arrays than the kernel takes"),
        ({"most": 3}, "no axis of counts up to 3"),
        ({"axis": "H"}, "'H' is no axis of counts"),
        ({"axis": ""}, "'c_2' is no array of a list"),
        ({"name": "x"}, "parameter of calls"),
    ],
)
def test_an_index_with_wrong_lists_is_damaged(changed: dict[str, Any], text: str) -> None:
    first, second = GROUPED.lists
    lists = (dataclasses.replace(first, **changed), second)
    with pytest.raises(BundleError, match=text):
        bundle_of(dataclasses.replace(GROUPED, lists=lists))
