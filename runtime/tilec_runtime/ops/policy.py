"""Scheduling policies, which pick the streams of ops; thread and task defaults."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any

from tilec_runtime.device.device import Device
from tilec_runtime.device.devices import HERE, Defaults, named_device, set_process_device
from tilec_runtime.device.handles import stream_handle, stream_ordinal
from tilec_runtime.device.scalars import whole
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import ArgumentError, SchedulingError
from tilec_runtime.forks import ForkLock
from tilec_runtime.protocols import DeviceLike, SchedulingPolicy, StreamLike
from tilec_runtime.values import Uncopied

# Number of streams of a device's default policy.
_STREAMS = 4


class StreamPoolRoundRobin(Uncopied):
    """Runs each op on the next of a few streams, so that independent ops overlap."""

    def __init__(self, streams: int = _STREAMS, device: DeviceLike | None = None) -> None:
        """Create a policy; streams are created at their first use.

        Args:
            streams: number of streams.
            device: the device; None for the default device of the caller.

        Raises:
            SchedulingError: `streams` is below 1.
        """
        streams = whole("StreamPoolRoundRobin: the number of streams", streams, SchedulingError)
        if streams < 1:
            raise SchedulingError(
                f"a pool of {streams} streams has none to give", fix="ask for one stream at least"
            )
        self.device = Device(device)
        self._indices = itertools.cycle(range(streams))
        self._streams: list[Stream | None] = [None] * streams
        self._lock = ForkLock()

    def next_stream(self) -> Stream:
        """Return the next stream in turn.

        Raises:
            SchedulingError: the policy is closed.
        """
        index, streams = next(self._indices), self._streams
        stream = streams[index] if streams else None
        return stream or self._new_stream(index)

    def _new_stream(self, index: int) -> Stream:
        with self._lock:
            if not self._streams:
                raise SchedulingError(
                    f"{self!r} is closed", fix="make a new policy, or close it after its last op"
                )
            stream = self._streams[index] = self._streams[index] or self.device.new_stream()
            return stream

    def close(self) -> None:
        """Destroy the streams; work on them still finishes. Further calls do nothing."""
        with self._lock:
            streams, self._streams = self._streams, []
        with contextlib.ExitStack() as stack:  # closes all of them even if one raises
            for stream in streams:
                if stream is not None:
                    stack.callback(stream.close)

    def __repr__(self) -> str:
        """Show name and device."""
        return f"<{type(self).__name__} on {self.device!r}>"


class SingleStream(StreamPoolRoundRobin):
    """Runs every op on one stream, in the order of their calls."""

    def __init__(self, device: DeviceLike | None = None) -> None:
        """Create a policy; the stream is created at its first use.

        Args:
            device: the device; None for the default device of the caller.
        """
        super().__init__(1, device)


# Default policies by device. Threads share their streams, which are never destroyed.
_POLICIES: dict[Device, StreamPoolRoundRobin] = {}
# The last device and its policy: one comparison costs less than a look-up.
_last: tuple[Device | None, StreamPoolRoundRobin | None] = (None, None)


def current_device() -> Device:
    """Return the device of `use_device`, else of `set_default_device`, else device 0.

    Raises:
        NoDeviceError: no device was set, and there is no GPU.
    """
    return named_device() or _device_0()


def current_policy() -> SchedulingPolicy:
    """Return the policy of `use_policy` or `use_device`, else the default device's.

    Raises:
        NoDeviceError: no device was set, and there is no GPU.
    """
    return HERE.get().policy or default_policy(current_device())


def default_policy(device: Device) -> SchedulingPolicy:
    """Return a device's default policy: four streams in turn, which all threads share."""
    global _last
    last, policy = _last
    if policy is not None and last is device:
        return policy
    policy = _POLICIES.get(device) or StreamPoolRoundRobin(_STREAMS, device)
    policy = _POLICIES.setdefault(device, policy)  # of several threads', one stays
    _last = device, policy
    return policy


def set_default_device(device: DeviceLike | None) -> None:
    """Set the process's default device, which applies outside of `use_device`.

    None resets it to device 0.

    Raises:
        CallError: `device` does not name a device.
        NoDeviceError: there is no such device.
    """
    set_process_device(None if device is None else Device(device))


@contextlib.contextmanager
def use_device(device: DeviceLike) -> Iterator[Device]:
    """Make a device, with its default policy, the default of this thread or task.

    Raises:
        CallError: `device` does not name a device.
        NoDeviceError: there is no such device.
    """
    named = Device(device)
    with _within(Defaults(device=named)):
        yield named


@contextlib.contextmanager
def use_policy(policy: SchedulingPolicy) -> Iterator[SchedulingPolicy]:
    """Make a policy, and its device if it has one, the default of this thread or task.

    Raises:
        SchedulingError: it has no `next_stream`.
    """
    require_policy(policy)
    device = getattr(policy, "device", None)
    with _within(
        Defaults(device=device if isinstance(device, Device) else HERE.get().device, policy=policy)
    ):
        yield policy


def require_policy(policy: Any) -> None:
    """Check that an object is a policy.

    Raises:
        SchedulingError: it has no `next_stream`.
    """
    if not callable(getattr(policy, "next_stream", None)):
        fix = "pass StreamPoolRoundRobin(4), SingleStream(), or an object with next_stream()"
        raise SchedulingError(
            f"{policy!r} is no scheduling policy: it has no next_stream()", fix=fix
        )


def stream_of(policy: SchedulingPolicy) -> Stream:
    """Return the next stream of a policy.

    Raises:
        SchedulingError: the policy returned an object that is not a stream.
    """
    given = policy.next_stream()
    try:
        return as_stream(given)
    except ArgumentError as error:
        fix = "let it give a stream of tilec, torch, CuPy or cuda.core, of the device that the op is for"
        raise SchedulingError(
            f"next_stream() of {policy!r} gave {given!r}, which is no stream to run an op on",
            fix=fix,
        ) from error


def as_stream(stream: StreamLike | Stream) -> Stream:
    """Return a stream of any library as one of tilec, with its device.

    Raises:
        ArgumentError: `stream` is not a stream.
    """
    if isinstance(stream, Stream):
        return stream
    handle = stream_handle(stream, "DeviceOp")
    device = current_device()
    named = stream_ordinal(stream)
    if named is not None and named != device.ordinal:
        device = Device(named, driver=device.driver)
    return Stream.borrow_raw(handle, device, owner=stream, driver=device.driver)


@contextlib.contextmanager
def _within(defaults: Defaults) -> Iterator[None]:
    token = HERE.set(defaults)
    try:
        yield
    finally:
        # In a generator the block may end in another context, which needs no reset.
        with contextlib.suppress(ValueError):
            HERE.reset(token)


@functools.cache  # otherwise each op would call the driver for it
def _device_0() -> Device:
    return Device(0)
