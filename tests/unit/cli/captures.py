"""Where captures of terminals are made, and the golden texts that they are held against."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden

GOLDEN = Path(__file__).parents[2] / "golden" / "captures"


@dataclasses.dataclass(frozen=True)
class Scene:
    """Where a capture is made."""

    cli: Callable[..., Any]
    folder: Path
    request: pytest.FixtureRequest
    capsys: pytest.CaptureFixture[str]

    def fixture(self, name: str) -> Any:
        return self.request.getfixturevalue(name)

    def ran(self, *args: str, **options: Any) -> str:
        """What a command line prints: results, then what went to standard error."""
        done = self.cli(*args, **options)
        return f"{done.out}{done.err}"


SceneOf = Callable[[int], Scene]


def hold(name: str, text: str, folder: Path, width: int, golden: Golden) -> None:
    """Hold what a terminal shows against the golden text."""
    shown = alike(text, folder)
    assert max(map(len, text.replace(str(folder), "").splitlines())) <= width
    golden(GOLDEN / f"{name}-{width}.txt", shown)


def alike(text: str, folder: Path) -> str:
    """Without what is this machine's own: directories, and the line of versions at the head of
    `doctor`.
    """
    text = (
        re.sub(r"^tilec \S+, Python .*\n.*\n", "tilec …\n", text, flags=re.MULTILINE)
        if text.startswith("tilec ")
        else text
    )
    return re.sub(r"(?m)[ \t]+$", "", text.replace(str(folder), "…"))
