"""Loading a whole manifest: values, defaults, files that cannot be read, and the speed of a large
matrix in counted steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilec.manifest.load import load, load_text
from tilec.manifest.types import (
    AssumeSet,
    Budget,
    Exclude,
    Input,
    Manifest,
    Output,
    ParamTable,
    Profile,
    RemoteTable,
    Tolerance,
    Toolchain,
    Wheel,
)
from tilec_runtime.errors import ManifestError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.expr import parse
from tilec_runtime.model.jit import JitFallback

LANGUAGES = {
    "tile": (".py",),
    "cuda": (".cu",),
    "triton": (),
    "simt": (),
    "prebuilt": (".ptx", ".cubin"),
}
SAMPLES = Path(__file__).parents[2] / "samples" / "manifests"
HEAD = """\
edition = 1
[package]
name = "acme-kernels"
version = "0.3.0"
[targets]
default = ["sm_80", "compute_80"]
"""


def read(text: str) -> Manifest:
    return load_text(
        HEAD + text, Path("/project/tilec.toml"), languages=LANGUAGES, shown="tilec.toml"
    )


def refused(text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        load_text(text, Path("/project/tilec.toml"), languages=LANGUAGES, shown="tilec.toml")
    return str(caught.value)


# Of the sample that has every table: what each leads to, by the names of fields and by places.
EXPECTED = {
    "package.license_files": ("LICENSE", "third-party/NOTICE"),
    "package.module": "acme",
    "targets.groups": (
        ("ci", (Target.parse("sm_90"),)),
        ("all-of-it", (Target.parse("sm_80"), Target.parse("sm_90"))),
    ),
    "targets.min_driver": 580,
    "targets.jit_fallback": JitFallback.WARN,
    "profiles": (
        Profile(name="release", opt=2, lineinfo=False, debug=False),
        Profile(name="debug", opt=2, lineinfo=True, debug=True, bounds=True),
        Profile(name="fast", opt=3, lineinfo=False, debug=False),
        Profile(name="traced", opt=3, lineinfo=True, debug=True, bounds=True),
    ),
    "toolchain": Toolchain(cuda=">=13.2,<13.5", prefer="system", timeout=60.0),
    "kernels.2.language": "prebuilt",
    "kernels.2.options": (
        ("files", (("prebuilt/scan.sm_90.cubin", f"{2:064}"),)),
        ("sha256", f"{1:064}"),
    ),
    "kernels.0.matrix.axes": (
        ("T", ("f16", "bf16")),
        ("BM", (64, 128)),
        ("FAST", (True, False)),
        ("SCALE", (0.5,)),
        ("MODE", ("a b",)),
    ),
    "kernels.0.matrix.exclude": (
        Exclude(when="BM * 2 > 512"),
        Exclude(values=(("T", "bf16"), ("BM", 64))),
    ),
    "kernels.0.matrix.include": (
        (("T", "f32"), ("BM", 32), ("FAST", True), ("SCALE", 1.0), ("MODE", "c")),
    ),
    "kernels.0.matrix.max_variants": 64,
    "kernels.0.assume": (
        AssumeSet(
            name="vec",
            divisible=(("a", (16, 16)),),
            stride=(("a", (8, 1)),),
            aligned=(("a", 16), ("b", 32)),
        ),
        AssumeSet(extent=(("a", (None, 4096)),), contiguous=("a",)),
        AssumeSet(contiguous=("",)),
        AssumeSet(aligned=(("", 16),)),
        AssumeSet(),
    ),
    "kernels.0.hints": (("", (("occupancy", 2),)), ("sm_100", (("num_ctas", 2),))),
    "kernels.0.params.0": ParamTable(
        name="a", dtype="T", rank=2, stride=(None, 1), divisible=(8, 8), aligned=16, doc="left"
    ),
    "kernels.0.default": (("BM", 32), ("FAST", True)),
    "kernels.0.budget": Budget(registers=255, spills=0, shared=49152, stack=1024, constant=2048),
    "kernels.0.cases.0.inputs.1": Input(
        name="b",
        shape=("a.shape[1]", "BM * 2", "3"),
        dtype="T",
        dist="uniform",
        seed=1,
        low=-1.0,
        high=2.0,
    ),
    "kernels.0.cases.0.inputs.2": Input(name="c", file="data/x.npz:c"),
    "kernels.0.cases.0.inputs.3": Input(name="d", make="ref.py:ids", seed=3),
    "kernels.0.cases.0.inputs.4": Input(name="e", shape=("WIDE",), dist="constant", value=2),
    "kernels.0.let": (("WIDE", "BM * 2"), ("EVEN", "WIDE % 2 == 0")),
    "kernels.0.cases.0.reference": "ref.py:gemm",
    "kernels.0.cases.0.tolerance": (Tolerance(rtol=0.01), Tolerance(dtype="f16", atol=0.1, ulp=4)),
    "kernels.0.cases.0.axes": (("BM", 64), ("FAST", True)),
    "kernels.0.cases.0.bench.against": ("torch:matmul(a, b)",),
    "kernels.1.function": "rmsnorm",
    "kernels.1.symbol": "acme::rmsnorm<{T}, {VEC}>",
    "kernels.1.language": "cuda",
    "kernels.1.args": ("y.ptr", "x.ptr", "i32(x.shape[1])", "eps"),
    "kernels.1.launch.grid": ("x.shape[0]", "1"),
    "kernels.1.launch.block": ("256",),
    "kernels.1.launch.shared": "256 * 4",
    "kernels.1.launch.cooperative": True,
    "kernels.1.launch.programmatic": True,
    "kernels.1.launch.cluster": (2, 1, 1),
    "kernels.1.options": (
        ("compiler", "nvrtc"),
        ("include", ("include/rms",)),
        ("std", "c++17"),
    ),
    "overrides.0.hints": (("occupancy", 2),),
    "overrides.1.targets": (Target.parse("sm_80"),),
    "output": Output(
        dir="out/dist",
        emit=("bundle", "wheel"),
        max_size=90 * 2**20,
        wheel=Wheel(split="arch", max_size=50 * 2**20),
    ),
    "cache": RemoteTable(remote="https://cache.example/tilec", remote_mode="read"),
}


def at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


def test_every_table() -> None:
    manifest = load(SAMPLES / "good" / "full.toml", languages=LANGUAGES)
    assert {path: at(manifest, path) for path in EXPECTED} == EXPECTED
    assert dict(manifest.frontends)["cuda"] == (
        ("compiler", "nvcc"),
        ("define", (("EMPTY", ""), ("NDEBUG", "1"), ("WIDTH", "4"))),
        ("flags", ("-use_fast_math",)),
        ("group", 8),
        ("include", ("include", ".")),
        ("std", "c++20"),
        ("unchecked-flags", False),
    )


def test_many_points_and_many_problems_stay_linear() -> None:
    """Thousands of each: anything quadratic would be felt."""
    values = ", ".join(map(str, range(5_000)))
    points = ", ".join(f"{{ N = {n} }}" for n in range(5_000))
    text = f'[kernel.add]\nsource = "k.py"\n[kernel.add.matrix]\nN = [{values}]\nexclude = [{points}]\ninclude = [{points}]\n'
    assert len(read(text).kernels[0].matrix.exclude) == 5_000
    with pytest.raises(ManifestError) as caught:
        read('[kernel.add]\nsource = "k.py"\n[kernel.add.matrix]\nN = [\n' + "[],\n" * 5000 + "]\n")
    assert len(caught.value.problems) == 5000


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / "tilec.toml", languages=LANGUAGES, shown="tilec.toml")
    assert str(caught.value) == (
        "tilec.toml: error: there is no such manifest\n  fix: start a project with `tilec new NAME`, or go to one with `tilec -C DIR`"
    )
    assert caught.value.exit_code == 2


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "tilec.toml"
    path.write_bytes('edition = 1\nname = "é'.encode() + b'\xff"\n')
    with pytest.raises(ManifestError) as caught:
        load(path, languages=LANGUAGES, shown="tilec.toml")
    assert str(caught.value) == (
        "tilec.toml:2:10: error: the manifest is not UTF-8: byte 0xff cannot be read\n  fix: save the file as UTF-8"
    )


ONE_LINE = "  hint: an inline table stays on one line: write a longer one as a table of its own, such as [kernel.NAME.params]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tilec.toml:1:1: error: 'edition' is missing: write edition = 1 in the first line"),
        (
            "edition = 1\nx = [1,, 2]",
            "tilec.toml:2:8: error: the TOML cannot be read: invalid value\n    x = [1,, 2]\n           ^",
        ),
        ("a =", "tilec.toml:1:4: error: the TOML cannot be read: invalid value"),
        ("a = {\n b = 1 }", ONE_LINE),
        ("a = { b = 1, # more\n c = 2 }", ONE_LINE),
        ("a = { b = 1\n}", ONE_LINE),
        ("a.\nb = 1", "initial character for a key part\n    a.\n      ^"),
        (
            "[a\nb = 1",
            "tilec.toml:1:3: error: the TOML cannot be read: expected ']' at the end of a table declaration",
        ),
        (
            "x = 1\ny = 2\nx = 3",
            "tilec.toml:3:1: error: x is given twice, first in line 1: keep one of them\n    x = 3\n    ^",
        ),
        (
            "[a]\nb = 1\n[c]\n[a]\nd = 1\n[a]",
            "tilec.toml:4:2: error: a is given twice, first in line 1: keep one of them",
        ),
        ("[[a]]\n[a]", "tilec.toml:2:2: error: a is given twice, first in line 1"),
        ("a = { b = 1, b = 2 }", "tilec.toml:1:14: error: a.b is given twice, first in line 1"),
        (
            "[a.b]\nc = 1\n[a]\nb.d = 2",
            "tilec.toml:4:3: error: a.b is given twice, first in line 1",
        ),
        ("[a]\nb = { c = 1 }\n[a.b]", "tilec.toml:3:4: error: a.b is given twice, first in line 2"),
        ("a = 1\na = [{ b = 2 }]", "tilec.toml:2:1: error: a is given twice, first in line 1"),
        ("a = 1\n[a.b]", "tilec.toml:2:4: error: a is given twice, first in line 1"),
        ("a = 1\na.b = { c = 1 }", "tilec.toml:2:3: error: a is given twice, first in line 1"),
        ("edition = " + "9" * 5000, "a value cannot be read"),
        ("edition = 0x" + "f" * 5000, "edition an integer of 20000 bits is newer than this tilec"),
        (
            "edition = 1\npackage = 0x" + "f" * 5000,
            "package: a table is expected, not an integer of 20000 bits",
        ),
        ("edition = " + "[" * 5000, "values are nested too deeply"),
        (
            "edition = 2\nfuture = 1",
            "tilec.toml:1:11: error: edition: edition 2 is newer than this tilec, which reads edition 1: update tilec",
        ),
    ],
)
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    assert message in refused(text)


def test_languages_decide() -> None:
    text = HEAD + '[kernel.add]\nsource = "k.py"\n'
    both = {"tile": (".py",), "other": (".py",)}
    with pytest.raises(
        ManifestError,
        match=r"\.py files may be tile or other: say which, for example language = \"tile\"",
    ):
        load_text(text, Path("/p/tilec.toml"), languages=both)
    manifest = load_text(
        text + 'language = "other"\n[frontend.other]\nlevel = 3\n',
        Path("/p/tilec.toml"),
        languages=both,
    )
    assert manifest.kernels[0].language == "other"
    assert manifest.frontends == (("other", (("level", 3),)),)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("float", "f32"),
        ("double", "f64"),
        ("half", "f16"),
        ("__half", "f16"),
        ("fp16", "f16"),
        ("size_t", "u64"),
        ("half_t", "f16"),
        ("int", "i32"),
        ("int64_t", "i64"),
        ("long", "i64"),
        ("short", "i16"),
        ("char", "i8"),
        ("boolean", "bool"),
        ("f33", "f32"),
        ("torch.float16", "f16"),
        ("tl.bfloat16", "bf16"),
    ],
)
@pytest.mark.parametrize("text", ['params.x.dtype = "{}"', 'matrix.T = ["f16", "{}"]'])
def test_usual_names_of_dtypes_are_understood(name: str, meant: str, text: str) -> None:
    told = refused(HEAD + '[kernel.add]\nsource = "k.py"\n' + text.format(name))
    assert f"{name!r}; did you mean {meant!r}" in told


def test_an_axis_of_usual_names_is_understood() -> None:
    text = (
        '[kernel.add]\nsource = "k.py"\nmatrix.T = ["torch.float", "half"]\nparams.x.dtype = "T"\n'
    )
    told = "axis T holds no dtypes but 'torch.float', 'half'; did you mean 'f32'"
    assert told in refused(HEAD + text)


def test_points_may_give_axes_of_configurations() -> None:
    (kernel,) = read("""
