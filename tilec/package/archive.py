"""Writer of the zip subset of bundles; `tilec_runtime.bundle.archive` reads it."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import BinaryIO

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.archive import DEFLATED, END, STORED, Member
from tilec_runtime.errors import OutputError

MAX_FILE = (1 << 32) - 2  # without zip64, sizes have 32 bits and member counts 16
MAX_MEMBERS = (1 << 16) - 2
_LEVEL = 6


class ArchiveWriter:
    """Writer of an archive, front to back; equal members give equal bytes.

    Args:
        file: open file.
        path: path of the file in messages.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._hash = hashlib.sha256()
        self._members: list[Member] = []
        self.size = 0

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes so far (hex)."""
        return self._hash.hexdigest()

    def add(self, name: str, data: bytes, *, deflate: bool = True) -> int:
        """Append a member.

        The data is stored if deflating makes it longer, or compresses it beyond the ratio that a
        reader accepts. The names of a bundle ascend.

        Args:
            name: name of the member, with forward slashes.
            data: bytes of the member.
            deflate: whether to try deflating; False for data that is packed already.

        Returns:
            Size of the data in the archive, in bytes.

        Raises:
            OutputError: the archive exceeds the format's size or number of members.
        """
        method, packed = STORED, data
        if deflate:
            stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            deflated = stream.compress(data) + stream.flush()
            if len(deflated) < len(data) <= len(deflated) * limits.RATIO:
                method, packed = DEFLATED, deflated
        member = Member(name, method, zlib.crc32(data), len(packed), len(data), self.size)
        if member.end > MAX_FILE or len(self._members) >= MAX_MEMBERS:
            raise OutputError(
                f"cannot write {self._path}: more than {MAX_FILE} bytes or {MAX_MEMBERS} members",
                cause="its format has these limits",
                fix="split the package, or build for fewer targets or variants",
            )
        self._put(member.local_header())
        self._put(packed)
        self._members.append(member)
        return len(packed)

    def close(self) -> None:
        """Append the central directory; leave the file open."""
        start = self.size
        for member in self._members:
            self._put(member.central_header())
        count = len(self._members)
        self._put(END.pack(b"PK\5\6", 0, 0, count, count, self.size - start, start, 0))

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)
