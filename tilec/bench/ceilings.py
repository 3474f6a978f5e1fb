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
from pathlib import Path
from typing import Any

from tilec.bench.libraries import GpuLibrary, TorchLibrary, open_library, tensor_cores
from tilec.bench.measure import Clock, MeasureOptions, measure
from tilec.bench.timer import RivalTimer, Timer
from tilec.bench.work import Ceilings
from tilec.compile.own import own_command
from tilec.model.atomic import atomic_write
from tilec.model.codec import decode, encode
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.device.seam import CopyKind, DeviceDriver, DeviceInfo
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import MissingError, OutputError, TilecError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.buffer import DeviceBuffer

FOLDER = "devices"  # in the cache directory
COPY = 1 << 30  # bytes
# The dtypes of the products with the side of their matrices, enough to be bound by arithmetic.
_PRODUCTS = {"bf16": 8192, "f16": 8192, "f32": 8192, "f64": 4096}
_OPTIONS = MeasureOptions(sample=0.01, least=9, most=30, seconds=0.6)
# Seconds of rest after the products: they may bring a GPU to its power limit, and the next
# measurement would be throttled.
REST = 1.0
NO_TORCH = "matrix products are measured by torch, which is not installed"
_LIMIT = 300  # seconds, most of which importing torch may take


def known_ceilings(
    path: Path | None,
    about: Mapping[str, Any],
    measure: Callable[[], Ceilings],
    *,
    rest: Callable[[float], None] = time.sleep,
) -> Ceilings:
    """Return the cached ceilings, or measure and cache them.

    Args:
        path: of the cache entry; None for no cache.
        about: facts to write beside them.
        measure: measures them; without a copy rate they are not cached.
        rest: waits for a number of seconds.
    """
    if path is not None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return decode(Ceilings, json.loads(path.read_text(encoding="utf-8"))["ceilings"])
    ceilings = measure()
    if path is not None and ceilings.copy is not None:
        body = {"about": dict(about), "ceilings": encode(ceilings)}
        with contextlib.suppress(OutputError), atomic_write(path) as file:
            file.write((json.dumps(body, indent=2) + "\n").encode())
    if ceilings.products:
        rest(REST)
    return ceilings


def path_of(cache: Path, about: Mapping[str, Any]) -> Path:
    """Return the cache entry for a device, its driver and whether torch is installed."""
    return cache / FOLDER / f"{sha256(json.dumps(about).encode())[:24]}.json"


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
    device: DeviceInfo, driver: DeviceDriver, torch: GpuLibrary | None, *, clock: Clock
) -> Ceilings:
    """Measure the ceilings, which takes a few seconds.

    Args:
        device: a GPU.
        driver: of the device.
        torch: on the same GPU; None if it is not installed.
        clock: seconds of the host.
    """
    copy = _copy_rate(device, driver, clock)
    if torch is None:
        return Ceilings(copy=copy, missing=NO_TORCH)
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
        missing, torch = "", None
        try:
            library = open_library("torch", device)
            torch = library if isinstance(library, TorchLibrary) else None
        except MissingError as error:
            missing = "" if "not installed" in error.what else error.what
        document = encode(measure_ceilings(device, driver, torch, clock=time.perf_counter))
        document["missing"] = missing or document["missing"]
        sys.stdout.write(f"{json.dumps(document)}\n")
    except TilecError as error:
        sys.stderr.write(f"{error.what}\n")
        return 1
    return 0
