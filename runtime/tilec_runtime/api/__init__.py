"""Lazy ops that make tensors and copy their contents: `api.zeros((4, 8)).sync()`."""

from __future__ import annotations

from tilec_runtime.api.create import (
    arange,
    convert,
    empty,
    eye,
    fill,
    full,
    linspace,
    ones,
    zeros,
)
from tilec_runtime.api.like import empty_like, full_like, ones_like, zeros_like
from tilec_runtime.api.random import rand, randn
from tilec_runtime.api.transfer import dup, from_host, memcpy, pinned, to_host

__all__ = [
    "arange",
    "convert",
    "dup",
    "empty",
    "empty_like",
    "eye",
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
    "to_host",
    "zeros",
    "zeros_like",
]
