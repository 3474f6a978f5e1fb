"""Calls of helper functions are followed: what is proven and required in them, and what keeps its
checks.
"""

from __future__ import annotations

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import safe_ir
from tilec.model.job import Source
from tilec_runtime.model.safety import Checks, Guarantee

pytestmark = pytest.mark.toolchain

HEAD = """import cuda.tile as ct
import tilec.lang as tl
import lib
import pkg.deep
from lib import tile as by_name
from tilec.lang import static_eval
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
"""
LIB = """import tilec.lang as tl
import inner
SIDE = 16
def tile(a, i, j, shape, *, padding=tl.Padding.ZERO):
    return a.load_tile((i, j), shape, padding=padding)
def first(a, shape, i=0, j=0):
    return inner.at(a, i, j, shape)
def place(z):
    m, n = z.index
    return (n, m)
def half(i):
    return i // 2
def put(out, value):
    out.store(value)
"""
INNER = "def at(a, i, j, shape):\n    return a.load_tile((i, j), shape)\n"
OWN = """
def load(a, i, j):
    m = i
    return a.load_tile((m, j), (BM, BN))


def twice(a, i, j):
    return load(a, i, j) + load(a, i, j)


def loop(a, z):
    total = tl.zeros(z.tile_shape, T)
    for k in range(a.num_tiles(1, BN)):
        total = total + load(a, z.index[0], k)
    return total


def around(a, i):
    return around(a, i) if False else load(a, i, 0)


def again(a, i, n):
    return a.load_tile((i, 0), (BM, BN)) if n == 0 else again(a, i // 2, n)


def by_place(i, /, a, **others):
    return a.load_tile((i, 0), (BM, BN))


def fill(out, at):
    out.store(at, 0.0)


TABLE = [load]
"""
Z = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2], n: int"
ROWS, COLUMNS = (
    "cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",
    "cdiv(x.shape[1], BN) >= cdiv(z.shape[1], BN)",
)
EMPTY = " or z.size == 0"


def project(root, *body, signature=Z):
    lines = "".join(f"    {line}\n" for line in body)
    files = {"lib.py": LIB, "inner.py": INNER, "pkg/__init__.py": "", "pkg/deep.py": INNER}
    write(root, {**files, "k.py": f"{HEAD}{OWN}\n\n@tl.kernel\ndef k({signature}):\n{lines}"})
    return Source(root=str(root), path="k.py")


def declared(tile, root, *body, signature=Z):
    (decl,) = tile.declare(project(root, *body, signature=signature))
    return decl


def ir(tile, root, *body, checks=Checks.ON):
    project(root, *body)
    return safe_ir(tile, root, checks)


PROVEN = {
    "an index": ((ROWS, COLUMNS), "z.store(load(x, z.index[0], z.index[1]))"),
    "in two steps": ((ROWS, COLUMNS), "i, j = z.index", "z.store(twice(x, j=j, i=i))"),
    "a loop inside": ((ROWS,), "z.store(loop(x, z))"),
    "of a module": (
        (ROWS, COLUMNS),
        "i, j = z.index",
        "z.store(lib.tile(x, i, j, (BM, BN), padding=tl.Padding.NAN))",
    ),
    "of a module in a package": (
        (ROWS, COLUMNS),
        "i, j = z.index",
        "z.store(pkg.deep.at(x, i, j, (BM, BN)))",
    ),
    "imported by its name": (
        (ROWS, COLUMNS),
        "i, j = z.index",
        "z.store(by_name(x, i, j, z.tile_shape))",
    ),
    "a default, and another module's": (
        (f"cdiv(x.shape[0], BM) >= 1{EMPTY}", f"cdiv(x.shape[1], BN) >= 3{EMPTY}"),
        "z.store(lib.first(x, (BM, BN), j=2))",
    ),
    "what a function gives back": (
        (
            "cdiv(x.shape[0], BM) >= cdiv(z.shape[1], BN)",
            "cdiv(x.shape[1], BN) >= cdiv(z.shape[0], BM)",
        ),
        "i, j = lib.place(z)",
        "z.store(x.load_tile((i, j), (BM, BN)))",
    ),
    "a quotient that it gives back": (
        (
            f"cdiv(x.shape[0], BM) >= cdiv(cdiv(z.shape[0], BM), 2){EMPTY}",
            f"cdiv(x.shape[1], BN) >= 1{EMPTY}",
        ),
        "z.store(load(x, lib.half(z.index[0]), 0))",
    ),
    "two arrays": (
        (
            ROWS,
            COLUMNS,
            "cdiv(y.shape[0], BM) >= cdiv(z.shape[0], BM)",
            "cdiv(y.shape[1], BN) >= cdiv(z.shape[1], BN)",
        ),
        "i, j = z.index",
        "z.store(load(x, i, j) + load(y, i, j))",
    ),
    "an output": ((ROWS, COLUMNS), "lib.put(z, x.load_tile_like(z))"),
    "in a nested function": (
        (ROWS, COLUMNS),
        "def f(t):",
        "    return t + load(x, z.index[0], z.index[1])",
        "z.store(f(z.load()))",
    ),
}


