"""Every operation on the cpu device, held against what an H200 gave: in the gate a fifth of the
dtypes and shapes, in the full gate all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amount import LONG
from tests.corpus.compare import cpu_device, run
from tests.corpus.entries import Entry
from tests.corpus.recorded import Recorded
from tests.corpus.tolerances import TOLERANCES
from tests.corpus.write import entries, write
from tests.e2e.harness import Cli, environment
from tilec.case.device import ModuleDevice

pytestmark = pytest.mark.toolchain


def some() -> tuple[Entry, ...]:
    """Every fifth entry, and the first of each operation."""
    first = {entry.operation: entry for entry in reversed(entries())}
    return tuple(
        entry
        for place, entry in enumerate(entries())
        if place % 5 == 0 or entry == first[entry.operation]
    )


CHOSEN = entries() if LONG else some()


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> ModuleDevice:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder, CHOSEN, targets=("tileir",))
    Cli(environment(tmp_path_factory.mktemp("cache"))).good(folder, "build", "-q")
    return cpu_device(next(Path(folder, "dist").glob("*.tilec")))


@pytest.fixture(scope="module")
def h200() -> Recorded:
    return Recorded("h200")


def test_all_results_are_recorded(h200: Recorded) -> None:
    assert {entry.name for entry in entries()} == h200.names


def test_tolerances_are_of_operations_that_there_are() -> None:
    assert set(TOLERANCES) <= {entry.operation for entry in entries()}


@pytest.mark.parametrize("operation", sorted({entry.operation for entry in CHOSEN}))
def test_results_are_those_of_an_h200(operation: str, device: ModuleDevice, h200: Recorded) -> None:
    off = []
    for entry in CHOSEN:
        if entry.operation == operation:
            scale = {} if entry.ordered else run(entry, device, absolute=True)
            off.append(h200.differs(entry, run(entry, device), scale))
    assert not [text for text in off if text]
