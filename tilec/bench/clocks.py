"""Clocks of a GPU through NVML: what they are now, and what holds them back. Where NVML is not
there, nothing is known, and why is said.
"""

from __future__ import annotations

from typing import Any

from tilec.bench.measure import ClockReading

# Bits of NVML's reasons that slow a kernel down, by what they are about. An idle GPU and clocks
# that somebody set are none of them.
_REASONS = {0x4: "power", 0x8: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power"}
_SM, _MEMORY = 1, 2


class Clocks:
    """The clocks of one GPU.

    Args:
        uuid: of the GPU, as NVML writes it (`GPU-…`); empty where it is not known.
        api: the NVML bindings; None for those of cuda-bindings.

    Attributes:
        missing: why clocks cannot be read; empty where they can.
        driver: the driver's version, such as `580.95.05`; empty where it is not known.
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
            self._now()
        except Exception as error:  # noqa: BLE001 - NVML may be missing in many ways, and none of them keeps from measuring
            self._handle = None
            self.missing = f"the clocks cannot be read: {type(error).__name__}: {str(error).strip() or 'no reason given'}"

    def read(self) -> ClockReading | None:
        """The clocks now; None where they cannot be read."""
        if self._handle is None:
            return None
        try:
            return self._now()
        except Exception as error:  # noqa: BLE001 - as above; a GPU may go in between
            self._handle, self.missing = (
                None,
                f"the clocks cannot be read any more: {type(error).__name__}: {error}",
            )
            return None

    def _now(self) -> ClockReading:
        bits = int(self._api.device_get_current_clocks_event_reasons(self._handle))
        return ClockReading(
            sm=int(self._api.device_get_clock_info(self._handle, _SM)),
            memory=int(self._api.device_get_clock_info(self._handle, _MEMORY)),
            held_back=tuple(dict.fromkeys(word for bit, word in _REASONS.items() if bits & bit)),
        )


def uuid_of(ordinal: int) -> str:
    """The UUID of a GPU as CUDA counts them, which NVML does not; empty where it cannot be had."""
    try:
        from cuda.core import Device

        return f"GPU-{str(Device(ordinal).uuid).removeprefix('GPU-')}"
    except Exception:  # noqa: BLE001 - then clocks are not read, and that is said
        return ""
