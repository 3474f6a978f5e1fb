"""A tile kernel, then a SIMT kernel on what it made: one process, one stream, the same arrays."""

import inter_kernel
import numpy as np
import reference

from tilec_runtime import api

ROWS, COLUMNS = 513, 777
THRESHOLD, SCALE = 1.0 / COLUMNS, 4.0


def gated(logits):
    """The whole pipeline as one op: the second launch is made when the first is on its stream, and
    goes behind it.
    """

    def gate(found):
        softmax, _ = found
        return inter_kernel.ops.threshold_scale(api.zeros(softmax.shape), softmax, THRESHOLD, SCALE)

    return inter_kernel.ops.row_softmax(api.zeros(logits.shape), api.from_host(logits)).then(gate)


def main():
    """Run it, compare both results with NumPy, and print the outcome."""
    logits = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    out, softmax, *_ = gated(logits).sync()
    found, weights = out.to_host(), softmax.to_host()
    np.testing.assert_allclose(weights, reference.row_softmax(logits), rtol=1e-4, atol=1e-6)
    # Held against what the first kernel made: an element at the threshold may fall on either side
    # of it in another arithmetic.
    np.testing.assert_array_equal(found, reference.threshold_scale(weights, THRESHOLD, SCALE))
    kept = np.count_nonzero(found) / found.size
    return f"PASS: tile softmax -> SIMT threshold/scale, {ROWS} x {COLUMNS}, {kept:.0%} of the elements kept"


if __name__ == "__main__":
    print(main())  # noqa: T201 - what this program is for
