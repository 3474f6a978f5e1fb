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
from concurrent import futures
from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar, final

from tilec.compile.cache import Cache
from tilec.compile.events import Done
from tilec.compile.remote.access import CONNECTIONS, SECONDS, Access, open_store
from tilec.compile.remote.images import Entry, WrongEntryError, get_image, has_image, put_image
from tilec.compile.remote.store import SLOWEST, RemoteError, RemoteStore
from tilec.compile.remote.usage import Usage, record
from tilec_runtime.errors import TilecError

# Time limit of look-ups in seconds, to which answers and bytes that arrive add. A build stops using
# a store that is slower than compiling, or that hangs. The time limits of its library do not
# suffice: they cover neither name resolution nor headers that arrive byte by byte.
_FREE = 30.0
_FEWEST = 10  # answers per second

T = TypeVar("T")


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
        self._threads = _Threads(CONNECTIONS)
        self._left = False
        # Keys with an entry in the store. If such a job is compiled, its image replaces the entry.
        self._looked_at: set[str] = set()
        self._uploads: list[Future[int]] = []
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
        answers: queue.SimpleQueue[tuple[str, Future[Entry | None]]] = queue.SimpleQueue()
        whole = False
        began, size = time.monotonic(), self.usage.down
        try:
            for key in trusted:
                answer = self._threads.submit(functools.partial(self._fetch_one, key))
                answer.add_done_callback(functools.partial(_put, answers, key))
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
            self._note(f"{self._name} is not used for the rest of this build: {exc}")
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
        self._uploads.append(self._threads.submit(lambda: self._upload(key, done)))

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

        def get() -> bytes:
            try:
                image = self._look(key, row)
            except (RemoteError, WrongEntryError) as exc:
                raise RemoteError(f"{self._name}: {exc}") from exc
            if image is None:
                raise RemoteError(f"{self._name}: an image is gone")
            self.usage.down += _size(image[0])
            return image[1]

        return self._threads.submit(get)

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
            self._threads.close()
            self._store.close()
            record(self._cache, self.usage)

    def _fetch_one(self, key: str) -> Entry | None:
        """Look up a key, copy its image to the private cache, and return its entry."""
        if self._left:
            return None
        image = self._look(key, "" if self._access.own else self.pins[key])
        if image is None:
            return None
        entry, data = image
        self._cache.save(key, entry.row, data)
        return entry

    def _look(self, key: str, row: str) -> tuple[Entry, bytes] | None:
        try:
            return get_image(self._store, key, row=row)
        except (RemoteError, WrongEntryError):
            raise
        except Exception as exc:
            raise RemoteError(f"the request failed ({type(exc).__name__})") from exc

    def _count(self, key: str, answer: Future[Entry | None]) -> bool:
        """Count an answer; return whether it is an image.

        Raises:
            RemoteError: the store failed.
            OSError: saving the image failed.
        """
        try:
            entry = answer.result()
        except WrongEntryError as exc:
            self._looked_at.add(key)
            if not self.usage.wrong:
                self._note(
                    f"an entry of {self._name} is not used ({exc}: {key[:12]}): "
                    "it is compiled again"
                )
            self.usage.wrong += 1
            return False
        if entry is None:
            self.usage.misses += 1
            return False
        self._looked_at.add(key)
        self.usage.hits += 1
        self.usage.down += _size(entry)
        self.usage.saved += entry.seconds
        return True

    def _upload(self, key: str, done: Done) -> int:
        """Upload an image; return the number of bytes.

        Raises:
            RemoteError: this upload or an earlier one failed.
        """
        if self._left:
            return 0
        if self._refusal:
            raise RemoteError(self._refusal)
        try:
            image = self._cache.read(key, done.row)
            if image is None or (key not in self._looked_at and has_image(self._store, key)):
                return 0
            put_image(self._store, key, *image, seconds=done.seconds)
            return sum(map(len, image))
        except RemoteError as exc:
            self._refusal = str(exc)
            raise
        except Exception as exc:
            self._refusal = f"an image could not be read back ({type(exc).__name__})"
            raise RemoteError(self._refusal) from exc

    def _finish_uploads(self) -> None:
        ended, late = futures.wait(self._uploads, timeout=self._wait)
        sizes = [upload.result() for upload in ended if not upload.exception()]
        self.usage.uploaded = sum(size > 0 for size in sizes)
        self.usage.up = sum(sizes)
        self.usage.failed = len(self._uploads) - len(sizes)
        if self._refusal:
            count = _images(self.usage.failed)
            self._note(f"{self._name} takes no uploads: {self._refusal}; {count} not uploaded")
        elif late:
            self._note(
                f"{_images(len(late))} not uploaded to {self._name} within {self._wait:g} s; "
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


class _Threads:
    """Threads that run calls, started on demand.

    They are daemons, so that a hanging request does not block the end of the process.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._started = 0
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call, and return its future."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except Exception as exc:  # noqa: BLE001 - the future has it
                future.set_exception(exc)

        if self._started < self._size:
            with contextlib.suppress(RuntimeError):  # this machine starts no more threads
                threading.Thread(target=self._serve, daemon=True, name="remote cache").start()
                self._started += 1
        self._calls.put(run)
        return future

    def close(self) -> None:
        """End every thread after the queued calls."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _put(answers: queue.SimpleQueue[tuple[str, Future[T]]], key: str, answer: Future[T]) -> None:
    answers.put((key, answer))


def _size(entry: Entry) -> int:
    return len(entry.row) + entry.size


def _images(count: int) -> str:
    return "1 image was" if count == 1 else f"{count} images were"
