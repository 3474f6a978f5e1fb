"""Wheels: names, contents and metadata; and outputs that Ctrl-C does not come between."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import os
import signal
import zipfile
from pathlib import Path

import pytest

from tilec.package.publish import uninterrupted
from tilec.package.wheel import write_wheel
from tilec_runtime.model.kernel import PackageInfo

PACKAGE = PackageInfo(
    name="Acme.Kernels",
    version="1.0-Alpha.1",
    module="acme_kernels",
    description="Fast kernels\n\nSecond paragraph.",
    license="Apache-2.0",
)


FILES: dict[str, bytes | Path] = {
    "acme_kernels/py.typed": b"",
    "acme_kernels/__init__.py": b"X = 1\n",
    "acme_kernels/größe.py": b"Y = 2\n",
}


def build(directory: Path, **changes) -> Path:
    given = {
        "package": PACKAGE,
        "files": FILES,
        "license_files": {"LICENSE": b"text"},
        "requires": ("tilec>=0.1,<0.2",),
        **changes,
    }
    return write_wheel(directory, **given)


def test_metadata(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path)) as wheel:
        metadata = email.message_from_bytes(wheel.read("acme_kernels-1.0a1.dist-info/METADATA"))
        wheel_file = email.message_from_bytes(wheel.read("acme_kernels-1.0a1.dist-info/WHEEL"))
    assert metadata.items() == [
        ("Metadata-Version", "2.4"),
        ("Name", "Acme.Kernels"),
        ("Version", "1.0a1"),
        ("Summary", "Fast kernels"),
        ("License-Expression", "Apache-2.0"),
        ("License-File", "LICENSE"),
        ("Requires-Python", ">=3.10"),
        ("Requires-Dist", "tilec>=0.1,<0.2"),
        ("Description-Content-Type", "text/plain; charset=UTF-8"),
    ]
    assert metadata.get_payload() == "Fast kernels\n\nSecond paragraph.\n"
    assert wheel_file["Tag"] == "py3-none-any"
    assert wheel_file["Root-Is-Purelib"] == "true"


def test_record_covers_every_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path)) as wheel:
        *rows, last = csv.reader(
            io.StringIO(wheel.read("acme_kernels-1.0a1.dist-info/RECORD").decode())
        )
        assert last == ["acme_kernels-1.0a1.dist-info/RECORD", "", ""]
        assert [row[0] for row in rows] == wheel.namelist()[:-1]
        for name, digest, size in rows:
            data = wheel.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(
                hashlib.sha256(data).digest()
            ).decode().rstrip("=")
            assert int(size) == len(data)


def test_the_sbom_lies_where_pep_770_wants_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path, sbom=b"{}")) as wheel:
        name = "acme_kernels-1.0a1.dist-info/sboms/acme_kernels.cdx.json"
        assert wheel.read(name) == b"{}"
        assert name in wheel.read("acme_kernels-1.0a1.dist-info/RECORD").decode()


def test_same_input_same_bytes(tmp_path: Path) -> None:
    bundle = tmp_path / "x.tilec"
    bundle.write_bytes(bytes(1000))
    files = {**FILES, "acme_kernels/x.tilec": bundle}
    first = build(tmp_path / "a", files=files).read_bytes()
    second = build(tmp_path / "b", files=dict(reversed(files.items()))).read_bytes()
    assert first == second
    assert str(tmp_path).encode() not in first
    with zipfile.ZipFile(tmp_path / "a" / "acme_kernels-1.0a1-py3-none-any.whl") as wheel:
        assert (
            wheel.getinfo("acme_kernels/x.tilec").compress_type == zipfile.ZIP_STORED
        )  # a bundle is packed already


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("Apache-2.0", "License-Expression: Apache-2.0"),
        ("mit or apache-2.0", "License-Expression: MIT OR Apache-2.0"),
        ("(MIT OR BSD-3-Clause) AND ISC", "License-Expression: (MIT OR BSD-3-Clause) AND ISC"),
        ("LicenseRef-Acme", "License-Expression: LicenseRef-Acme"),
        ("Acme-1.0", "License: Acme-1.0"),
        ("Ask our lawyers first", "License: Ask our lawyers first"),
        ("a\nName: evil", "License: a Name: evil"),
    ],
)
def test_licences(tmp_path: Path, text: str, field: str) -> None:
    path = build(tmp_path, package=PackageInfo(name="k", version="2", module="k", license=text))
    with zipfile.ZipFile(path) as wheel:
        assert field in wheel.read("k-2.dist-info/METADATA").decode().splitlines()


def test_ctrl_c_does_not_come_between() -> None:
    def hear(*_: object) -> None:
        heard.append("Ctrl-C")

    heard: list[str] = []
    before = signal.signal(signal.SIGINT, hear)
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
        assert heard == []
        os.kill(os.getpid(), signal.SIGINT)
        assert heard == ["Ctrl-C"]
    finally:
        signal.signal(signal.SIGINT, before)
