"""As much of torch as launches look at: tensors by their facts."""

from __future__ import annotations

import dataclasses
import types
from typing import Any


@dataclasses.dataclass(eq=False)
class Tensor:
    shape: tuple[int, ...]
    ptr: int = 0x10000
    step: tuple[int, ...] | None = None
    dtype: str = "torch.float32"
    index: int = 0
    negative: bool = False
    layout: str = "torch.strided"

    def is_contiguous(self) -> bool:
        return self.stride() == _dense(self.shape)

    def stride(self) -> tuple[int, ...]:
        return _dense(self.shape) if self.step is None else self.step

    def get_device(self) -> int:
        return self.index

    def is_neg(self) -> bool:
        return self.negative and self.dtype in ("torch.float16", "torch.float32", "torch.float64")

    def is_conj(self) -> bool:
        return False

    def data_ptr(self) -> int:
        return self.ptr

    @property
    def is_cuda(self) -> bool:
        return self.index >= 0

    @property
    def device(self) -> Any:
        return types.SimpleNamespace(type="cuda" if self.index >= 0 else "cpu")

    def t(self) -> Tensor:
        return dataclasses.replace(self, shape=self.shape[::-1], step=self.stride()[::-1])

    def __getitem__(self, index: tuple[slice, slice]) -> Tensor:
        extent, (row, column) = self.shape, self.stride()
        return dataclasses.replace(
            self, shape=(extent[0], extent[1] // index[1].step), step=(row, column * index[1].step)
        )

    @property
    def imag(self) -> Tensor:
        return dataclasses.replace(
            self, dtype="torch.float32", step=tuple(2 * step for step in self.stride())
        )

    def conj(self) -> Tensor:
        return dataclasses.replace(self, negative=not self.negative)

    @property
    def facts(self) -> tuple[Any, ...]:
        return self.shape, self.stride(), self.dtype, self.index, self.negative


Tensor.__module__ = "torch"


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for extent in shape[:0:-1]:
        steps.append(steps[-1] * extent)
    return tuple(reversed(steps)) if shape else ()
