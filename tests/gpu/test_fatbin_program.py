"""Fatbins that tilec writes, loaded by a C++ program that knows nothing of tilec."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tilec_runtime.bundle.read import Bundle

pytestmark = pytest.mark.gpu

HERE = Path(__file__).resolve().parent
DIST = HERE.parents[1] / "dist"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler on this machine")
    binary = tmp_path_factory.mktemp("program") / "load_fatbin"
    command = [
        compiler,
        "-std=c++17",
        "-Wall",
        "-Werror",
        "-o",
        str(binary),
        str(HERE / "load_fatbin.cpp"),
        "-ldl",
    ]
    subprocess.run(command, check=True, timeout=120)
    probe = subprocess.run(
        [binary, "/dev/null", "none"], capture_output=True, text=True, timeout=120, check=False
    )
    if probe.returncode == 3:
        pytest.skip(f"no driver: {probe.stderr.strip()}")
    return binary


@pytest.fixture(scope="module")
def symbols() -> dict[str, str]:
    """Entry symbol of every variant of the built examples; fatbins are named by variant."""
    if not (DIST / "fatbin").is_dir():
        pytest.skip(
            "dist/fatbin is not there: build with `tilec build --emit bundle,package,fatbin`"
        )
    (bundle,) = DIST.glob("*.tilec")
    return {
        variant.id: variant.images[0].symbol
        for kernel in Bundle.open(bundle).info.kernels
        for variant in kernel.variants
    }


def test_a_cuda_kernel_loads_and_computes(program: Path, symbols: dict[str, str]) -> None:
    variant = "elementwise-f32-VEC1"
    done = subprocess.run(
        [program, DIST / "fatbin" / f"{variant}.fatbin", symbols[variant], "run"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_every_fatbin_loads(program: Path, symbols: dict[str, str]) -> None:
    failed = {}
    for variant, symbol in symbols.items():
        done = subprocess.run(
            [program, DIST / "fatbin" / f"{variant}.fatbin", symbol],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode or done.stdout != "ok\n":
            failed[variant] = done.stderr
    assert failed == {}
    assert len(symbols) >= 10
