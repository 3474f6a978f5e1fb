"""Bundles of which one kernel is read: what is used passes every check, and the rows of other kernels are not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bundle_samples import Sample, write_sample
from tests.unit.bundle.test_damaged import archive_of, members_of
from tilec_runtime.bundle.format import SCHEMA_VERSION, to_index
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError
from tilec_runtime.model.digest import canonical_json

INFO = Sample().info()
FIRST, SECOND = (kernel.name for kernel in INFO.kernels)


def changed(change: Callable[[Any], object], number: int = 0) -> Bundle:
    """A bundle with a change of one kernel's row, of which nothing but the directory is checked yet."""
    plain = json.loads(to_index(INFO))
    change(plain["kernels"][number])
    return Bundle.open(archive_of(members_of(index=canonical_json(plain))), whole=False)


def test_each_kernel_is_what_the_whole_index_says(tmp_path: Path) -> None:
    write_sample(tmp_path / "a.tilec")
    bundle = Bundle.open(tmp_path / "a.tilec", whole=False)
    assert bundle.kernels == (FIRST, SECOND)
    assert tuple(bundle.kernel(name) for name in bundle.kernels) == INFO.kernels == bundle.info.kernels
    with pytest.raises(KeyError):
        bundle.kernel("none")


def test_the_rows_of_other_kernels_are_not_looked_at() -> None:
    bundle = changed(lambda row: row.update(extra=1))
    assert bundle.kernel(SECOND) == INFO.kernels[1]
    for read in (lambda: bundle.kernel(FIRST), lambda: bundle.info, bundle.verify):
        with pytest.raises(BundleError, match=r"kernels\[0\]: unknown key 'extra'"):
            read()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.update(extra=1), r"kernels\[1\]: unknown key 'extra'"),
        (lambda row: row.pop("doc"), r"kernels\[1\]: key 'doc' is missing"),
        (lambda row: row["location"].update(file="../x"), "is not a file name inside the project"),
        (lambda row: row["variants"][0].update(abi=9), "names ABI 9 of"),
        (lambda row: row["variants"].append(row["variants"][0]), "appears twice"),
        (lambda row: row["variants"][0]["images"][0].update(digest="0" * 64), "names image 000000000000, which it lacks"),
        (lambda row: row["variants"][0]["images"][0].update(size=5), "its index says 5|has two sizes"),
        (lambda row: row["params"][0].update(kind="other"), r"kernels\[1\].params\[0\].kind: must be one of"),
    ],
)
def test_what_is_wrong_with_a_kernel_is_said_when_it_is_asked_for(change: Callable[[Any], object], said: str) -> None:
    bundle = changed(change, 1)
    assert bundle.kernel(FIRST) == INFO.kernels[0]
    with pytest.raises(BundleError, match=said):
        bundle.kernel(SECOND)


def test_kernels_are_told_apart_at_once() -> None:
    with pytest.raises(BundleError, match=r"kernels\[1\].name: must be a name of its own"):
        changed(lambda row: row.update(name=FIRST), 1)


def test_a_row_without_a_name_is_no_kernel() -> None:
    bundle = changed(lambda row: row.pop("name"), 1)
    assert bundle.kernel(FIRST) == INFO.kernels[0]
    assert SECOND not in bundle.kernels
    for read in (lambda: bundle.kernel(bundle.kernels[1]), lambda: bundle.info):
        with pytest.raises(BundleError, match=r"kernels\[1\]: key 'name' is missing"):
            read()


def test_a_kernel_is_the_one_that_its_row_names() -> None:
    bundle = changed(lambda row: row["launch"].update(name="other"), 1)
    assert bundle.kernels == (FIRST, "other")
    with pytest.raises(BundleError, match=r"kernels\[1\]\.launch: unknown key 'name'"):
        bundle.kernel("other")


def test_to_open_a_bundle_parses_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    data, parsed, real = archive_of(members_of()), [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: parsed.append(len(text)) or real(text))
    bundle = Bundle.open(data, whole=False)
    around, *rows = len(to_index(INFO)), *(len(canonical_json(row)) for row in real(to_index(INFO))["kernels"])
    assert parsed == [around - sum(rows) - len(rows) + 1]
    bundle.kernel(SECOND)
    assert parsed[1:] == [rows[1]]


def test_what_holds_for_the_whole_is_checked_at_once() -> None:
    index = to_index(INFO)
    for damaged, said in (
        (b" " + index, "is not canonical JSON"),
        (index.replace(b'"schema_version":4', b'"schema_version":99'), "has schema version 99"),
        (b'{"kernels":{},"schema_version":%d}' % SCHEMA_VERSION, "kernels: must be an array"),
    ):
        with pytest.raises(BundleError, match=said):
            Bundle.open(archive_of(members_of(index=damaged)), whole=False)


