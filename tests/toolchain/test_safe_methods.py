"""Methods of frozen dataclasses are followed where the object is kept: what is proven in them, and
what keeps their checks.
"""

from __future__ import annotations

import pytest

from tests.toolchain.tile_jobs import frontend, safe_ir, write
from tilec.model.job import Source
from tilec_runtime.errors import CompileError
from tilec_runtime.model.safety import Checks

pytestmark = pytest.mark.toolchain

HEAD = """import dataclasses
import tilec.lang as tl
import lib
from lib import Pairs
from tilec.lang import static_eval
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
"""
LIB = """import dataclasses
import tilec.lang as tl
BM = tl.size("BM")
BN = tl.size("BN")


@dataclasses.dataclass(frozen=True)
class Pairs:
    one: tl.Ref
    other: tl.Ref
    row: int = 0

    def load(self, i, j):
        return self.one.load_tile((i, j), (BM, BN)) + self.other.load_tile((i, j), (BM, BN))

    def column(self, j):
        return self.load(self.row, j)

    def half(self, i):
        return i // 2
"""
OWN = """
@dataclasses.dataclass(frozen=True)
class Tiles:
    x: tl.Ref
    factor: float

    def load(self, i, j):
        return self.x.load_tile((i, j), (BM, BN)) * self.factor

    def like(self, z):
        i, j = z.index
        return self.load(i, j)

    def put(self, out, tile):
        out.store(tile)


@dataclasses.dataclass(frozen=True)
class Leaky:
    x: tl.Ref

    def load(self, i, j):
        return self.x.load_tile((i, j), (BM, BN))

    def again(self, i):
        return passed(self, i)


def passed(t, i):
    return t.load(i, 0)


def inside(x, z):
    t = Tiles(x, 2.0)
    return t.like(z)
"""
Z = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2], n: int"
ROWS, COLUMNS = (
    "cdiv(x.shape[0], BM) >= cdiv(z.shape[0], BM)",
    "cdiv(x.shape[1], BN) >= cdiv(z.shape[1], BN)",
)
OTHER = tuple(text.replace("x.", "y.", 1) for text in (ROWS, COLUMNS))
EMPTY = " or z.size == 0"


@pytest.fixture(scope="module")
def tile():
    return frontend()


def project(root, *body):
    lines = "".join(f"    {line}\n" for line in body)
    write(root, {"lib.py": LIB, "k.py": f"{HEAD}{OWN}\n\n@tl.kernel\ndef k({Z}):\n{lines}"})
    return Source(root=str(root), path="k.py")


def declared(tile, root, *body):
    (decl,) = tile.declare(project(root, *body))
    return decl


def ir(tile, root, *body, checks=Checks.ON):
    project(root, *body)
    return safe_ir(tile, root, checks)


PROVEN = {
    "a method": ((ROWS, COLUMNS), "t = Tiles(x, 2.0)", "i, j = z.index", "z.store(t.load(i, j))"),
    "a method of a method": ((ROWS, COLUMNS), "t = Tiles(x, factor=2.0)", "z.store(t.like(z))"),
    "where it is made": ((ROWS, COLUMNS), "z.store(Tiles(x, 2.0).like(z))"),
    "in a helper": ((ROWS, COLUMNS), "z.store(inside(x, z))"),
    "two arrays of another module": (
        (ROWS, COLUMNS, *OTHER),
        "p = Pairs(x, y)",
        "i, j = z.index",
        "z.store(p.load(i, j))",
    ),
    "a field that is a number": (
        (f"cdiv(x.shape[0], BM) > 0{EMPTY}", f"cdiv(y.shape[0], BM) > 0{EMPTY}", COLUMNS, OTHER[1]),
        "p = Pairs(x, y)",
        "z.store(p.column(z.index[1]))",
    ),
    "a field of its own": (
        (ROWS, COLUMNS),
        "t = Tiles(x, 2.0)",
        "i, j = z.index",
        "z.store(t.x.load_tile((i, j), (BM, BN)))",
    ),
    "what a method gives back": (
        (
            f"cdiv(x.shape[0], BM) >= cdiv(cdiv(z.shape[0], BM), 2){EMPTY}",
            f"cdiv(x.shape[1], BN) > 0{EMPTY}",
        ),
        "p = Pairs(x, x)",
        "z.store(x.load_tile((p.half(z.index[0]), 0), (BM, BN)))",
    ),
    "in a loop": (
        (ROWS,),
        "t, acc = 0, z.load()",
        "for k in range(x.num_tiles(1, BN)):",
        "    u = Tiles(x, 2.0)",
        "    acc = acc + u.load(z.index[0], k)",
        "z.store(acc)",
    ),
}


