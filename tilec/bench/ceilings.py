"""What a device can do at most, by measuring: a copy in its memory and large matrix products; once
for each device, kept in the cache.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tilec.bench.libraries import TorchContender, tensor_cores
from tilec.bench.measure import Clock, ClockReading, MeasureOptions, measure
from tilec.bench.work import Ceilings
from tilec.model.atomic import atomic_write
from tilec_runtime.device.events import Event
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import OutputError
from tilec_runtime.model.digest import sha256
from tilec_runtime.tensors.buffer import DeviceBuffer

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo

SCHEMA = 1
FOLDER = "devices"  # in the cache directory
COPY = 1 << 30  # bytes
_SIDE = 8192
# The dtypes whose products are measured, with torch's names and the part of the side that is enough
# to be bound by arithmetic.
_PRODUCTS = {
    "bf16": ("bfloat16", 1),
    "f16": ("float16", 1),
    "f32": ("float32", 1),
    "f64": ("float64", 2),
}
_OPTIONS = MeasureOptions(sample=0.01, least=9, most=30, seconds=0.6)
# Seconds of rest behind the products, which may bring a GPU to the limit of its power: what is
# measured next would be held back for it.
REST = 1.0
NO_TORCH = "matrix products are measured by torch, which is not installed"


@final
class CopySubject:
    """Copies in a device's memory."""

    def __init__(self, device: DeviceInfo, driver: DeviceDriver) -> None:
        free, _ = driver.memory_info(device.ordinal)
        self.size = max(1, min(COPY, free // 8))
        self._driver, self._device = driver, device
        self._ending = contextlib.ExitStack()
        self._stream = self._ending.enter_context(Stream(device, driver=driver))
        self._start, self._end = (
            self._ending.enter_context(Event(device, driver=driver)) for _ in range(2)
        )
        self._source, self._target = (
            DeviceBuffer((self.size,), "u8", device, driver=driver) for _ in range(2)
        )
        self._source.fill(0x5A, self._stream)

    def seconds(self, launches: int) -> float:
        """Seconds of so many copies."""
        self._start.record(self._stream)
        for _ in range(launches):
            self._driver.copy_async(
                self._device.ordinal,
                self._target.ptr,
                self._source.ptr,
                self.size,
                self._stream.handle,
                CopyKind.ON_DEVICE,
            )
        self._end.record(self._stream)
        self._end.sync()
        return self._end.since(self._start)

    def clocks(self) -> ClockReading | None:
        """They are watched with what is measured."""
        return None

    def close(self) -> None:
        """Give everything back."""
        self._source.free()
        self._target.free()
        self._ending.close()


def measure_ceilings(
    device: DeviceInfo, driver: DeviceDriver, torch: Any, *, clock: Clock
) -> Ceilings:
    """Measure them, which takes a few seconds.

    Args:
        device: a GPU.
        driver: what serves it.
        torch: the module, on the same GPU; None where there is none.
        clock: seconds of the host.
    """
    with contextlib.closing(CopySubject(device, driver)) as subject:
        copy = 2 * subject.size / measure(subject, _OPTIONS, clock=clock).summary.median
    if torch is None:
        return Ceilings(copy=copy, missing=NO_TORCH)
    products, missing = {}, []
    with tensor_cores(torch):
        for dtype, (name, part) in _PRODUCTS.items():
            try:
                products[dtype] = _product(
                    torch, f"cuda:{device.ordinal}", name, _SIDE // part, clock
                )
            except RuntimeError as error:  # no memory, or no such product on this GPU
                missing.append(f"no product of {dtype}: {str(error).strip().partition(chr(10))[0]}")
    return Ceilings(
        copy=copy, products=products, by=f"torch {torch.__version__}", missing="; ".join(missing)
    )


def _product(torch: Any, device: str, name: str, side: int, clock: Clock) -> float:
    a, b = (torch.randn(side, side, device=device).to(getattr(torch, name)) for _ in range(2))
    values = {"a": a, "b": b, "c": torch.empty_like(a)}
    contender = TorchContender(
        torch, device, lambda given: torch.matmul(given["a"], given["b"], out=given["c"]), [values]
    )
    return float(2 * side**3 / measure(contender, _OPTIONS, clock=clock).summary.median)


def path_of(cache: Path, device: DeviceInfo, uuid: str, driver: str) -> Path:
    """Where a device's ceilings are kept; another driver may have others."""
    return cache / FOLDER / f"{sha256(f'{uuid}|{device.name}|{driver}'.encode())[:24]}.json"


def read_ceilings(path: Path) -> Ceilings | None:
    """The ceilings that were kept; None where there are none that can be used."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return read_rates(found) if found["schema_version"] == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_rates(found: Any) -> Ceilings:
    """Ceilings as `ceilings_json` gives them.

    Raises:
        ValueError, KeyError, TypeError: these are none.
    """
    copy, products = (
        _rate(found["copy"]),
        {str(name): _rate(value) for name, value in dict(found["products"]).items()},
    )
    return Ceilings(
        copy=copy, products=products, by=str(found["by"]), missing=str(found["missing"])
    )


def keep_ceilings(path: Path, ceilings: Ceilings, about: Mapping[str, Any]) -> None:
    """Keep ceilings for later; where that fails they are measured again."""
    body = {"schema_version": SCHEMA, **about, **ceilings_json(ceilings)}
    with contextlib.suppress(OutputError), atomic_write(path) as file:
        file.write((json.dumps(body, indent=2) + "\n").encode())


def known_ceilings(
    path: Path | None,
    about: Mapping[str, Any],
    measure: Callable[[], Ceilings],
    *,
    torch_is_there: Callable[[], bool],
    rest: Callable[[float], None] = time.sleep,
) -> Ceilings:
    """The ceilings that were kept, or new ones: also where torch was missing that is there now.

    Args:
        path: where they are kept; None for nowhere.
        about: what is kept with them.
        measure: measures them; those of a device that cannot be measured are not kept.
        torch_is_there: whether torch is installed.
        rest: lets so many seconds pass, behind products.
    """
    found = read_ceilings(path) if path else None
    if found is not None and not (found.missing == NO_TORCH and torch_is_there()):
        return found
    found = measure()
    if path is not None and found.copy is not None:
        keep_ceilings(path, found, about)
    if found.products:
        rest(REST)
    return found


def ceilings_json(ceilings: Ceilings) -> dict[str, Any]:
    """As JSON values."""
    return {
        "copy": ceilings.copy,
        "products": dict(ceilings.products),
        "by": ceilings.by,
        "missing": ceilings.missing,
    }


def _rate(value: Any) -> float:
    rate = float(value)
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError("no rate")
    return rate
