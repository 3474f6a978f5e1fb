"""Kernels that read undetermined elements on a GPU: right ones give NumPy's results, whatever lies
beyond the arrays.

The bundle is built elsewhere: `cp -r tests/samples/planted build/planted`, and there `tilec build
--targets sm_90`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.gpu.conftest import ROOT
from tilec_runtime import load
from tilec_runtime.bundle.read import Bundle

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

BUNDLE = ROOT / "build" / "planted" / "dist" / "planted-0.1.0.tilec"


def attention(q: Any, k: Any, v: Any) -> Any:
    return np.exp(q @ k.T) @ v


def tiles(x: Any) -> Any:
    """Rows of 16, the last one filled up with zeros."""
    return np.pad(x, (0, -len(x) % 16)).reshape(-1, 16)


ROWS, TAIL, HEADS = [(4, 200)], [(60,)], [(16, 16), (20, 16), (20, 16)]
# Whether a kernel is right, its result, and the shapes of its inputs.
KERNELS: dict[str, tuple[bool, Callable[..., Any], Sequence[tuple[int, ...]]]] = {
    "sums_padded_rows": (True, lambda x: x.sum(axis=1), ROWS),
    "sums_masked_rows": (True, lambda x: x.sum(axis=1), ROWS),
    "least_of_masked": (True, lambda x: x.min(axis=1), ROWS),
    "stores_the_tail": (True, lambda x: 2 * x, TAIL),
    "attends_with_padding": (True, attention, HEADS),
    "sums_beyond_the_edge": (False, lambda x: x.sum(axis=1), ROWS),
    "largest_beyond_the_edge": (False, lambda x: x.max(axis=1), ROWS),
    "sums_the_last_tile": (False, lambda x: tiles(x).sum(axis=1), TAIL),
    "attends_beyond_the_edge": (False, attention, HEADS),
}


def surrounded(torch: Any, x: Any, beyond: float) -> Any:
    """A copy of an array on the GPU between elements of one value: whole rows, so that it stays
    contiguous.
    """
    room = torch.full((x.size + 8192,), beyond, dtype=torch.float32, device="cuda")
    inner = room[4096 : 4096 + x.size].view(x.shape)
    inner.copy_(torch.from_numpy(x))
    return inner


def test_kernels_that_are_right_are_right_there(torch: Any, record_property: Any) -> None:
    if not BUNDLE.is_file():
        pytest.skip(f"{BUNDLE} is not there: build it first, as this file says")
    module = load(Bundle.open(BUNDLE), 0)
    stream, random = torch.cuda.current_stream(), np.random.default_rng(0)
    wrong: dict[str, list[str]] = {}
    for name, (right, reference, shapes) in KERNELS.items():
        given = [random.standard_normal(shape, np.float32) for shape in shapes]
        wanted = reference(*given)
        for beyond in (0.0, float("nan"), 3e38):
            y = surrounded(torch, np.zeros_like(wanted), beyond)
            module.kernels[name](y, *(surrounded(torch, x, beyond) for x in given), stream=stream)
            found = y.cpu().numpy()
            if right:
                np.testing.assert_allclose(
                    found, wanted, rtol=2e-3, atol=2e-3, err_msg=f"{name} beside {beyond}"
                )
            elif not np.allclose(found, wanted, rtol=2e-3, atol=2e-3):
                wrong.setdefault(name, []).append(str(beyond))
    record_property("wrong_beside", json.dumps(wrong))
