"""What makes tensors and carries their contents, each as a lazy op: `api.zeros((4, 8)).sync()`.
Modules are imported at the first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see of the table below
    from tilec_runtime.api.create import (
        arange,
        convert,
        empty,
        eye,
        eye_rect,
        fill,
        full,
        linspace,
        ones,
        zeros,
    )
    from tilec_runtime.api.like import empty_like, full_like, ones_like, zeros_like
    from tilec_runtime.api.random import rand, randn, randn_f16
    from tilec_runtime.api.transfer import dup, from_host, memcpy, pinned, to_host

# By name, the module of this package that has the function.
_WHERE = {
    **dict.fromkeys(
        (
            "empty",
            "zeros",
            "ones",
            "full",
            "fill",
            "arange",
            "linspace",
            "eye",
            "eye_rect",
            "convert",
        ),
        "create",
    ),
    **dict.fromkeys(("empty_like", "zeros_like", "ones_like", "full_like"), "like"),
    **dict.fromkeys(("rand", "randn", "randn_f16"), "random"),
    **dict.fromkeys(("from_host", "to_host", "dup", "memcpy", "pinned"), "transfer"),
}

__all__ = [
    "arange",
    "convert",
    "dup",
    "empty",
    "empty_like",
    "eye",
    "eye_rect",
    "fill",
    "from_host",
    "full",
    "full_like",
    "linspace",
    "memcpy",
    "ones",
    "ones_like",
    "pinned",
    "rand",
    "randn",
    "randn_f16",
    "to_host",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    """A function of the table, found without this call the next time."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    return found


def __dir__() -> list[str]:
    """All names, imported or not."""
    return sorted({*globals(), *_WHERE})
