"""Waiting in tests: for as long as a slow machine may take, never for a time in which something has
to have happened.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Seconds after which something hangs. No test that passes waits for as long, so that it may be
# generous.
PATIENCE = 60.0


def becomes(condition: Callable[[], object], *, collect: bool = True) -> bool:
    """Whether something becomes true by itself; `collect` has the collector run in between."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
        if collect:
            gc.collect()
    return True


def ends(pid: int) -> bool:
    """Whether a process ends; one that nobody has waited for yet is a zombie, and has ended."""
    return becomes(lambda: not running(pid), collect=False)


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def joined(*threads: threading.Thread) -> None:
    """Wait for threads to end; one that does not hangs."""
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), f"{thread.name} hangs"


def at_once(*functions: Callable[[], object]) -> None:
    """Run functions in threads of their own, which change as often as the interpreter can."""
    threads = [threading.Thread(target=function) for function in functions]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        joined(*threads)
    finally:
        sys.setswitchinterval(before)


class Gate:
    """Holds who comes until it is opened; it is open to begin with."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def __call__(self) -> None:
        assert self.open.wait(PATIENCE)
