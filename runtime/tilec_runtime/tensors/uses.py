"""The last uses of one piece of memory, stream by stream: what the next use has to wait for."""

from __future__ import annotations

from typing import NamedTuple

from tilec_runtime.device.core import UsesFields
from tilec_runtime.device.marks import FOREVER, Line


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

    A use is only noted here once its line waits for what `before` names, so each read comes after
    the write. The launch core notes uses by the same rules (`_core/tensor.c`).

    Attributes:
        written: line of the last write; None for none.
        at: its number, or that of a later read on the same line.
        reads: numbers of the reads since then, by their lines.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        """Start with no use."""
        self.written: Line | None = None
        self.at = 0
        self.reads: dict[Line, int] = {}

    def before(self, line: Line, *, write: bool) -> list[Use]:
        """Return what a use on this line has to wait for, on other lines."""
        if not write and line in self.reads:  # which came after the write
            return []
        return [use for use in (self.last if write else self._write) if use.line is not line]

    def note(self, line: Line, *, write: bool, lasting: bool = False) -> None:
        """Remember a use, which comes after all that `before` named.

        Args:
            line: of the use.
            write: whether it writes.
            lasting: whether the line may go on with the memory later, untold.
        """
        line.count += 1
        number = FOREVER if lasting else line.count
        if write:
            self.at = max(self.at, number) if self.written is line else number
            self.written = line
            self.reads.clear()
        elif self.written is line and self.at > line.done and not self.reads and not line.tells:
            # Who waits for the write waits for this read too: it needs no entry. Where marks tell
            # failures, a read that failed is no failure of the write.
            self.at = max(self.at, number)
        else:
            self.reads[line] = max(self.reads.get(line, 0), number)

    def lasts(self, line: Line, *, write: bool) -> bool:
        """Return whether a lasting use on this line would wait for nothing, and is noted already."""
        written = self.written is line and self.at == FOREVER
        return written and not self.reads if write else written or self.reads.get(line) == FOREVER

    @property
    def last(self) -> list[Use]:
        """What has to be over before the memory can be given back."""
        if not self.reads:
            return self._write
        reads = [Use(line, number) for line, number in list(self.reads.items())]
        return [use for use in reads if not use.over]  # each of which came after the write

    @property
    def _write(self) -> list[Use]:
        write = None if self.written is None else Use(self.written, self.at)
        return [] if write is None or write.over else [write]

    @property
    def sole(self) -> Line | None:
        """The line that all uses since the last write are on, where there is but one."""
        return self.written if self.reads.keys() <= {self.written} else None
