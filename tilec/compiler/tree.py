"""Kills processes with all their descendants, whatever session or group those are in."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

_ROUNDS = 20


def kill_trees(roots: Iterable[int], *, spare_roots: bool = False) -> None:
    """Send SIGKILL to processes and everything below them; gives up quietly on what belongs to somebody else or is gone.

    Compilers are run in sessions of their own, so killing a worker's group would leave them. Each process found is stopped before the next
    look, so that it cannot start another one unseen. `spare_roots` leaves the roots themselves running.
    """
    roots = set(roots)
    found: set[int] = set()
    if not spare_roots:
        found |= roots
        _signal(roots, signal.SIGSTOP)
    for _ in range(_ROUNDS):
        new = _below(roots | found) - roots - found
        if not new:
            break
        _signal(new, signal.SIGSTOP)
        found |= new
    _signal(found, signal.SIGKILL)


def _below(pids: set[int]) -> set[int]:
    """The children of any of `pids`, and theirs; nothing where the system does not tell."""
    children = _listed if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _scanned()  # noqa: PTH110
    waiting, found = list(pids), set()
    while waiting:
        for child in children(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _listed(pid: int) -> list[int]:
    """The children of a process, as Linux lists them for each of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def _scanned() -> Callable[[int], list[int]]:
    """The same for kernels without those lists, from a look at every process."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    # The command's name stands in parentheses and may hold anything; state and parent come after the last one.
                    fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                    children.setdefault(int(fields[1]), []).append(int(name))
    return lambda pid: children.get(pid, [])


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