@pytest.mark.parametrize("case", PROVEN)
def test_what_is_passed_is_followed(tile, tmp_path, case):
    requires, *body = PROVEN[case]
    decl = declared(tile, tmp_path, *body)
    assert [d.message for d in decl.unproven] == []
    assert sorted(decl.requires) == sorted(requires)
    assert [
        f.what for f in decl.safety.facts if f.guarantee in (Guarantee.KERNEL, Guarantee.NONE)
    ] == []
    assert ir(tile, tmp_path, *body, checks=Checks.DENY).count(" = if ") == 0


def test_facts_of_helpers_name_the_array_of_the_kernel(tile, tmp_path):
    decl = declared(tile, tmp_path, "z.store(load(y, z.index[0], z.index[1]))")
    line = HEAD.count("\n") + 4
    (fact,) = [f for f in decl.safety.facts if f.location is not None and f.location.line == line]
    assert (fact.what, fact.guarantee) == (
        f"a.load_tile at k.py:{line}: each tile begins in y",
        Guarantee.LAUNCH,
    )


INDEX = (
    "a.load_tile is checked inside of the kernel: index {} is not known to be among the tiles of {}"
)
UNFOLLOWED = "x is checked inside of the kernel: what is done with it here is not followed"
CHECKED = {
    "a number that is data": (INDEX.format(0, "x"), 1, "z.store(load(x, n, 0))"),
    "in two steps": (INDEX.format(0, "x"), 2, "z.store(twice(x, z.index[0] - 1, 0))"),
    "one call of two": (
        INDEX.format(1, "y"),
        1,
        "z.store(load(x, z.index[0], 0) + load(y, z.index[0], n))",
    ),
    "a keyword for what is passed by place": (
        INDEX.format(0, "x"),
        1,
        "z.store(by_place(n, x, i=0))",
    ),
    "unpacked": (
        UNFOLLOWED,
        0,
        "z.store(load(*(x, 0, 0)))",
    ),
    "under a name of the kernel": (UNFOLLOWED, 0, "f = load", "z.store(f(x, 0, 0))"),
    "passed on": (
        UNFOLLOWED,
        0,
        "def g(f):",
        "    return f(x, n, 0)",
        "z.store(load(x, 0, 0) + g(load))",
    ),
}


@pytest.mark.parametrize("case", CHECKED)
def test_what_cannot_be_followed_keeps_its_check(tile, tmp_path, case):
    message, notes, *body = CHECKED[case]
    found, *more = declared(tile, tmp_path, *body).unproven
    assert found.message == message
    assert [(note.severity, note.message.startswith("called from here, in ")) for note in more] == [
        ("note", True)
    ] * notes
    if notes:
        assert more[-1].excerpt.strip() == body[-1]
    assert ir(tile, tmp_path, *body).count(" = if ") >= 1


def test_an_array_that_is_passed_on_unseen_keeps_all_its_checks(tile, tmp_path):
    body = (
        "i, j = z.index",
        "z.store(load(x, i, j) + static_eval(TABLE[0])(x, n, n) + load(y, i, j))",
    )
    decl = declared(tile, tmp_path, *body)
    assert [found.message for found in decl.unproven] == [UNFOLLOWED]
    assert [condition[5] for condition in decl.requires] == ["y", "y"]
    assert ir(tile, tmp_path, *body).count(" = if ") == 2


def test_functions_that_call_themselves_are_no_trouble(tile, tmp_path):
    decl = declared(tile, tmp_path, "z.store(around(x, z.index[0]))")
    assert (decl.requires[0], decl.unproven) == (ROWS, ())
    # Each call passes something else: there is no end to it, and nothing is followed.
    (found,) = declared(tile, tmp_path, "z.store(again(x, z.index[0], n))").unproven
    assert found.message == UNFOLLOWED


def test_shares_are_known_in_helpers(tile, tmp_path):
    signature = "c: tl.MappedMut[T, (BM, BN)], d: tl.MappedMut[T, (BM, BN)]"
    body = "for tile in c.tiles:", "    at = c.place(tile)"
    assert declared(tile, tmp_path, *body, "    fill(c, at)", signature=signature).unproven == ()
    found, note = declared(tile, tmp_path, *body, "    fill(d, at)", signature=signature).unproven
    assert (
        found.message
        == "out.store is checked inside of the kernel: the place is not known to be one of this block's tiles of d"
    )
    assert note.excerpt == "        fill(d, at)"


def test_what_a_helper_does_in_a_branch_is_left_to_the_compiler(tile, tmp_path):
    """It may be written for several kinds of outputs."""
    source = project(tmp_path, "both(z, None, z.load())")
    path = tmp_path / "k.py"
    both = "def both(out, at, value):\n    if at is None:\n        out.store(value)\n    else:\n        out.store(at, value)\n\n\n"
    path.write_text(path.read_text().replace("@tl.kernel", f"{both}@tl.kernel"))
    assert len(tile.declare(source)) == 1
