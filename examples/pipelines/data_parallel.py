"""Data parallel: the batch is cut in two, and each half goes through the model on a device of its
own, chosen by its policy alone.
"""

import itertools

import numpy as np
import pipelines
import reference
from common import check, matrix, on_cpu, run

from tilec_runtime import Device, SingleStream, api, devices, use_device

BATCH, WIDTHS = 64, (40, 64, 10)


def replicas():
    """Two places to run at, by name: two GPUs, or two streams of the one device that there is."""
    if on_cpu():
        return {"cpu stream 0": SingleStream("cpu"), "cpu stream 1": SingleStream("cpu")}
    found = [info.ordinal for info in devices()][:2]
    if len(found) == 1:
        return {
            f"cuda:{found[0]} stream {number}": SingleStream(Device(found[0]))
            for number in range(2)
        }
    return {f"cuda:{ordinal}": SingleStream(Device(ordinal)) for ordinal in found}


def weights_on(policy, arrays):
    """The model's weights on the device of a policy: each replica has its own."""
    with use_device(policy.device):
        return [api.from_host(array).schedule(policy).result().share() for array in arrays]


def forward(x, weights):
    """The model as one op, of no device yet."""
    op = api.from_host(x)
    for w in weights:
        op = op.then(
            lambda h, w=w: pipelines.ops.layer(api.empty((h.shape[0], w.shape[1])), h, w).first()
        )
    return op.to_host()


def main():
    """Both halves at once, put together and compared with NumPy."""
    places = replicas()
    arrays = [matrix(seed, *shape) / 8 for seed, shape in enumerate(itertools.pairwise(WIDTHS))]
    batch = matrix(100, BATCH, WIDTHS[0])
    models = [weights_on(policy, arrays) for policy in places.values()]
    futures = [
        forward(part, weights).schedule(policy)
        for part, weights, policy in zip(
            np.array_split(batch, len(places)), models, places.values(), strict=True
        )
    ]
    found = np.concatenate([future.result() for future in futures])
    for w in arrays:
        batch = reference.layer(batch, w)
    check(found, batch)
    return f"PASS: a batch of {BATCH} in {len(places)} parts, on {' and '.join(places)}"


if __name__ == "__main__":
    run(main)
