"""As much of torch as launches look at: tensors by their facts, and what torch has to test several of them at once."""

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
    reads: int = 0
    layout: str = "torch.strided"

    def is_contiguous(self) -> bool:
        self.reads += 1
        return self.stride() == _dense(self.shape)

    def stride(self) -> tuple[int, ...]:
        return _dense(self.shape) if self.step is None else self.step

    def get_device(self) -> int:
        return self.index

    def is_neg(self) -> bool:
        return self.negative

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
        return dataclasses.replace(self, shape=(extent[0], extent[1] // index[1].step), step=(row, column * index[1].step))

    @property
    def imag(self) -> Tensor:
        return dataclasses.replace(self, dtype="torch.float32", step=tuple(2 * step for step in self.stride()))

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


class TensorGuards:
    """As torch's: made of examples, and true for tensors with their facts.

    Attributes:
        made: how many there are.
        sees: which facts it compares, of shape, stride, dtype, index, negative.
    """

    made = 0
    sees: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __init__(self, *tensors: Tensor, dynamic_dims_sizes: None, dynamic_dims_strides: None) -> None:
        assert (dynamic_dims_sizes, dynamic_dims_strides) == (None, None)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TypeError("expected Tensor()")
        type(self).made += 1
        self._facts = [self._seen(tensor) for tensor in tensors]

    def _seen(self, tensor: Tensor) -> tuple[Any, ...]:
        return (type(tensor), *(tensor.facts[fact] for fact in self.sees))

    def check(self, *tensors: Any) -> bool:
        if len(tensors) != len(self._facts):
            raise TypeError("wrong length")
        return all(isinstance(one, Tensor) and self._seen(one) == facts for one, facts in zip(tensors, self._facts, strict=True))


def module(guards: Any) -> Any:
    """A module `torch` with these guards."""
    numbers = {"cpu": -1, "meta": -2}

    def empty(shape: tuple[int, ...], *, device: str, dtype: str) -> Tensor:
        return Tensor(shape, index=numbers[device], dtype=dtype)

    made: Any = types.ModuleType("torch")
    made.empty, made.float32, made.complex64, made.int32 = empty, "torch.float32", "torch.complex64", "torch.int32"
    made._C = types.SimpleNamespace(_dynamo=types.SimpleNamespace(guards=types.SimpleNamespace(TensorGuards=guards)))
    return made
