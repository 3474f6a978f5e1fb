"""A kernel as a bundle describes it, and a device that computes with NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tilec.case.cases import BoundCase
from tilec.manifest.locate import Locator, Path
from tilec.manifest.types import Case, Input, Kernel
from tilec_runtime.errors import DriverError, Location
from tilec_runtime.model.kernel import KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind


class At(Locator):
    """Every key of a manifest at one place."""

    def __init__(self, place: Location) -> None:
        super().__init__("", place.file)
        self._place = place

    def __call__(self, path: Path) -> Location:
        return self._place


def tensor(name: str, dtype: str = "T", rank: int = 1, **facts: Any) -> Param:
    return Param(name=name, kind=ParamKind.TENSOR, dtype=dtype, rank=rank, **facts)


def info(
    *params: Param,
    points: tuple[dict[str, Any], ...] = ({"T": "f32"},),
    default: dict[str, Any] | None = None,
) -> KernelInfo:
    axes = {name: tuple(dict.fromkeys(p[name] for p in points)) for name in points[0]}
    return KernelInfo(
        name="add",
        language="tile",
        location=Location(file="add.py", line=1),
        params=params,
        axes=tuple(axes.items()),
        dtype_axes=tuple(name for name in axes if name == "T"),
        default=tuple((default or {}).items()),
        variants=tuple(VariantInfo(id=str(i), axes=tuple(p.items())) for i, p in enumerate(points)),
    )


def kernel(*cases: Case) -> Kernel:
    return Kernel(name="add", source="add.py", function="add", language="tile", cases=cases)


def case(name: str, *inputs: Input, **more: Any) -> Case:
    return Case(name=name, inputs=inputs, **more)


def made(name: str, *shape: object, dtype: str = "T", **more: Any) -> Input:
    return Input(name=name, shape=tuple(str(s) for s in shape), dtype=dtype, **more)


@dataclasses.dataclass
class FakeDevice:
    """Tensors are copies; a launch is a Python function."""

    kernels: Mapping[str, Callable[..., None]]

    def refusal(self, case: BoundCase) -> str:
        return "" if case.kernel in self.kernels else f"{case.kernel} needs something else"

    def to_device(self, array: np.ndarray, dtype: str) -> np.ndarray:
        return array.copy()

    def from_device(self, tensor: np.ndarray) -> np.ndarray:
        return tensor

    def launch(self, case: BoundCase, arguments: Mapping[str, Any]) -> None:
        self.kernels[case.kernel](**arguments)


def broken(**_: Any) -> None:
    raise DriverError("add: the launch failed", result="CUDA_ERROR_ILLEGAL_ADDRESS")


@pytest.fixture
def ticks() -> Callable[[], float]:
    counter = iter(range(1000))
    return lambda: float(next(counter))
