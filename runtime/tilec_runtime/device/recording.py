"""Captures of streams: the memory that is used there is recorded for the graph.

During a capture nothing runs, and nothing can be waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver


class Recording:
    """Everything that a capture of tilec's own uses. Its graph keeps all of it alive.

    Each replay is a use of each memory.

    Attributes:
        uses: each memory, and whether it is written, by the memory's id.
        kept: all other objects that have to live as long as the graph, such as arrays of other
            libraries and host memory, by id.
    """

    __slots__ = ("__weakref__", "kept", "uses")

    def __init__(self) -> None:
        """Start empty."""
        self.uses: dict[int, tuple[Any, bool]] = {}
        self.kept: dict[int, Any] = {}

    def touch(self, storage: Any, *, write: bool) -> None:
        """Record that the graph uses a `Storage`; replays order this use among others."""
        before = self.uses.get(id(storage))
        self.uses[id(storage)] = (storage, write or (before is not None and before[1]))

    def keep(self, *things: Any) -> None:
        """Keep objects alive as long as the graph.

        For a tensor keep its storage: to keep the tensor would be to own or borrow it.
        """
        for thing in things:
            storage = getattr(thing, "storage", None)
            kept = storage if hasattr(storage, "lease") else thing
            self.kept[id(kept)] = kept


class ForeignRecording(Recording):
    """A capture by another library.

    Memory that it uses has to be ready before, so the host waits for it. Replays are not visible to
    tilec, and nothing is kept alive for them.
    """

    __slots__ = ("_driver", "_key")

    def __init__(self, driver: DeviceDriver, ordinal: int, stream: int) -> None:
        """Name the stream that is captured."""
        super().__init__()
        self._driver = driver
        self._key = (ordinal, stream)

    def touch(self, storage: Any, *, write: bool) -> None:
        """Wait for conflicting uses on other streams: the graph cannot wait for them."""
        with self._driver.outside_captures(self._key[0]):
            storage.sync(write=write, line=storage.line(self._key[1], self._key[0]))

    def keep(self, *things: Any) -> None:
        """Do nothing: the library that captures keeps objects alive."""


RECORDINGS: dict[tuple[int, int, int], Recording] = {}


def begin_recording(driver: DeviceDriver, ordinal: int, stream: int) -> Recording:
    """Start recording a stream's uses of memory, for a graph."""
    recording = RECORDINGS[id(driver), ordinal, stream] = Recording()
    return recording


def end_recording(driver: DeviceDriver, ordinal: int, stream: int) -> None:
    """Stop recording: the capture has ended, or is about to."""
    RECORDINGS.pop((id(driver), ordinal, stream), None)


def own_recording(driver: DeviceDriver, ordinal: int, stream: int) -> Recording | None:
    """Return the capture of tilec's own that a stream is in, or None."""
    return RECORDINGS.get((id(driver), ordinal, stream)) if RECORDINGS else None


def recording_of(driver: DeviceDriver, ordinal: int, stream: int) -> Recording | None:
    """Return the capture by any library that a stream is in, or None."""
    recording = own_recording(driver, ordinal, stream)
    if recording is None and driver.capturing(ordinal, stream):
        return ForeignRecording(driver, ordinal, stream)
    return recording
