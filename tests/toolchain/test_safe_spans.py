"""`tl.SpanMut`, `tl.BACKWARD`, `Ref.nearest`, and loops that begin behind zero: what is proven of
them, and what is refused.
"""

from __future__ import annotations

import pytest

from tests.toolchain.tile_jobs import declared
from tilec_runtime.model.safety import Guarantee, Region

pytestmark = pytest.mark.toolchain

HEAD = """import tilec.lang as tl
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
"""
LINE = HEAD.count("\n") + 2
SPAN = "y: tl.SpanMut[T, (BM, BN), 1], x: tl.Ref[T, 2]"


def kernel(tile, root, signature, *body, above=""):
    lines = "".join(f"    {line}\n" for line in body or ("pass",))
    return declared(tile, root, f"{HEAD}{above}@tl.kernel\ndef k({signature}):\n{lines}")


def test_a_span_has_one_block_along_its_axis(tile, tmp_path):
    decl = kernel(
        tile,
        tmp_path,
        SPAN,
        "row, _ = y.index",
        "for j in range(y.num_tiles(1)):",
        "    y.store_tile(j, x.load_tile((row, j), (BM, BN)))",
    )
    assert decl.grid == ("cdiv(y.shape[0], BM)", "1")
    assert decl.unproven == ()
    assert decl.requires == (
        "cdiv(x.shape[0], BM) >= cdiv(y.shape[0], BM)",
        "cdiv(x.shape[1], BN) >= cdiv(y.shape[1], BN)",
    )
    assert decl.safety.regions == (Region(param="y", tile=("BM", "y.shape[1]")),)
    assert (
        "y: a block reads and writes its own tiles of BM x BN, all along axis 1, and no others"
        in [f.what for f in decl.safety.facts]
    )
    assert not decl.grid_free


def test_a_span_and_a_tile_have_the_same_grid(tile, tmp_path):
    decl = kernel(tile, tmp_path, "y: tl.SpanMut[T, (BM, BN), 1], z: tl.Mut[T, BM]")
    assert decl.requires == ("cdiv(z.shape[0], BM) == cdiv(y.shape[0], BM)",)


def test_an_empty_span_excuses_nothing(tile, tmp_path):
    # Its blocks run where there is nothing along the axis.
    decl = kernel(tile, tmp_path, SPAN, "x.load_tile((0, 3), (BM, BN))")
    assert decl.requires == ("cdiv(x.shape[0], BM) >= 1", "cdiv(x.shape[1], BN) >= 4")


@pytest.mark.parametrize(
    ("number", "needed"),
    [
        ("3", ("cdiv(y.shape[1], BN) >= 4",)),
        ("x.shape[0]", None),
        ("j - 1", None),
        ("-1", None),
        ("y.index[0]", ("cdiv(y.shape[1], BN) >= cdiv(y.shape[0], BM)",)),
    ],
)
def test_numbers_along_a_span(tile, tmp_path, number, needed):
    decl = kernel(
        tile, tmp_path, SPAN, "for j in range(y.num_tiles(1)):", f"    y.store_tile({number}, 0.0)"
    )
    if needed is not None:
        assert (decl.requires, decl.unproven) == (needed, ())
        return
    (found,) = decl.unproven
    assert (
        found.message
        == "y.store_tile is checked inside of the kernel: index 1 is not known to be among the tiles of y"
    )
    assert [f.what for f in decl.safety.facts if f.guarantee is Guarantee.KERNEL] == [
        f"y.store_tile at k.py:{LINE + 2}: each tile begins in y"
    ]


def test_helpers_store_where_it_is_known_and_with_a_check_elsewhere(tile, tmp_path):
    above = "def helper(out, j):\n    out.store_tile(j, 0.0)\n\n\n"
    proven = kernel(
        tile, tmp_path, SPAN, "for j in range(y.num_tiles(1)):", "    helper(y, j)", above=above
    )
    assert proven.unproven == ()
    found, note = kernel(tile, tmp_path, SPAN, "helper(y, -1)", above=above).unproven
    assert (
        found.message
        == "out.store_tile is checked inside of the kernel: index 1 is not known to be among the tiles of y"
    )
    assert (note.severity, note.message) == ("note", "called from here, in k")


def test_the_nearest_tile_is_known_where_there_is_any(tile, tmp_path):
    decl = kernel(
        tile,
        tmp_path,
        "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], n: int",
        "g = x.nearest(n, 0, BM)",
        "z.store(x.load_tile((g, 0), (BM, BN)))",
    )
    assert decl.unproven == ()
    assert decl.requires == (
        "cdiv(x.shape[0], BM) > 0 or z.size == 0",
        "cdiv(x.shape[1], BN) >= 1 or z.size == 0",
    )


def test_the_nearest_of_other_tiles_has_to_be_one_of_these(tile, tmp_path):
    decl = kernel(
        tile,
        tmp_path,
        "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], n: int",
        "z.store(x.load_tile((x.nearest(n, 0, BN), 0), (BM, BN)))",
    )
    assert "cdiv(x.shape[0], BM) >= cdiv(x.shape[0], BN)" in decl.requires


CAUSAL = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], BK: tl.Const[int], EARLY: tl.Const[bool]"
LOAD = "    x.load_tile((z.index[0], k), (BM, BK))"


@pytest.mark.parametrize(
    ("loop", "divisor"),
    [
        ("range(min(z.index[0] * BM // BK, x.num_tiles(1, BK)), x.num_tiles(1, BK))", "BK > 0"),
        ("range(z.index[0] // BK, x.num_tiles(1, BK))", "BK > 0"),
        ("range(min(3, x.num_tiles(1, BK)) if EARLY else x.num_tiles(1, BK))", None),
        (
            "range(min(z.index[0] * BM, x.num_tiles(1, BK)), min(z.index[1] - 7, x.num_tiles(1, BK)))",
            None,
        ),
    ],
)
def test_loops_that_begin_at_a_number_from_zero_on(tile, tmp_path, loop, divisor):
    decl = kernel(tile, tmp_path, CAUSAL, f"for k in {loop}:", LOAD)
    assert decl.unproven == ()
    assert decl.requires == (
        "cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",
        *([divisor] if divisor else []),
    )


@pytest.mark.parametrize(
    "loop",
    [
        "range(z.index[0] * BN, x.num_tiles(1, BK))",  # not its own extent: the product may overflow
        "range(min(z.index[0] - 1, x.num_tiles(1, BK)), x.num_tiles(1, BK))",
        "range((z.index[0] - 1) // BK, x.num_tiles(1, BK))",
        "range(x.num_tiles(1, BK) if EARLY else x.num_tiles(0, BK))",
    ],
)
def test_loops_of_which_nothing_is_known(tile, tmp_path, loop):
    (found,) = kernel(tile, tmp_path, CAUSAL, f"for k in {loop}:", LOAD).unproven
    assert (
        found.message
        == "x.load_tile is checked inside of the kernel: index 1 is not known to be among the tiles of x"
    )


def test_tiles_that_are_numbered_backward_are_owned_as_well(tile, tmp_path):
    body = ("for tile in c.tiles:", "    at = c.place(tile)", "    c.store(at, 1.0)")
    decl = kernel(tile, tmp_path, "c: tl.MappedMut[T, (1, BM, BN), tl.BACKWARD]", *body)
    assert decl.unproven == ()
    assert decl.grid_free
