"""What a user reads after the mistakes of a first hour: each message names its cause and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Cli, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

TILE = """\
edition = 1
package.name = "demo"
targets.default = ["tileir"]
[kernel.scale]
source = "k.py"
"""
SCALE = """\
import numpy as np
import cuda.tile as ct
import tilec.lang as tl

TILE = 1024

@tl.kernel
def scale(y: tl.Mut[tl.float32, TILE], x: tl.Ref[tl.float32, 1], factor: float) -> None:
    y.store(x.load_tile_like(y) * factor)
"""
CASES = """\
inputs = { x = [64], y = ["x.size"], factor = 2.0 }
reference = "ref.py:scale"
case.one = {}
"""
REF = "def scale(x, factor):\n    return x * factor\n"
CUTILE = """\
edition = 1
package.name = "demo"
targets.default = ["tileir"]
[kernel.axpy]
source = "k.py"
matrix = { TILE = [128], NEG = [false, true] }
params = { z = { dtype = "f32", rank = 1 }, x = { dtype = "f32", rank = 1 } }
launch = { grid = ["cdiv(z.shape[0], TILE)"] }
"""
AXPY = """\
import cuda.tile as ct

@ct.kernel
def axpy(z, x, alpha: float, n: int, TILE: ct.Constant[int], NEG: ct.Constant[bool]):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) * alpha + n)
"""
REFERENCE = """\
edition = 1
package.name = "demo"
targets.default = ["sm_90"]
[kernel.good]
source = "k.cu"
launch = { grid = ["1"], block = [32] }
"""
KERNELS = """\
struct S { int a; };
__global__ void bad(float* y, const S& s) { y[0] = s.a; }
__global__ void good(float* y) { y[0] = 1; }
"""
MACRO = """\
#define MAKE(NAME) __global__ void NAME(float* y) { y[0] = 1; }
MAKE(good)
"""
SHARED = """\
edition = 1
package.name = "demo"
targets.default = ["sm_90"]
[kernel.c]
source = "c.py"
language = "simt"
params = { y = { dtype = "f32", rank = 1, out = true } }
launch = { grid = ["1"], block = [32] }
[kernel.d]
source = "d.py"
language = "simt"
params = { y = { dtype = "f32", rank = 1, out = true } }
launch = { grid = ["1"], block = [32] }
"""
AT_IMPORT = """\
from numba import cuda

DEVICE = cuda.current_context().device.id

@cuda.jit
def c(y):
    y[0] = DEVICE
"""
TRITON = """\
edition = 1
package.name = "demo"
targets.default = ["sm_90"]
[kernel.scale]
source = "k.py"
language = "triton"
matrix = { BLOCK = [1024] }
params.y = { dtype = "f32", rank = 1 }
args = ["y.ptr", "i32(y.size)"]
launch.grid = ["cdiv(y.size, BLOCK)"]
"""
EVEN = """\
import triton
import triton.language as tl

