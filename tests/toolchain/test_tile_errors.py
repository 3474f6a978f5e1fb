"""What goes wrong in tile kernels: the user's place, the compiler's words, the next step."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toolchain.projects import SEARCH, write
from tests.toolchain.tile_jobs import HEADER, SAMPLE, frontend, job, scalar, tensor, vectors
from tilec.frontends.tile import api
from tilec.frontends.tile.toolchain import find
from tilec.model.job import Source
from tilec_runtime.errors import CompileError, ToolchainError
from tilec_runtime.model.signature import Param, ParamKind

pytestmark = pytest.mark.toolchain


def declare_error(tile, root: Path, files: dict[str, str]) -> CompileError:
    """The error of declaring the first of these files."""
    write(root, files)
    with pytest.raises(CompileError) as caught:
        tile.declare(Source(root=str(root), path=next(iter(files))))
    assert "importlib" not in str(caught.value) + caught.value.log
    assert str(root) not in caught.value.log
    return caught.value


def compile_error(tile, root: Path, text: str, *params: Param, **more) -> CompileError:
    write(root, {"k.py": text})
    with pytest.raises(CompileError) as caught:
        tile.compile(job(tile, root, "k.py", "k", params, **more))
    return caught.value


def only(error: CompileError) -> str:
    (diagnostic,) = error.diagnostics
    return diagnostic.render()


# --- the module
# --------------------------------------------------------------------------------------------------------------------

MODULES = {
    "syntax": (
        {"k.py": HEADER + "def f(:\n    pass\n"},
        "k.py:2:7: error: SyntaxError: invalid syntax\n    def f(:\n          ^",
    ),
    "syntax of a helper": (
        {"a/k.py": "import helper\n", "a/helper.py": "x = 1\nif x\n    pass\n"},
        "a/helper.py:2:5: error: SyntaxError: expected ':'\n    if x\n        ^",
    ),
    "a missing import": (
        {"k.py": "import os\n\nfrom not_there import f\n"},
        (
            "k.py:3:1: error: ModuleNotFoundError: No module named 'not_there'\n    from not_there import f\n    ^\n"
            "  hint: install not_there where you build"
        ),
    ),
    "exit": (
        {"k.py": "import sys\n\nsys.exit('no')\n"},
        "k.py:3:1: error: the module calls exit ('no') when it is imported",
    ),
    "an annotation that does not exist": (
        {"k.py": HEADER + "@ct.kernel\ndef k(x: ct.Nothing):\n    pass\n"},
        "k.py:3:",
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_cannot_be_executed(tile, tmp_path, name):
    files, start = MODULES[name]
    assert only(declare_error(tile, tmp_path, files)).startswith(start)


def test_an_exception_at_import_shows_the_users_frames(tile, tmp_path):
    files = {
        "k.py": "from lib.tools import f\n\nprint('about to fail')\nLIMIT = f(0)\n",
        "lib/tools.py": "def f(n):\n    return 1 // n\n",
    }
    error = declare_error(tile, tmp_path, files)
    column = 12 if sys.version_info >= (3, 11) else 5
    assert (
        f"lib/tools.py:2:{column}: error: ZeroDivisionError: integer division or modulo by zero\n        return 1 // n"
        in only(error)
    )
    assert error.log.index('File "k.py", line 4') < error.log.index('File "lib/tools.py", line 2')
    assert "about to fail" in error.log


# --- the kernel, and what the manifest says of it
# --------------------------------------------------------------------------------------------------------------------


def kernel(signature: str, body: str) -> str:
    return f"{HEADER}@ct.kernel\ndef k({signature}):\n    {body}\n"


X, OUT = tensor("x"), tensor("x", out=True)
CONSTANT = "x, T: ct.Constant[int]"
ADDED = kernel(CONSTANT, "ä = ct.load(x, (0,), (T,)); y = ä + 'a'")
LARGE = kernel(CONSTANT, "ct.store(x, (0,), ct.load(x, (0,), (T,)) + 1)")
TOO_LARGE = (
    "k.py:3:5: error: a tile of 33554432 elements is too large: the most is 16777216\n"
    "    def k(x, T: ct.Constant[int]):\n        ^\n"
    "  hint: give the axes of the matrix that its extents come from smaller values"
)
TWO = (
    HEADER
    + "@ct.kernel\ndef k(x, scale,\n      TILE: ct.Constant[int]):\n    ct.store(x, (0,), ct.load(x, (0,), (TILE,)) * scale)\n"
)
SCALE = scalar("scale")
T16, TILE = {"axes": {"T": 16}}, {"axes": {"TILE": 16}}
SHAPE = "x: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,))]"
KERNELS = {
    "an error of cuda.tile": (ADDED, (X,), T16, "k.py:4:37: error: ", "\n" + " " * 40 + "^"),
    "syntax that tiles do not have": (
        kernel("x", "with open('x') as f:\n        pass"),
        (X,),
        {},
        "k.py:4:",
        "",
    ),
    "a static assertion": (
        kernel(CONSTANT, "ct.static_assert(T < 64, 'T is too large')"),
        (X,),
        {"axes": {"T": 128}},
        "k.py:4:5: error: Static assertion failed: T is too large",
        "",
    ),
    # cuda.tile writes it, and tileiras names offsets of its input alone.
    "a tile beyond Tile IR": (LARGE, (OUT,), {"axes": {"T": 2**25}}, TOO_LARGE, ""),
    "a portable tile beyond Tile IR": (
        LARGE,
        (OUT,),
        {"axes": {"T": 2**25}, "target": "tileir"},
        TOO_LARGE,
        "",
    ),
    "a misspelt function": (
        kernel("x", "ct.store(x, (0,), ct.lod(x, (0,), (16,)))"),
        (OUT,),
        {},
        "k.py:4:",
        "hint: did you mean 'load'",
    ),
    "a store of another dtype": (
        kernel("x, scale", "ct.store(x, (0,), scale * ct.load(x, (0,), (16,)))"),
        (tensor("x", dtype="f16", out=True), SCALE),
        {},
        "k.py:4:5: error: Stored tile is incompatible with array's dtype: cannot implicitly cast float32 to float16\n",
        "hint: cast it where it is stored: value.astype(array.dtype)",
    ),
    "a static extent": (
        "from typing import Annotated\n" + kernel(SHAPE, "pass"),
        (X,),
        {},
        "k.py:4:",
        "static_shape_dims is not supported",
    ),
    "a scalar of another dtype": (
        kernel("n: ct.ScalarInt64", "pass"),
        (scalar("n", "i32"),),
        {},
        "k.py:3:",
        "annotated as i64 in the kernel, and is i32 in the manifest",
    ),
    "a constant tuple": (
        kernel("n: ct.Constant[tuple[int, int]]", "pass"),
        (),
        {},
        "k.py:3:",
        "tuples are not supported",
    ),
    "a wrong rank": (TWO, (tensor("x", rank=2), SCALE), TILE, "k.py:5:", ""),
    "a text as constant": (
        TWO,
        (X, SCALE),
        {"axes": {"TILE": "f32"}},
        "k.py:4:",
        "constant 'TILE' is 'f32', a text",
    ),
    "a float as constant": (
        TWO,
        (X, SCALE),
        {"axes": {"TILE": 1.5}},
        "k.py:4:",
        "constant 'TILE' is declared as int, and its value is 1.5",
    ),
    "a constant that is passed": (
        TWO,
        (X, SCALE, scalar("TILE", "i32")),
        {},
        "k.py:4:",
        "'TILE' is a compile-time constant in the kernel and a launch parameter",
    ),
    "no rank": (TWO, (tensor("x", rank=-1), SCALE), TILE, "k.py:3:", "tensor 'x' has no rank"),
    "no dtype": (TWO, (tensor("x", ""), SCALE), TILE, "k.py:3:", "parameter 'x' has no dtype"),
    "no such dtype": (
        TWO,
        (tensor("x", "f33"), SCALE),
        TILE,
        "k.py:3:",
        "parameter 'x': cuda.tile has no dtype f33",
    ),
    "a stride below zero": (
        TWO,
        (tensor("x", stride=(-1,)), SCALE),
        TILE,
        "k.py:3:",
        "negative stride",
    ),
    "an address as number": (
        TWO,
        (X, Param(name="scale", kind=ParamKind.PTR)),
        TILE,
        "k.py:3:",
        "'scale' is a ptr in the manifest",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_does_not_compile(tile, tmp_path, name):
    text, params, more, start, words = KERNELS[name]
    found = only(compile_error(tile, tmp_path, text, *params, **more))
    assert found.startswith(start)
    assert words in found


def test_a_failure_without_a_place_points_at_the_kernel(tile, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("inside")

    monkeypatch.setattr(api, "export", fail)
    error = compile_error(tile, tmp_path, kernel("x", "pass"), X)
    assert only(error) == "k.py:3:5: error: AssertionError: inside\n    def k(x):\n        ^"
    assert "a bug of it" in error.cause


def test_an_error_in_a_helper_tells_how_it_was_reached(tile, tmp_path):
    text = (
        HEADER
        + "from helper import twice\n@ct.kernel\ndef k(x):\n    ct.store(x, (0,), twice(ct.load(x, (0,), (16,))))\n"
    )
    helper = "import cuda.tile as ct\n\n\ndef twice(t):\n    return ct.reshape(t, (3,))\n"
    write(tmp_path, {"helper.py": helper})
    inner, outer = compile_error(tile, tmp_path, text, OUT).diagnostics
    assert str(inner.location).startswith("helper.py:5:")
    assert (outer.severity, outer.message) == ("note", "called from here, in k")
    assert str(outer.location).startswith("k.py:5:")


def test_a_dtype_that_the_target_lacks(tile, tmp_path):
    text = kernel(
        "x, y, T: ct.Constant[int]", "ct.store(y, (0,), ct.load(x, (0,), (T,)).astype(ct.float32))"
    )
    params = (tensor("x", "f8e4m3"), tensor("y", out=True))
    error = compile_error(tile, tmp_path, text, *params, target="sm_80", **T16)
    assert "sm_80" in error.what
    assert error.log


def test_a_parameter_that_nobody_describes(tile, tmp_path):
    error = compile_error(tile, tmp_path, TWO, X, scalar("scal"), axes={"TILE": 16})
    (found,) = (d.render() for d in error.diagnostics)
    assert found.startswith(
        "k.py:3:10: error: neither params nor an axis of the matrix says what parameter 'scale' is"
    )
    assert found.endswith("    def k(x, scale,\n             ^\n  hint: did you mean 'scal'")


def test_kernels_that_are_not_there(tile, tmp_path):
    write(tmp_path, {"k.py": TWO})
    made = job(tile, tmp_path, "k.py", "k", ())
    missing = replace(made, spec=replace(made.spec, decl=replace(made.spec.decl, name="kk")))
    with pytest.raises(CompileError, match=r"k\.py: there is no kernel 'kk'; there is k") as caught:
        tile.compile(missing)
    assert only(caught.value).endswith("hint: did you mean 'k'")


def test_a_hint_out_of_range(tile):
    made = job(tile, SAMPLE, "kernels/vector.py", "add", vectors("a", "b", "c"), axes={"TILE": 128})
    with pytest.raises(
        CompileError, match="a hint is out of range: num_ctas should be power of 2, got 3"
    ):
        tile.compile(replace(made, hints=(("num_ctas", 3),)))


# --- tileiras
# ----------------------------------------------------------------------------------------------------------------------


def fake_toolkit(folder: Path, script: str) -> Path:
    """A toolkit whose tileiras is a shell script."""
    real = Path(find(SEARCH)["tileiras"].path).parents[1]
    for name in ("bin", "lib", "include"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for item in ("bin/ptxas", "bin/nvcc", "bin/nvdisasm", "lib/libnvvm.so.4", "include/cuda.h"):
        if (real / item).exists():
            (folder / item).symlink_to(real / item)
    path = folder / "bin" / "tileiras"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return folder


def assembled_by(tmp_path: Path, script: str, **more):
    home = fake_toolkit(tmp_path / "toolkit", script)
    tile = frontend(prefer="system", cuda_home=str(home))
    return tile.compile(
        job(
            tile,
            SAMPLE,
            "kernels/vector.py",
            "add",
            vectors("a", "b", "c"),
            axes={"TILE": 128},
            **more,
        )
    )


def test_tileiras_refuses(tmp_path):
    script = (
        """echo 'loc("kernels/vector.py":13:9): error: tile is too large' >&2\n"""
        """echo 'loc(fused<#x>["kernels/vector.py":14:9]): error: again' >&2; exit 5"""
    )
    with pytest.raises(
        CompileError, match="tileiras refuses kernel 'add' for sm_80: tile is too large"
    ) as caught:
        assembled_by(tmp_path, script)
    first, second = caught.value.diagnostics
    assert (
        first.render()
        == "kernels/vector.py:13:9: error: tile is too large\n        x = ct.load(a, (i,), (TILE,))\n            ^"
    )
    assert (second.location.line, second.message) == (14, "again")
    assert caught.value.log.startswith('loc("kernels')
    assert caught.value.command == "tileiras kernel.tileirbc -o kernel.cubin --gpu-name sm_80 -O3"


def test_tileiras_crashes(tmp_path):
    with pytest.raises(
        CompileError, match=r"tileiras crashed \(SIGSEGV\) on kernel 'add' for sm_80"
    ) as caught:
        assembled_by(tmp_path, "kill -SEGV $$")
    assert "a bug of tileiras" in caught.value.cause


def test_tileiras_hangs(tmp_path):
    with pytest.raises(CompileError, match=r"took more than 2 s") as caught:
        assembled_by(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait", timeout=2.0)
    assert "smaller tile size" in caught.value.fix
    os.kill(
        int((tmp_path / "pid").read_text()), signal.SIGKILL
    )  # a worker's children end with the worker


def test_tileiras_writes_nothing_or_nonsense(tmp_path):
    with pytest.raises(CompileError, match="wrote nothing"):
        assembled_by(tmp_path / "one", "exit 0")
    with pytest.raises(CompileError, match="the image that tileiras made cannot be read"):
        assembled_by(tmp_path / "two", "echo nonsense > kernel.cubin")


def test_warnings_of_tileiras_go_with_the_image(tmp_path, capfd):
    real = find(SEARCH)["tileiras"].path
    script = f"""echo 'loc("kernels/vector.py":13:9): warning: slow load' >&2; exec {real} "$@" """
    (warning,) = assembled_by(tmp_path, script).warnings
    assert warning.render().startswith("kernels/vector.py:13:9: warning: slow load")
    assert capfd.readouterr().err == ""


def test_the_environment_of_a_compile_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    with pytest.raises(CompileError) as caught:
        assembled_by(tmp_path, "env >&2; pwd >&2; exit 1")
    assert "CUDA_HOME" not in caught.value.log
    assert "TMPDIR=" in caught.value.log


def test_an_old_tileiras_is_told(tmp_path):
    home = fake_toolkit(tmp_path / "toolkit", "")
    (home / "include" / "cuda.h").unlink()
    write(home, {"include/cuda.h": "#define CUDA_VERSION 13010\n"})
    with pytest.raises(
        ToolchainError, match=r"tileiras is of version 13\.1, and tile kernels need 13\.2 or newer"
    ):
        frontend(prefer="system", cuda_home=str(home)).toolchain()
