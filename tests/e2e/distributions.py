"""tilec's two distributions as a user gets them: wheels of this checkout, and pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("numpy", "ml_dtypes", "cuda-bindings", "cuda-pathfinder")  # by tilec-runtime
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


class Venv:
    """An environment that borrows some distributions of this one, and pip from outside."""

    def __init__(self, place: Path, *borrowed: str) -> None:
        self.place, self.python = place, place / "bin" / "python"
        run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
        (self.site,) = place.glob("lib/python*/site-packages")
        for name in borrowed:
            for file in distribution(name).files or ():
                top = file.parts[0]
                source = Path(str(distribution(name).locate_file(top)))
                if top not in ("..", "__pycache__") and not (self.site / top).exists():
                    (self.site / top).symlink_to(source)

    def pip(self, *arguments: object, code: int = 0) -> str:
        options = ("--isolated", "--disable-pip-version-check", "--python", self.python)
        done = run(sys.executable, "-m", "pip", *options, *arguments, cwd=self.place, code=code)
        return done.stdout + done.stderr

    def install(self, *arguments: object, code: int = 0) -> str:
        options = ("--no-index", "--no-cache-dir", "--no-compile")
        return self.pip("install", *options, *arguments, code=code)
