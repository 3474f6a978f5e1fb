"""Builds that are interrupted at random moments: no process of them is left, and the next build
gives the bytes of an undisturbed one.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, environment, processes_of, tree, write
from tests.waiting import becomes

if TYPE_CHECKING:
    from tests.attack.conftest import Campaign

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

# A compiler that runs tools of its own, and one that runs in the worker with an assembler beside
# it.
MANIFEST = HEAD + ADD + TWICE.replace("launch", 'compiler = "nvcc"\nlaunch')
ENDINGS = ((signal.SIGINT,), (signal.SIGTERM,), (signal.SIGKILL,), (signal.SIGINT, signal.SIGINT))


@pytest.mark.long
def test_builds_interrupted_at_any_moment(campaign: Campaign, tmp_path: Path) -> None:
    def project(name: str) -> tuple[Cli, Path]:
        folder = tmp_path / name
        (folder / "tmp").mkdir(parents=True)
        return Cli({**environment(folder / "cache"), "TMPDIR": str(folder / "tmp")}), write(
            folder / "project", MANIFEST
        )

    cli, root = project("undisturbed")
    started = time.monotonic()
    cli.good(root, "build", "-j", "2")
    whole = time.monotonic() - started
    expected = tree(root / "dist")

    rng = random.Random("interrupted builds")
    rounds = campaign.rounds(short=4, long=160)
    interrupted, processes = dict.fromkeys(ENDINGS, 0), 0
    for number in range(rounds):
        ending = ENDINGS[number % len(ENDINGS)]
        cli, root = project(str(number))
        with cli.start(root, "build", "-j", "2") as build:
            time.sleep(rng.uniform(0.0, whole))
            running = processes_of(root.parent)
            for name in ending:
                build.send_signal(name)
                time.sleep(rng.uniform(0.0, 0.05))
            build.communicate(timeout=60)
        interrupted[ending] += build.returncode != 0
        processes += len(running)
        assert becomes(lambda root=root: not processes_of(root.parent), collect=False), (
            number,
            ending,
        )
        cli.good(root, "build", "-j", "2")
        # What a kill left of files on their way goes an hour later.
        files = {
            name: data
            for name, data in tree(root / "dist").items()
            if not name.endswith(".tilec-new")
        }
        assert files == expected, (number, ending)
    assert sum(interrupted.values())
    names = {" ".join(name.name for name in ending): count for ending, count in interrupted.items()}
    campaign.record(
        rounds=rounds,
        interrupted=names,
        processes_running=processes,
        processes_left=0,
        outputs_that_differ=0,
    )
