"""What every test can use: golden files, renewed by `pytest --renew-golden`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[Path, str], None]


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
