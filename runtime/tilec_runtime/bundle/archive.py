"""The zip subset of bundles.

Equal members give equal bytes, and the reader accepts no other form.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.errors import BundleError
from tilec_runtime.values import value_class

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
_NEEDS = 20  # zip 2.0: deflate
_MADE_BY = 3 << 8 | _NEEDS  # Unix, so that permissions mean something
_DATE = 0x21  # 1980-01-01, the oldest that zip can say
_MODE = 0o100644 << 16
_UTF8 = 0x800
# Fields of a directory entry: those before the method, and those between name length and offset.
_PLAIN_HEAD = (b"PK\1\2", _MADE_BY, _NEEDS, 0)
_PLAIN_TAIL = (0, 0, 0, 0, _MODE)
STORED, DEFLATED = 0, 8
_CHUNK = 1 << 20


@value_class(frozen=True)
class Member:
    """One entry of the central directory; sizes in bytes."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int

    @property
    def end(self) -> int:
        """The offset of the next member."""
        return self.offset + _LOCAL.size + len(self.name.encode()) + self.packed

    @property
    def flags(self) -> int:
        """The zip flags: the UTF-8 bit if the name needs it, else 0."""
        return 0 if self.name.isascii() else _UTF8

    def local_header(self) -> bytes:
        """Return the bytes in front of the member's data."""
        name = self.name.encode()
        return (
            _LOCAL.pack(
                b"PK\3\4",
                _NEEDS,
                self.flags,
                self.method,
                0,
                _DATE,
                self.crc,
                self.packed,
                self.size,
                len(name),
                0,
            )
            + name
        )

    def central_header(self) -> bytes:
        """Return the member's entry in the central directory."""
        name = self.name.encode()
        how = (_MADE_BY, _NEEDS, self.flags, self.method, 0, _DATE)
        sizes = (self.crc, self.packed, self.size, len(name))
        return _CENTRAL.pack(b"PK\1\2", *how, *sizes, 0, 0, 0, 0, _MODE, self.offset) + name


ReadAt = Callable[[int, int], bytes]


def read_directory(
    read_at: ReadAt, size: int, check_name: Callable[[str], bool]
) -> dict[str, Member]:
    """Return the members of an archive by name; read its central directory alone.

    Args:
        read_at: reads (offset, length); returns fewer bytes only at the end of the archive.
        size: size of the archive in bytes.
        check_name: returns whether a member may have this name.

    Raises:
        BundleError: the directory differs from the bytes that `ArchiveWriter` writes.
    """
    directory, count, start = _directory_of(read_at, size)
    length = len(directory)
    members: dict[str, Member] = {}
    at, expected, last = 0, 0, ""
    # Inlined for speed: a bundle has hundreds of images, and its first launch waits for this loop.
    for _ in range(count):
        if at + _CENTRAL.size > length:
            damaged("has a directory that is cut short")
        fields = _CENTRAL.unpack_from(directory, at)
        method, crc, packed, member_size, name_length, offset = (
            fields[4],
            fields[7],
            fields[8],
            fields[9],
            fields[10],
            fields[16],
        )
        at += _CENTRAL.size + name_length
        raw = directory[at - name_length : at]
        if method not in (STORED, DEFLATED):
            damaged(f"uses zip method {method}; bundles are stored or deflated")
        if not raw.isascii() or not raw or len(raw) != name_length:
            damaged("has a directory entry without a usable name")
        name = raw.decode("ascii")
        # Bundles have no flags (encryption), other dates, extra fields, comments or links. The
        # other fields have the values that the writer gives them.
        if fields[:4] != _PLAIN_HEAD or fields[5:7] != (0, _DATE) or fields[11:16] != _PLAIN_TAIL:
            damaged(f"has a directory entry of {name[:80]!r} that tilec does not write")
        if not check_name(name):
            damaged(f"holds a file {name[:80]!r}, which no bundle has")
        if name <= last:
            damaged(f"holds {name!r} twice or out of order")
        if offset != expected:
            damaged(f"has {name} at another place than the one before it ends")
        if method == STORED and packed != member_size:
            damaged(f"has two sizes of {name}")
        if method == DEFLATED and member_size > packed * limits.RATIO:
            damaged(f"claims {member_size} bytes of {name} in {packed}")
        members[name] = Member(name, method, crc, packed, member_size, offset)
        expected, last = offset + _LOCAL.size + name_length + packed, name
    if at != length or expected != start:
        damaged("has gaps, or members that its directory does not list")
    return members


def _directory_of(read_at: ReadAt, size: int) -> tuple[bytes, int, int]:
    """Return the bytes of the central directory, its number of members and offset."""
    if size > limits.FILE + (limits.MEMBERS << 8):
        damaged(f"has {size} bytes, more than any bundle")
    if size < END.size or (tail := read_at(size - END.size, END.size))[:4] != b"PK\5\6":
        head = read_at(0, 4) if size >= 4 else b""
        damaged(
            "is cut short or has data behind its end"
            if head == b"PK\3\4"
            else "is not a bundle: it does not read as a zip file"
        )
    if len(tail) != END.size:
        damaged("is cut short")
    _, disk, first_disk, here, count, length, start, comment = END.unpack(tail)
    if disk or first_disk or comment or here != count or start + length + END.size != size:
        damaged("has an end record that does not fit it")
    if (
        count > limits.MEMBERS
        or length < count * _CENTRAL.size
        or length > count * (_CENTRAL.size + 256)
    ):
        damaged(f"has a directory of {length} bytes for {count} members")
    directory = read_at(start, length)
    if len(directory) != length:
        damaged("is cut short")
    return directory, count, start


def read_member(read_at: ReadAt, member: Member) -> bytes:
    """Return the data of a member after verifying header, size and CRC.

    The peak memory is little more than the size of the data.

    Raises:
        BundleError: the member is damaged.
    """
    header = member.local_header()
    if read_at(member.offset, len(header)) != header:
        damaged(f"has a header of {member.name} that its directory contradicts")
    start = member.offset + len(header)
    data = (
        read_at(start, member.packed)
        if member.method == STORED
        else _inflated(read_at, member, start)
    )
    if len(data) != member.size or zlib.crc32(data) != member.crc:
        damaged(f"has damaged data in {member.name}: size or checksum is off")
    return data


def _inflated(read_at: ReadAt, member: Member, start: int) -> bytes:
    """Inflate a member in pieces, and stop once it exceeds its declared size.

    This bounds the memory that a malicious archive can claim.
    """
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    out = io.BytesIO()
    end = start + member.packed
    while not inflate.eof and out.tell() <= member.size:
        piece = inflate.unconsumed_tail
        if not piece:
            piece = read_at(start, min(_CHUNK, end - start))
            start += len(piece)
        try:
            data = inflate.decompress(piece, min(_CHUNK, member.size + 1 - out.tell()))
        except zlib.error as exc:
            damaged(f"has damaged data in {member.name}: {exc}")
        if not piece and not data:
            break
        out.write(data)
    if not inflate.eof or inflate.unused_data or start != end:
        damaged(f"has another size of {member.name} than its directory says")
    return out.getvalue()


def damaged(fault: str) -> NoReturn:
    """Raise the error of a damaged bundle; `fault` continues "the bundle ..."."""
    raise BundleError(
        f"the bundle {fault}",
        cause="the file was cut short or changed on its way, or is not a tilec bundle",
        fix="fetch it again, or rebuild it with `tilec build`",
    )
