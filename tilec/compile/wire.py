"""What the build and its workers say to each other: length-prefixed pickles, and the few messages there are."""

from __future__ import annotations

import dataclasses
import os
import pickle
import struct
from collections.abc import Mapping

from tilec.compile.blob import Blob
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import Diagnostic, TilecError
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.job import Job, Source
from tilec_runtime.model.kernel import KernelDecl
from tilec_runtime.model.signature import AbiSlot

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

    `inputs` is the digest of the files that the key was made of: an image of other files must not be kept under it. With `apart` the job
    is compiled without its group, which time or a crash kept from being compiled: what comes of that depends on the machine, so the cache
    does not take it. Nor does it where `spooled` has the image written to the spool directory, which nobody else empties.

    Of the processes that share the cache, one at a time compiles under `lock` (empty for none); others wait `patience` seconds at most.
    With `more` the worker keeps the lock, since more jobs of the same work come.
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A job's image, its bytes in the cache or in the spool directory; `row` is the digest of its index row."""

    row: str
    info: ImageInfo
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...]
    blob: Blob
    cached: bool
    seconds: float


Request = Declare | Compile
Result = Compiled | tuple[KernelDecl, ...] | TilecError


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
