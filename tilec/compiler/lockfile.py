"""tilec.lock: the exact tools a project is built with, to be committed; ranges stay in the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilec.bundle.atomic import write_if_changed
from tilec.errors import OutputError, ToolchainError
from tilec.model.kernel import ToolInfo

_HEAD = """# The tools this project was last built with, written by `tilec build`. Commit it: `tilec build --locked` refuses any other.
version = 1
"""


def check_lock(root: Path, tools: Mapping[str, Sequence[ToolInfo]], *, locked: bool, note: Callable[[str], None]) -> None:
    """Bring tilec.lock up to the tools in use, or refuse tools other than those in it.

    Args:
        root: the project's directory.
        tools: the tools in use, by language.
        locked: refuse instead of writing.
        note: told what changed.

    Raises:
        ToolchainError: `locked`, and the tools are others.
    """
    path = root / "tilec.lock"
    text = render({tool.name: tool for found in tools.values() for tool in found})
    try:
        before = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        before = ""
    if before == text:
        return
    changes = _changes(before, text)
    if locked and not before:
        fix = "run `tilec build` without --locked, and commit the tilec.lock that it writes"
        raise ToolchainError("there is no tilec.lock to hold the tools against", fix=fix)
    if locked:
        raise ToolchainError(
            f"the tools are not those of tilec.lock: {'; '.join(changes)}",
            cause="other versions are installed than when tilec.lock was written",
            fix="install those, or run `tilec build` without --locked and commit the new tilec.lock",
        )
    try:
        write_if_changed(path, text.encode())
    except OutputError as error:
        note(f"tilec.lock was not written: {error.what}")
        return
    if before:
        note(f"tilec.lock now holds other tools: {'; '.join(changes)}")


def render(tools: Mapping[str, ToolInfo]) -> str:
    """The file's text: one table a tool, sorted by name."""
    parts = [_HEAD]
    for name in sorted(tools):
        tool = tools[name]
        parts.append(f'\n[tool."{name}"]\nversion = "{tool.version}"\nsha256 = "{tool.digest}"\n')
    return "".join(parts)


def _changes(before: str, after: str) -> list[str]:
    old, new = _rows(before), _rows(after)
    changes = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        if was is None or now is None:
            changes.append(f"{name} {'is new' if was is None else 'is gone'}")
        elif was[0] != now[0]:
            changes.append(f"{name} {was[0]} is now {now[0]}")
        else:
            changes.append(f"{name} {now[0]} is another file")
    return changes or ["the file was edited"]


def _rows(text: str) -> dict[str, tuple[str, str]]:
    """(version, digest) by tool. Only for messages: whether the file is right is decided on its whole text."""
    rows: dict[str, tuple[str, str]] = {}
    name = version = ""
    for line in text.splitlines():
        if line.startswith('[tool."'):
            name = line[len('[tool."') :].rstrip('"]')
        elif line.startswith("version = ") and name:
            version = line.split('"')[1] if '"' in line else ""
        elif line.startswith("sha256 = ") and name:
            rows[name] = (version, line.split('"')[1] if '"' in line else "")
    return rows
