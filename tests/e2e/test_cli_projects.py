"""Projects of `tilec new`, taken through the commands as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness import Cli

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.mark.parametrize(
    ("kind", "jobs"),
    [
        ("mixed", 2),
        ("cutile", 2),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (("tile", 1), ("cuda", 1), ("triton", 4), ("simt", 2))
        ),
    ],
)
def test_a_new_project_builds_as_it_is(cli: Cli, tmp_path: Path, kind: str, jobs: int) -> None:
    home = tmp_path / "größer als"
    home.mkdir()
    cli.good(home, "new", "demo", "--kind", kind)
    made = home / "demo"
    assert cli.good(made, "check", "--targets", "sm_90", "--json").json()["jobs"] == jobs
    built = cli.good(made, "build", "--targets", "sm_90", "--json").json()
    assert (built["jobs"], built["up_to_date"]) == (jobs, False)
    assert cli.good(made, "build", "--targets", "sm_90").up_to_date
    shown = cli.good(made, "inspect", "dist/demo", "--verify", "--json").json()["kernels"]
    assert sum(len(v["images"]) for kernel in shown for v in kernel["variants"]) == jobs
    assert str(made) not in json.dumps(shown)
    cli.good(made, "clean")
    assert not (made / "dist").exists()
    assert not (made / ".tilec").exists()
