"""The floor of every launch: a C loop over cuLaunchKernel with the kernels, grids and arguments
that a launcher passes.

usage: python benchmarks/c_loop.py. Compiles the loop to build/c_loop.so, for a machine without a C
compiler.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot

LIBRARY = Path(__file__).resolve().parents[1] / "build" / "c_loop.so"
SOURCE = """
#include <time.h>
typedef int (*launch_t)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
typedef struct { void *function; unsigned grid[3], block[3], shared; void **params; } Launch;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int loop(launch_t launch, const Launch *each, int count, void *stream, long long *nanoseconds) {
    for (int i = 0; i < count; ++i) {
        const Launch *l = each + i;
        const long long start = now();
        const int code = launch(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                                l->shared, stream, l->params, 0);
        nanoseconds[i] = now() - start;
        if (code) return code;
    }
    return 0;
}
"""
TYPES: Mapping[str, Any] = {
    "ptr": ctypes.c_uint64,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class Launch(ctypes.Structure):
    """One call of cuLaunchKernel; the same fields as in C."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("params", ctypes.c_void_p),
    )


def library() -> ctypes.CDLL:
    """The loop, from build/ or compiled now."""
    if not LIBRARY.is_file():
        compile_library()
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.loop.argtypes = (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    return loaded


def compile_library() -> None:
    """Compile the loop with `cc`."""
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    source = LIBRARY.with_suffix(".c")
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(LIBRARY), str(source)], check=True)


def argument_values(abi: Sequence[AbiSlot], names: Mapping[str, Any]) -> list[Any]:
    """The values of a kernel's arguments as ctypes objects.

    Args:
        abi: the slots of the chosen variant.
        names: parameters and axes by name; of tensors `symbol`.

    Raises:
        KeyError: a slot is of a type that this loop does not pass.
    """
    return [TYPES[slot.type](parse(slot.expr).evaluate(names)) for slot in abi]


def symbol(tensor: Any) -> Any:
    """What expressions read of a torch tensor or of one of tilec's own, which is not claimed by
    that.
    """
    if hasattr(tensor, "data_ptr"):
        strides, address, item = tensor.stride(), tensor.data_ptr(), tensor.element_size()
    else:
        strides, address, item = tensor.strides, tensor.ptr, tensor.itemsize
    shape = tuple(tensor.shape)
    size = math.prod(shape)
    return SimpleNamespace(
        shape=shape,
        stride=tuple(strides),
        size=size,
        ptr=address,
        itemsize=item,
        nbytes=size * item,
    )


class Raw:
    """Kernels of a bundle for the C loop, loaded in the current context without the runtime."""

    def __init__(self, bundle: Path) -> None:
        """Open the bundle and the driver."""
        self._bundle = Bundle.open(bundle)
        self._loop = library().loop
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._launch = ctypes.cast(self._cuda.cuLaunchKernel, ctypes.c_void_p)
        self._functions: dict[tuple[str, str], int] = {}

    def plan(self, launcher: Any, name: str, *values: Any) -> Plan:
        """What the launcher chooses for arguments like these."""
        chosen = launcher.explain(*values)
        kernel = self._bundle.kernel(name)
        grid = [parse(text) for text in kernel.launch.grid]
        return Plan(
            function=self._function(chosen.image.digest, chosen.image.symbol),
            params=tuple(param.name for param in kernel.params),
            axes=dict(chosen.axes),
            abi=chosen.variant.abi,
            grid=grid,
            block=chosen.shape.block,
            shared=chosen.shape.shared,
        )

    def _function(self, digest: str, entry: str) -> int:
        if (digest, entry) not in self._functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            data = self._bundle.image(digest)
            check(self._cuda.cuModuleLoadData(ctypes.byref(module), data), "cuModuleLoadData")
            check(
                self._cuda.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()),
                "cuModuleGetFunction",
            )
            self._functions[digest, entry] = int(function.value or 0)
        return self._functions[digest, entry]

    def run(self, launches: Sequence[Packed], stream: int) -> list[int]:
        """Nanoseconds of each launch."""
        rows = (Launch * len(launches))(*(packed.launch for packed in launches))
        times = (ctypes.c_longlong * len(launches))()
        check(self._loop(self._launch, rows, len(launches), stream, times), "cuLaunchKernel")
        return list(times)


class Packed:
    """A launch with its arguments, which it keeps alive."""

    def __init__(self, plan: Plan, values: Sequence[Any]) -> None:
        """Evaluate the grid and the arguments."""
        names = {**plan.axes, **dict(zip(plan.params, values, strict=True))}
        self._values = argument_values(plan.abi, names)
        self._array = (ctypes.c_void_p * len(self._values))(
            *(ctypes.addressof(value) for value in self._values)
        )
        grid = [int(expression.evaluate(names)) for expression in plan.grid]
        self.launch = Launch(
            plan.function,
            (ctypes.c_uint * 3)(*(*grid, 1, 1)[:3]),
            (ctypes.c_uint * 3)(*(*plan.block, 1, 1)[:3]),
            plan.shared,
            ctypes.addressof(self._array),
        )


class Plan(SimpleNamespace):
    """What is the same in all launches of one class of arguments."""

    def packed(self, *values: Any) -> Packed:
        """A launch with these tensors and numbers."""
        return Packed(
            self, [symbol(value) if hasattr(value, "shape") else value for value in values]
        )


def check(code: int, call: str) -> None:
    """Raise for a result of the driver that is an error."""
    if code:
        raise RuntimeError(f"{call}: CUDA error {code}")


if __name__ == "__main__":
    compile_library()
    print(LIBRARY)
    sys.exit(0)
