"""What a tile module reads when it is executed, and imports from outside of the project, is
compiled anew when it changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, edit, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

JOB = "add-TILE128-sm_90"
PY = """import json
from pathlib import Path

import cuda.tile as ct

{imports}
ADDED = {added}


@ct.kernel
def add(z, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) + ADDED)
"""
FROM_FILE = PY.format(
    imports="",
    added='json.loads((Path(__file__).parent / "tables" / "added.json").read_text())["added"]',
)


def test_a_data_file(cli: Cli, tmp_path: Path) -> None:
    root = write(
        tmp_path,
        HEAD + ADD + TWICE,
        {"k/add.py": FROM_FILE, "k/tables/added.json": '{"added": 1.0}'},
    )
    undeclared = cli(root, "build")
    assert undeclared.code == 1
    assert (
        "the module reads k/tables/added.json when it is executed, and the manifest does not say so"
        in undeclared.err
    )
    edit(root / "tilec.toml", "[kernel.add]", '[kernel.add]\ninputs = ["k/tables"]')
    assert cli.good(root, "build").jobs == {JOB}
    assert cli.good(root, "build").up_to_date
    edit(root / "k" / "tables" / "added.json", "1.0", "2.0")
    assert cli.good(root, "build").jobs == {JOB}
    changed = cli.good(root, "build", "--explain", JOB)
    assert "k/tables/added.json" in changed.out
    edit(root / "k" / "tables" / "added.json", "2.0", "1.0")
    back = cli.good(root, "build")
    assert (back.jobs, back.up_to_date) == (set(), False)
    (root / "k" / "tables" / "added.json").unlink()
    gone = cli(root, "build")
    assert gone.code == 1
    assert "the module reads k/tables/added.json" in gone.err


def test_a_module_that_pythonpath_leads_to(cli: Cli, tmp_path: Path) -> None:
    for folder, value in (("one", 1.0), ("two", 2.0)):
        write(tmp_path / folder, "", {"acme_shared/__init__.py": f"ADDED = {value}\n"})
    text = PY.format(imports="import acme_shared", added="acme_shared.ADDED")
    root = write(tmp_path / "project", HEAD + ADD, {"k/add.py": text})
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    def compiled(place: str) -> set[str]:
        done = cli.process(root, "build", PYTHONPATH=place)  # read when Python starts
        assert done.code == 0, done.err
        return done.jobs

    assert [compiled(place) for place in (one, one, two)] == [{JOB}, set(), {JOB}]
    edit(tmp_path / "two" / "acme_shared" / "__init__.py", "2.0", "3.0")
    assert compiled(two) == {JOB}
