"""Measures and caches the ceilings of a device: copy bandwidth and matrix products.

A separate process measures, and prints one line of JSON: kernels ran 8 % slower in a process in
which torch had used the GPU.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilec.bench.libraries import GpuLibrary, Library, NumpyLibrary, open_library, tensor_cores
from tilec.bench.measure import Clock, MeasureOptions, measure
from tilec.bench.timer import RivalTimer, Timer
from tilec.bench.work import Ceilings
from tilec.compile.cache import Cache
from tilec.compile.own import own_command
from tilec.model.codec import decode, encode
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.device.seam import CopyKind, DeviceDriver, DeviceInfo
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import MissingError, TilecError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.buffer import DeviceBuffer

COPY = 1 << 30  # bytes
# The dtypes of the products with the side of their matrices, enough to be bound by arithmetic.
_PRODUCTS = {"bf16": 8192, "f16": 8192, "f32": 8192, "f64": 4096}
_OPTIONS = MeasureOptions(sample=0.01, least=9, most=30, seconds=0.6)
# Seconds of rest after the products: they may bring a GPU to its power limit, and the next
# measurement would be throttled.
REST = 1.0
_LIMIT = 300  # seconds, most of which importing torch may take


def known_ceilings(
    cache: Cache,
    about: Mapping[str, Any],
    measure: Callable[[], Ceilings],
    *,
    fresh: bool = False,
    rest: Callable[[float], None] = time.sleep,
) -> Ceilings:
    """Return the cached ceilings, or measure and cache them.

    Args:
        cache: the user's cache.
        about: facts that identify the device, its driver and whether torch is installed.
        measure: measures the ceilings; without a copy rate they are not cached.
        fresh: measure even if ceilings are cached.
        rest: waits for a number of seconds.
    """
    key = f"ceilings {json.dumps(about)}"
    known = None if fresh else cache.get_record(key)
    if known is not None:
        with contextlib.suppress(ValueError):  # of another release of tilec
            return decode(Ceilings, known)
    ceilings = measure()
    if ceilings.copy is not None:
        cache.put_record(key, encode(ceilings))
    if ceilings.products:
        rest(REST)
    return ceilings


def measured_apart(device: str, command: Sequence[str] = ()) -> Ceilings:
    """Measure the ceilings of a GPU in a process of its own; a failure is in `missing`.

    Args:
        device: its name, `cuda:0`.
        command: of the process; by default this module's `main`.
    """
    command = command or own_command("tilec.bench.ceilings")
    try:
        done = subprocess.run(
            [*command, device],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT,
            check=False,
        )
        return decode(Ceilings, json.loads(done.stdout.strip().rpartition("\n")[2]))
    except subprocess.TimeoutExpired:
        why = f"that takes longer than {_LIMIT} s"
    except OSError as error:
        why = str(error)
    except ValueError:
        why = done.stderr.strip().rpartition("\n")[2] or "the process printed no result"
    return Ceilings(missing=f"the ceilings cannot be measured: {why}")


def measure_ceilings(
    device: DeviceInfo, driver: DeviceDriver, torch: Library | MissingError, *, clock: Clock
) -> Ceilings:
    """Measure the ceilings, which takes a few seconds.

    Args:
        device: a GPU.
        driver: driver of the device.
        torch: torch on the same GPU, or the error that says why it is missing.
        clock: clock of the host, in seconds.
    """
    copy = _copy_rate(device, driver, clock)
    assert not isinstance(torch, NumpyLibrary)
    if isinstance(torch, MissingError):
        return Ceilings(copy=copy, missing=f"matrix products are not measured: {torch.what}")
    products, missing = {}, []
    with tensor_cores(torch.module):
        for dtype, side in _PRODUCTS.items():
            try:
                products[dtype] = _product_rate(device, driver, torch, dtype, side, clock)
            except RuntimeError as error:  # no memory, or no such product on this GPU
                missing.append(f"no product of {dtype}: {str(error).strip().partition(chr(10))[0]}")
    return Ceilings(copy=copy, products=products, by=torch.title, missing="; ".join(missing))


def _copy_rate(device: DeviceInfo, driver: DeviceDriver, clock: Clock) -> float:
    """Return bytes per second, read and written."""
    size = max(1, min(COPY, driver.memory_info(device.ordinal)[0] // 8))
    stream = Stream(device, driver=driver)
    source, target = (DeviceBuffer((size,), "u8", device, driver=driver) for _ in range(2))
    source.fill(0x5A, stream)

    def copy() -> None:
        driver.copy_async(
            device.ordinal, target.ptr, source.ptr, size, stream.handle, CopyKind.ON_DEVICE
        )

    timer = Timer(device, driver, [copy], stream=stream, graphs=False)
    with contextlib.closing(timer):
        return 2 * size / measure(timer, _OPTIONS, clock=clock).summary.median


def _product_rate(
    device: DeviceInfo,
    driver: DeviceDriver,
    library: GpuLibrary,
    dtype: str,
    side: int,
    clock: Clock,
) -> float:
    """Return operations per second."""
    torch, where = library.module, f"cuda:{device.ordinal}"
    kind = getattr(torch, DTYPES[dtype].numpy)
    a, b = (torch.randn(side, side, device=where).to(kind) for _ in range(2))
    c = torch.empty_like(a)
    calls = [lambda: torch.matmul(a, b, out=c)]
    timer = RivalTimer(device, driver, library, calls, flush=0, clocks=None)
    with contextlib.closing(timer):
        return float(2 * side**3 / measure(timer, _OPTIONS, clock=clock).summary.median)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the ceilings of the device that the arguments name, and print them."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    try:
        driver = driver_of(name)
        device = find_device(name, driver)
        try:
            torch: Library | MissingError = open_library("torch", device)
        except MissingError as error:
            torch = error
        ceilings = measure_ceilings(device, driver, torch, clock=time.perf_counter)
        sys.stdout.write(f"{json.dumps(encode(ceilings))}\n")
    except TilecError as error:
        sys.stderr.write(f"{error.what}\n")
        return 1
    return 0