[kernel.add]
source = "k.py"
matrix = { T = ["f16"], autotune = true, include = [{ T = "float32", BM = 32 }] }
""").kernels
    assert kernel.matrix.include == ((("T", "f32"), ("BM", 32)),)


def test_dtypes_have_numpys_names_too() -> None:
    manifest = read("""
[kernel.add]
source = "k.py"
matrix = { T = ["float32", "bf16"], exclude = [{ T = "bfloat16" }], MODE = ["float", "fast"] }
params = { x = { dtype = "float16" } }
args = ["float32(x.shape[0])"]
dispatch = { rules = [{ when = "x.dtype == 'float32'", take = { T = "float32" } }] }
case.a = { axes = { T = "float32" }, inputs.x = { shape = [1], dtype = "int64" }, tolerance.float16 = { rtol = 1.0 } }
""")
    (kernel,) = manifest.kernels
    assert kernel.matrix.axes == (("T", ("f32", "bf16")), ("MODE", ("float", "fast")))
    assert kernel.matrix.exclude == (Exclude(values=(("T", "bf16"),)),)
    assert kernel.params[0].dtype == "f16"
    assert kernel.rules[0].take == (("T", "f32"),)
    assert parse(kernel.rules[0].when).evaluate({"x": ParamTable(name="x", dtype="f32")}) is True
    (case,) = kernel.cases
    assert (case.axes, case.inputs[0].dtype) == ((("T", "f32"),), "i64")
    assert case.tolerance == (Tolerance(dtype="f16", rtol=1.0),)


def test_version_and_targets_have_defaults() -> None:
    text = 'edition = 1\npackage.name = "four"\n[kernel.scale]\nsource = "k.py"\n'
    manifest = load_text(text, Path("/project/tilec.toml"), languages=LANGUAGES)
    assert manifest.package.version == "0.1.0"
    names = ["sm_80", "sm_90", "sm_100", "sm_120", "compute_80", "tileir"]
    assert list(map(str, manifest.targets.default)) == names


def test_cases_share_what_their_kernel_says() -> None:
    manifest = read("""
