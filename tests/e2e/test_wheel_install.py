"""A wheel that pip takes: installed into an empty directory, it imports, and pip's own view of it
is right.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundle_samples import write_sample
from tilec.package.wheel import write_wheel
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.kernel import PackageInfo

pytestmark = pytest.mark.e2e


def test_pip_installs_it(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    write_sample(tmp_path / "x.tilec")
    wheel = write_wheel(
        tmp_path / "dist",
        package=PackageInfo(
            name="Acme-Kernels",
            version="1.2.0rc1",
            module="acme_kernels",
            description="Kernels",
            license="MIT",
        ),
        files={
            "acme_kernels/__init__.py": b"ANSWER = 42\n",
            "acme_kernels/kernels.tilec": tmp_path / "x.tilec",
        },
        license_files={"LICENSE": b"text"},
        requires=("tilec>=0.1",),
    )
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"]
    command = [
        *pip,
        "--no-deps",
        "--no-index",
        "--no-cache-dir",
        "--target",
        str(target),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "successfully installed acme-kernels-1.2.0rc1" in done.stdout.lower()
    code = "import sys; sys.path.insert(0, sys.argv[1]); import acme_kernels; print(acme_kernels.ANSWER)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(target)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "42"
    Bundle.open(target / "acme_kernels" / "kernels.tilec").verify()
    (found,) = importlib.metadata.distributions(path=[str(target)])
    assert found.metadata["Name"] == "Acme-Kernels"
    assert found.version == "1.2.0rc1"
    assert found.requires == ["tilec>=0.1"]
    licence = target / "acme_kernels-1.2.0rc1.dist-info" / "licenses" / "LICENSE"
    assert licence.read_bytes() == b"text"
