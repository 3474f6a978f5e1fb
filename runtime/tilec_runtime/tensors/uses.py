"""The last uses of one piece of memory, stream by stream: what a next use has to wait for. Pure: knows no device."""

from __future__ import annotations

from typing import Any, NamedTuple

# (device, handle of the stream).
StreamKey = tuple[int, int]


class Use(NamedTuple):
    """A use on a stream, up to `mark`; None stands for everything that the stream has to do when it is asked."""

    stream: StreamKey
    mark: Any


class Uses:
    """The last write, and the reads since then, of one piece of memory.

    A stream is only noted here once it waits for what `before` names, so each read comes after the write.

    Attributes:
        gone: streams that were noted and are no more.
        notes: how many uses were noted so far.
    """

    __slots__ = ("__weakref__", "_reads", "_write", "gone", "notes")

    def __init__(self) -> None:
        """Start with no use."""
        self._write: Use | None = None
        self._reads: dict[StreamKey, Any] = {}
        self.gone: set[StreamKey] = set()
        self.notes = 0

    def before(self, stream: StreamKey, *, write: bool) -> list[Use]:
        """What a use on this stream has to come after, on other streams."""
        if write:
            others = [Use(key, mark) for key, mark in self._reads.items() if key != stream]
            if others:  # all of them come after the write
                return others
        if self._write is None or self._write.stream == stream or stream in self._reads:
            return []
        return [self._write]

    def note(self, stream: StreamKey, mark: Any, *, write: bool) -> None:
        """Remember a use, which came after all that `before` named."""
        self.gone.discard(stream)  # another one of the same name
        self.notes += 1
        if write:
            self._write = Use(stream, mark)
            self._reads = {}
        else:
            self._reads[stream] = mark

    @property
    def written(self) -> Use | None:
        """The last write."""
        return self._write

    @property
    def last(self) -> list[Use]:
        """What has to be over before the memory can be given back; all other uses come before these."""
        if self._reads:  # all of them come after the write
            return [Use(key, mark) for key, mark in self._reads.items()]
        return [] if self._write is None else [self._write]

    def settle(self, stream: StreamKey, mark: Any) -> None:
        """Let uses that are noted without a mark have this one: their stream is about to go."""
        self.gone.add(stream)
        if self._write is not None and self._write.stream == stream and self._write.mark is None:
            self._write = Use(stream, mark)
        if stream in self._reads and self._reads[stream] is None:
            self._reads[stream] = mark

    def mark(self, stream: StreamKey, mark: Any) -> None:
        """Let the last use of a stream have this mark, if it was noted without one. An earlier one did not come to what this comes to."""
        if stream in self._reads:
            self._reads[stream] = mark if self._reads[stream] is None else self._reads[stream]
        elif self._write is not None and self._write.stream == stream and self._write.mark is None:
            self._write = Use(stream, mark)
