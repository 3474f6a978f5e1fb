"""Results of a cluster's workers: images go to the cache, answers to the build."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from tilec.compile.cache import Cache, index_row
from tilec.compile.cluster.parcels import Delivery
from tilec.compile.events import Done
from tilec.compile.pool import Replies
from tilec.compile.remote.session import RemoteCache
from tilec.compile.remote.store import RemoteError
from tilec.compile.worker import Compile, Setup, check_image, stored_image
from tilec_runtime.errors import TilecError

_SLOW = 60.0  # seconds for an image from the remote cache, including its wait in the queue


class Results:
    """Stores images in the cache of a build, or else in its spool.

    Args:
        setup: setup of the build, with cache and spool.
        note: gets texts for the user.
        remote: remote cache to which workers upload images, so that only digests return; None for
            none.
    """

    def __init__(
        self, setup: Setup, note: Callable[[str], None], remote: RemoteCache | None = None
    ) -> None:
        self._note = note
        self._remote = remote
        root = Path(setup.cache_root) if setup.cache_root else None
        self._cache = Cache(root, note=note)
        self._spool = Path(setup.spool)

    @property
    def as_bytes(self) -> bool:
        """Whether workers must send images instead of digests."""
        return self._remote is None

    async def take(self, requests: Sequence[Compile], delivery: Delivery) -> Replies:
        """Store the images of a delivery, and return its replies with local images.

        Raises:
            ValueError: an image has another size or digest than its reply says.
            RemoteError: the remote cache lacks an uploaded image; workers must stop using it.
        """
        if delivery.unshared:
            self._note(
                "images return through the scheduler, since workers of the cluster cannot write to "
                f"the remote cache: {delivery.unshared}"
            )
        replies = []
        for request, reply in zip(requests, delivery.replies, strict=False):
            result = reply.result
            if isinstance(result, Done):
                data = delivery.images.get(result.blob.digest)
                if data is None:
                    data = await self._bring(request.key, result.row)
                result = self._keep(request, result, data)
            replies.append(dataclasses.replace(reply, result=result))
        return tuple(replies)

    async def _bring(self, key: str, row: str) -> bytes:
        if self._remote is None:
            raise RemoteError("it was left alone meanwhile")
        try:
            image = asyncio.wrap_future(self._remote.bring(key, row))
            return await asyncio.wait_for(image, _SLOW)
        except (RemoteError, asyncio.TimeoutError) as exc:
            reason = str(exc) or f"an image did not come within {_SLOW:g} s"
            self._note(f"images return through the scheduler: {reason}")
            self._remote = None
            raise RemoteError(reason) from exc

    def _keep(self, request: Compile, done: Done, data: bytes) -> Done | TilecError:
        image = done.image(data)
        check_image(image)
        row = index_row(request.key, image)
        try:
            blob = stored_image(request, image, row, cache=self._cache, spool=self._spool)
        except TilecError as error:
            return error
        return dataclasses.replace(done, blob=blob)