def test_a_stray_image_is_found_with_the_whole_index() -> None:
    bundle = Bundle.open(archive_of([*members_of(), ("images/" + "f" * 64, b"x")]), whole=False)
    assert bundle.kernel(FIRST) == INFO.kernels[0]
    with pytest.raises(BundleError, match="has a stray image ffffffffffff"):
        bundle.verify()


def test_indexes_of_version_1_are_read_by_kernel_too() -> None:
    plain = json.loads(to_index(INFO))
    plain["schema_version"] = 1
    for kernel in plain["kernels"]:
        for variant in kernel["variants"]:
            assert not variant.pop("hints")
            for fact in variant["assume"]:
                del fact["extent"], fact["contiguous"]
            for image in variant["images"]:
                del image["block"], image["dynamic_shared"]
    bundle = Bundle.open(archive_of(members_of(index=canonical_json(plain))), whole=False)
    assert bundle.kernel(SECOND) == INFO.kernels[1]


def test_errors_name_the_file(tmp_path: Path) -> None:
    plain = json.loads(to_index(INFO))
    plain["kernels"][0]["extra"] = 1
    path = tmp_path / "b.tilec"
    path.write_bytes(archive_of(members_of(index=canonical_json(plain))))
    with pytest.raises(BundleError, match=r"b\.tilec: bundle\.json"):
        Bundle.open(path, whole=False).kernel(FIRST)


def test_a_row_that_is_not_canonical_is_refused_when_it_is_asked_for() -> None:
    index = to_index(INFO)
    name, end = f'"name":"{SECOND}"'.encode(), b'],"min_driver"'
    for damaged, said in (
        (index.replace(name, name + b',"name":"other"'), "is not canonical JSON"),
        (index.replace(name, b" " + name), "is not canonical JSON"),
        (index.replace(end, b" " + end), "is not canonical JSON"),
        (index.replace(end, b"," + end), "is not JSON"),
        (index.replace(end, b";" + end), "is not JSON"),
    ):
        assert damaged != index
        bundle = Bundle.open(archive_of(members_of(index=damaged)), whole=False)
        assert bundle.kernels == (FIRST, SECOND)
        assert bundle.kernel(FIRST) == INFO.kernels[0]
        with pytest.raises(BundleError, match=rf"kernels\[1\]: {said}"):
            bundle.kernel(SECOND)
        with pytest.raises(BundleError, match=said):
            bundle.verify()


@pytest.mark.parametrize("between", [b";", b"", b" ,", b", ", b",,"])
def test_what_is_between_two_rows_is_seen_with_either(between: bytes) -> None:
    damaged = to_index(INFO).replace(b',{"abis"', between + b'{"abis"')
    with pytest.raises(BundleError, match=r"is not canonical JSON|is not JSON"):
        Bundle.open(archive_of(members_of(index=damaged)), whole=False).kernel(FIRST)


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index.replace(b'"kernels":[', b'"kernels":[],"kernels":[', 1),
        lambda index: index.replace(b'"kernels":[', b'"a":{"kernels":[],"kernels":[', 1).replace(b'],"min_driver"', b']},"min_driver"', 1),
        lambda index: (  # the rows of something else
            index.replace(b'"kernels":[', b'"c":{"kernels":[', 1).replace(
                b'],"min_driver"', b'],"min_driver":0},"kernels":0,"min_driver"', 1
            )
        ),
        lambda index: index.replace(b'{"builder":"', b'{"builder":"y","builder":"', 1),
        lambda index: index.replace(b'"kernels":[{', b'"kernels":[ {', 1),
        lambda index: index.replace(b'"kernels":[', b'"kernels":[,', 1),
        lambda index: index[:-1],
        lambda index: index.replace(b'"kernels":[', b'"kernels":[\xc3\xa9', 1),
    ],
)
def test_what_is_around_the_rows_is_checked_at_once(damage: Callable[[bytes], bytes]) -> None:
    index = to_index(INFO)
    damaged = damage(index)
    assert damaged != index
    with pytest.raises(BundleError, match=r"is not canonical JSON|is not JSON|kernels: must be an array|kernels\[\d\].name"):
        Bundle.open(archive_of(members_of(index=damaged)), whole=False)


def test_rows_are_those_of_the_index_and_of_nothing_inside_it() -> None:
    plain = json.loads(to_index(INFO))
    inside = canonical_json({**plain, "builder": {"kernels": plain["kernels"]}, "kernels": []})
    bundle = Bundle.open(archive_of(members_of(index=inside)), whole=False)
    assert bundle.kernels == ()
    with pytest.raises(BundleError, match="builder: must be one line"):
        bundle.verify()
