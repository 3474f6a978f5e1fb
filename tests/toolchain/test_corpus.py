"""Every operation on the cpu device, held against what an H200 gave."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.corpus.compare import cpu_device, run
from tests.corpus.entries import Entry
from tests.corpus.recorded import Recorded
from tests.corpus.tolerances import TOLERANCES
from tests.corpus.write import entries, write
from tests.e2e.harness import Cli, environment
from tilec.case.device import ModuleDevice

pytestmark = pytest.mark.toolchain


def powers_of_c() -> bool:
    """Return whether NumPy takes powers from the C library here, as it does without AVX-512."""
    exponents = np.linspace(-300, 300, 4096)
    return bool((10.0**exponents == [math.pow(10.0, number) for number in exponents]).all())


def comparable(entry: Entry) -> bool:
    """Return whether this machine makes the inputs that the GPU had.

    The run was recorded beside a processor with AVX-512, where the last bit of NumPy's powers is
    another; every dtype but f64 rounds it away.
    """
    wide = any(arg.dtype == "f64" and arg.domain not in ("plain", "small") for arg in entry.args)
    return not (wide and POWERS_OF_C)


POWERS_OF_C = powers_of_c()


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> ModuleDevice:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder, entries(), targets=("tileir",))
    Cli(environment(tmp_path_factory.mktemp("cache"))).good(folder, "build", "-q")
    return cpu_device(next(Path(folder, "dist").glob("*.tilec")))


@pytest.fixture(scope="module")
def h200() -> Recorded:
    return Recorded("h200")


def test_all_results_are_recorded(h200: Recorded) -> None:
    assert {entry.name for entry in entries()} == h200.names


def test_tolerances_are_of_operations_that_there_are() -> None:
    assert set(TOLERANCES) <= {entry.operation for entry in entries()}


@pytest.mark.parametrize("operation", sorted({entry.operation for entry in entries()}))
def test_results_are_those_of_an_h200(operation: str, device: ModuleDevice, h200: Recorded) -> None:
    off = []
    for entry in entries():
        if entry.operation == operation and comparable(entry):
            scale = {} if entry.ordered else run(entry, device, absolute=True)
            off.append(h200.differs(entry, run(entry, device), scale))
    assert not [text for text in off if text]


def test_all_inputs_are_those_of_the_recorded_run() -> None:
    left = [entry.name for entry in entries() if not comparable(entry)]
    if left:
        pytest.skip(f"no AVX-512: {len(left)} entries with wide f64 inputs are not compared here")
