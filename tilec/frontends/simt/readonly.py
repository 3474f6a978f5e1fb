"""Atomics of arrays that are only read: numba-cuda compiles them, where it refuses every other store; refused for one compile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """While it lasts, a call of `cuda.atomic` on a read-only array is an error of typing, in kernels and in what they call."""
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.core.errors import TypingError
    from numba.cuda.typing.context import BaseContext

    atomics = {held: name for name, held in vars(cuda.atomic).items() if isinstance(held, type)}
    own = BaseContext.resolve_function_type

    def resolve(self: Any, func: Any, args: Any, kws: Any) -> Any:
        name = atomics.get(func.typing_key) if isinstance(func, types.Function) else None
        if name and args and isinstance(args[0], types.Array) and not args[0].mutable:
            raise TypingError(f"cuda.atomic.{name} of a read-only array")
        return own(self, func, args, kws)

    BaseContext.resolve_function_type = resolve
    try:
        yield
    finally:
        BaseContext.resolve_function_type = own
