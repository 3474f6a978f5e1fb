"""What goes wrong in tile kernels: the user's place, the compiler's words, the next step."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toolchain.tile_jobs import HEADER, SAMPLE, frontend, job, scalar, tensor, vectors, write
from tilec.frontends.tile import api
from tilec.model.job import Source
from tilec_runtime.errors import CompileError, ToolchainError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.signature import Assumption, Param, ParamKind

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def tile():
    return frontend()


def declare_error(tile, root: Path, files: dict[str, str], path: str = "k.py") -> CompileError:
    write(root, files)
    with pytest.raises(CompileError) as caught:
        tile.declare(Source(root=str(root), path=path))
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


def test_syntax_error(tile, tmp_path):
    error = declare_error(tile, tmp_path, {"k.py": HEADER + "def f(:\n    pass\n"})
    assert only(error) == "k.py:2:7: error: SyntaxError: invalid syntax\n    def f(:\n          ^"


def test_syntax_error_of_a_helper(tile, tmp_path):
    error = declare_error(
        tile,
        tmp_path,
        {"a/k.py": "import helper\n", "a/helper.py": "x = 1\nif x\n    pass\n"},
        "a/k.py",
    )
    assert only(error).startswith(
        "a/helper.py:2:5: error: SyntaxError: expected ':'\n    if x\n        ^"
    )


def test_missing_import(tile, tmp_path):
    error = declare_error(tile, tmp_path, {"k.py": "import os\n\nfrom not_there import f\n"})
    assert (
        "k.py:3:1: error: ModuleNotFoundError: No module named 'not_there'\n    from not_there import f\n    ^"
        in only(error)
    )
    assert "install not_there where you build" in only(error)
    assert error.what.startswith("k.py cannot be imported: ModuleNotFoundError")


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


def test_exit_at_import(tile, tmp_path):
    error = declare_error(tile, tmp_path, {"k.py": "import sys\n\nsys.exit('no')\n"})
    assert "k.py:3:1: error: the module calls exit ('no') when it is imported" in only(error)


def test_an_annotation_that_does_not_exist(tile, tmp_path):
    error = declare_error(
        tile, tmp_path, {"k.py": HEADER + "@ct.kernel\ndef k(x: ct.Nothing):\n    pass\n"}
    )
    assert "k.py:3:" in only(error)
    assert "has no attribute 'Nothing'" in only(error)


def test_modules_by_computed_names(tile, tmp_path):
    error = declare_error(
        tile,
        tmp_path,
        {"k.py": "import os\n\nm = __import__('hel' + 'per')\n", "helper.py": "x = 1\n"},
    )
    assert (
        "the module reads helper.py when it is executed, and the manifest does not say so"
        in error.what
    )
    assert only(error).startswith(
        "k.py:3:5: error: " if sys.version_info >= (3, 11) else "k.py:3:1: error: "
    )
    assert 'fix: reads = ["helper.py"] beside the kernel\'s source' in only(error)


def test_modules_through_a_changed_path(tile, tmp_path):
    files = {
        "k.py": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'deep'))\nimport deeper\n",
        "deep/deeper.py": "x = 1\n",
    }
    before = list(sys.path)
    error = declare_error(tile, tmp_path, files)
    assert (
        "the module reads deep/deeper.py when it is executed, and the manifest does not say so"
        in error.what
    )
    assert only(error).startswith("k.py:3:1: error: ")
    assert 'fix: reads = ["deep/deeper.py"] beside the kernel\'s source' in only(error)
    assert sys.path == before
    assert not list(tmp_path.rglob("__pycache__"))


# --- the kernel
# --------------------------------------------------------------------------------------------------------------------


def test_an_error_of_cuda_tile_has_the_users_line(tile, tmp_path):
    text = (
        HEADER
        + "@ct.kernel\ndef k(x, T: ct.Constant[int]):\n    ä = ct.load(x, (0,), (T,)); y = ä + 'a'\n"
    )
    error = compile_error(tile, tmp_path, text, tensor("x"), axes={"T": 16})
    assert only(error).startswith("k.py:4:37: error: ")
    assert only(error).endswith("    " + text.splitlines()[3] + "\n" + " " * 40 + "^")
    assert "TileTypeError" in error.log or "TypeCheckingError" in error.log
    assert "kernel 'k' does not compile" in error.what


def test_an_error_in_a_helper_tells_how_it_was_reached(tile, tmp_path):
    write(
        tmp_path,
        {"helper.py": "import cuda.tile as ct\n\n\ndef twice(t):\n    return ct.matmul(t, t)\n"},
    )
    text = (
        HEADER
        + "from helper import twice\n@ct.kernel\ndef k(x, T: ct.Constant[int]):\n    ct.store(x, (0,), twice(ct.load(x, (0,), (T,))))\n"
    )
    error = compile_error(tile, tmp_path, text, tensor("x", out=True), axes={"T": 15})
    assert error.diagnostics[0].location.file in ("helper.py", "k.py")
    text = text.replace("(T,)", "(16,)").replace(", T: ct.Constant[int]", "")
    write(
        tmp_path,
        {
            "helper.py": "import cuda.tile as ct\n\n\ndef twice(t):\n    return ct.reshape(t, (3,))\n"
        },
    )
    error = compile_error(tile, tmp_path, text, tensor("x", out=True))
    inner, outer = error.diagnostics
    assert str(inner.location).startswith("helper.py:5:")
    assert (outer.severity, outer.message) == ("note", "called from here, in k")
    assert str(outer.location).startswith("k.py:5:")


def test_syntax_that_tile_code_does_not_have(tile, tmp_path):
    error = compile_error(
        tile,
        tmp_path,
        HEADER + "@ct.kernel\ndef k(x):\n    with open('x') as f:\n        pass\n",
        tensor("x"),
    )
    assert str(error.diagnostics[0].location).startswith("k.py:4:")


def test_a_dtype_that_the_target_lacks(tile, tmp_path):
    text = (
        HEADER
        + "@ct.kernel\ndef k(x, y, T: ct.Constant[int]):\n    ct.store(y, (0,), ct.load(x, (0,), (T,)).astype(ct.float32))\n"
    )
    params = (tensor("x", "f8e4m3"), tensor("y", out=True))
    error = compile_error(tile, tmp_path, text, *params, axes={"T": 16}, target="sm_80")
    assert "sm_80" in error.what
    assert error.log
    assert "leave this target out" in error.diagnostics[0].hint or error.command


def test_static_assertions(tile, tmp_path):
    text = (
        HEADER
        + "@ct.kernel\ndef k(x, T: ct.Constant[int]):\n    ct.static_assert(T < 64, 'T is too large')\n"
    )
    error = compile_error(tile, tmp_path, text, tensor("x"), axes={"T": 128})
    assert only(error).startswith("k.py:4:5: error: Static assertion failed: T is too large")


def test_a_failure_without_a_place_points_at_the_kernel(tile, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("inside")

    monkeypatch.setattr(api, "export", fail)
    error = compile_error(tile, tmp_path, HEADER + "@ct.kernel\ndef k(x):\n    pass\n", tensor("x"))
    assert only(error) == "k.py:3:5: error: AssertionError: inside\n    def k(x):\n        ^"
    assert "a bug of it" in error.cause


@pytest.mark.parametrize("target", ["tileir", "sm_90"])
def test_a_tile_beyond_what_tile_ir_allows_is_refused_at_the_kernel(tile, tmp_path, target):
    """cuda.tile writes it: portable bytecode would be shipped that nothing can run, and tileiras
    names offsets of its input alone.
    """
    text = (
        HEADER
        + "@ct.kernel\ndef k(x, T: ct.Constant[int]):\n    ct.store(x, (0,), ct.load(x, (0,), (T,)) + 1)\n"
    )
    error = compile_error(
        tile, tmp_path, text, tensor("x", out=True), axes={"T": 2**25}, target=target
    )
    assert only(error) == (
        "k.py:3:5: error: a tile of 33554432 elements is too large: the most is 16777216\n    def k(x, T: ct.Constant[int]):\n        ^\n"
        "  hint: give the axes of the matrix that its extents come from smaller values"
    )


# --- manifest and kernel
# -----------------------------------------------------------------------------------------------------------

TWO = (
    HEADER
    + "@ct.kernel\ndef k(x, scale,\n      TILE: ct.Constant[int]):\n    ct.store(x, (0,), ct.load(x, (0,), (TILE,)) * scale)\n"
)


def test_parameters_that_nobody_describes(tile, tmp_path):
    error = compile_error(tile, tmp_path, TWO, tensor("x"), scalar("scal"), axes={"TILES": 16})
    first, second, third = (d.render() for d in error.diagnostics)
    assert first.startswith(
        "k.py:3:10: error: neither params nor an axis of the matrix says what parameter 'scale' is"
    )
    assert first.endswith("    def k(x, scale,\n             ^\n  hint: did you mean 'scal'")
    assert second.startswith("k.py:4:7: error: constant 'TILE' has no value in this variant")
    assert second.endswith("hint: did you mean 'TILES'")
    assert third.startswith(
        "k.py:3:5: error: the manifest has a parameter 'scal' that kernel 'k' does not take"
    )
    assert third.endswith("hint: did you mean 'scale'")


@pytest.mark.parametrize(
    ("params", "axes", "message"),
    [
        ((tensor("x"), scalar("scale")), {"TILE": "f32"}, "constant 'TILE' is 'f32', a text"),
        (
            (tensor("x"), scalar("scale")),
            {"TILE": 1.5},
            "constant 'TILE' is declared as int, and its value is 1.5",
        ),
        (
            (tensor("x"), scalar("scale"), scalar("TILE", "i32")),
            {},
            "'TILE' is a compile-time constant in the kernel and a launch parameter",
        ),
        ((tensor("x", rank=-1), scalar("scale")), {"TILE": 16}, "tensor 'x' has no rank"),
        ((tensor("x", ""), scalar("scale")), {"TILE": 16}, "parameter 'x' has no dtype"),
        ((tensor("x", "f33"), scalar("scale")), {"TILE": 16}, "no dtype that cuda.tile knows"),
        ((tensor("x", stride=(-1,)), scalar("scale")), {"TILE": 16}, "negative stride"),
        (
            (tensor("x"), Param(name="scale", kind=ParamKind.PTR)),
            {"TILE": 16},
            "'scale' is a ptr in the manifest",
        ),
    ],
)
def test_manifest_and_kernel_that_do_not_fit(tile, tmp_path, params, axes, message):
    error = compile_error(tile, tmp_path, TWO, *params, axes=axes)
    assert message in only(error)
    assert error.diagnostics[0].location.line in (3, 4)


def test_wrong_rank_is_told_at_the_users_line(tile, tmp_path):
    error = compile_error(
        tile, tmp_path, TWO, tensor("x", rank=2), scalar("scale"), axes={"TILE": 16}
    )
    assert only(error).startswith("k.py:5:")


def test_parameters_that_cannot_be_passed(tile, tmp_path):
    text = (
        HEADER
        + "from typing import Annotated\n@ct.kernel\ndef k(x: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,))]):\n    pass\n"
    )
    assert "static_shape_dims is not supported" in only(
        compile_error(tile, tmp_path, text, tensor("x"))
    )
    text = HEADER + "@ct.kernel\ndef k(n: ct.ScalarInt64):\n    pass\n"
    assert "annotated as i64 in the kernel, and is i32 in the manifest" in only(
        compile_error(tile, tmp_path, text, scalar("n", "i32"))
    )
    text = HEADER + "@ct.kernel\ndef k(n: ct.Constant[tuple[int, int]]):\n    pass\n"
    assert "tuples are not supported" in only(compile_error(tile, tmp_path, text))


def test_kernels_that_are_not_there(tile, tmp_path):
    write(tmp_path, {"k.py": TWO})
    made = job(tile, tmp_path, "k.py", "k", ())
    missing = replace(made, spec=replace(made.spec, decl=replace(made.spec.decl, name="kk")))
    with pytest.raises(CompileError, match=r"k\.py has no kernel 'kk'; it has k") as caught:
        tile.compile(missing)
    assert only(caught.value).endswith("hint: did you mean 'k'")


def test_a_misspelt_function_of_cuda_tile(tile, tmp_path):
    source = HEADER + "@ct.kernel\ndef k(z):\n    ct.store(z, (0,), ct.lod(z, (0,), (16,)))\n"
    error = compile_error(tile, tmp_path, source, tensor("z", out=True))
    assert only(error).endswith("hint: did you mean 'load'")


def test_a_store_of_another_dtype(tile, tmp_path):
    source = (
        HEADER
        + "@ct.kernel\ndef k(z, alpha):\n    ct.store(z, (0,), alpha * ct.load(z, (0,), (16,)))\n"
    )
    params = (tensor("z", dtype="f16", out=True), scalar("alpha", "f32"))
    error = compile_error(tile, tmp_path, source, *params)
    assert (
        "k.py:4:5: error: Stored tile is incompatible with array's dtype: cannot implicitly cast float32 to float16\n"
        in only(error)
    )
    assert only(error).endswith("hint: cast it where it is stored: value.astype(array.dtype)")


def test_a_hint_out_of_range(tile):
    made = job(tile, SAMPLE, "kernels/vector.py", "add", vectors("a", "b", "c"), axes={"TILE": 128})
    with pytest.raises(
        CompileError, match="a hint is out of range: num_ctas should be power of 2, got 3"
    ):
        tile.compile(replace(made, hints=(("num_ctas", 3),)))


def test_targets_that_are_refused(tile):
    made = job(tile, SAMPLE, "kernels/vector.py", "add", vectors("a", "b", "c"), axes={"TILE": 128})
    with pytest.raises(CompileError, match="use sm_90 "):
        tile.compile(replace(made, target=Target.parse("sm_90a")))


# --- tileiras
# ----------------------------------------------------------------------------------------------------------------------


def fake_toolkit(folder: Path, script: str) -> Path:
    """A toolkit whose tileiras is a shell script."""
    real = Path(frontend()._python.tools()["tileiras"].path).parents[1]
    for name in ("bin", "lib", "include"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for item in ("bin/ptxas", "bin/nvcc", "bin/nvdisasm", "lib/libnvvm.so.4", "include/cuda.h"):
        if (real / item).exists():
            (folder / item).symlink_to(real / item)
    path = folder / "bin" / "tileiras"
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "release 13.4, V13.4.92"; exit 0; fi\n' + script
    )
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


def test_warnings_of_tileiras_and_cuda_tile_go_with_the_image(tmp_path, capfd, monkeypatch):
    real = frontend()._python.tools()["tileiras"].path
    export = api.export

    def warn(*args, **kwargs):
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("num_worker_warps is ignored", stacklevel=1)
        return replace(export(*args, **kwargs), warnings=tuple(caught))

    monkeypatch.setattr(api, "export", warn)
    script = f"""echo 'loc("kernels/vector.py":13:9): warning: slow load' >&2; exec {real} "$@" """
    image = assembled_by(tmp_path, script)
    mine, theirs = image.warnings
    assert mine.render().startswith("kernels/vector.py:10:5: warning: num_worker_warps is ignored")
    assert theirs.render().startswith("kernels/vector.py:13:9: warning: slow load")
    assert capfd.readouterr().err == ""


def test_the_environment_of_a_compile_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    with pytest.raises(CompileError) as caught:
        assembled_by(tmp_path, "env >&2; pwd >&2; exit 1")
    assert "CUDA_HOME" not in caught.value.log
    assert "TMPDIR=" in caught.value.log


def test_an_old_tileiras_is_told(tmp_path):
    home = fake_toolkit(tmp_path / "toolkit", "")
    tool = home / "bin" / "tileiras"
    tool.write_text(tool.read_text().replace("13.4, V13.4.92", "13.1, V13.1.80"))
    with pytest.raises(ToolchainError, match="the toolchain is mixed"):
        frontend(prefer="system", cuda_home=str(home)).toolchain()
    for name in ("ptxas", "nvdisasm"):
        (home / "bin" / name).unlink()
        shutil.copy(tool, home / "bin" / name)
    write(home, {"version.json": '{"cuda": {"version": "13.1.0"}}'})
    (home / "include" / "cuda.h").unlink(missing_ok=True)
    with pytest.raises(
        ToolchainError,
        match=r"tileiras is of version 13\.1\.80, and tile kernels need 13\.2 or newer",
    ):
        frontend(prefer="system", cuda_home=str(home)).toolchain()


def test_assumptions_about_strangers_are_harmless(tile):
    """An assumption names a launcher parameter; those of another kernel's are no business of this
    one.
    """
    made = job(
        tile,
        SAMPLE,
        "kernels/vector.py",
        "add",
        vectors("a", "b", "c"),
        axes={"TILE": 128},
        target="tileir",
    )
    assert (
        tile.compile(
            replace(made, variant=replace(made.variant, assume=(Assumption(param="q", align=16),)))
        ).data
        == tile.compile(made).data
    )
