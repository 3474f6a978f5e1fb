"""Processes that stand by for `tilec watch`: what they have imported, what they must not, and what becomes of those that end."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tilec.cli import standby as module
from tilec.cli.standby import Standby, installed


@pytest.fixture
def standby(project: Path):
    made = Standby(["schema"], project)
    yield made
    made.close()


def test_each_round_does_all_of_it(standby: Standby, capfd) -> None:
    standby.go()
    first = capfd.readouterr().out
    standby.prepare()
    standby.go()
    assert capfd.readouterr().out == first
    assert json.loads(first)["type"] == "object"


def test_the_next_one_has_what_the_last_one_imported(standby: Standby, capfd, monkeypatch) -> None:
    standby.go()
    learned = standby._modules
    assert {"click", "tilec.cli.main", "tilec.cli.schema"} <= set(learned)
    told: list[list[str]] = []
    own = module._Process.__init__
    monkeypatch.setattr(
        module._Process, "__init__", lambda self, words, folder, modules: (told.append([*modules]), own(self, words, folder, modules))[1]
    )
    standby.prepare()
    standby.prepare()  # there is one already
    assert told == [learned]
    standby.go()
    assert set(standby._modules) >= set(learned)  # a process that takes them out of the list keeps them


def test_what_an_edit_may_change_is_imported_anew(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "of_the_project.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("of_the_project")
    found = installed(["of_the_project", "json", "tilec_runtime.errors", "__main__", "no_such_module", "sys"])
    assert found == ["json", "tilec_runtime.errors"]
    del sys.modules["of_the_project"]


def test_one_that_ended_meanwhile_is_replaced(standby: Standby, capfd) -> None:
    standby.prepare()
    assert standby._next is not None
    process = standby._next._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    standby.go()
    assert '"type": "object"' in capfd.readouterr().out


def test_ctrl_c_ends_one_that_waits_without_a_word(standby: Standby, capfd) -> None:
    """It may come before Python is up, whose own words would be a traceback."""
    standby.prepare()
    assert standby._next is not None
    process = standby._next._process
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert capfd.readouterr().err == ""


def test_one_that_nobody_needs_any_more_is_ended(standby: Standby, capfd) -> None:
    standby.prepare()
    assert standby._next is not None
    process = standby._next._process
    standby.close()
    assert process.poll() is not None
    assert capfd.readouterr().out == ""


def test_a_module_that_is_gone_is_passed_over(standby: Standby, capfd) -> None:
    standby._modules = ["no.such.module", "json"]
    standby.prepare()
    standby.go()
    done = capfd.readouterr()
    assert '"type": "object"' in done.out
    assert done.err == ""
