"""What a row of the table is measured by, and where its inputs are made; see vendor_rows.py."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROTATED = 192 << 20  # bytes that inputs and outputs rotate over, well above any L2
# Where arrays lie in memory moves what only moves memory by 0.3 %, both ways: such rows rotate over
# so many places.
PLACES = 3
Run = Callable[[int], Any]
Arguments = Callable[[int], tuple[Any, ...]]
# How many times as fast as torch's best way a row is to be.
WANTED = {
    "gemm": 0.97,
    "fp8": 0.97,
    "gemm_ragged": 0.9,
    "batched_gemm": 0.95,
    "grouped_gemm": 0.95,
    "attention": 0.8,
}
# Rows that nothing is wanted of: small matrices.
FREE = (("gemm", "2048 x 2048 x 2048"),)


def wanted(row: str, size: str) -> float:
    """How many times as fast as torch a row is to be; 0 for whatever it is."""
    return 0.0 if any(row == name and part in size for name, part in FREE) else WANTED.get(row, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A launch of the package: its kernel, the arguments of set i, and axes that the caller asks
    for.
    """

    kernel: str
    arguments: Arguments
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One size of one row.

    Attributes:
        row, size: its name. unit: of `amount`, the work of one launch, per second.
        sets: how many sets of arguments there are, used in turn.
        launches: arguments of set i, by the kernel that takes them.
        before: a kernel that is launched before another, and its arguments, by that other: of its
            variants, the one with the same axes.
        fits: whether a variant with these axes does this size.
        vendors: torch's ways, by name.
        reset: brings set 0 into its first state, outputs poisoned. found: the outputs of set 0.
            expected: what they should be.
        tolerance: relative error of the whole output that is right.
        steps: launches that a user of the package makes; empty: of the first kernel of `launches`,
            behind what goes before it.
    """

    row: str
    size: str
    unit: str
    amount: float
    sets: int
    launches: Mapping[str, Arguments]
    fits: Callable[[Mapping[str, Any]], bool]
    vendors: Mapping[str, Run]
    reset: Callable[[], None]
    found: Callable[[], Sequence[Any]]
    expected: Callable[[], Sequence[Any]]
    tolerance: float = 1e-2
    before: Mapping[str, tuple[str, Arguments]] = dataclasses.field(default_factory=dict)
    steps: Sequence[Step] = ()

    @property
    def shipped(self) -> Sequence[Step]:
        """The launches of the package."""
        if self.steps:
            return self.steps
        kernel, arguments = next(iter(self.launches.items()))
        first = self.before.get(kernel)
        return (
            *((Step(kernel=first[0], arguments=first[1]),) if first else ()),
            Step(kernel=kernel, arguments=arguments),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """Where tasks are made: torch, its device, and whether sizes are those of a trial on a CPU."""

    torch: Any
    device: str
    small: bool = False
    compiled: bool = True

    def size(self, real: int, trial: int) -> int:
        """A size, or its stand-in."""
        return trial if self.small else real

    def randn(self, *shape: int, dtype: str) -> Any:
        """Random data."""
        return self.torch.randn(*shape, device=self.device).to(getattr(self.torch, TORCH[dtype]))

    def sets(self, nbytes: int) -> int:
        """How many sets of so many bytes make a rotation."""
        return 2 if self.small else max(1, math.ceil(ROTATED / nbytes))

    def several(self, make: Callable[[], Any]) -> list[Any]:
        """Arrays in several places of memory."""
        return [make() for _ in range(2 if self.small else PLACES)]

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """torch.compile."""
        return self.torch.compile(function, dynamic=False)  # type: ignore[no-any-return]


TORCH = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f8e4m3": "float8_e4m3fn",
    "i32": "int32",
}
SIZE = {"f32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1, "i32": 4}
