"""What the build and its workers say to each other: length-prefixed pickles, and the few messages
there are.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import queue
import signal
import struct
import threading
from collections.abc import Mapping

from tilec.compile.events import Done
from tilec.frontends.base import ToolSearch
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import TilecError

_LENGTH = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The first message to a worker: all it may know. `frontends` gives `module:Class` by language."""

    frontends: Mapping[str, str]
    search: ToolSearch
    cache_root: str
    spool: str
    shared_root: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The first message of a worker."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Another process compiles what the worker was asked for: its time begins later."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declare:
    """Read the kernels of a source."""

    language: str
    source: Source


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compile:
    """Compile a job and keep its image under `key`; `fresh` even if the cache has it.

    `inputs` is the digest of the files that the key was made of: an image of other files must not
    be kept under it. With `apart` the job is compiled without its group, which time or a crash kept
    from being compiled: what comes of that depends on the machine, so the cache does not take it.
    Nor does it where `spooled` has the image written to the spool directory, which nobody else
    empties.

    Of the processes that share the cache, one at a time compiles under `lock` (empty for none);
    others wait `patience` seconds at most. With `more` the worker keeps the lock, since more jobs
    of the same work come.
    """

    job: Job
    key: str
    fresh: bool = False
    inputs: str = ""
    apart: bool = False
    spooled: bool = False
    lock: str = ""
    patience: float = 0.0
    more: bool = False


Request = Declare | Compile
Result = Done | tuple[KernelDecl, ...] | TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The answer to one request. `notes` are for the user."""

    result: Result
    notes: tuple[str, ...] = ()


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._data += data

    def next(self) -> bytes | None:
        """The next whole message, still pickled, or None until more bytes come."""
        if len(self._data) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
        if len(self._data) < end:
            return None
        message = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return message


def pack(message: object) -> bytes:
    """A message as it goes over the wire; raises whatever pickling it raises."""
    data = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(data)) + data


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, waiting as long as the other side needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def serve() -> tuple[queue.SimpleQueue[bytes], int]:
    """Return the messages that come on standard input, and the descriptor that replies go to.

    Both are private from now on: children inherit neither, and whatever is printed goes to standard
    error.
    """
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, inbox), daemon=True).start()
    return inbox, replies


def _listen(requests: int, inbox: queue.SimpleQueue[bytes]) -> None:
    """Hand messages to the main thread. The end of the stream means that who asks is gone: then
    kill the whole process group.
    """
    frames = Frames()
    while data := os.read(requests, 1 << 20):
        frames.feed(data)
        while (message := frames.next()) is not None:
            inbox.put(message)
    if (
        os.getpgrp() == os.getpid()
    ):  # not where somebody runs this module by hand: the group is the shell's then
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # nothing else ends a thread that waits for a kernel
