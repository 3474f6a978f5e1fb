"""A service of an MLP: requests come as tasks, and each runs on a stream of its own, whose layers
follow each other.
"""

import asyncio
import itertools

import pipelines
import reference
from common import check, matrix, run, shared

from tilec_runtime import StreamPoolRoundRobin, api, use_policy

REQUESTS, STREAMS = 6, 3
ROWS, WIDTHS = 33, (40, 64, 48, 10)


def forward(x, weights):
    """The whole model as one op: each layer is launched behind the one before, on the same stream."""
    op = api.from_host(x)
    for w in weights:
        op = op.then(
            lambda h, w=w: pipelines.ops.layer(api.empty((h.shape[0], w.shape[1])), h, w).first()
        )
    return op.to_host()


async def answer(x, weights):
    """One request: other tasks go on until the device is done."""
    return await forward(x, weights)


async def serve(requests, weights):
    """All requests at once, over a few streams in turn."""
    with use_policy(StreamPoolRoundRobin(STREAMS)):
        return await asyncio.gather(*(answer(x, weights) for x in requests))


def main():
    """Serve, and compare every answer with NumPy."""
    arrays = [matrix(seed, *shape) / 8 for seed, shape in enumerate(itertools.pairwise(WIDTHS))]
    requests = [matrix(100 + number, ROWS, WIDTHS[0]) for number in range(REQUESTS)]
    answers = asyncio.run(serve(requests, [shared(array) for array in arrays]))
    for x, y in zip(requests, answers, strict=True):
        for w in arrays:
            x = reference.layer(x, w)
        check(y, x)
    return f"PASS: {REQUESTS} requests to an MLP of {len(arrays)} layers, over {STREAMS} streams"


if __name__ == "__main__":
    run(main)
