"""What the shipped half imports: a generated package is imported, loaded and launched in a process
of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime_samples import ADD, GEMM, IMAGES, bundle_of
from tilec.package.render import render_package
from tilec.package.write import write_bundle
from tilec_runtime.bundle.format import index_digest

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import sys
import sample
import tilec_runtime.device.driver as seam
from tests.runtime_samples import ADD, Array, fake_driver
driver = fake_driver(ADD)
seam.driver = lambda: driver
before = set(sys.modules)
module = sample.load()
z, x, y = (Array(64, ptr=0x10000 * i) for i in (1, 2, 3))
module.add(z, x, y, stream=3)
module.add(z, x, y, alpha=2.0, stream=3)
module["add"](z, x, y, stream=3)
assert [launch.arguments[4] for launch in driver.launches] == [1.0, 2.0, 1.0]
banned = {"click", "rich", "jinja2", "tomli", "tomllib", "cuda", "cuda.core", "cuda.bindings", "numpy", "torch", "hypothesis"}
build_half = ("manifest", "frontends", "plan", "compile", "package", "build", "cli", "lang", "inspection", "case")
house = tuple(f"tilec.{room}" for room in build_half)
print(sorted(name for name in sys.modules if name in banned or name.startswith(house)))
"""


def run(code: str, *path: Path, options: tuple[str, ...] = ()) -> str:
    """What a process prints that finds modules there, and here."""
    places = [str(place) for place in (*path, ROOT)]
    done = subprocess.run(
        [sys.executable, *options, "-c", f"import sys; sys.path[:0] = {places!r}\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The folder of a package."""
    info = bundle_of(ADD, GEMM).info
    package = tmp_path / "sample"
    package.mkdir()
    for name, data in render_package(info, "sample-1.0.tilec", index_digest(info)).items():
        (package / name).write_bytes(data)
    write_bundle(package / "sample-1.0.tilec", info, IMAGES.__getitem__)
    return tmp_path


def test_a_generated_package_imports_none_of_the_build_half(written: Path) -> None:
    assert run(CODE, written) == "[]\n"


def test_a_package_in_a_zip_file_is_loaded_too(written: Path) -> None:
    packed = Path(shutil.make_archive(str(written / "packed"), "zip", written, "sample"))
    code = (
        "import sample, tilec_runtime.device.driver as seam\n"
        "from tests.runtime_samples import ADD, fake_driver\n"
        "driver = fake_driver(ADD)\n"
        "seam.driver = lambda: driver\n"
        "print(sample.__file__, sample.load()['add'])\n"
    )
    found = f"{packed}/sample/__init__.py <Launcher add on device 0 (Fake H200)>\n"
    assert run(code, packed) == found


def test_names_are_imported_when_they_are_asked_for() -> None:
    """Importing the package itself must cost next to nothing: it stands in front of every first
    launch.
    """
    code = "import tilec_runtime; print(*(name for name in sys.modules if 'tilec' in name))"
    assert run(code) == "tilec_runtime\n"


def test_the_table_of_names_agrees_with_what_type_checkers_read():
    import ast

    import tilec_runtime as runtime

    tree = ast.parse(Path(runtime.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {
        "api": "tilec_runtime",
        **{name: f"tilec_runtime.{home}" for name, home in runtime._HOMES.items()},
    }
    assert sorted(imported) == sorted(runtime.__all__)
    assert all(getattr(runtime, name) is vars(runtime)[name] for name in runtime.__all__)


def test_modules_do_not_hide_functions_of_their_name():
    import importlib

    import tilec_runtime as runtime

    for name, room in (("load", "launch"), ("devices", "device")):
        module = importlib.import_module(f"tilec_runtime.{room}.{name}")
        assert getattr(runtime, name) is getattr(module, name)


LEAN = """
import dataclasses, sys
defined = []
real = dataclasses.dataclass
def noted(cls=None, /, **options):
    if cls is None:
        return lambda cls: noted(cls, **options)
    defined.append(f"{cls.__module__}.{cls.__qualname__}")
    return real(cls, **options)
dataclasses.dataclass = noted
import sample
import tilec_runtime.device.driver as seam
import tilec_runtime.launch.load
path = {name for name in sys.modules if name.startswith("tilec")}
from tests.runtime_samples import ADD, Array, fake_driver
driver = fake_driver(ADD)
seam.driver = lambda: driver
before = set(sys.modules)
z, x, y = (Array(64, ptr=0x10000 * i) for i in (1, 2, 3))
sample.load("cuda:0").add(z, x, y, stream=3)
assert len(driver.launches) == 1
late = set(sys.modules) - before
print(*sorted(path))
print(*sorted(late))
print(*(name for name in defined if name.rpartition(".")[0] in path | late))
"""
# What a first launch of arrays of other libraries imports. Each module more is a third of a
# millisecond in front of every first launch.
ON_THE_PATH = {
    "": "_core bundle device errors foreign forks launch model package tensors values",
    "bundle": "archive choose codec format limits parts read rules schema",
    "device": "core devices driver driver_calls driver_memory handles layout "
    "libcuda lines lost recording scalars seam",
    "launch": "binding checks contract images keys launcher limits load native "
    "packing plans prepare program select",
    "model": "arch digest driver dtype expr expr_build expr_tree image jit kernel operator safety signature "
    "table tensormap",
    "tensors": "facts",
}


def test_a_first_launch_imports_and_defines_no_more_than_it_needs(written: Path) -> None:
    path, late, defined = (line.split() for line in run(LEAN, written).split("\n")[:3])
    expected = {
        ".".join(filter(None, ("tilec_runtime", room, name)))
        for room, names in ON_THE_PATH.items()
        for name in names.split()
    }
    assert {*path, "tilec_runtime._core"} == {"tilec_runtime", *expected}
    assert set(late) <= {"atexit"}, "a launch itself imports nothing but a part of the interpreter"
    assert defined == [], (
        "these classes are on the path: value_class defines them without compiling anything"
    )


def test_the_way_to_a_first_launch_is_light() -> None:
    """`inspect` and `dataclasses` alone take a tenth of the time that the whole way takes."""
    code = (
        "import tilec_runtime.launch.load, tilec_runtime.device.driver\n"
        "heavy = {'dataclasses', 'inspect', 'zipfile', 'shutil', 'tempfile', 'numpy', 'cuda'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    assert run(code, ROOT / "runtime", options=("-I", "-S")) == "[]\n"
