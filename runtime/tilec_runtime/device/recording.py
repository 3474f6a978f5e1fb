"""Streams that are captured: what is used there is noted for the graph, since nothing runs yet and
nothing can be waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver


class Recording:
    """What a capture of tilec's own uses: its graph keeps all of it, and each replay is a use of
    each memory.

    Attributes:
        uses: memory, and whether it is written, by the memory's id.
        kept: everything else that has to live as long as the graph: arrays of other libraries, host
            memory; by the thing's id.
    """

    __slots__ = ("__weakref__", "kept", "uses")

    def __init__(self) -> None:
        """Start with nothing."""
        self.uses: dict[int, tuple[Any, bool]] = {}
        self.kept: dict[int, Any] = {}

    def touch(self, storage: Any, *, write: bool) -> None:
        """Note that the graph uses a `Storage`. Its order among other uses is the replays' affair."""
        before = self.uses.get(id(storage))
        self.uses[id(storage)] = (storage, write or (before is not None and before[1]))

    def keep(self, *things: Any) -> None:
        """Keep objects as long as the graph. Of tensors it is the memory: to hold them would be to
        own or to borrow them.
        """
        for thing in things:
            storage = getattr(thing, "storage", None)
            kept = storage if hasattr(storage, "lease") else thing
            self.kept[id(kept)] = kept


class ForeignRecording(Recording):
    """A capture of another library. What it uses has to be there before: the host waits for it. Its
    replays are not seen, and nothing is kept for them.
    """

    __slots__ = ("_driver", "_key")

    def __init__(self, driver: DeviceDriver, ordinal: int, stream: int) -> None:
        """Name the stream that is captured."""
        super().__init__()
        self._driver = driver
        self._key = (ordinal, stream)

    def touch(self, storage: Any, *, write: bool) -> None:
        """Wait for what the work has to come after, on other streams: the graph cannot."""
        with self._driver.outside_captures(self._key[0]):
            storage.sync(write=write, line=storage.line(self._key[1], self._key[0]))

    def keep(self, *things: Any) -> None:
        """Who captures keeps what the graph uses."""


RECORDINGS: dict[tuple[int, int, int], Recording] = {}


def begin_recording(driver: DeviceDriver, ordinal: int, stream: int) -> Recording:
    """Note what a stream uses from now on, for a graph."""
    recording = RECORDINGS[id(driver), ordinal, stream] = Recording()
    return recording


def end_recording(driver: DeviceDriver, ordinal: int, stream: int) -> None:
    """Its capture has ended, or is about to."""
    RECORDINGS.pop((id(driver), ordinal, stream), None)


def own_recording(driver: DeviceDriver, ordinal: int, stream: int) -> Recording | None:
    """The capture of tilec's own that a stream is in."""
    return RECORDINGS.get((id(driver), ordinal, stream)) if RECORDINGS else None


def recording_of(driver: DeviceDriver, ordinal: int, stream: int) -> Recording | None:
    """The capture that a stream is in, by whomever; None for a stream that does its work."""
    recording = own_recording(driver, ordinal, stream)
    if recording is None and driver.capturing(ordinal, stream):
        return ForeignRecording(driver, ordinal, stream)
    return recording
