"""`tilec run` on a driver whose device memory is host memory: what it prints, writes and exits
with.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.bundle_samples import write_kernels
from tests.conftest import Golden, Terminal
from tests.runtime_samples import SCALAR, TENSOR, fake_driver, image, kernel, slot
from tests.unit.conftest import Cli
from tilec.cli import launch_case
from tilec_runtime.device import driver as _driver
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param
from tilec_runtime.model.table import DispatchRule

ROOT = Path(__file__).parents[3]
ABI = (
    slot("ptr", "z.ptr"),
    slot("ptr", "x.ptr"),
    slot("i32", "x.size"),
    slot("f32", "alpha"),
)
SCALE = kernel(
    "scale",
    (
        Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="x", kind=TENSOR, dtype="f32", rank=1),
        Param(name="alpha", kind=SCALAR, dtype="f32", default=2.0),
    ),
    (VariantInfo(id="scale", abi=ABI, images=(image("scale"),)),),
    launch=LaunchInfo(grid=("cdiv(x.size, 256)",), block=("256",), requires=("x.size == z.size",)),
)
MANIFEST = """\
edition = 1
[package]
name = "acme"
version = "1.0"
[targets]
default = ["sm_90"]
[kernel.scale]
source = "scale.cu"
launch = { grid = ["cdiv(x.size, 256)"], block = [256] }
args = ["z.ptr", "x.ptr", "i32(x.size)", "alpha"]
params = { z = { rank = 1, out = true }, x = { rank = 1 }, alpha = { default = 2.0 } }
[kernel.scale.case.good]
inputs.x = { shape = [300], dtype = "f32", seed = 1 }
inputs.z = { shape = ["x.size"], dtype = "f32", dist = "empty" }
inputs.alpha = 3.0
reference = "reference.py:scale"
[kernel.scale.case.bad]
inputs.x = { shape = [40], dtype = "f32", dist = "ones" }
inputs.z = { shape = ["x.size"], dtype = "f32", dist = "empty" }
reference = "reference.py:off"
[kernel.scale.case.refused]
inputs.x = { shape = [40], dtype = "f32" }
inputs.z = { shape = [39], dtype = "f32", dist = "empty" }
"""
REFERENCE = """
def scale(x, alpha):
    return x * alpha

def off(x, alpha):
    expected = x * alpha
    expected[7:9] += 1
    return expected
"""


def scale(z: int, x: int, n: int, alpha: float) -> None:
    floats = ctypes.POINTER(ctypes.c_float)
    source, target = ctypes.cast(x, floats), ctypes.cast(z, floats)
    for i in range(n):
        target[i] = source[i] * alpha


def write_project(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> None:
    """Write a project with its bundle, beside a GPU that is pretended."""
    driver = fake_driver(SCALE, run=scale)
    monkeypatch.setattr(_driver, "driver", lambda: driver)
    (folder / "tilec.toml").write_text(MANIFEST + more)
    (folder / "scale.cu").write_text(
        "__global__ void scale(float* z, const float* x, int n, float alpha) {}\n"
    )
    (folder / "reference.py").write_text(REFERENCE)
    write_kernels(folder / "acme.tilec", SCALE)


@pytest.fixture
def tilec(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    write_project(tmp_path, monkeypatch)
    return functools.partial(cli, "run")


@pytest.mark.parametrize(
    ("tolerance", "code", "allowed"),
    [
        ("ulp = 4194304", 0, ""),
        ("ulp = 4194303", 1, "(4194303 ulp)"),
        ("ulp = 4, atol = 0.5", 1, "(rtol 0, atol 0.5 or 4 ulp)"),
    ],
)
def test_a_case_may_count_in_ulp(
    tilec: Cli, tmp_path: Path, tolerance: str, code: int, allowed: str
) -> None:
    text = MANIFEST.replace(
        'reference = "reference.py:off"',
        f'reference = "reference.py:off"\ntolerance = {{ {tolerance} }}',
    )
    (tmp_path / "tilec.toml").write_text(text)
    done = tilec("--bundle", "acme.tilec", "--case", "bad")
    assert done.code == code
    assert allowed in done.out


def test_what_was_compiled_at_load_is_told(
    tilec: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptx = image("scale", "compute_80", ptx_isa=(8, 0))
    variant = VariantInfo(id="scale", abi=ABI, images=(ptx,))
    write_kernels(tmp_path / "ptx.tilec", dataclasses.replace(SCALE, variants=(variant,)))
    done = tilec("scale", "--case", "good", "--bundle", "ptx.tilec")
    assert done.code == 1
    assert (
        "compute_80: PTX that the driver would compile, and jit-fallback is deny by default"
        in done.out
    )
    monkeypatch.setenv("TILEC_JIT_FALLBACK", "allow")
    done = tilec("scale", "--case", "good", "--bundle", "ptx.tilec")
    assert done.code == 0
    assert "scale: compute_80 was compiled at load by the driver" in done.err
    document = json.loads(tilec("scale", "--case", "good", "--bundle", "ptx.tilec", "--json").out)
    assert document["compiled"] == [
        {"variant": "scale", "target": "compute_80", "by": "the driver"}
    ]
    assert "compiled" not in json.loads(
        tilec("scale", "--case", "good", "--bundle", "acme.tilec", "--json").out
    )


def test_repeats_say_whether_the_bits_are_the_same(tilec: Cli) -> None:
    done = tilec("scale", "--case", "good", "--bundle", "acme.tilec", "--repeat", "3")
    assert (done.code, done.out.splitlines()[-1]) == (0, "  3 runs, equal bits")
    done = tilec("--bundle", "acme.tilec", "--repeat", "3", "-k", "*/bad")
    assert done.code == 1
    assert "  run 1 of 3 failed\n" in done.out
    (row,) = json.loads(
        tilec("scale", "--case", "good", "--bundle", "acme.tilec", "--repeat", "3", "--json").out
    )["cases"]
    assert (row["runs"], row["varied"]) == (3, {})


def test_inputs_are_changed_by_hand_and_from_files(tilec: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.arange(5, dtype=np.float32))
    chosen = ("--bundle", "acme.tilec", "-k", "good", "--output-dir", "out/deep")
    assert tilec(*chosen, "--set", "alpha=10", "--input", "x=d.npz").code == 0
    assert np.load(tmp_path / "out/deep/scale.good.z.npy").tolist() == [0, 10, 20, 30, 40]
    assert tilec(*chosen, "--set", "x=[2]").code == 0
    assert np.load(tmp_path / "out/deep/scale.good.z.npy").shape == (2,)
    assert [path.name for path in (tmp_path / "out/deep").iterdir()] == ["scale.good.z.npy"]
    np.save(tmp_path / "wide.npy", np.arange(5.0))
    done = tilec(*chosen, "--input", "x=wide.npy")
    assert (
        done.code,
        "error: --input x=wide.npy: scale/good: x has dtype f64, but the kernel takes f32"
        in done.err,
    ) == (2, True)


def test_files_of_cases_are_those_of_the_project(
    tilec: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory does not matter, for changed cases and under a debugger too."""
    np.save(tmp_path / "x.npy", np.ones(5, np.float32))
    case = '[kernel.scale.case.file]\ninputs = { x = { file = "x.npy" }, z = ["x.size"] }\n'
    (tmp_path / "tilec.toml").write_text(MANIFEST + case)
    done = tilec("--bundle", "acme.tilec", "--case", "file", "--set", "alpha=10")
    assert (done.code, "1 ran without a reference" in done.out) == (0, True)
    names = (str(tmp_path / name) for name in ("tilec.toml", "acme.tilec"))
    monkeypatch.setattr("sys.argv", ["", *names, "scale/file", "cuda:0"])
    assert launch_case.main() == 0


