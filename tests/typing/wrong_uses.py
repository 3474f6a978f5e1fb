"""Uses of a generated package that every type checker refuses, each on its own line; read by test_types.py, never run."""

from __future__ import annotations

import sample

from tilec.runtime import DeviceBuffer


def uses(kernels: sample.Module, t: DeviceBuffer) -> None:
    kernels.add(0, t, t)  # wrong: an argument is missing
    kernels.add(0, t, t, t, 1.0, 2.0)  # wrong: one too many
    kernels.add(0, t, t, [1.0])  # wrong: a list is no tensor
    kernels.add(None, t, t, t)  # wrong: launches name their stream
    kernels.add("cuda", t, t, t)  # wrong: a text is no stream
    kernels.add(0, t, t, t, alpha="1")  # wrong: a text is no number
    kernels.add(0, t, t, t, beta=1.0)  # wrong: no such argument
    kernels.gemm(0, t, t, t, BM=32)  # wrong: not built
    kernels.gemm(0, t, t, t, 64)  # wrong: axes go by name
    kernels.everything(0, t, 3, True, 0, b"x")  # wrong: an axis without default has to be chosen
    kernels.everything(0, t, 3, True, 0, "x", ORDER="row")  # wrong: a text is no struct
    kernels.missing(0, t)  # wrong: no such kernel
