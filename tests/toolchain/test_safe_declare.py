"""What follows from a safe kernel's source: signature, grid, requirements, proofs, and what is
known of its safety.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.toolchain.tile_jobs import declared
from tilec.model.alike import conditions
from tilec_runtime.errors import UsageError
from tilec_runtime.model.safety import Guarantee, Region

pytestmark = pytest.mark.toolchain

HEAD = """from typing import Annotated
import cuda.tile as ct
import tilec.lang as tl
from tilec.lang import load_tile_like
from tilec.lang import load_tile_like as like
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
WIDTH = 32
"""


def kernel(tile, root, signature, *body, above=""):
    lines = "".join(f"    {line}\n" for line in body or ("pass",))
    return declared(tile, root, f"{HEAD}{above}@tl.kernel\ndef k({signature}):\n{lines}")


def test_parameters_come_from_annotations(tile, tmp_path):
    text = (
        "z: tl.Mut[T, (BM, BN)], x: tl.Ref[tl.float16, 3], y: Annotated[tl.Ref, 'i32', 1], p: tl.Ptr[T], q: tl.Ptr[T, 2], "
        "n: int, a: float = 0.5, flag: bool = True, w: Annotated[float, tl.float64] = 1.0, t: Annotated[float, T] = 2.0, "
        "BK: tl.Const[int] = 8"
    )
    decl = kernel(tile, tmp_path, text)
    rows = [(p.name, p.kind, p.dtype, p.rank, p.out, p.default) for p in decl.params]
    assert rows == [
        ("z", "tensor", "T", 2, True, None),
        ("x", "tensor", "f16", 3, False, None),
        ("y", "tensor", "i32", 1, False, None),
        ("p", "tensor", "T", 1, True, None),
        ("q", "tensor", "T", 2, True, None),
        ("n", "scalar", "i32", -1, None, None),
        ("a", "scalar", "f32", -1, None, 0.5),
        ("flag", "scalar", "bool", -1, None, True),
        ("w", "scalar", "f64", -1, None, 1.0),
        ("t", "scalar", "T", -1, None, 2.0),
        ("BK", "constant", "", -1, None, 8),
    ]
    assert {use.name: use.dtype for use in decl.axes} == {"T": True, "BM": False, "BN": False}
    assert decl.params[0].type == "tl.Mut[T, (BM, BN)]"


def test_grids_follow_from_outputs(tile, tmp_path):
    decl = kernel(tile, tmp_path, "z: tl.Mut[T, (BM, 16)], w: tl.Mut[T, BM], x: tl.Ref[T, 1]")
    assert (decl.grid, decl.grid_free) == (("cdiv(z.shape[0], BM)", "cdiv(z.shape[1], 16)"), False)
    assert decl.requires == (
        "cdiv(w.shape[0], BM) == cdiv(z.shape[0], BM)",
        "1 == cdiv(z.shape[1], 16)",
    )
    assert decl.safety.regions == (
        Region(param="z", tile=("BM", "16")),
        Region(param="w", tile=("BM",)),
    )
    decl = kernel(tile, tmp_path, "c: tl.MappedMut[T, (BM, BN), 8]")
    assert (decl.grid, decl.grid_free) == (("cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)",), True)
    assert decl.safety.regions == (Region(param="c", tile=("BM", "BN"), mapped=True),)
    assert kernel(tile, tmp_path, "x: tl.Ref[T, 1]").grid == ()


def test_preconditions_are_requirements(tile, tmp_path):
    above = '@tl.preconditions("dim(x, 1) % 64 == 0", "dim(x,0) == dim(y, -1) and x.dtype == y.dtype")\n@tl.preconditions("BM <= 64")\n'
    decl = kernel(tile, tmp_path, "z: tl.Mut[T, BM], x: tl.Ref[T, 2], y: tl.Ref[T, 1]", above=above)
    assert decl.requires == (
        "x.shape[1] % 64 == 0",
        "x.shape[0] == y.shape[-1] and x.dtype == y.dtype",
        "BM <= 64",
    )
    text = "@tl.preconditions('dim(x, 0) > 1')\n@tl.kernel\ndef k(x: tl.Ref[T, 1]):\n    pass\n"
    assert declared(tile, tmp_path, HEAD + text).requires == ("x.shape[0] > 1",)


Z = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], BK: tl.Const[int]"
LIKE = (
    "cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",
    "cdiv(x.shape[1], BN) >= cdiv(z.shape[1], BN)",
)
EMPTY = " or z.size == 0"
PROVEN = {
    "the region's place": (LIKE, "z.store(x.load_tile_like(z))"),
    "as a function": (LIKE, "z.store(tl.load_tile_like(x, z))"),
    "as an imported function": (LIKE, "z.store(load_tile_like(x, z, padding=tl.Padding.NAN))"),
    "under another name": (LIKE, "z.store(like(x, z))"),
    "its index": (LIKE, "i, j = z.index", "z.store(x.load_tile((i, j), (BM, BN)))"),
    "parts of its index": (
        LIKE,
        "i = z.index[0]",
        "z.store(x.load_tile((i, z.index[-1]), z.tile_shape))",
    ),
    "aliases": (
        LIKE,
        "a = x",
        "w = z",
        "b = BM",
        "w.store(a.load_tile(index=w.index, shape=(b, BN)))",
    ),
    "swapped": (
        (
            "cdiv(x.shape[0], BM) >= cdiv(z.shape[1], BN)",
            "cdiv(x.shape[1], BN) >= cdiv(z.shape[0], BM)",
        ),
        "i, j = z.index",
        "z.store(x.load_tile((j, i), (BM, BN)))",
    ),
    "a loop over its own tiles": (
        ("cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",),
        "t = tl.zeros((BM, BK), tl.float32)",
        "for k in range(x.num_tiles(1, BK)):",
        "    t = t + x.load_tile((z.index[0], k), (BM, BK))",
        "z.store(tl.sum(t, 1, keepdims=True))",
    ),
    "the last axis, an extent, a start and a step": (
        ("cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",),
        "n = x.shape[-1]",
        "for k in range(1, tl.cdiv(n, WIDTH), 2):",
        "    x.load_tile((z.index[0], k), (BM, WIDTH))",
    ),
    "numbers": (
        (f"cdiv(x.shape[0], BM) >= 1{EMPTY}", f"cdiv(x.shape[1], 32) >= 4{EMPTY}"),
        "z.store(x.load_tile((0, 3), (BM, WIDTH)))",
    ),
    "quotients and remainders": (
        (
            "BK > 0",
            f"cdiv(x.shape[0], BM) >= cdiv(cdiv(z.shape[0], BM), BK){EMPTY}",
            f"cdiv(x.shape[1], BN) >= BK{EMPTY}",
        ),
        "r = z.index[0]",
        "z.store(x.load_tile((r // BK, r % BK), (BM, BN)))",
    ),
    "a quotient of a quotient": (
        ("BK > 0", f"cdiv(x.shape[0], BM) >= 4{EMPTY}", f"cdiv(x.shape[1], BN) >= 1{EMPTY}"),
        "z.store(x.load_tile((z.index[0] // BK // WIDTH % 4, 0), (BM, BN)))",
    ),
    "the least of two counts": (
        ("cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",),
        "for k in range(min(z.index[1] + 1, x.num_tiles(1, BK))):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "a fixed number of passes": (
        (f"cdiv(x.shape[0], BM) >= 4{EMPTY}", f"cdiv(x.shape[1], BN) >= 1{EMPTY}"),
        "for k in range(4):",
        "    x.load_tile((k, 0), (BM, BN))",
    ),
}


@pytest.mark.parametrize("case", PROVEN)
def test_these_accesses_need_no_check(tile, tmp_path, case):
    requires, *body = PROVEN[case]
    decl = kernel(tile, tmp_path, Z, *body)
    assert [d.message for d in decl.unproven] == []
    assert decl.requires == requires
    assert [
        f.what for f in decl.safety.facts if f.guarantee in (Guarantee.KERNEL, Guarantee.NONE)
    ] == []


ROW = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], w: tl.Ref[T, 1], v: tl.Ref[T, 1], BK: tl.Const[int]"
OWN = "x.load_tile_like(z)"
FIXED = "w.shape[0] >= BN or w.shape[0] == z.shape[1]"
ALIKE = {
    "the region's place": (("x.shape == z.shape",), "", OWN),
    "its index": (("x.shape == z.shape",), "", "x.load_tile(z.index, z.tile_shape)"),
    "one axis of it": (
        ("x.shape[1] == z.shape[0]",),
        "",
        "x.load_tile((z.index[1] - 1, z.index[0]), (BN, BM))",
    ),
    "transposed": (
        ("x.shape[0] == z.shape[1]", "x.shape[1] == z.shape[0]"),
        "",
        "i, j = z.index",
        "x.load_tile((j, i), (BN, BM))",
    ),
    "a loop over another": (
        ("w.shape[0] == x.shape[1]",),
        "",
        "for k in range(x.num_tiles(1, BK)): w.load_tile((k,), (BK,))",
    ),
    "a tail of another": (
        ("w.shape[0] == x.shape[1]",),
        "",
        "for k in range(2, x.num_tiles(1, BK)): w.load_tile((k,), (BK,))",
    ),
    "extents that may be equal": (
        ("BK != BN or w.shape[0] == z.shape[1]",),
        "",
        "w.load_tile((z.index[1],), (BK,))",
    ),
    "a look-up by number": ((), "", "w.load_tile((z.index[1],), (1,))"),
    "a quotient": ((), "", "w.load_tile((z.index[1] // 2,), (BN,))"),
    "unchecked": ((), "", "w.load_tile((z.index[1],), (BN,), unchecked=True)"),
    "the first tile": ((FIXED,), "", "w.load_tile((0,), (BN,))"),
    "the third tile": (
        ("w.shape[0] >= 3 * BN or w.shape[0] == z.shape[1]",),
        "",
        "w.load_tile((2,), (BN,))",
    ),
    "some tiles": (
        ("w.shape[0] >= 4 * BN or w.shape[0] == z.shape[1]",),
        "",
        "for k in range(4): w.load_tile((k,), (BN,))",
    ),
    "a tile that no output has": ((), "", "w.load_tile((0,), (BK,))"),
    "stated for both": ((), "dim(x, 0) >= dim(z, 0) and dim(z, -1) == dim(x, -1)", OWN),
    "stated for one axis": (("x.shape[1] == z.shape[1]",), "dim(x, 0) >= dim(z, 0)", OWN),
    "stated of shapes": ((), "z.shape == x.shape", OWN),
    "stated of sizes": ((), "x.size >= z.size", OWN),
    "stated of one alone": (("x.shape == z.shape",), "dim(x, 0) > 3", OWN),
    "stated of a fixed tile": ((), "dim(w, 0) <= BN", "w.load_tile((0,), (BN,))"),
    "broadcast": (("x.shape[1] == z.shape[1]",), "", "x.load_tile_like(z, broadcast=0)"),
    "broadcast by the function": (
        ("x.shape[0] == z.shape[0]",),
        "",
        "load_tile_like(x, z, broadcast=(1,))",
    ),
    "broadcast whole": ((), "", "tl.load_tile_like(x, z, broadcast=(0, 1))"),
}


@pytest.mark.parametrize("case", ALIKE)
def test_extents_that_meet_are_equal_unless_the_author_says_otherwise(tile, tmp_path, case):
    wanted, stated, *body = ALIKE[case]
    above = f"@tl.preconditions({stated!r})\n" if stated else ""
    decl = kernel(tile, tmp_path, ROW, *body, above=above)
    assert conditions(decl.alike, {p.name: p.rank for p in decl.params}) == wanted


def test_extents_meet_in_helpers_and_regions(tile, tmp_path):
    text = (
        "def tail(x, z, axis):\n    return x.load_tile_like(z, broadcast=axis)\n\n\n"
        "@tl.kernel\ndef k(z: tl.Mut[T, (BM, BN)], w: tl.Mut[T, BM], s: tl.SpanMut[T, (BM, 8), 1], x: tl.Ref[T, 2]):\n"
        "    z.store(tail(x, z, 0))\n    for j in range(x.num_tiles(0, 8)):\n        s.store_tile(j, 1.0)\n"
    )
    decl = declared(tile, tmp_path, HEAD + text)
    assert conditions(decl.alike, {p.name: p.rank for p in decl.params}) == (
        "w.shape[0] == z.shape[0]",
        "s.shape[0] == z.shape[0]",
        "s.shape[1] == x.shape[0]",
        "x.shape[1] == z.shape[1]",
    )
    assert "x.shape[0] == 1" in decl.requires


INDEX = (
    "x.load_tile is checked inside of the kernel: index {0} is not known to be among the tiles of x"
)
UNFOLLOWED = "x is checked inside of the kernel: what is done with it here is not followed"
CHECKED = {
    "a difference": (INDEX.format(0), "i, j = z.index", "x.load_tile((i - 1, j), (BM, BN))"),
    "a negative number": (INDEX.format(0), "x.load_tile((-1, 0), (BM, BN))"),
    "bound twice": (
        INDEX.format(1),
        "i, j = z.index",
        "j = j * 2",
        "x.load_tile((i, j), (BM, BN))",
    ),
    "added to": (INDEX.format(0), "i, j = z.index", "i += 1", "x.load_tile((i, j), (BM, BN))"),
    "a quotient of what may be negative": (
        INDEX.format(0),
        "i = z.index[0] - 1",
        "x.load_tile((i // 2, 0), (BM, BN))",
    ),
    "from what may be negative": (
        INDEX.format(1),
        "for k in range(z.index[0] // BK - 1, x.num_tiles(1, BK)):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "min is something else": (
        INDEX.format(1),
        "min = max",
        "for k in range(min(3, x.num_tiles(1, BK))):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "a parameter that is bound later": (
        INDEX.format(0),
        "x.load_tile((BK, 0), (BM, BN)); BK = z.index[0]",
    ),
    "bound by a nested function, and in the module": (
        INDEX.format(0),
        "def f():",
        "    WIDTH = z.index[0]",
        "x.load_tile((WIDTH, 0), (BM, BN))",
    ),
    "bound by a nested function": (
        INDEX.format(0),
        "i, j = z.index",
        "def f(i): return x.load_tile((i, j), (BM, BN))",
        "f(3)",
    ),
    "a computed number of passes": (
        INDEX.format(1),
        "for k in range(x.num_tiles(1, BK) + 1):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "down from a number": (
        INDEX.format(1),
        "for k in range(3, x.num_tiles(1, BK), -1):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "from below": (
        INDEX.format(1),
        "for k in range(-3, x.num_tiles(1, BK)):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "range is something else": (
        INDEX.format(1),
        "range = reversed",
        "for k in range(x.num_tiles(1, BK)):",
        "    x.load_tile((z.index[0], k), (BM, BK))",
    ),
    "an index from elsewhere": (
        "x.load_tile is checked inside of the kernel: index or shape is not written out where it can be followed",
        "at = (0, 0) if BM > 1 else (1, 1)",
        "x.load_tile(at, (BM, BN))",
    ),
    "an extent that is no constant": (
        "x.load_tile is checked inside of the kernel: the tile's extent of dimension 1 is not a constant that can be followed",
        "x.load_tile(z.index, (BM, x.shape[1]))",
    ),
    "an array under two names": (
        f"{UNFOLLOWED}",
        "a = x if BM > 1 else z",
    ),
    "a method that is passed on": (f"{UNFOLLOWED}", "f = x.load_tile"),
    "bound anew": (f"{UNFOLLOWED}", "x = z"),
}


@pytest.mark.parametrize("case", CHECKED)
def test_these_accesses_need_a_check(tile, tmp_path, case):
    message, *body = CHECKED[case]
    decl = kernel(tile, tmp_path, Z, *body)
    (found,) = decl.unproven
    assert found.message == message
    assert found.excerpt.lstrip().startswith(body[-1 if "f(3)" not in body else -2].lstrip()[:5])
    assert found.excerpt[found.location.column - 1 :].startswith("x")
    assert [f.location for f in decl.safety.facts if f.guarantee is Guarantee.KERNEL] == [
        found.location
    ]


@pytest.mark.parametrize(
    ("more", "unfollowed"),
    [("", True), (", padding=tl.Padding.ZERO", False), (", unchecked=True", False)],
)
def test_loads_of_unknown_extents_are_listed_unless_they_are_meant(
    tile, tmp_path, more, unfollowed
):
    decl = kernel(tile, tmp_path, Z, f"x.load_tile((0, 0), (BM, x.shape[1]){more})", "z.store(0)")
    line = HEAD.count("\n") + 3
    assert decl.unfollowed == ((("x", f"k.py:{line}:5: x.load_tile"),) if unfollowed else ())


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("BN // 2", "cdiv(x.shape[1], (BN // 2))"),
        ("2 * BN", "cdiv(x.shape[1], (2 * BN))"),
        ("(BN + 1) * BK", "cdiv(x.shape[1], ((BN + 1) * BK))"),
        ("1", "x.shape[1]"),
    ],
)
def test_sizes_that_are_computed_of_axes_are_followed(tile, tmp_path, size, text):
    decl = kernel(tile, tmp_path, Z, f"half = {size}", "x.load_tile((z.index[0], 2), (BM, half))")
    assert decl.unproven == ()
    assert f"{text} >= 3 or z.size == 0" in decl.requires


def test_parts_of_an_outputs_tile_lie_in_the_array_whole(tile, tmp_path):
    decl = kernel(tile, tmp_path, Z, "x.load_tile((z.index[0], 1), (BM, BN // 2))")
    whole = "x.shape[1] >= 2 * (BN // 2) or x.shape[1] == z.shape[1]"
    assert whole in conditions(decl.alike, {p.name: p.rank for p in decl.params})


def test_a_size_that_calls_double_without_end_is_not_followed(tile, tmp_path):
    names = ["a = BN + BN"] + [f"{b} = {a} + {a}" for a, b in pairwise("abcdefghi")]
    decl = kernel(tile, tmp_path, Z, *names, "x.load_tile((0, 0), (BM, i))")
    assert [array for array, _ in decl.unfollowed] == ["x"]


def test_loads_at_unknown_places_are_not_listed(tile, tmp_path):
    decl = kernel(tile, tmp_path, Z, "x.load_tile((z.index[0] - 1, 0), (BM, BN))")
    assert decl.unproven
    assert decl.unfollowed == ()


def test_promises_and_pointers_are_told(tile, tmp_path):
    decl = kernel(
        tile,
        tmp_path,
        "z: tl.Mut[T, (BM,)], x: tl.Ref[T, 1], p: tl.Ptr[T]",
        "x.load_tile((3,), (BM,), unchecked=True)",
        "ct.store(p, 0, 1)",
    )
    line = HEAD.count("\n") + 3
    assert [f.what for f in decl.safety.facts if f.guarantee is Guarantee.NONE] == [
        "p: tl.Ptr[T] lets every block read and write every element, in any order",
        f"x.load_tile at k.py:{line}: unchecked = True promises tiles that begin in it",
    ]
    assert decl.unproven == ()


MAPPED = "c: tl.MappedMut[T, (BM, BN)], d: tl.MappedMut[T, (BM, BN)], a: tl.Ref[T, 2]"


def test_shares_are_proven_in_their_loop(tile, tmp_path):
    body = (
        "for tile in c.tiles:",
        "    at = c.place(tile)",
        "    m, n = at.index",
        "    c.store(at, c.load(at) + a.load_tile((m, n), c.tile_shape))",
    )
    decl = kernel(tile, tmp_path, MAPPED, *body)
    assert decl.unproven == ()
    assert decl.requires == (
        "cdiv(a.shape[0], BM) >= cdiv(c.shape[0], BM)",
        "cdiv(a.shape[1], BN) >= cdiv(c.shape[1], BN)",
    )


@pytest.mark.parametrize(
    "body",
    [
        ("c.store(c.place(3), 1.0)",),
        ("for tile in c.tiles:", "    c.store(c.place(tile + 1), 1.0)"),
        ("for tile in c.tiles:", "    d.store(d.place(tile), 1.0)"),
    ],
)
def test_other_places_are_checked(tile, tmp_path, body):
    (found,) = kernel(tile, tmp_path, MAPPED, *body).unproven
    name = body[-1].strip()[0]
    assert (
        found.message
        == f"{name}.store is checked inside of the kernel: the place is not known to be one of this block's tiles of {name}"
    )


def test_a_kernel_is_called_through_its_launcher_only(tile, tmp_path):
    import tilec.lang as tl

    @tl.kernel(occupancy=2)
    def k() -> None: ...

    assert dict(k.hints) == {"occupancy": 2}
    with pytest.raises(
        TypeError,
        match="k is a kernel: build it with `tilec build`, and call the launcher k of the generated package",
    ):
        k()
    with pytest.raises(
        TypeError,
        match=r"@tl\.kernel has no hint 'speed': hints are num_ctas, num_worker_warps, occupancy, opt_level",
    ):
        tl.kernel(speed=3)(k.function)
    with pytest.raises(TypeError, match="a precondition is text, such as"):
        tl.preconditions(True)
    with pytest.raises(TypeError, match="axis BM has no value outside of a kernel"):
        tl.size("BM") + 1
    with pytest.raises(UsageError, match="'B M' is not the name of an axis"):
        tl.size("B M")


def test_names_of_functions_around_come_before_those_of_the_module(tile, tmp_path):
    text = (
        "def make(WIDTH):\n    @tl.kernel\n    def k(z: tl.Mut[T, (64,)], x: tl.Ref[T, 1]):\n"
        "        z.store(x.load_tile((2,), (WIDTH,)))\n    return k\n\n\nk = make(64)\n"
    )
    assert declared(tile, tmp_path, HEAD + text).requires == (
        "cdiv(x.shape[0], 64) >= 3 or z.size == 0",
    )


def test_an_empty_mapped_output_excuses_nothing(tile, tmp_path):
    # Its grid is whatever a caller says, so that blocks run which own no tile.
    decl = kernel(
        tile, tmp_path, "z: tl.MappedMut[T, (BM,)], x: tl.Ref[T, 1]", "x.load_tile((2,), (BM,))"
    )
    assert decl.requires == ("cdiv(x.shape[0], BM) >= 3",)


def test_axes_of_the_code_are_axes_too(tile, tmp_path):
    text = (
        "ACC = tl.dtype('ACC')\nROWS = tl.size('ROWS')\n\n\ndef helper(t):\n    return t.astype(ACC)\n\n\n"
        "@tl.kernel\n@tl.preconditions('ROWS < 100')\n"
        "def k(z: tl.Mut[T, (BM,)], BN: tl.Const[int] = 4):\n    z.store(helper(z.load()) * ROWS * BN)\n"
    )
    decl = declared(tile, tmp_path, HEAD + text)
    line = HEAD.count("\n")
    assert [(use.name, use.dtype, use.where) for use in decl.axes] == [
        ("T", True, "z: tl.Mut[T, (BM,)]"),
        ("BM", False, "z: tl.Mut[T, (BM,)]"),
        ("ROWS", False, f"ROWS at k.py:{line + 12}"),
        ("ACC", True, f"ACC at k.py:{line + 6}"),
    ]
    assert decl.requires == ("ROWS < 100",)


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (["z.store(z.load() + x.load_tile_like(z))"], True),
        (["a = x.load_tile_like(z)", "b = z.load()", "z.store(a + b)"], True),
        (["for _ in range(3):", "    z.store(z.load() + 1)"], True),
        (["z.store(x.load_tile_like(z))", "z.store(z.load() + 1)"], False),
        (["for i in range(3):", "    if i > 0:", "        z.store(z.load() + 1)"], False),
        (["begin(z)", "z.store(z.load() + 1)"], False),
        (["z.store(x.load_tile_like(z))"], False),
    ],
)
def test_outputs_that_are_read_before_they_are_written(tile, tmp_path, lines, read):
    above = "def begin(out):\n    out.store(0)\n\n\n"
    text = "z: tl.Mut[tl.float32, BM], x: tl.Ref[tl.float32, 1]"
    decl = kernel(tile, tmp_path, text, *lines, above=above)
    assert [param.read for param in decl.params] == [read, False]
