"""The last uses of one piece of memory, stream by stream: what a next use has to wait for. Pure:
knows no device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilec_runtime.tensors.fields import LineFields, UsesFields


class Line(LineFields):
    """A stream of a device, as long as it is open: a later one of the same handle is another line.

    Attributes:
        ordinal: of the device. handle: of the stream. open: whether it was not closed, as far as
            tilec knows.
        used: whether memory was used there. end: behind all its work, once it is closed.
    """

    __slots__ = ("__weakref__", "end", "used")

    def __init__(self, ordinal: int, handle: int) -> None:
        """Begin a line; `tilec_runtime.device.marks.line_of` has one for each stream."""
        self.ordinal = ordinal
        self.handle = handle
        self.open = True
        self.used = False
        self.end: Any = None

    def __str__(self) -> str:
        """`(0, 4096)`: device and handle."""
        return f"({self.ordinal}, {self.handle})"


class Use(NamedTuple):
    """A use on a line, up to `mark`; None stands for everything that the line has to do when it is
    asked.
    """

    line: Line
    mark: Any


class Uses(UsesFields):
    """The last write, and the reads since then, of one piece of memory.

    A use is only noted here once its line waits for what `before` names, so each read comes after
    the write. A read behind a write on one line needs no note while the write has no mark: who
    waits for the line waits for both. The launch core notes uses by the same rules
    (`_core/tensor.c`).

    Attributes:
        written: line of the last write; None for none. mark: behind it, and None as in `Use`.
        reads: marks of the reads since then, by their lines. count: how many uses there were.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        """Start with no use."""
        self.written: Line | None = None
        self.mark: Any = None
        self.reads: dict[Line, Any] = {}
        self.count = 0

    def before(self, line: Line, *, write: bool) -> list[Use]:
        """What a use on this line has to come after, on other lines."""
        if write:
            others = [
                Use(other, mark) for other, mark in list(self.reads.items()) if other is not line
            ]
            if others:  # all of them come after the write
                return others
        if self.written is None or self.written is line or line in self.reads:
            return []
        return [Use(self.written, self.mark)]

    def ready(self, line: Line, *, write: bool) -> bool:
        """Whether a use on this line waits for nothing, and changes nothing that is noted: what the
        launch core asks.
        """
        if self.reads:
            return not write and self.reads.get(line, line) is None
        return self.written is line and self.mark is None

    def note(self, line: Line, *, write: bool) -> None:
        """Remember a use, which came after all that `before` named."""
        line.used = True
        self.count += 1
        if write:
            self.written, self.mark = line, None
            self.reads.clear()
        elif line is not self.written or self.mark is not None or self.reads:
            self.reads[line] = None

    def remember(self, line: Line, mark: Any, count: int, *, write: bool = True) -> None:
        """Let the last use on a line have a mark that is behind it, unless there were others since
        `count`.

        Args:
            line: of the use.
            mark: an event on the line.
            count: of uses before the event was recorded.
            write: whether the write may have it, where there was no read.
        """
        if self.count != count:
            return
        if line in self.reads:
            self.reads[line] = mark if self.reads[line] is None else self.reads[line]
        elif write and self.written is line and self.mark is None:
            self.mark = mark

    @property
    def last(self) -> list[Use]:
        """What has to be over before the memory can be given back; all other uses come before
        these.
        """
        if self.reads:  # all of them come after the write
            return [Use(line, mark) for line, mark in list(self.reads.items())]
        return [] if self.written is None else [Use(self.written, self.mark)]

    @property
    def sole(self) -> Line | None:
        """The line that all uses since the last write are on, where there is but one."""
        return self.written if self.reads.keys() <= {self.written} else None
