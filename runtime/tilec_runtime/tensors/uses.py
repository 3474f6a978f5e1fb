"""The last uses of one piece of memory, for which the next use has to wait."""

from __future__ import annotations

from typing import NamedTuple

from tilec_runtime.device.core import UsesFields
from tilec_runtime.device.lines import FOREVER, Line


class Use(NamedTuple):
    """A use of memory: its line, and its number there."""

    line: Line
    number: int

    @property
    def over(self) -> bool:
        """Whether it is known to be complete."""
        return self.number <= self.line.done


class Uses(UsesFields):
    """The last write, and the reads since then, of one piece of memory.

    A use is noted only once its line waits for the uses that `before` returns, so each read comes
    after the write. The launch core notes uses by the same rules (`_core/tensor.c`).

    Attributes:
        written: line of the last write, or None.
        at: number of that write, or of a later read on the same line.
        reads: numbers of the reads since then, by their lines.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        """Start without uses."""
        self.written: Line | None = None
        self.at = 0
        self.reads: dict[Line, int] = {}

    def before(self, line: Line, *, write: bool) -> list[Use]:
        """Return the uses on other lines that a use on this line has to wait for."""
        if not write and line in self.reads:  # the earlier read on this line waited for the write
            return []
        return [use for use in (self.last if write else self._write) if use.line is not line]

    def note(self, line: Line, *, write: bool, lasting: bool = False) -> None:
        """Record a use, which comes after all uses that `before` returned.

        Args:
            line: the line of the use.
            write: whether it writes.
            lasting: whether another library may use the memory on this line at any later time.
        """
        line.count += 1
        number = FOREVER if lasting else line.count
        if write:
            self.at = max(self.at, number) if self.written is line else number
            self.written = line
            self.reads.clear()
        elif self.written is line and self.at > line.done and not self.reads and not line.tells:
            # A wait for the write then covers this read too, so the read needs no entry. If events
            # report failures, it needs one: a failed read is not a failure of the write.
            self.at = max(self.at, number)
        else:
            self.reads[line] = max(self.reads.get(line, 0), number)

    def lasts(self, line: Line, *, write: bool) -> bool:
        """Return whether a lasting use on this line is noted already and needs no wait."""
        written = self.written is line and self.at == FOREVER
        return written and not self.reads if write else written or self.reads.get(line) == FOREVER

    @property
    def last(self) -> list[Use]:
        """The uses that have to be complete before the memory can be freed."""
        if not self.reads:
            return self._write
        reads = [Use(line, number) for line, number in list(self.reads.items())]
        return [use for use in reads if not use.over]  # each read waited for the write

    @property
    def _write(self) -> list[Use]:
        write = None if self.written is None else Use(self.written, self.at)
        return [] if write is None or write.over else [write]

    @property
    def sole(self) -> Line | None:
        """The line of all uses since the last write, or None if there are several."""
        return self.written if self.reads.keys() <= {self.written} else None
