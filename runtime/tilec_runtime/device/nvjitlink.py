"""nvJitLink through cuda.bindings: links LTO-IR, compiles PTX for older drivers.

This module is imported at its first use.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tilec_runtime.errors import MissingError, TilecError
from tilec_runtime.model.arch import TargetKind, Version

_FIX = "install it: pip install 'nvidia-nvjitlink>=13,<14'"
_LOCK = threading.Lock()  # one link at a time: the library has state per process


class LinkError(TilecError):
    """nvJitLink failed; `what` is its log."""


class NvJitLink:
    """Makes machine code without a driver."""

    def __init__(self) -> None:
        """Load the library.

        Raises:
            MissingError: the library or its bindings are missing.
        """
        try:
            from cuda.bindings import nvjitlink

            major, minor = nvjitlink.version()
        except (
            ImportError,
            RuntimeError,
            OSError,
        ) as error:  # the bindings load the library at their first call
            message = f"nvJitLink cannot be loaded: {' '.join(str(error).split())[:300]}"
            raise MissingError(
                message, cause="neither the driver nor tilec brings it", fix=_FIX
            ) from error
        self._api: Any = nvjitlink
        self._version = int(major), int(minor)

    @property
    def version(self) -> Version:
        """The CUDA release of the library."""
        return self._version

    def compile(
        self,
        data: bytes,
        name: str,
        arch: str,
        kind: TargetKind = TargetKind.PTX,
        options: Sequence[str] = (),
    ) -> bytes:
        """Return the cubin of PTX or LTO-IR for an architecture such as `sm_90a`.

        Raises:
            LinkError: nvJitLink fails; the error has its log.
        """
        api = self._api
        arguments = [f"-arch={arch}", *(["-lto"] if kind is TargetKind.LTOIR else []), *options]
        with _LOCK:
            try:
                handle = api.create(len(arguments), arguments)
            except api.nvJitLinkError as error:
                raise LinkError(f"{error} ({' '.join(arguments)})") from error
            try:
                api.add_data(handle, getattr(api.InputType, kind.name), data, len(data), name)
                api.complete(handle)
                cubin = bytearray(api.get_linked_cubin_size(handle))
                api.get_linked_cubin(handle, cubin)
            except api.nvJitLinkError as error:
                log = bytearray(api.get_error_log_size(handle))
                api.get_error_log(handle, log)
                raise LinkError(
                    bytes(log).rstrip(b"\0").decode("utf-8", "replace").strip() or str(error)
                ) from error
            finally:
                api.destroy(handle)
        return bytes(cubin)
