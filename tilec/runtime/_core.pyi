"""The launch core (`_core/`), which `native` imports where it was built."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

class Table:
    """The cached plans of one launcher, and their launches."""

    def __new__(
        cls,
        *,
        parameters: int,
        tensors: Sequence[int],
        others: Sequence[int],
        keyed: Sequence[int],
        read: Callable[[Any], Any],
        recordings: dict[Any, Any],
        target: int | Callable[..., Any],
        adopts: bool,
    ) -> Table: ...
    def launch(self, stream: int, values: tuple[Any, ...], /) -> Any: ...
    def add(self, values: tuple[Any, ...], plan: Any, /) -> bool: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

def configure(
    dtypes: tuple[tuple[str, int, int], ...], classify: Callable[[type], int], encode: Callable[[str, Any], bytes], /
) -> None: ...
def facts(value: Any, read: Callable[[Any], Any], /) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, bool, bool] | None: ...
def run(program: bytes, slots: Sequence[int], /) -> tuple[int, ...] | None: ...
def replace_driver(addresses: Mapping[str, int], /) -> None: ...
