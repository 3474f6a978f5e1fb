"""Killing a process with everything below it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.waiting import PATIENCE, ends
from tilec.compiler import tree

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import subprocess, sys, time
grandchild = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
print(grandchild.pid, flush=True)
time.sleep(600)
'''], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("by_list", [True, False], ids=["lists", "scan"])
@pytest.mark.parametrize("spare", [True, False], ids=["spare", "all"])
def test_descendants_in_other_sessions_are_killed(by_list: bool, spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not by_list:
        monkeypatch.setattr(tree.os.path, "exists", lambda path: False)
    root = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert root.stdout
    below = [int(root.stdout.readline()), int(root.stdout.readline())]
    tree.kill_trees([root.pid], spare_roots=spare)
    assert all(ends(pid) for pid in below)
    assert (root.poll() is None) == spare or root.wait(PATIENCE) == -9
    root.kill()
    root.wait(PATIENCE)
    root.stdout.close()


def test_processes_that_are_gone_are_no_error() -> None:
    done = subprocess.Popen(["/bin/true"])
    done.wait(PATIENCE)
    tree.kill_trees([done.pid])
    tree.kill_trees([])
    assert os.getpid() not in tree._below({done.pid})
