"""What the safe tile language refuses, before anything is compiled and when it is: the user's
place, the user's words, the next step.
"""

from __future__ import annotations

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import declared, job, safe_ir, tensor
from tilec_runtime.errors import CompileError
from tilec_runtime.model.safety import Checks

pytestmark = pytest.mark.toolchain

HEAD = """from typing import Annotated
import cuda.tile as ct
import tilec.lang as tl
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
"""
LINE = HEAD.count("\n") + 1


def refused(tile, root, text, head=HEAD):
    """Every diagnostic, rendered; their lines count from that behind the head."""
    with pytest.raises(CompileError) as caught:
        declared(tile, root, head + text)
    return [d.render() for d in caught.value.diagnostics]


def kernel(signature, body="pass"):
    return f"@tl.kernel\ndef k({signature}):\n    {body}\n"


DTYPE = 'it is a variable such as T = tl.dtype("T"), or fixed, such as tl.float32'
TILE = 'it has one to three extents, each a power of two or a variable such as BM = tl.size("BM")'
STRIP = "it is a number of tile rows of a matrix, a size variable, or tl.BACKWARD"
AXIS = "it is the number of an axis of the tile"
SIGNATURES = {
    "x": ("x", "parameter 'x' has no annotation: say what the kernel may do with it"),
    "x: list": (
        "list",
        "parameter 'x' is annotated with list, which says nothing that a kernel can take",
    ),
    "x: tl.Ref": ("tl.Ref", "tl.Ref of 'x' does not say dtype and rank"),
    "x: tl.Ref[T]": ("tl.Ref[T]", "tl.Ref[T] of 'x' does not say dtype and rank"),
    "x: tl.Ref[T, 0]": ("tl.Ref[T, 0]", "the rank of 'x' is 0: it is a number from 1 to 8"),
    "x: tl.Ref[T, BM]": (
        "tl.Ref[T, BM]",
        "the rank of 'x' is BM: it is a number from 1 to 8",
    ),
    "x: tl.Ref[BM, 2]": ("tl.Ref[BM, 2]", f"the dtype of 'x' is BM: {DTYPE}"),
    "x: tl.Ref['f33', 2]": (
        "tl.Ref['f33', 2]",
        f"the dtype of 'x' is 'f33': {DTYPE}",
    ),
    "x: tl.Ref[int, 2]": ("tl.Ref[int, 2]", f"the dtype of 'x' is int: {DTYPE}"),
    "z: tl.Mut[T]": ("tl.Mut[T]", "tl.Mut[T] of 'z' does not say dtype and tile"),
    "z: tl.Mut[T, (24,)]": (
        "tl.Mut[T, (24,)]",
        f"the tile of 'z' is (24,): {TILE}",
    ),
    "z: tl.Mut[T, (T,)]": ("tl.Mut[T, (T,)]", f"the tile of 'z' is (T,): {TILE}"),
    "z: tl.Mut[T, ('BM',)]": ("tl.Mut[T, ('BM',)]", f"the tile of 'z' is ('BM',): {TILE}"),
    "z: tl.Mut[T, (2, 2, 2, 2)]": (
        "tl.Mut",
        f"the tile of 'z' is (2, 2, 2, 2): {TILE}",
    ),
    "c: tl.MappedMut[T, (BM,), 8]": (
        "tl.MappedMut",
        f"the strip of 'c' is 8: {STRIP}",
    ),
    "c: tl.MappedMut[T, (BM, BN), 0]": (
        "tl.MappedMut",
        f"the strip of 'c' is 0: {STRIP}",
    ),
    "y: tl.SpanMut[T, (BM, BN)]": (
        "tl.SpanMut",
        "tl.SpanMut[T, (BM, BN)] of 'y' does not say dtype, tile and axis",
    ),
    "y: tl.SpanMut[T, (BM, BN), 2]": ("tl.SpanMut", f"the axis of 'y' is 2: {AXIS}"),
    "y: tl.SpanMut[T, (BM, BN), -1]": ("tl.SpanMut", f"the axis of 'y' is -1: {AXIS}"),
    "y: tl.SpanMut[T, (BM, BN), BM]": ("tl.SpanMut", f"the axis of 'y' is BM: {AXIS}"),
    "y: tl.SpanMut[T, (BM, BN), 1], c: tl.MappedMut[T, (BM, BN)]": (
        "tl.MappedMut",
        "y is a tl.SpanMut, and c a tl.MappedMut: one grid cannot give out both",
    ),
    "n: tl.Const[str]": (
        "tl.Const[str]",
        "parameter 'n' is annotated with tl.Const[str], which says nothing that a kernel can take",
    ),
    "a: Annotated[float, 'f31']": (
        "Annotated",
        f"the dtype of 'a' is 'f31': {DTYPE}",
    ),
    "x: tl.Ref[T, 1] = 3": ("tl.Ref[T, 1]", "parameter 'x' is an array, and has the default 3"),
    "n: int = None": ("int", "parameter 'n' has the default None: defaults are numbers"),
    "*x: tl.Ref[T, 1]": (
        "tl.Ref[T, 1]",
        "parameter 'x' cannot be passed by place: a launcher passes every argument so",
    ),
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signature_is_refused_at_its_annotation(tile, tmp_path, signature):
    where, what = SIGNATURES[signature]
    (found,) = refused(tile, tmp_path, kernel(signature))
    head, line, caret, *_ = found.split("\n")
    column = f"def k({signature}):".index(where) + 1
    assert head == f"k.py:{LINE + 1}:{column}: error: {what}"
    assert line.strip() == f"def k({signature}):"
    assert caret == " " * (4 + column - 1) + "^"


Z = "z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2]"
BODIES = {
    "ct.store(x._tl_array, (0, 0), z.load())": (
        "x._tl_array",
        "x._tl_array reaches around the safe language\n    {line}\n  hint: declare the parameter tl.Ptr[T] where the kernel has to",
    ),
    "getattr(x, '_tl' + '_array')": (
        "getattr",
        "getattr with a computed name could reach around the safe language\n    {line}\n  hint: write the attribute out",
    ),
    "g = getattr; g(x, '_tl' + '_array')": (
        "getattr",
        "getattr with a computed name could reach around the safe language\n    {line}\n  hint: write the attribute out",
    ),
    "getattr(x, '_tl_array')": (
        "'_tl_array'",
        "'_tl_array' names what the safe language keeps to itself\n    {line}\n  hint: declare the parameter tl.Ptr[T] where the kernel has to",
    ),
    "k(z, x)": (
        "k(",
        "k is a kernel, which only a launch calls\n    {line}\n  hint: put what both do into a function without @tl.kernel",
    ),
    "replace(x, _tl_checked=False)": (
        "_tl_checked",
        "_tl_checked is a part that a launch alone sets\n    {line}\n  hint: declare the parameter tl.Ptr[T] where the kernel has to",
    ),
    "tl.Mut(x, (0, 0), (BM, BN)).store(1)": (
        "tl.Mut",
        "tl.Mut is made by a launch alone\n    {line}\n  hint: take it as a parameter",
    ),
    "x._tl_axis": (
        "x._tl_axis",
        "x._tl_axis reaches around the safe language\n    {line}\n  hint: declare the parameter tl.Ptr[T] where the kernel has to",
    ),
    "tl.SpanMut(x, (0, 0), (BM, BN), 1)": (
        "tl.SpanMut",
        "tl.SpanMut is made by a launch alone\n    {line}\n  hint: take it as a parameter",
    ),
    "z.store(x.load_tile((0,), (BM, BN)))": (
        "x.load_tile",
        (
            "load_tile: x has rank 2, its index has 1 and its shape 2 numbers\n    {line}\n"
            "  hint: give one number for each dimension; a tuple of one is written (i,)"
        ),
    ),
    "z.store(by.load_tile_like(z))": (
        "by.load",
        (
            "load_tile_like: by has rank 1, and z has rank 2\n    {line}\n"
            "  hint: load_tile takes an index and a shape of by's rank, such as by.load_tile((0,), (BN,))"
        ),
    ),
}


@pytest.mark.parametrize("body", ["x.store(1)", "w = x; w.store_tile(0, 1)"])
def test_a_store_to_what_is_read_is_refused_before_a_compile(tile, tmp_path, body):
    (found,) = refused(tile, tmp_path, kernel(Z, body))
    name, column = ("store_tile", 12) if "tile" in body else ("store", 5)
    what = f"k.py:{LINE + 2}:{column}: error: 'Ref' object has no attribute {name!r}\n"
    assert found.startswith(what)
    assert "hint: a tl.Ref is only read" in found


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_refused_at_its_place(tile, tmp_path, body):
    where, what = BODIES[body]
    found = refused(tile, tmp_path, kernel(f"{Z}, by: tl.Ref[T, 1]", body))
    column = 5 + body.index(where)
    expected = what.replace("{line}", f"    {body}\n{' ' * (3 + column)}^")
    assert f"k.py:{LINE + 2}:{column}: error: {expected}" in found


def test_every_problem_of_every_kernel_is_told(tile, tmp_path):
    found = refused(
        tile,
        tmp_path,
        kernel("x, y: list, n: tl.Const[str]") + kernel("w").replace("def k", "def other"),
    )
    assert [line.split(": error: ")[0] for line in found] == [
        f"k.py:{LINE + 1}:7",
        f"k.py:{LINE + 1}:13",
        f"k.py:{LINE + 1}:22",
        f"k.py:{LINE + 4}:11",
    ]


GETATTR = "getattr with a computed name could reach around the safe language"
# What stands above a kernel that calls a helper, and what is refused of it.
HELPERS = {
    "a name of the module": (
        "g = getattr\ndef helper(x):\n    return g(x, '_tl' + '_array')\n",
        f"{LINE + 2}:12: error: {GETATTR}\n",
    ),
    "an attribute of a module": (
        "import builtins\ndef helper(x):\n    return builtins.getattr(x, '_tl' + '_array')\n",
        f"{LINE + 2}:12: error: {GETATTR}\n",
    ),
    "a hidden attribute": (
        "def helper(x):\n    return ct.load(x._tl_array, (0,), (4,))\n",
        f"{LINE + 1}:20: error: x._tl_array reaches around the safe language\n",
    ),
}


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_are_looked_at_too(tile, tmp_path, name):
    above, what = HELPERS[name]
    (found,) = refused(tile, tmp_path, above + kernel(Z, "z.store(helper(x))"))
    assert found.startswith(f"k.py:{what}")


CONDITIONS = {
    "dim(y, 0) == 1": "unknown name 'y'",
    "dim(x, 2) == 1": "x has 2 dimensions: there is no shape 2",
    "dim(x) == 1": "unknown function 'dim'",
    "x.shape[0]": "'x.shape[0]' is not a condition: compare it, as in dim(x, 0) == dim(y, 0)",
    "x == 1": "x is an array: say dim(x, 0), x.size or x.dtype",
    "x.shape[0] == ": "",
    "BN.shape[0] == 1": "BN is no array: it has no shape",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_precondition_is_refused_at_its_text(tile, tmp_path, condition):
    decorator = f'@tl.preconditions("dim(x, 0) > 0", "{condition}")'
    text = kernel(Z).replace("@tl.kernel\n", f"@tl.kernel\n{decorator}\n")
    (found,) = refused(tile, tmp_path, text)
    place = f"k.py:{LINE + 1}:{decorator.index(condition) + 1}"
    assert found.startswith(f"{place}: error: precondition: {CONDITIONS[condition]}")
    assert found.split("\n")[1] == f"    {decorator}"


def test_annotations_that_are_text_are_evaluated_in_the_module(tile, tmp_path):
    head = "from __future__ import annotations\nimport tilec.lang as tl\nT = tl.dtype('T')\n"
    (found,) = refused(tile, tmp_path, kernel("x: tl.Ref[T, 1], y: tl.Ref[S, 1]"), head)
    assert found.startswith(
        "k.py:5:27: error: the annotation cannot be evaluated: NameError: name 'S' is not defined\n"
    )


# --- what a compile alone can see
# ------------------------------------------------------------------------------------------------


PARAMS = (tensor("z", "T", 2, out=True), tensor("x", "T", 2))


def compiled(tile, root, params=PARAMS):
    axes = {"T": "f32", "BM": 16, "BN": 16}
    return tile.compile(job(tile, root, "k.py", "k", params, target="tileir", axes=axes))


def compile_error(tile, root, text, *params):
    write(root, {"k.py": HEAD + text})
    with pytest.raises(CompileError) as caught:
        compiled(tile, root, *params)
    return [d.render() for d in caught.value.diagnostics]


def test_a_helper_that_calls_itself_without_end(tile, tmp_path):
    text = "def helper(a):\n    return helper(a)\n\n\n" + kernel(Z, "z.store(helper(x))")
    first, *notes = compile_error(tile, tmp_path, text)
    assert first.startswith(f"k.py:{LINE + 1}:12: error: Maximum recursion depth")
    assert (
        "hint: what a kernel calls becomes a part of it, so no function can call itself: write a loop"
        in first
    )
    assert [note.split("\n")[0] for note in notes] == [
        f"k.py:{LINE + 1}:12: note: called from here, in helper",
        f"k.py:{LINE + 6}:13: note: called from here, in k",
    ]


MISUSES = {
    "x.store(z.load())": (5, "'Ref' object has no attribute 'store'", "a tl.Ref is only read"),
    "z.store(x.load_tile_like(x))": (
        13,
        "'Ref' object has no attribute 'index'",
        "load_tile_like takes its place from what a block writes",
    ),
    "z.store((0, 1), z.load())": (
        5,
        "store(): too many positional arguments",
        "a block stores to its own region alone",
    ),
    "z.store(z.load(), index=(0, 0))": (
        5,
        "store(): got an unexpected keyword argument 'index'",
        "a block stores to its own region alone",
    ),
    "ct.store(z, (0, 0), z.load())": (
        5,
        "Expected an array, but given value has type tl.Mut[float32]",
        "operations of cuda.tile take raw arrays",
    ),
    "ct.atomic_add(x, 0, 1)": (
        5,
        "Expected an array, but given value has type tl.Ref[float32]",
        "operations of cuda.tile take raw arrays",
    ),
    "z.store(x.load_tile(z.index[0], (BM, BN)))": (13, "Directly indexing a tile", "(i,)"),
    "z.stor(z.load())": (5, "'Mut' object has no attribute 'stor'", ""),
    "z.store(z + x)": (
        13,
        "Unsupported operand types for +: tl.Mut[float32] and tl.Ref[float32]",
        "arrays are loaded before they are computed with: x.load_tile_like(z), x.load_tile(index, shape), z.load()",
    ),
    "z.store(tl.zeros((32, 16), tl.float32))": (5, "(32, 16)", ""),
    "z.store(tl.zeroes((16, 16), tl.float32))": (
        13,
        "Module 'tilec.lang' has no attribute 'zeroes'",
        "did you mean 'zeros'",
    ),
    "z.store(x.load_tile_like(z) * BNN)": (35, "Undefined variable BNN used", "did you mean 'BN'"),
    "z.store(tl.erf(z.load()))": (
        13,
        "Module 'tilec.lang' has no attribute 'erf'",
        "GELU by tanh is 0.5 * x * (1 + tl.tanh(",
    ),
    "z.store(tl.program_id(0))": (13, "no attribute", "the block's index is y.index"),
    "z.store(tl.load(x))": (13, "no attribute", "an input x is loaded by x.load_tile_like(y)"),
    "z.store(tl.dot(x, x))": (13, "no attribute", "tl.mma(a, b, accumulator) or tl.matmul(a, b)"),
    "tl.atomic_add(x, 0, 1)": (5, "no attribute", "tilec.lang has no memory operations"),
    "z.store(ct.program_id(0))": (
        13,
        "Module 'cuda.tile' has no attribute 'program_id'",
        "ct.bid(axis)",
    ),
    "for _ in tl.static_iter(range(2)): z.store(1.0)": (
        14,
        "static_iter() must be used directly by name",
        "from tilec.lang import static_iter, and call it without tl in front",
    ),
}


@pytest.mark.parametrize("body", MISUSES)
def test_misuse_of_an_array_is_refused_by_the_compiler_at_its_place(tile, tmp_path, body):
    column, what, hint = MISUSES[body]
    found, *_ = compile_error(tile, tmp_path, kernel(Z, body))
    assert found.startswith(f"k.py:{LINE + 2}:{column}: error: ")
    assert what in found
    assert hint in found


def test_a_place_of_another_output(tile, tmp_path):
    text = kernel(
        "c: tl.MappedMut[T, (BM,)], d: tl.MappedMut[T, (BM,)]", "d.store(c.place(0), 1.0)"
    )
    params = (tensor("c", "T", 1, out=True), tensor("d", "T", 1, out=True))
    found, *_ = compile_error(tile, tmp_path, text, params)
    assert found.startswith(f"k.py:{LINE + 2}:5: error: ")
    assert "the place is one of another output" in found


def test_checks_in_helpers_of_other_packages_are_seen(tile, tmp_path, monkeypatch):
    write(
        tmp_path / "lib",
        {"helperlib.py": "def first(x, shape):\n    return x.load_tile((0, 0), shape)\n"},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    text = HEAD + "import helperlib\n" + kernel(Z, "z.store(helperlib.first(x, (BM, BN)))")
    decl = declared(tile, tmp_path / "project", text)
    (found,) = decl.unproven
    assert (
        found.message
        == "x is checked inside of the kernel: what is done with it here is not followed"
    )
    assert found.excerpt.strip() == "z.store(helperlib.first(x, (BM, BN)))"
    assert compiled(tile, tmp_path / "project").data


def test_checks_are_left_out_where_they_are_off(tile, tmp_path):
    body = "z.store(x.load_tile((z.index[0] - 1, 0), (BM, BN)))"
    write(tmp_path, {"k.py": HEAD + kernel(f"{Z}, y: tl.Ref[T, 2], n: int", body)})
    counts = [safe_ir(tile, tmp_path, checks).count(" = if ") for checks in (Checks.ON, Checks.OFF)]
    assert counts == [1, 0]
