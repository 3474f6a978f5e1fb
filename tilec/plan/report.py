"""Collect the problems of a plan."""

from __future__ import annotations

from collections.abc import Callable

Path = tuple[str | int, ...]


class Report:
    """Collects the problems of one table of the manifest."""

    def __init__(self, collect: Callable[[str, Path, int], None], table: Path = ()) -> None:
        """Collect by a function of message, key path, and column or 0."""
        self._collect = collect
        self._table = table

    def __call__(self, what: str, *key: str | int, column: int = 0) -> None:
        """Collect a problem at a key of the table, and at a column (from 1) of its value."""
        self._collect(what, (*self._table, *key), column)

    def at(self, *key: str | int) -> Report:
        """Return the report of a table in this one."""
        return Report(self._collect, (*self._table, *key))
