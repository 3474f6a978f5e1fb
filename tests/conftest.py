"""What every test can use: golden files, renewed by `pytest --renew-golden`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# The gate tries the same examples every time, so that it fails for changes alone; HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile("gate", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

Golden = Callable[[Path, str], None]
Terminal = Callable[[int], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew-golden", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a golden file, or writes the file where that was asked for."""
    renew = request.config.getoption("--renew-golden")

    def check(path: Path, text: str) -> None:
        if renew:
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: write it with --renew-golden, and read it"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Makes standard output, which a test captures, a terminal of so many columns."""
    del capsys  # it has to have taken the place of standard output

    def of(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return of
