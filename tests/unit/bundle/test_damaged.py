"""Bundles that were cut, changed or made to deceive are refused, and say so."""

from __future__ import annotations

import dataclasses
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_sample
from tilec.package.archive import ArchiveWriter
from tilec_runtime.bundle import limits
from tilec_runtime.bundle.archive import Member
from tilec_runtime.bundle.format import index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError
from tilec_runtime.model.kernel import BundleInfo


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "a.tilec"
    write_sample(path)
    return path.read_bytes()


def archive_of(
    members: list[tuple[str, bytes]], change: Callable[[Member], Member] = lambda member: member
) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file)
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


def test_every_truncation(good: bytes) -> None:
    for length in [*range(60), *range(60, len(good), 997), len(good) - 1]:
        with pytest.raises(BundleError):
            Bundle.open(good[:length])


def test_truncation_says_so(good: bytes) -> None:
    refused(good[: len(good) // 2], "is cut short or has data behind its end")


def test_trailing_and_leading_data(good: bytes) -> None:
    refused(good + b"x", "is cut short or has data behind its end")
    refused(b"x" + good, "end record that does not fit")
    refused(good + good, "end record that does not fit")


def test_not_a_zip() -> None:
    refused(b"", "is not a bundle")
    refused(b"\x7fELF" + bytes(500), "is not a bundle")


def test_zip_made_by_other_tools() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("bundle.json", "{}")
    refused(file.getvalue(), "a directory entry of 'bundle.json' that tilec does not write")


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "images/../../evil",
        "images/" + "0" * 63,
        "images/" + "G" * 64,
        "bundle.jsom",
        "/bundle.json",
    ],
)
def test_names_out_of_place(name: str) -> None:
    refused(
        archive_of([*members_of(), (name, b"x")]), f"holds a file {name!r}, which no bundle has"
    )


def test_duplicates_and_disorder() -> None:
    members = members_of()
    refused(archive_of([*members, members[-1]]), "twice or out of order")
    refused(
        archive_of([members[0], members[0], *members[1:]]),
        "holds 'bundle.json' twice or out of order",
    )
    refused(archive_of(members[::-1]), "twice or out of order")


def test_missing_and_stray_images() -> None:
    members = dict(members_of())
    for kind, said in (
        ("images", "has an index that names image"),
        ("kernels", "has no kernel row"),
    ):
        gone = next(name for name in members if name.startswith(kind))
        refused(archive_of([item for item in members.items() if item[0] != gone]), said)


def test_size_in_the_index_differs() -> None:
    info = Sample().info()
    kernel = info.kernels[0]
    variant = kernel.variants[0]
    images = (dataclasses.replace(variant.images[0], size=5), *variant.images[1:])
    kernel = dataclasses.replace(
        kernel, variants=(dataclasses.replace(variant, images=images), *kernel.variants[1:])
    )
    refused(
        archive_of(members_of(dataclasses.replace(info, kernels=(kernel, info.kernels[1])))),
        "has 3004 bytes of image",
    )


def test_other_bytes_under_a_digest() -> None:
    members = members_of()
    name, data = members[3]
    members[3] = (name, data[:-1] + b"!")
    refused(archive_of(members), "has other bytes under image")


def test_flipped_bits_in_an_image(good: bytes) -> None:
    at = good.index(b"images/") + 200
    changed = bytearray(good)
    changed[at] ^= 0x10
    refused(bytes(changed), "has damaged data in images/")


def test_directory_against_header(good: bytes) -> None:
    changed = bytearray(good)
    changed[14] ^= 1  # the CRC of the first local header
    refused(bytes(changed), "has a header of bundle.json that its directory contradicts")


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


def test_encrypted(good: bytes) -> None:
    changed = bytearray(good)
    changed[good.index(b"PK\1\2") + 8] |= 1
    refused(bytes(changed), "that tilec does not write")


def test_links_and_extra_fields(good: bytes) -> None:
    start = good.index(b"PK\1\2")
    for offset, value in ((38, 0xA1FF0000), (30, 4), (32, 4)):
        changed = bytearray(good)
        struct.pack_into("<H" if offset != 38 else "<L", changed, start + offset, value)
        refused(bytes(changed), "that tilec does not write")


def test_a_bomb_for_an_index() -> None:
    index = index_members(Sample().info())
    for name in index:
        refused(
            archive_of(members_of(index={**index, name: b" " * (1 << 22) + index[name]})),
            "has an index of",
        )


def test_a_bomb_behind_a_small_size(good: bytes) -> None:
    """The directory's size is what is inflated at most, whatever the stream holds."""
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = bomb.compress(bytes(50 << 20)) + bomb.flush()
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    index = index_members(Sample().info())["bundle.json"]
    member = Member("bundle.json", 8, zlib.crc32(index), len(packed), len(index), 0)
    writer._put(member.local_header())
    writer._put(packed)
    writer._members.append(member)
    writer.close()
    refused(file.getvalue(), "has another size of bundle.json than its directory says")


def test_index_size_is_bounded(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX", 100)
    refused(good, "has an index of")


def test_counts_that_do_not_fit(good: bytes) -> None:
    for offset in (8, 10, 12, 16, 20, 4, 6):
        changed = bytearray(good)
        changed[len(good) - 22 + offset] ^= 1
        refused(bytes(changed), "end record")


def test_read_errors_are_bundle_errors(good: bytes) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(BundleError, match="cannot be read: Input/output error"):
        Bundle.open(Failing(good))


def test_a_file_that_is_cut_while_it_is_open(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.tilec"
    path.write_bytes(good)
    bundle = Bundle.open(path)
    with path.open("r+b") as file:
        file.truncate(3000)
    with pytest.raises(BundleError) as caught:
        bundle.verify()
    assert str(path) in caught.value.what
    with pytest.raises(BundleError, match="changed while"):
        _ = bundle.digest
