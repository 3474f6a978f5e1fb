"""One test for all torch tensors of a launch: whether everything about them but their addresses is as it was. The only place that uses
what torch has for its own compiler; where a release of torch has none of it, or another, launches read attributes instead.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

Guard = Callable[..., bool]


def torch_guard(tensors: tuple[Any, ...]) -> Guard | None:
    """A function of as many tensors that is true only for such whose types, dtypes, devices, shapes, strides and lazy states are those of
    these; None where torch has nothing of the kind. It keeps none of them.
    """
    torch = sys.modules.get("torch")
    try:
        maker = None if torch is None else _maker(torch)
        return None if maker is None else _guard(maker, *tensors)
    except Exception:  # noqa: BLE001 - of tensors that it cannot tell apart, attributes are read
        return None


def _guard(maker: Callable[..., Any], *tensors: Any) -> Guard:
    check: Guard = maker(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return check


@functools.lru_cache(maxsize=1)
def _maker(torch: Any) -> Callable[..., Any] | None:
    """torch's maker of guards, if it is there and tells apart what launches have to tell apart."""
    try:
        with warnings.catch_warnings():  # who makes errors of warnings would do without it for the rest of the process
            warnings.simplefilter("ignore")
            maker: Callable[..., Any] = torch._C._dynamo.guards.TensorGuards  # noqa: SLF001 - see above
            return maker if _tells_apart(torch, maker) else None
    except Exception:  # noqa: BLE001 - another release
        return None


def _tells_apart(torch: Any, maker: Callable[..., Any]) -> bool:
    def empty(*shape: int, **facts: Any) -> Any:
        return torch.empty(shape, **{"device": "cpu", "dtype": torch.float32, **facts})

    first, pairs = empty(4, 6), empty(4, 6, dtype=torch.complex64)
    check = _guard(maker, first, pairs.imag)
    others = (empty(6, 4), empty(24), empty(6, 4).t(), empty(4, 12)[:, ::2], empty(4, 6, dtype=torch.int32), empty(4, 6, device="meta"))
    return (
        check(empty(4, 6), empty(4, 6, dtype=torch.complex64).imag) is True
        and not any(check(other, pairs.imag) for other in others)
        and pairs.conj().imag.is_neg()
        and not check(first, pairs.conj().imag)  # strides are the same: only the sign is another
    )
