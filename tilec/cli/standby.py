"""A process that stands by for one command line: what the last one imported is there already, and nothing of the project is."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tilec.compiler.child import own_command
from tilec.compiler.own import PACKAGES

GRACE = 10.0  # seconds that an interrupted command has to end its own processes
GO = "go"


class Standby:
    """Carries out one command line again and again, each time in a new process, which is started before it is needed.

    Args:
        words: the command line of tilec, without its name.
        folder: where it works.
    """

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._words = list(words)
        self._folder = folder
        self._modules: list[str] = []
        self._next: _Process | None = None

    def prepare(self) -> None:
        """Start the process of the next round."""
        if self._next is None:
            self._next = _Process(self._words, self._folder, self._modules)

    def go(self) -> None:
        """Carry the command line out, to its end."""
        process, self._next = self._next, None
        if process is None or not process.go():  # whatever ended it while nobody needed it
            process = _Process(self._words, self._folder, [])
            process.go()
        self._modules = process.wait()

    def close(self) -> None:
        """End what stands by."""
        if self._next is not None:
            self._next.close()
            self._next = None


class _Process:
    def __init__(self, words: Sequence[str], folder: Path, modules: Sequence[str]) -> None:
        read, self._orders = os.pipe()
        self._told, write = os.pipe()
        with os.fdopen(read), os.fdopen(write):
            command = own_command("tilec.cli.standby", str(read), str(write), *words)
            with _held_back():
                self._process = subprocess.Popen(command, cwd=folder, pass_fds=(read, write))
        self._order(json.dumps(list(modules)))

    def go(self) -> bool:
        """Let it go; whether it is there."""
        return self._process.poll() is None and self._order(GO)

    def wait(self) -> list[str]:
        """Wait for its end; the modules that it imported, as far as they are for the next one."""
        try:
            told = _all(self._told)
            self._process.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)  # it was interrupted too, and ends its own processes
            raise
        finally:
            self.close()
        try:
            return list(map(str, json.loads(told)))
        except ValueError:
            return []  # it did not come to its end

    def close(self) -> None:
        """End it, if it has not ended."""
        for descriptor in (self._orders, self._told):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._orders = self._told = -1
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _order(self, text: str) -> bool:
        try:
            os.write(self._orders, f"{text}\n".encode())
        except OSError:
            return False
        return True


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """While it lasts, Ctrl-C waits: in this process until it is over, in one that is started until it knows what to do then."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


# --- in the process ---------------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Import what it is told to, wait for the word, and be `tilec` from then on."""
    orders, told = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to tell of who waits
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for descriptor in (orders, told):
        os.set_inheritable(descriptor, False)
    with os.fdopen(orders) as lines:
        for name in json.loads(lines.readline() or "[]"):
            with contextlib.suppress(Exception):  # it is said where it is needed, if it is
                importlib.import_module(name)
        from tilec.cli.main import main as tilec

        if lines.readline().strip() != GO:
            os._exit(0)

    def ended() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over but for this
        with contextlib.suppress(OSError):
            os.write(told, json.dumps(installed(sys.modules)).encode())

    signal.signal(signal.SIGINT, signal.default_int_handler)
    tilec(sys.argv[3:], ended=ended)


def installed(names: Iterable[str]) -> list[str]:
    """Those modules that came with Python, tilec or a package, in the order in which they were imported; no edit is to be missed."""
    homes = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = tuple(f"{place}{os.sep}" for place in PACKAGES)
    found = []
    for name in list(names):
        origin = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
        if isinstance(origin, str) and name != "__main__" and origin.startswith((*homes, *own)):
            found.append(name)
    return found