@pytest.mark.parametrize("case", PROVEN)
def test_methods_of_objects_that_are_kept_are_followed(tile, tmp_path, case):
    requires, *body = PROVEN[case]
    decl = declared(tile, tmp_path, *body)
    assert [d.message for d in decl.unproven] == []
    assert sorted(decl.requires) == sorted(requires)
    assert ir(tile, tmp_path, *body, checks=Checks.DENY).count(" = if ") == 0


CHECKED = {
    "an index that is data": ("t = Tiles(x, 2.0)", "z.store(t.load(n, 0))"),
    "one call of two": ("t = Tiles(x, 2.0)", "z.store(t.like(z) + t.load(n, 0))"),
    "two objects, one of data": (
        "t = Tiles(x, 2.0)",
        "u = Tiles(x, 3.0)",
        "z.store(t.like(z) + u.load(n, n))",
    ),
    "passed on": ("t = Tiles(x, 2.0)", "z.store(t.like(z) + passed(t, n))"),
    "under another name": ("t = Tiles(x, 2.0)", "u = t", "z.store(t.like(z) + u.load(n, 0))"),
    "a class under another name": (
        "t = Tiles(x, 2.0)",
        "C = Tiles",
        "z.store(t.like(z) + C(x, 1.0).load(n, 0))",
    ),
    "a method without its call": (
        "t = Tiles(x, 2.0)",
        "f = t.load",
        "z.store(t.like(z) + f(n, 0))",
    ),
    "in a tuple": ("t = Tiles(x, 2.0)", "u = (t, t)", "z.store(t.like(z) + u[0].load(n, 0))"),
    "bound twice": (
        "t = Tiles(x, 2.0)",
        "z.store(t.like(z))",
        "t = Tiles(x, 1.0)",
        "z.store(t.load(n, 0))",
    ),
    "a method that lets it go": (
        "t = Leaky(x)",
        "i, j = z.index",
        "z.store(t.load(i, j) + t.again(n))",
    ),
    "through its module": ("p = lib.Pairs(x, y)", "i, j = z.index", "z.store(p.load(i, j))"),
    "through a module that is passed on": (
        "p = Pairs(x, y)",
        "m = lib",
        "q = m.Pairs(x, x)",
        "i, j = z.index",
        "z.store(p.load(i, j) + q.load(n, n))",
    ),
    "unpacked": ("t = Tiles(*(x, 2.0))", "i, j = z.index", "z.store(t.load(i, j))"),
    "the class's own function": ("t = Tiles(x, 2.0)", "z.store(t.like(z) + Tiles.load(t, n, 0))"),
    "static": ("t = Tiles(x, 2.0)", "z.store(t.like(z) + static_eval(t.load)(n, 0))"),
}


@pytest.mark.parametrize("case", CHECKED)
def test_what_may_be_seen_by_others_keeps_its_checks(tile, tmp_path, case):
    body = CHECKED[case]
    try:
        text = ir(tile, tmp_path, *body)
    except CompileError:
        return  # cuda.tile does not take it at all
    assert text.count(" = if ") >= 1
    assert declared(tile, tmp_path, *body).unproven


def test_misuse_in_a_method_is_refused_there_and_the_call_is_named(tile, tmp_path):
    source = project(tmp_path, "t = Tiles(x, 2.0)", "t.put(y, z.load())")
    with pytest.raises(CompileError) as caught:
        tile.declare(source)
    first, second = caught.value.diagnostics
    assert (
        "out (the kernel's y) is only read (tl.Ref[T, 2]): it cannot be stored to" in first.render()
    )
    assert second.render().endswith(
        "note: called from here, in k\n        t.put(y, z.load())\n        ^"
    )
