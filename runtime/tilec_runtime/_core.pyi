# The launch core (`_core/`), which `native` imports where it was built.

from collections.abc import Callable, Mapping, Sequence
from typing import Any

class Table:
    def __init__(
        self,
        *,
        parameters: int,
        tensors: Sequence[int],
        others: Sequence[int],
        keyed: Sequence[int],
        read: Callable[[Any], Any],
        recordings: dict[Any, Any],
        target: int | Callable[..., Any],
        adopts: bool,
    ) -> None: ...
    def launch(self, stream: Any, values: tuple[Any, ...], order: Callable[[], None] = ..., /) -> Any: ...
    def add(self, values: tuple[Any, ...], plan: Any, tensors: tuple[Any, ...] = ..., /) -> bool: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

class Launcher:
    _table: Table | None
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __call__(self, /, *args: Any, stream: Any = None, **kwargs: Any) -> None: ...
    def launch(self, stream: Any, values: tuple[Any, ...], choices: tuple[Any, ...] = (), /) -> None: ...

def configure(
    dtypes: tuple[tuple[str, int, int], ...],
    classify: Callable[[type], int],
    encode: Callable[[str, Any], bytes],
    stream_attribute: Callable[[type], str | None],
    stream_handle: Callable[[Any], int],
    current_stream: Callable[[tuple[Any, ...]], int],
    /,
) -> None: ...
def facts(value: Any, read: Callable[[Any], Any], /) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, bool, bool] | None: ...
def run(program: bytes, slots: Sequence[int], /) -> tuple[int, ...] | None: ...
def replace_driver(addresses: Mapping[str, int], /) -> None: ...
