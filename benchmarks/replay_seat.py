"""The workers' end of `scheduler_scaling.py`: a job sleeps as long as it once took."""

from __future__ import annotations

import hashlib
import time

from distributed import Worker, get_worker

from tilec.compile.cluster.parcels import Delivery, Joined, Unit, pack, unpack
from tilec.compile.events import Blob, Done
from tilec.compile.worker import Compile, Reply
from tilec_runtime.model.image import ImageInfo


async def join(build: str, supplies: bytes, dask_worker: Worker) -> Joined:  # noqa: ARG001
    """Take part; there are no tools to compare."""
    return Joined(place=dask_worker.address)


async def leave(build: str, dask_worker: Worker) -> None:
    """Do nothing: nothing is kept."""


def work(build: str, unit: bytes) -> bytes:
    """Sleep for each request, and return images of the recorded size."""
    task, worker = unpack(unit, Unit), get_worker()
    replies, images = [], {}
    for index, request in enumerate(task.requests):
        worker.log_event(build, [task.number, index, worker.address])
        axes = dict(request.job.variant.axes)
        time.sleep(float(axes["SECONDS"]))
        done, data = _image(request, int(axes["BYTES"]), float(axes["SECONDS"]))
        replies.append(Reply(result=done))
        images[done.info.digest] = data
    return pack(
        Delivery(
            address=worker.address, place=worker.address, replies=tuple(replies), images=images
        )
    )


def _image(request: Compile, size: int, seconds: float) -> tuple[Done, bytes]:
    """Return an image that does not compress, as cubins hardly do."""
    data = hashlib.shake_128(request.key.encode()).digest(size)
    digest = hashlib.sha256(data).hexdigest()
    info = ImageInfo(target=request.job.target, digest=digest, size=size, symbol="replayed")
    blob = Blob(path="", offset=0, size=size, digest=digest)
    return Done(info=info, abi=(), warnings=(), blob=blob, cached=False, seconds=seconds), data
