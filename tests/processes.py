"""Python programs of tests in processes of their own, which find the modules of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_python(code: str, *options: str, **env: str) -> tuple[int, str, str]:
    """Run a program; return its exit status and what it wrote to both streams."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, **env},
    )
    return done.returncode, done.stdout, done.stderr
