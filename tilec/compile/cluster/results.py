"""What workers of a cluster send back: images into the cache, answers as worker processes give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilec.compile.cache import Cache
from tilec.compile.cluster.parcels import Delivery
from tilec.compile.events import Done
from tilec.compile.pool import Answers
from tilec.compile.worker import Compile, Reply, Setup, check_image, image_row, spool_image
from tilec_runtime.errors import TilecError
from tilec_runtime.model.image import Image


class Results:
    """Puts images into the cache of a build, or else into its spool.

    Args:
        setup: has both.
        note: gets texts for the user.
    """

    def __init__(self, setup: Setup, note: Callable[[str], None]) -> None:
        root = Path(setup.cache_root) if setup.cache_root else None
        shared = Path(setup.shared_root) if setup.shared_root else None
        self._cache = Cache(root, note=note, shared=shared)
        self._spool = Path(setup.spool)

    def take(self, requests: Sequence[Compile], delivery: Delivery) -> Answers:
        """Return answers whose images lie here.

        Raises:
            ValueError, TypeError, LookupError: results are not what they have to be.
        """
        answers = []
        for request, answer in zip(requests, delivery.answers, strict=False):
            reply = answer.reply
            if isinstance(reply, Reply) and isinstance(reply.result, Done):
                result = self._keep(request, reply.result, delivery.images)
                answer = dataclasses.replace(
                    answer, reply=dataclasses.replace(reply, result=result)
                )
            answers.append(answer)
        if not answers:
            raise ValueError("it has no answers")
        return tuple(answers)

    def _keep(self, request: Compile, done: Done, images: Mapping[str, bytes]) -> Done | TilecError:
        image = Image(
            info=done.info,
            data=images[done.blob.digest],
            abi=done.abi,
            warnings=done.warnings,
        )
        check_image(image)
        if image.info.target != request.job.target:
            raise ValueError(f"an image for {image.info.target}, not {request.job.target}")
        blob = None
        if request.job.cacheable and not request.apart:
            blob = self._cache.put(request.key, image)
        try:
            if blob is None:
                self._spool.mkdir(parents=True, exist_ok=True)
                blob = spool_image(self._spool / f"{request.key}.image", image)
        except TilecError as error:
            return error
        return dataclasses.replace(done, row=image_row(request.key, image), blob=blob)
