"""Projects of `tilec new`, taken through the commands as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness import Cli

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.mark.parametrize(("kind", "jobs"), [("tile", 4), ("cuda", 2), ("mixed", 6)])
def test_a_new_project_builds_as_it_is(cli: Cli, tmp_path: Path, kind: str, jobs: int) -> None:
    home = tmp_path / "größer als"
    home.mkdir()
    cli.good(home, "new", "demo", "--kind", kind)
    made = home / "demo"
    assert cli.good(made, "check", "--targets", "ci", "--json").json()["jobs"] == jobs
    built = cli.good(made, "build", "--targets", "ci", "--json").json()
    assert (built["jobs"], built["up_to_date"]) == (jobs, False)
    assert cli.good(made, "build", "--targets", "ci").up_to_date
    shown = cli.good(made, "inspect", "dist/demo", "--verify", "--json").json()["kernels"]
    assert sum(len(v["images"]) for kernel in shown for v in kernel["variants"]) == jobs
    assert str(made) not in json.dumps(shown)
    cli.good(made, "clean")
    assert not (made / "dist").exists()
    assert not (made / ".tilec").exists()
