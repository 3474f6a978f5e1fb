"""Bundles of which one kernel is read: what is used passes every check, and the rows of other
kernels are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bundle_samples import Sample, members_from, plain_index, write_sample
from tests.unit.bundle.test_damaged import archive_of, members_of
from tilec_runtime.bundle.format import INDEX_NAME, index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError
from tilec_runtime.model.digest import canonical_json

INFO = Sample().info()
FIRST, SECOND = (kernel.name for kernel in INFO.kernels)


def changed(change: Callable[[Any], object], name: str = FIRST) -> Bundle:
    """A bundle with a change of one kernel's row, of which nothing but `bundle.json` is checked
    yet.
    """
    plain = plain_index(INFO)
    change(plain["kernels"][name])
    return Bundle.open(archive_of(members_of(index=members_from(plain))), whole=False)


def test_each_kernel_is_what_the_whole_index_says(tmp_path: Path) -> None:
    write_sample(tmp_path / "a.tilec")
    bundle = Bundle.open(tmp_path / "a.tilec", whole=False)
    assert bundle.kernels == (FIRST, SECOND)
    assert (
        tuple(bundle.kernel(name) for name in bundle.kernels) == INFO.kernels == bundle.info.kernels
    )
    with pytest.raises(KeyError):
        bundle.kernel("none")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.update(extra=1), r"kernels\.rmsnorm: unknown key 'extra'"),
        (lambda row: row.pop("doc"), r"kernels\.rmsnorm: key 'doc' is missing"),
        (lambda row: row.pop("name"), r"kernels\.rmsnorm: key 'name' is missing"),
        (
            lambda row: row.update(name="add"),
            r"kernels\.rmsnorm\.name: must be 'rmsnorm', is 'add'",
        ),
        (lambda row: row["location"].update(file="../x"), "is not a file name inside the project"),
        (lambda row: row["variants"][0].update(abi=9), "has ABIs that no variant names"),
        (lambda row: row["variants"].append(row["variants"][0]), "appears twice"),
        (
            lambda row: row["variants"][0]["images"][0].update(digest="0" * 64),
            "names image 000000000000, which it lacks",
        ),
        (
            lambda row: row["variants"][0]["images"][0].update(size=5),
            "its index says 5|has two sizes",
        ),
        (
            lambda row: row["params"][0].update(kind="other"),
            r"kernels\.rmsnorm\.params\[0\].kind: must be one of",
        ),
    ],
)
def test_refuses_a_bad_row_when_its_kernel_is_asked_for(
    change: Callable[[Any], object], said: str
) -> None:
    bundle = changed(change, SECOND)
    assert bundle.kernel(FIRST) == INFO.kernels[0]
    with pytest.raises(BundleError, match=said):
        bundle.kernel(SECOND)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plain: plain.update(schema_version=99), "has schema version 99"),
        (lambda plain: plain.update(kernels={}), "kernels: must be an array"),
        (
            lambda plain: plain.update(kernels=[["add", "x"]]),
            r"kernels\[0\]\[1\]: must be a SHA-256 in hex",
        ),
        (
            lambda plain: plain.update(kernels=[*plain["kernels"], plain["kernels"][0]]),
            "kernels: a name appears twice",
        ),
        (
            lambda plain: plain.update(builder=1),
            "builder: must be a string|builder: must be one line",
        ),
    ],
)
def test_opening_checks_rules_of_the_whole_index(
    change: Callable[[Any], object], said: str
) -> None:
    members = index_members(INFO)
    top = json.loads(members[INDEX_NAME])
    change(top)
    with pytest.raises(BundleError, match=said):
        Bundle.open(
            archive_of(members_of(index={**members, INDEX_NAME: canonical_json(top)})), whole=False
        )


def test_stray_members_are_found_with_the_whole_index() -> None:
    for stray in ("images/" + "f" * 64, "kernels/" + "f" * 64):
        bundle = Bundle.open(archive_of(sorted([*members_of(), (stray, b"x")])), whole=False)
        assert bundle.kernel(FIRST) == INFO.kernels[0]
        with pytest.raises(BundleError, match=f"has a stray member {stray}"):
            bundle.verify()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda row: row.replace(b'"name":"rmsnorm"', b'"name":"rmsnorm","name":"other"'),
            "is not canonical JSON",
        ),
        (lambda row: b" " + row, "is not canonical JSON"),
        (lambda row: row + b"]", "is not JSON"),
        (lambda row: row[:-1], "is not JSON"),
    ],
)
def test_a_row_that_is_not_canonical_is_refused_when_it_is_asked_for(
    damage: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    plain = plain_index(INFO)
    plain["kernels"][SECOND] = damage(canonical_json(plain["kernels"][SECOND]))
    (tmp_path / "b.tilec").write_bytes(archive_of(members_of(index=members_from(plain))))
    bundle = Bundle.open(tmp_path / "b.tilec", whole=False)
    assert bundle.kernel(FIRST) == INFO.kernels[0]
    for read in (lambda: bundle.kernel(SECOND), bundle.verify):
        with pytest.raises(BundleError, match=rf"b\.tilec: bundle\.json: kernels\.rmsnorm: {said}"):
            read()


def test_a_row_is_the_one_that_the_index_names() -> None:
    members = index_members(INFO)
    names = [name for name in members if name != INDEX_NAME]
    exchanged = {**members, names[0]: members[names[1]], names[1]: members[names[0]]}
    bundle = Bundle.open(archive_of(members_of(index=exchanged)), whole=False)
    with pytest.raises(BundleError, match="has other bytes under kernel row"):
        bundle.kernel(FIRST)
