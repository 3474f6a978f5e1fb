"""A build's use of a remote cache: parallel look-ups and uploads.

No fault of the remote fails a build. The first fault that a retry does not fix ends its use.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import final

from tilec.compile.cache import Cache
from tilec.compile.events import Done
from tilec.compile.remote.access import CONNECTIONS, SECONDS, Access, open_store
from tilec.compile.remote.images import Entry, WrongEntryError, get_image, has_image, put_image
from tilec.compile.remote.store import SLOWEST, RemoteError, RemoteStore
from tilec.compile.remote.usage import Usage, record
from tilec_runtime.errors import TilecError

# Look-ups may take this many seconds, and more by the answers and bytes that have come: a store is
# left alone that would take longer than to compile, or that hangs beyond the time limits of its
# library, which cover neither name resolution nor headers that arrive byte by byte.
_FREE = 30.0
_FEWEST = 10  # answers per second

Answer = tuple[Entry, bytes] | Exception | None
"""An image with its entry, an error, or None for a miss."""


@final
class RemoteCache:
    """A remote cache during one build; use it as a context manager.

    Leaving it waits for uploads, at most `wait` seconds, unless the build was interrupted. Notes
    are given in the calling thread. Threads of the cache end with the process.

    Args:
        store: store of the images.
        cache: the private cache, to which images are copied, and which counts the use.
        access: permissions and trust of the store.
        note: gets a text for the first wrong entry, the first fault and missing uploads.
        wait: time limit for uploads at the end, in seconds.

    Attributes:
        pins: by key, SHA-256 of the index row of the only image to accept from a remote cache that
            is not the user's own.
        fetched: keys whose images came from the store.
        usage: counts so far.
    """

    def __init__(
        self,
        store: RemoteStore,
        cache: Cache,
        *,
        access: Access,
        note: Callable[[str], None],
        wait: float = 60.0,
    ) -> None:
        self.pins: Mapping[str, str] = {}
        self.fetched: set[str] = set()
        self.usage = Usage()
        self._store = store
        self._cache = cache
        self._access = access
        self._name = f"the remote cache {access.url.shown}"
        self._note = note
        self._wait = wait
        self._crew = _Crew(CONNECTIONS)
        self._left = False
        # Keys with an entry in the store. If such a job is compiled, its image replaces the entry.
        self._looked_at: set[str] = set()
        self._changed = threading.Condition()
        self._pending = 0
        self._refusal = ""

    def fetch(self, keys: Sequence[str]) -> Iterator[tuple[str, Done]]:
        """Copy images to the private cache, and yield each as it arrives.

        Keys without a pin are looked up only in the user's own remote cache.
        """
        trusted = [key for key in keys if self._access.own or key in self.pins]
        if keys and not trusted and not self._access.write:
            self._note(
                f"{self._name} gives nothing: tilec.lock pins no image of these sources; "
                "commit the tilec.lock of the build that filled it"
            )
        if self._left or not trusted:
            return
        answers: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()

        def look(key: str) -> None:
            if not self._left:
                answers.put((key, self._fetch_one(key)))

        whole = False
        began, size = time.monotonic(), self.usage.down
        try:
            for key in trusted:
                self._crew.submit(functools.partial(look, key))
            for number in range(len(trusted)):
                limit = _FREE + number / _FEWEST + (self.usage.down - size) / SLOWEST
                rest = max(0.0, began + limit - time.monotonic())
                try:
                    key, answer = answers.get(timeout=rest)
                except queue.Empty:
                    raise RemoteError(f"it gave {number} answers in {limit:.0f} s") from None
                if self._count(key, answer) and (done := self._cache.get(key)):
                    self._cache.wrote(done.blob.size)
                    self.fetched.add(key)
                    yield key, done
            whole = True
        except RemoteError as exc:
            self._note(f"{self._name} is left alone for the rest of this build: {exc}")
        except OSError as exc:
            self._cache.note_unwritable(exc)
        finally:
            self._left = not whole

    def offer(self, key: str, done: Done) -> None:
        """Upload an image of the private cache in the background.

        An image that the remote cache has for the key stays.
        """
        if not self._access.write or self._left:
            return
        with self._changed:
            self._pending += 1
        self._crew.submit(lambda: self._upload(key, done))

    @property
    def fills(self) -> bool:
        """Whether images of the private cache are offered too."""
        return self._access.fill

    @property
    def url_for_workers(self) -> str:
        """URL, without credentials, that workers may write to; empty for none."""
        return self._access.url.shown if self._access.write and not self._left else ""

    def bring(self, key: str, row: str) -> Future[bytes]:
        """Fetch an image that a worker of this build has uploaded.

        The future's exception is a RemoteError if this fails.

        Args:
            key: the cache key.
            row: SHA-256 of the index row.
        """
        image: Future[bytes] = Future()

        def get() -> None:
            if not image.set_running_or_notify_cancel():
                return
            answer = self._look(key, row)
            if isinstance(answer, tuple):
                self.usage.down += _size(answer)
                image.set_result(answer[1])
            else:
                image.set_exception(RemoteError(f"{self._name}: {answer or 'an image is gone'}"))

        self._crew.submit(get)
        return image

    def __enter__(self) -> RemoteCache:
        """Return the cache itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for uploads and close the store."""
        try:
            if kind is None or issubclass(kind, TilecError):
                self._finish_uploads()
        finally:
            self._left = True
            self._crew.close()
            self._store.close()
            record(self._cache, self.usage)

    def _fetch_one(self, key: str) -> Answer:
        """Look up a key, and copy its image to the private cache."""
        answer = self._look(key, "" if self._access.own else self.pins[key])
        if isinstance(answer, tuple):
            try:
                self._cache.save(key, answer[0].row, answer[1])
            except OSError as exc:
                return exc
        return answer

    def _look(self, key: str, row: str) -> Answer:
        try:
            return get_image(self._store, key, row=row)
        except (RemoteError, WrongEntryError) as exc:
            return exc
        except Exception as exc:  # noqa: BLE001 - the build's thread waits for an answer
            return RemoteError(f"the request failed ({type(exc).__name__})")

    def _count(self, key: str, answer: Answer) -> bool:
        """Count an answer; return whether it is an image.

        Raises:
            RemoteError: the store failed.
            OSError: saving the image failed.
        """
        if answer is not None:
            self._looked_at.add(key)
        if isinstance(answer, WrongEntryError):
            if not self.usage.wrong:
                self._note(
                    f"an entry of {self._name} is not used ({answer}: {key[:12]}): "
                    "it is compiled again"
                )
            self.usage.wrong += 1
        elif isinstance(answer, Exception):
            raise answer
        elif answer is None:
            self.usage.misses += 1
        else:
            self.usage.hits += 1
            self.usage.down += _size(answer)
            self.usage.saved += answer[0].seconds
            return True
        return False

    def _upload(self, key: str, done: Done) -> None:
        size, refusal = 0, ""
        if not (self._refusal or self._left):
            try:
                size = self._upload_one(key, done)
            except RemoteError as exc:
                refusal = str(exc)
            except Exception as exc:  # noqa: BLE001 - no upload fails a build
                refusal = f"an image could not be read back ({type(exc).__name__})"
        self._count_upload(size, refusal)

    def _count_upload(self, size: int, refusal: str) -> None:
        with self._changed:
            self._refusal = self._refusal or refusal
            failed = bool(self._refusal)
            self.usage.failed += failed and not size
            self.usage.uploaded += size > 0
            self.usage.up += size
            self._pending -= 1
            self._changed.notify_all()

    def _upload_one(self, key: str, done: Done) -> int:
        image = self._cache.read(key, done.row)
        if image is None or (key not in self._looked_at and has_image(self._store, key)):
            return 0
        put_image(self._store, key, *image, seconds=done.seconds)
        return sum(map(len, image))

    def _finish_uploads(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, timeout=self._wait)
            late, failed, refusal = self._pending, self.usage.failed, self._refusal
            self.usage.failed += late
        if refusal:
            count = _images(failed + late)
            self._note(f"{self._name} takes no uploads: {refusal}; {count} not uploaded")
        elif late:
            self._note(
                f"{_images(late)} not uploaded to {self._name} within {self._wait:g} s; "
                "--remote-wait SECS waits longer"
            )


def open_remote(
    access: Access,
    cache: Cache,
    *,
    note: Callable[[str], None],
    wait: float = 60.0,
    seconds: float = SECONDS,
) -> RemoteCache | None:
    """Return the remote cache for a build, or None with a note if it cannot be used."""
    for text in access.notes:
        note(text)
    try:
        store = open_store(access, seconds=seconds)
    except RemoteError as exc:
        note(f"the remote cache {access.url.shown} is not used: {exc}")
        return None
    return RemoteCache(store, cache, access=access, note=note, wait=wait)


class _Crew:
    """Threads that run calls, started on demand.

    They are daemons, so that a hanging request does not block the end of the process.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._started = 0
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, call: Callable[[], None]) -> None:
        """Queue a call, which must not raise."""
        if self._started < self._size:
            with contextlib.suppress(RuntimeError):  # this machine starts no more threads
                threading.Thread(target=self._serve, daemon=True, name="remote cache").start()
                self._started += 1
        self._calls.put(call)

    def close(self) -> None:
        """End every thread after the queued calls."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _size(image: tuple[Entry, bytes]) -> int:
    return len(image[0].row) + len(image[1])


def _images(count: int) -> str:
    return "1 image was" if count == 1 else f"{count} images were"