@pytest.mark.parametrize("width", [80, 120])
def test_how_a_failure_looks(
    tilec: Cli, tmp_path: Path, terminal: Terminal, golden: Golden, width: int
) -> None:
    long = MANIFEST.replace(
        "case.bad]", 'case."bad-and-of-a-name-that-is-longer-than-a-narrow-terminal-likes"]'
    )
    (tmp_path / "tilec.toml").write_text(long)
    terminal(width)
    done = tilec("--bundle", "acme.tilec", "--color", "never")
    shown = re.sub(r" *\d+\.\d\d ms", "    0.50 ms", done.out)
    assert max(map(len, shown.splitlines())) <= width
    assert done.code == 1
    golden(ROOT / f"tests/golden/run/failure-{width}.txt", shown)


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(
    tilec: Cli, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = tilec("scale", "--case", "good", "--bundle", "acme.tilec", "--output-dir", "file/below")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        f"error: cannot write {tmp_path}/file/below/output.npy: Not a directory\n"
    )
    assert "  fix: choose another output directory" in done.err


def test_arguments_without_a_project(tilec: Cli, tmp_path: Path) -> None:
    (tmp_path / "tilec.toml").unlink()
    given = ("--arg", "x=f32[5]:arange", "--arg", "z=f32[5]:empty", "--arg", "alpha=10")
    done = tilec("scale", "--bundle", "acme.tilec", *given, "--output-dir", "out")
    assert (done.code, done.out.splitlines()[1].split()[:2]) == (0, ["scale", "ran"])
    assert done.out.endswith(": 1 ran without a reference\n"), (
        "`ran` alone would not say that nothing was compared"
    )
    assert np.load(tmp_path / "out" / "scale.z.npy").tolist() == [0, 10, 20, 30, 40]


