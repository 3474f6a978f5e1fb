"""Bundles that were cut, changed or made to deceive are refused, and say so."""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, members_from, plain_index, write_sample
from tilec.package.archive import ArchiveWriter
from tilec_runtime.bundle.archive import Member
from tilec_runtime.bundle.format import index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError
from tilec_runtime.model.kernel import BundleInfo


@functools.cache
def good() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_sample(Path(folder) / "a.tilec")
        return (Path(folder) / "a.tilec").read_bytes()


def archive_of(
    members: list[tuple[str, bytes]], change: Callable[[Member], Member] = lambda member: member
) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, Path("x.tilec"))
    for name, data in members:
        writer.add(name, data)
    writer._members = [change(member) for member in writer._members]
    writer.close()
    return file.getvalue()


def members_of(
    info: BundleInfo | None = None, index: dict[str, bytes] | None = None
) -> list[tuple[str, bytes]]:
    sample = Sample()
    whole = sample.info()
    members = index_members(info or whole) if index is None else index
    return sorted(
        {**members, **{f"images/{digest}": data for digest, data in sample.images.items()}}.items()
    )


def refused(data: bytes, says: str) -> None:
    with pytest.raises(BundleError) as caught:
        Bundle.open(data).verify()
    assert says in caught.value.what
    assert caught.value.cause
    assert caught.value.fix


def test_every_truncation() -> None:
    for length in [*range(60), *range(60, len(good()), 997), len(good()) - 1]:
        with pytest.raises(BundleError):
            Bundle.open(good()[:length])


def zipped() -> bytes:
    """What another tool writes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("bundle.json", "{}")
    return file.getvalue()


def patched(at: int, *values: int) -> bytes:
    """A sound bundle with other bytes at a place."""
    return good()[:at] + bytes(values) + good()[at + len(values) :]


def flipped(at: int, mask: int = 1) -> bytes:
    return patched(at, good()[at] ^ mask)


def entry(at: int) -> int:
    """A place in the first entry of the directory."""
    return good().index(b"PK\1\2") + at


def without(start: str) -> bytes:
    """A bundle that lacks the first member of a name."""
    members = members_of()
    gone = next(name for name, _ in members if name.startswith(start))
    return archive_of([member for member in members if member[0] != gone])


def other_size() -> bytes:
    info = Sample().info()
    row = plain_index(info)
    row["kernels"]["add"]["variants"][0]["images"][0]["size"] = 5
    return archive_of(members_of(index=members_from(row)))


def other_image() -> bytes:
    *members, (name, data) = members_of()[:4]
    return archive_of([*members, (name, data[:-1] + b"!"), *members_of()[4:]])


def with_padded(name: str) -> bytes:
    """An index of which a member is larger than any index."""
    index = index_members(Sample().info())
    return archive_of(members_of(index={**index, name: b" " * (1 << 22) + index[name]}))


M = members_of()
DAMAGED: list[tuple[Callable[[], bytes], str]] = [
    (lambda: good()[: len(good()) // 2], "is cut short or has data behind its end"),
    (lambda: good() + b"x", "is cut short or has data behind its end"),
    (lambda: b"x" + good(), "end record that does not fit"),
    (lambda: good() + good(), "end record that does not fit"),
    (lambda: b"", "is not a bundle"),
    (lambda: b"\x7fELF" + bytes(500), "is not a bundle"),
    (zipped, "a directory entry of 'bundle.json' that tilec does not write"),
    (lambda: archive_of([*M, M[-1]]), "twice or out of order"),
    (lambda: archive_of([M[0], M[0], *M[1:]]), "holds 'bundle.json' twice or out of order"),
    (lambda: archive_of(M[::-1]), "twice or out of order"),
    (lambda: without("images"), "has an index that names image"),
    (lambda: without("kernels"), "has no kernel row"),
    (other_size, "has 3004 bytes of image"),
    (other_image, "has other bytes under image"),
    (lambda: flipped(good().index(b"images/") + 200, 16), "has damaged data in images/"),
    # The CRC of the first local header; flags, attributes, and extra fields of the directory.
    (lambda: flipped(14), "has a header of bundle.json that its directory contradicts"),
    (lambda: flipped(entry(8)), "that tilec does not write"),
    (lambda: patched(entry(38), 0, 0, 0xFF, 0xA1), "that tilec does not write"),
    (lambda: patched(entry(30), 4), "that tilec does not write"),
    (lambda: patched(entry(32), 4), "that tilec does not write"),
    *(
        (lambda at=at: flipped(len(good()) - 22 + at), "end record")
        for at in (8, 10, 12, 16, 20, 4, 6)
    ),
    *((lambda name=name: with_padded(name), "has an index of") for name, _ in M if name[0] != "i"),
    *(
        (
            lambda name=name: archive_of([*M, (name, b"x")]),
            f"holds a file {name!r}, which no bundle",
        )
        for name in ("../evil", "images/../../evil", "images/" + "0" * 63, "images/" + "G" * 64)
    ),
    *(
        (
            lambda name=name: archive_of([*M, (name, b"x")]),
            f"holds a file {name!r}, which no bundle",
        )
        for name in ("bundle.jsom", "/bundle.json")
    ),
]


@pytest.mark.parametrize(("damaged", "says"), DAMAGED)
def test_refuses_damage(damaged: Callable[[], bytes], says: str) -> None:
    refused(damaged(), says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": 12}, "uses zip method 12"),
        ({"size": 1 << 30}, "claims 1073741824 bytes"),
        ({"offset": 7}, "at another place"),
        ({"crc": 1}, "that its directory contradicts"),
        ({"size": 3}, "that its directory contradicts"),
    ],
)
def test_directory_tricks(change: dict[str, int], says: str) -> None:
    def trick(member: Member) -> Member:
        return dataclasses.replace(member, **change) if member.name == "bundle.json" else member

    refused(archive_of(members_of(), trick), says)


def test_a_bomb_behind_a_small_size() -> None:
    """The directory's size is what is inflated at most, whatever the stream holds."""
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = bomb.compress(bytes(50 << 20)) + bomb.flush()
    file = io.BytesIO()
    writer = ArchiveWriter(file, Path("x.tilec"))
    index = index_members(Sample().info())["bundle.json"]
    member = Member("bundle.json", 8, zlib.crc32(index), len(packed), len(index), 0)
    writer._put(member.local_header())
    writer._put(packed)
    writer._members.append(member)
    writer.close()
    refused(file.getvalue(), "has another size of bundle.json than its directory says")


def test_read_errors_are_bundle_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: int) -> bytes:
        raise OSError(5, "Input/output error")

    path = tmp_path / "a.tilec"
    path.write_bytes(good())
    monkeypatch.setattr(os, "pread", failing)
    with pytest.raises(BundleError, match=r"a\.tilec: cannot be read: Input/output error"):
        Bundle.open(path)


def test_a_file_that_is_cut_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.tilec"
    path.write_bytes(good())
    bundle = Bundle.open(path)
    with path.open("r+b") as file:
        file.truncate(3000)
    with pytest.raises(BundleError) as caught:
        bundle.verify()
    assert str(path) in caught.value.what
    with pytest.raises(BundleError, match="changed while"):
        _ = bundle.digest
