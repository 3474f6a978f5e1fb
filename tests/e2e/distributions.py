"""tilec's two distributions as a user gets them: wheels of this checkout, and pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info", "*.so")


def run(
    *command: object, cwd: Path, env: dict[str, str] | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends with this exit code."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def wheel_of(source: Path, place: Path) -> Path:
    """Build the wheel of a distribution. setuptools builds in its source's folder, so that it gets
    a copy of the runtime's.
    """
    if (source / "tilec_runtime").is_dir():
        source = shutil.copytree(source, place / "source", ignore=_LEFT_OUT)
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        place / "wheel",
        source,
        cwd=place,
    )
    (made,) = (place / "wheel").glob("*.whl")
    return made


def install(place: Path, *wheels: Path) -> None:
    """Install wheels into a virtual environment, without what they depend on."""
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--disable-pip-version-check",
        "--python",
        place / "bin" / "python",
    )
    run(
        *pip,
        "install",
        "--no-deps",
        "--no-index",
        "--no-cache-dir",
        "--no-compile",
        *wheels,
        cwd=place,
    )