@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.heuristics({"HALF": lambda args: args["BLOCK"] // 2})
@triton.jit
def scale(y, n, BLOCK: tl.constexpr, HALF: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(y + o, mask=EVEN or o < n) * 2, mask=EVEN or o < n)
"""
MANY = """\
import triton
import triton.language as tl

@triton.jit
def scale(a_ptr, x, factor: tl.float32, n, stride_am, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a_ptr + o * stride_am, tl.load(x + o, mask=o < n) * factor, mask=o < n)
"""
UNKNOWN = (
    "kernel.scale: the source does not say what a_ptr, x, n, stride_am are: write the tensors that a caller passes and "
    'an entry of args for each parameter, params = { a = { dtype = "f32", rank = … }, x = { dtype = "f32", rank = … } }, '
    'args = ["a.ptr", "x.ptr", "factor", "i32(…)", "i32(a.stride[…])"]\n'
    "    [kernel.scale]\n            ^\nerror: 1 problem in the manifest and its files\n"
)
HEURISTIC = (
    "constant 'EVEN' of the kernel is bound by no axis of the matrix, and its heuristic reads n, which a launch gives: "
    'list its values, each with its condition, such as matrix.EVEN = [true, false], launch.requires = ["not EVEN or y.size % BLOCK == 0"], '
    "dispatch = { default = { EVEN = false }, rules = [{ take = { EVEN = true } }] }\n"
)
AXIS = (
    "kernel.scale.matrix.{0}: {0} is a parameter of scale: give the axis another name\n"
    "    matrix.{0} = {1}\n           ^\nerror: 1 problem in the manifest and its files\n"
)
TABLE = {
    "a heuristic that reads a constant": (
        TRITON.replace("matrix = {", "matrix = { EVEN = [true],"),
        EVEN,
        'by no axis of the matrix, and its heuristic reads BLOCK: compute it so, such as let.HALF = "BLOCK // 2"\n',
    ),
    "a heuristic that reads a launch": (
        TRITON.replace("matrix = {", "matrix = { HALF = [512],"),
        EVEN,
        HEURISTIC,
    ),
    "a heuristic that reads a launch, without args": (
        TRITON.replace("matrix = {", "matrix = { HALF = [512],").replace(
            'args = ["y.ptr", "i32(y.size)"]', 'params.n.dtype = "i32"'
        ),
        EVEN,
        HEURISTIC.replace("y.size", "n"),
    ),
    "a heuristic that decides, which has no formula": (
        TRITON.replace("matrix = {", "matrix = { HALF = [512],"),
        EVEN.replace('args["n"] % ', 'args["n"] > 0 and args["n"] % '),
        HEURISTIC.replace("y.size % BLOCK == 0", "…").replace(
            " } }] }\n", " } }] }, with the heuristic's own condition for …\n"
        ),
    ),
    "a heuristic that reads a launch, as proposed": (
        TRITON.replace("matrix = {", "matrix = { HALF = [512], EVEN = [true, false],")
        + 'launch.requires = ["not EVEN or y.size % BLOCK == 0"]\n'
        + "dispatch = { default = { EVEN = false }, rules = [{ take = { EVEN = true } }] }\n",
        EVEN,
        "tilec.toml: no problems; 1 kernel, 2 jobs\n",
    ),
    "a Triton kernel without parameters in the manifest": (
        TRITON.partition("params.y")[0] + 'launch.grid = ["cdiv(a.shape[0], BLOCK)"]\n',
        MANY,
        UNKNOWN,
    ),
    "a Triton kernel with some parameters in the manifest": (
        TRITON.partition("params.y")[0]
        + 'params = { a = { dtype = "f32", rank = 1 } }\nlaunch.grid = ["cdiv(a.size, BLOCK)"]\n',
        MANY,
        UNKNOWN.replace('a = { dtype = "f32", rank = … }, ', ""),
    ),
    "a Triton kernel without args": (
        TRITON.partition("params.y")[0]
        + 'params = { a_ptr = { dtype = "f32", rank = 1 }, x = { dtype = "f32", rank = 1 }, n.dtype = "i32" }\n'
        + 'launch.grid = ["cdiv(x.size, BLOCK)"]\n',
        MANY,
        'what stride_am is: write an entry of args for each parameter, args = ["a_ptr.ptr", "x.ptr", "factor", "n", "i32(a_ptr.stride[…])"]\n',
    ),
    "a number of Python is a scalar": (CUTILE, AXPY, "tilec.toml: no problems; 1 kernel, 2 jobs"),
    "a boolean axis is a condition": (
        CUTILE.replace("grid", 'requires = ["NEG or n > 1", "NEG == true or n > 1"], grid'),
        AXPY,
        "tilec.toml: no problems; 1 kernel, 2 jobs",
    ),
    "an array without a rank": (
        CUTILE.replace('x = { dtype = "f32", rank = 1 }', 'x = { dtype = "f32" }').replace(
            "grid", 'requires = ["x.shape[0] == z.shape[0]"], grid'
        ),
        AXPY,
        "kernel.axpy.params.x: a tensor parameter needs a rank: params.x.rank = 1, 2, …\n",
    ),
    "a text for a list of numbers": (
        CUTILE.replace("[128]", '"128"'),
        AXPY,
        "hint: write [128]\n",
    ),
    "a type that there is not": (
        TILE,
        SCALE.replace("tl.Ref[tl.float32", "tl.Ref[tl.flaot32"),
        "hint: did you mean 'float32'\n\nerror: 1 of 1 sources have errors\n",
    ),
    "no decorator": (
        TILE,
        SCALE.replace("@tl.kernel\n", ""),
        "k.py has no kernel at all: a kernel is a function with @tl.kernel (import tilec.lang as tl)\n",
    ),
    "an empty module": (
        TILE,
        "x = 1\n",
        "k.py has no kernel at all: a kernel is a function with @tl.kernel (import tilec.lang as tl)\n",
    ),
    "a tile that is no power of two": (
        TILE,
        SCALE.replace("1024", "1000"),
        "the tile of 'y' is 1000: it has one to three extents, each a power of two or a variable",
    ),
    "an array that has no rank in the kernel's signature": (
        TILE,
        SCALE.replace("tl.Ref[tl.float32, 1]", "tl.Ref[tl.float32]"),
        "tl.Ref[tl.float32] of 'x' does not say dtype and rank\n",
    ),
    "an output that has no tile": (
        TILE,
        SCALE.replace("tl.Mut[tl.float32, TILE]", "tl.Mut[tl.float32]"),
        "hint: write y: tl.Mut[T, TILE] or tl.Mut[T, (BM, BN)]\n",
    ),
    "a function that makes kernels": (
        TILE.replace('"k.py"', '"k.py:make"'),
        SCALE + "\ndef make():\n    return scale\n",
        "k.py has no kernel 'make'; it has scale\n",
    ),
    "an axis that the source has as a number": (
        TILE + "matrix.TILE = [512, 1024]\n",
        SCALE,
        'dtypes or launch; in the source an axis is TILE = tl.size("TILE")\n',
    ),
    "an axis that is named like an array": (
        TILE + CASES + "case.two = {}\nmatrix.x = [512, 1024]\n",
        SCALE,
        AXIS.format("x", "[512, 1024]"),
    ),
    "an axis that is named like a number": (
        TILE + CASES + "case.two = {}\nmatrix.factor = [2.0]\n",
        SCALE,
        AXIS.format("factor", "[2.0]"),
    ),
    "a key that is misspelt": (
        TILE.replace("source", "sorce"),
        SCALE,
        "kernel.scale.sorce: unknown key; did you mean 'source'\n",
    ),
    "no package": (
        TILE.replace('package.name = "demo"\n', ""),
        SCALE,
        "error: 'package' is missing: write package.name = \"acme-kernels\"\n",
    ),
    "an input that is misspelt": (
        TILE + CASES.replace("factor = 2.0", "factr = 2.0"),
        SCALE,
        "'factr' is no parameter of the launcher; did you mean 'factor'\n",
    ),
    "an input that is a text": (
        TILE + 'inputs = { x = "64", y = ["x.size"], factor = 2.0 }\n',
        SCALE,
        "  hint: write [64]\n",
    ),
    "a chain that feeds arrays of another rank": (
        TILE
        + '[chain.two]\nsteps = ["scale(t, x, f)", "scale(y, t, f)"]\n'
        + 'case.a.inputs = { x = [8, 8], t = ["x.size"], y = ["t.size"], f = 2.0 }\n',
        SCALE,
        "two/a: x has 2 dimensions, and scale takes 1 for 'x'\n",
    ),
    "a distribution in many places": (
        TILE
        + "".join(f'case.c{i}.inputs.x = {{ shape = [4], dist = "gauss" }}\n' for i in range(6)),
        SCALE,
        "  5 more of this: line 7, line 8, line 9, line 10, line 11\n",
    ),
    "lists of a language that has none": (
        TILE + "params.x = { list = 3 }\n",
        SCALE,
        "lists of arrays are parameters of cuTile Python kernels alone\n",
    ),
    "a case that breaks what its kernel requires": (
        TILE + CASES.replace('"x.size"', "65"),
        SCALE,
        "tilec.toml:6:1: error: kernel.scale.inputs: case one breaks the kernel's requirement 'x.shape == y.shape'\n",
    ),
    "one problem in many places": (
        TILE
        + "case.a.tolerance.rtoll = 1\ncase.b.tolerance.rtoll = 1\ncase.c.tolerance.rtoll = 1\n",
        SCALE,
        "  2 more of this: line 7, line 8\n",
    ),
    "a kernel that cannot be taken, beside one that can": (
        REFERENCE,
        KERNELS,
        "tilec.toml: no problems; 1 kernel, 1 job\n",
    ),
    "a kernel of a macro": (
        REFERENCE,
        MACRO,
        "k.cu has no kernel at all; one that a macro makes takes `args`, or its compiled name (_Z…)\n",
    ),
    "args of a file without kernels": (
        REFERENCE + 'args = ["y.ptr"]\nparams.y = { rank = 1, out = true }\n',
        "struct S { int a; };\n",
        "k.cu has no kernel at all; one that a macro makes takes `args`, or its compiled name (_Z…)\n",
    ),
    "a kernel of a macro by its compiled name": (
        REFERENCE.replace("k.cu", "k.cu:_Z4goodPf"),
        MACRO,
        "tilec.toml: no problems; 1 kernel, 1 job\n",
    ),
    "a kernel of a macro by its args": (
        REFERENCE + 'args = ["y.ptr"]\nparams.y = { rank = 1, out = true }\n',
        MACRO,
        "tilec.toml: no problems; 1 kernel, 1 job\n",
    ),
}


@pytest.mark.parametrize("mistake", TABLE)
def test_what_check_says(cli: Cli, tmp_path: Path, mistake: str) -> None:
    manifest, source, message = TABLE[mistake]
    name = "k.cu" if "k.cu" in manifest else "k.py"
    root = write(tmp_path, manifest, {name: source, "ref.py": REF})
    done = cli(root, "check")
    assert message in done.out + done.err
    assert (done.out + done.err).count(": error: ") <= 1
    failed = 1 if "sources have errors" in done.err else 2  # else the manifest is at fault
    assert done.code == (0 if "no problems" in message else failed)


BUILDS = {
    "a condition for each element": (
        "    y.store(",
        "    if x.load_tile_like(y) > 0:\n        y.store(",
        "hint: an if, a while and a range take one number for the whole block: ",
    ),
    "a list": (
        "    y.store(",
        "    for q in [1, 2]:\n        y.store(",
        "hint: kernels take a part of Python: ",
    ),
    "an element of an array": (
        "x.load_tile_like(y) * factor",
        "x[0]",
        "hint: kernels load tiles, not elements: x.load_tile_like(z), ",
    ),
    "a result": ("y.store(", "return (", "error: a kernel returns nothing\n"),
    "NumPy's function": (
        "x.load_tile_like(y) * factor",
        "np.exp(x.load_tile_like(y))",
        "hint: NumPy runs on the host: tl.exp and its like are the operations of tiles\n",
    ),
    "an operation of another library": (
        "x.load_tile_like(y) * factor",
        "ct.sigmoid(x.load_tile_like(y))",
        "hint: write it out: 1 / (1 + ct.exp(-x))\n",
    ),
}


@pytest.mark.parametrize("mistake", BUILDS)
def test_what_a_build_says(cli: Cli, tmp_path: Path, mistake: str) -> None:
    good, bad, message = BUILDS[mistake]
    source = SCALE.replace(good, bad)
    root = write(tmp_path, TILE, {"k.py": source})
    assert message in cli(root, "build").err


@pytest.mark.parametrize("command", ["check", "build"])
def test_a_module_that_asks_for_a_gpu_is_named_once(cli: Cli, tmp_path: Path, command: str) -> None:
    other = "import c\nfrom numba import cuda\n\n@cuda.jit\ndef d(y):\n    y[0] = c.DEVICE\n"
    root = write(tmp_path, SHARED, {"c.py": AT_IMPORT, "d.py": other})
    told = cli(root, command).err
    assert told.count("the module asks for a GPU when it is imported") == 1
    assert "c.py:3:10: error: the module asks for a GPU" in told
    assert "error: 2 of 2 sources have errors" in told
