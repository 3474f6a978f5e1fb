"""Reads the clocks of a GPU through NVML, and what throttles them."""

from __future__ import annotations

from typing import Any

from tilec.bench.measure import ClockReading
from tilec_runtime.device.seam import DeviceInfo

# Bits of NVML's event reasons that slow a kernel down. Idle clocks and clocks set by a user do not.
_REASONS = {0x4: "power", 0x8: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power"}
_SM, _MEMORY = 1, 2


class Clocks:
    """The clocks of one GPU.

    Args:
        uuid: of the GPU, as NVML writes it (`GPU-…`); empty if unknown.
        api: the NVML bindings; None for those of cuda-bindings.

    Attributes:
        missing: why clocks cannot be read; empty where they can.
        driver: the driver's version, such as `580.95.05`; empty if unknown.
    """

    def __init__(self, uuid: str, api: Any = None) -> None:
        self.missing = ""
        self.driver = ""
        self._api = api
        self._handle: Any = None
        try:
            if self._api is None:
                from cuda.bindings import nvml

                self._api = nvml
            self._api.init_v2()
            self.driver = str(self._api.system_get_driver_version())
            self._handle = self._api.device_get_handle_by_uuid(uuid)
        except Exception as error:  # noqa: BLE001 - NVML may be missing in many ways; measuring goes on
            self._fail(error)
        self.read()

    def read(self) -> ClockReading | None:
        """Return the clocks now; None where they cannot be read."""
        if self._handle is None:
            return None
        try:
            bits = int(self._api.device_get_current_clocks_event_reasons(self._handle))
            return ClockReading(
                sm=int(self._api.device_get_clock_info(self._handle, _SM)),
                memory=int(self._api.device_get_clock_info(self._handle, _MEMORY)),
                held_back=tuple(dict.fromkeys(w for bit, w in _REASONS.items() if bits & bit)),
            )
        except Exception as error:  # noqa: BLE001 - as above; a GPU may also be lost meanwhile
            self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        reason = str(error).strip() or "no reason given"
        self.missing = f"the clocks cannot be read: {type(error).__name__}: {reason}"
        self._handle = None


def driver_text(device: DeviceInfo, clocks: Clocks | None) -> str:
    """Return the version of a GPU's driver, or its release of CUDA; empty for the cpu device."""
    if clocks is None:
        return ""
    return clocks.driver or f"CUDA {device.driver[0]}.{device.driver[1]}"


def uuid_of(ordinal: int) -> str:
    """Return the UUID of a GPU by CUDA's number, which NVML does not know; empty on failure."""
    try:
        from cuda.core import Device

        return f"GPU-{str(Device(ordinal).uuid).removeprefix('GPU-')}"
    except Exception:  # noqa: BLE001 - then `Clocks` says that clocks are not read
        return ""