[kernel.add]
source = "k.py"
reference = "ref.py:add"
tolerance = { rtol = 0.5 }
inputs = { x = { shape = [64], dtype = "f16", seed = 3 }, y = ["x.size", 2], n = 4 }
case.small = {}
case.large = { inputs = { x = [4096], n = 5, z = ["y.size"] }, reference = "ref.py:large" }
""")
    (kernel,) = manifest.kernels
    small, large = kernel.cases
    x = Input(name="x", shape=("64",), dtype="f16", seed=3)
    y = Input(name="y", shape=("x.size", "2"))
    assert small.inputs == (x, y, Input(name="n", value=4))
    wide = Input(name="x", shape=("4096",), dtype="f16", seed=3)
    assert large.inputs == (wide, y, Input(name="n", value=5), Input(name="z", shape=("y.size",)))
    assert (small.reference, large.reference) == ("ref.py:add", "ref.py:large")
    assert small.tolerance == large.tolerance == (Tolerance(rtol=0.5),)


def test_a_case_says_where_an_input_comes_from_over_what_all_cases_say() -> None:
    manifest = read("""
[kernel.add]
source = "k.py"
inputs = { x = { make = "m.py:x", shape = [64], seed = 3 }, y = { file = "y.npy" } }
case.shared = {}
case.shapes = { inputs = { x = [32], y = [16] } }
case.dists = { inputs = { x = { dist = "ones", shape = [8] }, y = { dist = "zeros", shape = [4] } } }
case.files = { inputs = { x = { file = "x.npy" }, y = { dtype = "f16" } } }
""")
    shared, shapes, dists, files = (case.inputs for case in manifest.kernels[0].cases)
    x = Input(name="x", make="m.py:x", shape=("64",), seed=3)
    assert shared == (x, Input(name="y", file="y.npy"))
    x = Input(name="x", make="m.py:x", shape=("32",), seed=3)
    assert shapes == (x, Input(name="y", shape=("16",)))
    x = Input(name="x", dist="ones", shape=("8",))
    assert dists == (x, Input(name="y", dist="zeros", shape=("4",)))
    assert files == (Input(name="x", file="x.npy"), Input(name="y", file="y.npy", dtype="f16"))


def test_reports_shared_inputs_where_they_stand() -> None:
    text = (
        HEAD
        + '[kernel.a]\nsource = "k.py"\ninputs.x = { seed = 1 }\ninputs.y = ["q.size"]\ncase.a = {}\ncase.b = {}\n'
    )
    message = refused(text)
    assert message.count("kernel.a.inputs.x: 'shape' is missing") == 1
    assert message.count("kernel.a.inputs.y.shape[0]: unknown name 'q'") == 1


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        ('{ shape = [64], dist = "nrmal" }', "{ seed = 5 }"),
        ('{ shape = ["x.ptrr"] }', "{ seed = 5 }"),
        ("{ seed = 5 }", '{ shape = [64], dist = "nrmal" }'),
    ],
)
def test_an_input_with_a_problem_gives_cases_no_other(shared: str, own: str) -> None:
    inputs = f"inputs.x = {shared}\ncase.a = {{ inputs.x = {own} }}\n"
    message = refused(f'{HEAD}[kernel.a]\nsource = "k.py"\n{inputs}')
    assert message.count(": error: ") == 1, message
