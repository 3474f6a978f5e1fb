"""Results of a cluster's workers: images go to the cache, answers to the build."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from tilec.compile.cache import Cache
from tilec.compile.cluster.parcels import Delivery
from tilec.compile.events import Done
from tilec.compile.pool import Answers
from tilec.compile.remote.session import RemoteCache
from tilec.compile.remote.store import RemoteError
from tilec.compile.worker import Compile, Reply, Setup, check_image, image_row, spool_image
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

    async def take(
        self, requests: Sequence[Compile], delivery: Delivery, *, as_bytes: bool
    ) -> Answers:
        """Store the images of a delivery, and return its answers with local images.

        `as_bytes` is the value in the worker's unit.

        Raises:
            ValueError, TypeError, LookupError: the results are invalid.
            RemoteError: the remote cache lacks an uploaded image; workers must stop using it.
        """
        if delivery.unshared:
            self._note(
                "images return through the scheduler, since workers of the cluster cannot write to "
                f"the remote cache: {delivery.unshared}"
            )
        answers = []
        for request, answer in zip(requests, delivery.answers, strict=False):
            reply = answer.reply
            if isinstance(reply, Reply) and isinstance(reply.result, Done):
                done = reply.result
                data = delivery.images.get(done.blob.digest)
                if data is None:
                    if as_bytes:
                        raise LookupError("an image is missing")
                    data = await self._bring(request.key, done.row)
                result = self._keep(request, done, data)
                answer = dataclasses.replace(
                    answer, reply=dataclasses.replace(reply, result=result)
                )
            answers.append(answer)
        if not answers:
            raise ValueError("it has no answers")
        return tuple(answers)

    async def _bring(self, key: str, row: str) -> bytes:
        if self._remote is None:
            raise RemoteError("it was left alone meanwhile")
        try:
            image = asyncio.wrap_future(self._remote.bring(key, row))
            return (await asyncio.wait_for(image, _SLOW))[1]
        except (RemoteError, asyncio.TimeoutError) as exc:
            reason = str(exc) or f"an image did not come within {_SLOW:g} s"
            self._note(f"images return through the scheduler: {reason}")
            self._remote = None
            raise RemoteError(reason) from exc

    def _keep(self, request: Compile, done: Done, data: bytes) -> Done | TilecError:
        image = done.image(data)
        check_image(image)
        if image.info.target != request.job.target:
            raise ValueError(f"an image for {image.info.target}, not {request.job.target}")
        blob = None
        if request.cacheable:
            blob = self._cache.put(request.key, image)
        try:
            if blob is None:
                blob = spool_image(self._spool / f"{request.key}.image", image)
        except TilecError as error:
            return error
        return dataclasses.replace(done, row=image_row(request.key, image), blob=blob)