def test_a_package_that_is_installed_goes_by_its_name(
    tilec: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found as Python finds it, and not imported; a path of that name goes first."""
    package = tmp_path / "site" / "acme_installed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    write_kernels(package / "acme.tilec", SCALE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    done = tilec("--case", "good", "--bundle", "acme_installed")
    assert (done.code, done.out.splitlines()[1].split()[:2]) == (0, ["scale/good", "ok"])
    for name in ("acme_instaled", "json", "os.path.no", "pathlib"):
        done = tilec("--case", "good", "--bundle", name)
        assert done.code == 1
        assert "no such file or directory" in done.err or "holds no .tilec bundle" in done.err
    (tmp_path / "acme_installed").mkdir()
    assert (
        "acme_installed holds no .tilec bundle"
        in tilec("--case", "good", "--bundle", "acme_installed").err
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scael"], "no kernel 'scael'; did you mean 'scale'"),
        (
            ["scale/small"],
            "'scale/small' is the name of a case; name a kernel here\n  fix: select the case with scale --case small",
        ),
        (
            ["--case", "none", "--case", "god"],
            "no case 'none', no case 'god'; did you mean 'good'\n  fix: cases are scale/good, scale/bad",
        ),
        (["--arg", "x=1"], "--arg runs one kernel: name it"),
        (["--repeat", "0"], "0 is not in the range x>=1"),
        (["scale", "--arg", "x=f32[3"], "--arg x=f32[3: scale takes a tensor for x"),
        (
            ["scale", "--device", "gpu"],
            "--device: 'gpu' is no device of this command\n  fix: use auto, cpu, cuda, or cuda:N for",
        ),
        (
            ["scale", "--output-dir", ""],
            "Invalid value for '--output-dir': the value is empty",
        ),
        (
            ["scale", "--device", ""],
            "--device: '' is no device of this command\n  fix: use auto, cpu, cuda, or cuda:N for",
        ),
        (
            ["-k", "good and"],
            "-k 'good and': it is no expression, at column 9\n  good and\n          ^\n",
        ),
        (
            ["-k", "godo"],
            "no case matches: there is no godo; did you mean 'good'\n  fix: cases are scale/good, scale/bad, scale/refused",
        ),
        (
            ["--set", "alpah=3"],
            "--set alpah=3: kernel scale has no parameter or axis 'alpah'; did you mean 'alpha'",
        ),
        (["--input", "x=none.npz:a"], "none.npz:a cannot be read: No such file or directory"),
        (
            ["scale", "--arg", "x=f32[3]", "--set", "alpha=3"],
            "--set and --input change cases, but --arg runs without a case",
        ),
        (["scale", "--case", "good", "--case", "bda"], "no case 'bda'; did you mean 'bad'"),
        (
            ["-k", "scale/godo"],
            "no case matches: there is no scale/godo; did you mean 'scale/good'",
        ),
        (
            ["--trace", "scale/good", "--output-dir", "out"],
            "--output-dir and --trace cannot be combined",
        ),
        (["scale", "--device", "cuda:"], "--device: 'cuda:' is no device"),
    ],
)
def test_usage(tilec: Cli, arguments: list[str], words: str) -> None:
    done = tilec("--bundle", "acme.tilec", *arguments)
    assert done.code == 2
    assert words in done.err


TWO = dataclasses.replace(
    SCALE,
    axes=(("N", (64, 128)),),
    default=(("N", 128),),
    rules=(DispatchRule(when="x.size <= 64", take=(("N", 64),)),),
    variants=tuple(
        dataclasses.replace(SCALE.variants[0], id=f"scale-N{n}", axes=(("N", n),))
        for n in (64, 128)
    ),
)


@pytest.mark.parametrize(
    ("z", "more", "told"),
    [
        (
            "x.size",
            "",
            "z: small takes the variant scale-N64, but shape takes scale-N128, which was not compared",
        ),
        ("x.size", "axes = { N = 128 }", ""),  # the case says it for both
        ("x.size + 1", "", ""),  # with the extents of shape there is no launch
        ("0 - 1", "", ""),
    ],
)
def test_notes_a_compared_case_of_another_variant(
    tilec: Cli, tmp_path: Path, z: str, more: str, told: str
) -> None:
    write_kernels(tmp_path / "acme.tilec", TWO)
    text = MANIFEST.split("[kernel.scale.case.good]")[0].replace(
        "launch =", "matrix = { N = [64, 128] }\nlaunch ="
    )
    case = f"""[kernel.scale.case.large]
inputs.x = {{ shape = [300], small = [40], dtype = "f32" }}
inputs.z = {{ shape = ["{z}"], small = ["x.size"], dtype = "f32", dist = "empty" }}
reference = "reference.py:scale"
{more}
[kernel.scale.case.alike]
inputs.x = {{ shape = [300], small = [80], dtype = "f32" }}
inputs.z = {{ shape = ["x.size"], dtype = "f32", dist = "empty" }}
reference = "reference.py:scale"
"""
    (tmp_path / "tilec.toml").write_text(text + case)
    done = tilec("--bundle", "acme.tilec")
    assert done.code == 0, done.out + done.err
    lines = done.out.splitlines()
    assert [line.split()[:2] for line in lines[1:] if line.startswith("scale/")] == [
        ["scale/large", "ok"],
        ["scale/alike", "ok"],
    ]
    assert [line.strip() for line in lines if "small" in line] == ([told] if told else [])
    large, alike = json.loads(tilec("--bundle", "acme.tilec", "--json", "--repeat", "2").out)[
        "cases"
    ]
    assert large["outputs"][0].get("notes", []) == ([told.removeprefix("z: ")] if told else [])
    assert "notes" not in alike["outputs"][0]
