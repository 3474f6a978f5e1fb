"""Tensors of more than 2^31 elements: launched where their extents and strides fit into the
kernel's numbers, and refused in words else.
"""

from __future__ import annotations

import pytest

from tests.runtime_samples import TENSOR, Array, image, kernel, loaded, slot
from tilec_runtime.errors import LaunchLimitError, LayoutError
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import Param

BM = BN = 64
INDICES = ("shape[0]", "shape[1]", "stride[0]")


def copies(index: str, *, mapped: bool = False, grid: tuple[str, ...] = ()):
    """A kernel over matrices that counts in `index`."""
    abi = tuple(
        slot(t, e)
        for name in "zx"
        for t, e in (("ptr", f"{name}.ptr"), *((index, f"{name}.{what}") for what in INDICES))
    )
    params = tuple(
        Param(name=name, kind=TENSOR, dtype="u8", rank=2, out=name == "z", stride=(None, 1))
        for name in "zx"
    )
    return kernel(
        "copy",
        params,
        (VariantInfo(id="copy", axes=(("BM", BM), ("BN", BN)), abi=abi, images=(image("copy"),)),),
        axes=(("BM", (BM,)), ("BN", (BN,))),
        launch=LaunchInfo(
            grid=grid or ("cdiv(z.shape[0], BM)", "cdiv(z.shape[1], BN)"), block=("128",)
        ),
        safety=Safety(regions=(Region(param="z", tile=("BM", "BN"), mapped=mapped),)),
    )


def matrices(rows: int, columns: int, row: int = 0) -> tuple[Array, Array]:
    """At addresses so far apart that they do not overlap."""
    stride = (row, 1) if row else None
    return tuple(Array(rows, columns, dtype="u8", ptr=at << 45, stride=stride) for at in (1, 2))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("rows", "columns", "row"),
    [
        (1 << 16, 1 << 16, 0),
        (1 << 20, 1 << 20, 0),
        (3, 64, (1 << 31) - 1),
        ((1 << 31) - 1, 1, 0),
        (0, 1 << 20, 0),
    ],
)
def test_elements_may_be_many_where_extents_and_strides_fit(
    rows: int, columns: int, row: int
) -> None:
    module, driver = loaded(copies("i32"))
    z, x = matrices(rows, columns, row)
    module.copy(z, x)
    assert module.copy.explain(z, x).variant.id == "copy"
    if rows:
        (launch,) = driver.launches
        assert launch.arguments == (
            1 << 45,
            rows,
            columns,
            row or columns,
            2 << 45,
            rows,
            columns,
            row or columns,
        )


@pytest.mark.parametrize(
    ("rows", "columns", "row", "what"),
    [
        (1 << 31, 1, 0, "z.shape[0] is 2147483648"),
        (1, 1 << 31, 0, "z.shape[1] is 2147483648"),
        (2, 64, 1 << 31, "z.stride[0] is 2147483648"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_launch(
    rows: int, columns: int, row: int, what: str
) -> None:
    module, driver = loaded(copies("i32", grid=("1",)))
    for call in (module.copy, module.copy.explain):
        with pytest.raises(LayoutError) as caught:
            call(*matrices(rows, columns, row))
        assert caught.value.what == f"copy: {what}, which the kernel's i32 cannot hold"
        assert "build the kernel with 64-bit ones" in caught.value.fix
    assert driver.launches == []
    wide, driver = loaded(copies("i64", grid=("1",)))
    wide.copy(*matrices(rows, columns, row))
    assert len(driver.launches) == 1


def test_tiles_that_blocks_share_are_no_more_than_they_can_count() -> None:
    """Whatever the grid is: the number of the last tile would be a small one again, and most of the
    output left as it was.
    """
    module, driver = loaded(copies("i32", mapped=True, grid=("264",)))
    module.copy(*matrices((1 << 15) * BM, (1 << 15) * BN))
    many = matrices((1 << 16) * BM, (1 << 16) * BN)
    for call in (module.copy, module.copy.explain):
        with pytest.raises(
            LaunchLimitError,
            match=r"^copy: z has 65536 x 65536 tiles for 264 blocks, which count to 2147483647",
        ):
            call(*many)
    assert len(driver.launches) == 1
    owned, driver = loaded(copies("i32", grid=("264",)))
    owned.copy(*many)  # each block has a tile of its own, whose place its number in the grid says
    assert len(driver.launches) == 1
