"""torch in and out: launches take torch's tensors as they are, and torch takes what ops make, both
without a copy.
"""

import pipelines
import reference
from common import check, matrix, on_cpu, run

from tilec_runtime import api, current_device

ROWS, INNER, COLUMNS = 61, 70, 45


def torch_stream(torch):
    """Where torch works: tilec's launches go there too, and are ordered with everything else that
    is.
    """
    return 0 if on_cpu() else torch.cuda.current_stream()


def main():
    """A launch on torch's tensors, and an op whose result torch takes; where torch is not
    installed, NumPy's arrays take its place.
    """
    x, w = matrix(0, ROWS, INNER), matrix(1, INNER, COLUMNS)
    device = current_device()
    try:
        import torch
    except ImportError:
        return without_torch(x, w)
    place = "cpu" if on_cpu() else f"cuda:{device.ordinal}"
    tx, tw, ty = (
        torch.from_numpy(x).to(place),
        torch.from_numpy(w).to(place),
        torch.empty((ROWS, COLUMNS), device=place),
    )
    pipelines.load(device).layer(ty, tx, tw, stream=torch_stream(torch))
    device.sync()
    check(ty.cpu().numpy(), reference.layer(x, w))
    made = (
        pipelines.ops.layer(api.empty((ROWS, COLUMNS)), api.from_host(x), api.from_host(w))
        .first()
        .sync()
    )
    taken = torch.from_dlpack(made)
    check((taken + 1).cpu().numpy(), reference.layer(x, w) + 1)
    return f"PASS: torch's tensors in, and tilec's out to torch, on {place}"


def without_torch(x, w):
    """The same with NumPy: arrays are what the cpu device takes, and a GPU's tensors come back as
    arrays.
    """
    made = (
        pipelines.ops.layer(api.empty((ROWS, COLUMNS)), api.from_host(x), api.from_host(w))
        .first()
        .to_host()
        .sync()
    )
    check(made, reference.layer(x, w))
    return "PASS: NumPy's arrays in and out (torch is not installed)"


if __name__ == "__main__":
    run(main)
