"""Modules of kernels without a bundle, and their functions.

A module is a cubin, PTX, a fatbin or Tile IR.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tilec_runtime.bundle.cubin import CubinKernel, read_cubin
from tilec_runtime.bundle.ptx import PtxEntry, read_entries
from tilec_runtime.device.device import Device
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.scalars import handle_number, require_kind
from tilec_runtime.errors import (
    BundleError,
    CallError,
    KernelCacheError,
)
from tilec_runtime.launch.config import LaunchConfig
from tilec_runtime.launch.images import LoadedFunction, refusals
from tilec_runtime.launch.limits import check_device_limits
from tilec_runtime.model.arch import Target
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.protocols import DeviceLike
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from tilec_runtime.launch.occupancy import Residency

_ELF = b"\x7fELF"
_FATBIN = bytes.fromhex("50ed55ba")
_TILE_IR = b"\x7fTileIR\x00"

Entry = CubinKernel | PtxEntry  # an image's description of an entry point


def load_module_from_file(path: Path | str, device: DeviceLike | None = None) -> KernelModule:
    """Load a cubin, PTX, a fatbin, or (on the cpu device) Tile IR.

    Args:
        path: the file.
        device: the device; None for the default device.

    Raises:
        CallError: `path` is not a path.
        OSError: the file cannot be read.
        BundleError: the contents are damaged, or of no known kind.
        KernelCacheError: the driver refuses the module.
    """
    fix = "load_module_from_bytes takes the contents, load_module_from_ptx the text of PTX"
    require_kind("load_module_from_file", "a path", path, (str, os.PathLike), fix)
    return load_module_from_bytes(Path(path).read_bytes(), device)


def load_module_from_ptx(text: str, device: DeviceLike | None = None) -> KernelModule:
    """Load PTX, which the driver compiles for the device.

    Raises:
        CallError: `text` is not a string.
        BundleError: the text is not PTX.
        KernelCacheError: the driver refuses the module.
    """
    require_kind("load_module_from_ptx", "text", text, str, "load_module_from_bytes takes bytes")
    return load_module_from_bytes(text.encode(errors="replace"), device)


def load_module_from_bytes(data: bytes, device: DeviceLike | None = None) -> KernelModule:
    """Load a module from bytes, the contents of a file for `load_module_from_file`.

    The bytes are verified first, because drivers crash on a damaged cubin.

    Raises:
        CallError: `data` is not bytes.
        BundleError: the contents are damaged, or of no known kind.
        KernelCacheError: the driver refuses the module.
    """
    fix = "read the file as bytes, or use load_module_from_file or load_module_from_ptx"
    require_kind("load_module_from_bytes", "bytes", data, (bytes, bytearray), fix)
    data = bytes(data)
    where = Device(device)
    entries = _entries(data)
    if where.ordinal == ON_CPU and not data.startswith(_TILE_IR):
        message = "the cpu device runs Tile IR, and the module is code of a GPU"
        raise KernelCacheError(message, fix="load it on a GPU")
    with (
        refusals("the module cannot be loaded", where.ordinal),
        where.driver.outside_captures(where.ordinal),
    ):
        return KernelModule(where.driver.load_module(where.ordinal, data), where, entries)


def _entries(data: bytes) -> tuple[Entry, ...]:
    """Return the entry points of a cubin or PTX; none for other images."""
    if data.startswith(_ELF):
        return read_cubin(data).kernels
    if data.startswith((_FATBIN, _TILE_IR)):
        return ()
    if b".version" in data[: 1 << 16]:
        return read_entries(data.decode("utf-8", "replace"))
    message = f"these {len(data)} bytes are no cubin, PTX, fatbin or Tile IR"
    raise BundleError(message, fix="pass the file as nvcc -cubin, -ptx or -fatbin made it")


@final
class KernelModule(Uncopied):
    """A module on a device.

    It stays loaded until the process ends, because kernels may still run from it.

    Attributes:
        handle: the driver's handle.
        device: the device.
    """

    def __init__(self, handle: Any, device: Device, entries: tuple[Entry, ...] = ()) -> None:
        """Use `load_module_from_file`, `_ptx`, `_bytes` or `borrow_raw`."""
        self.handle = handle
        self.device = device
        self._entries = {entry.name: entry for entry in entries}

    @classmethod
    def borrow_raw(cls, handle: Any, device: DeviceLike | None = None) -> KernelModule:
        """Return a module of another library, which keeps it loaded.

        Args:
            handle: a `CUmodule`, or its number.
            device: the device; None for the default device.

        Raises:
            CallError: `handle` is not a handle.
        """
        number = handle_number(
            handle, "a module", "pass a CUmodule of cuda.bindings, or its number"
        )
        return cls(number, Device(device))

    def function(self, symbol: str, params: tuple[str, ...] | None = None) -> KernelFunction:
        """Look up an entry point.

        Args:
            symbol: its name; for C++ the mangled one, unless it is extern "C".
            params: dtypes of its parameters in order, `ptr` for addresses, to check launches. With
                None, launches are checked by the sizes that a cubin or PTX has.

        Raises:
            BundleError: the cubin or PTX has no such entry point.
            KernelCacheError: the driver finds no such entry point.
            CallError: `params` has a name that is not a dtype, or disagrees with the image.
        """
        known = self._entries.get(symbol)
        if known is None and self._entries:
            raise BundleError(
                f"the module has no kernel {symbol!r}; it has: {', '.join(self._entries)}",
                kernel=symbol,
            )
        with refusals(f"{symbol}: there is no such entry point", self.device.ordinal, symbol):
            handle = self.device.driver.function(self.handle, symbol)
        return KernelFunction(handle, self.device, symbol, _checked(symbol, params, known), known)

    def __repr__(self) -> str:
        """Show the kernels, if known, and the device."""
        kernels = f": {', '.join(self._entries)}" if self._entries else ""
        return f"<KernelModule on {self.device!r}{kernels}>"


@final
class KernelFunction(Uncopied):
    """An entry point that `AsyncKernelLaunch` launches.

    Attributes:
        handle: the driver's handle.
        device: the device.
        symbol: its name.
        params: dtypes of its parameters (`ptr` for addresses), or None if unknown.
        sizes: bytes of its parameters, or None if unknown.
        aligned: required alignment of addresses, by the parameter's place, if PTX declares one.
    """

    def __init__(
        self,
        handle: Any,
        device: Device,
        symbol: str,
        params: tuple[str, ...] | None,
        entry: Entry | None,
    ) -> None:
        """Use `KernelModule.function` or `borrow_raw`."""
        self.handle = handle
        self.device = device
        self.symbol = symbol
        self.params = params
        self.sizes: tuple[int, ...] | None = None
        if entry is not None:
            self.sizes = tuple(param.size for param in entry.params)
        elif params is not None:
            self.sizes = tuple(size_of(name) for name in params)
        self.aligned = (
            {index: p.target_align for index, p in enumerate(entry.params)}
            if isinstance(entry, PtxEntry)
            else {}
        )
        self._entry = entry

    @classmethod
    def borrow_raw(
        cls,
        handle: Any,
        device: DeviceLike | None = None,
        *,
        symbol: str = "function",
        params: tuple[str, ...] | None = None,
    ) -> KernelFunction:
        """Return a function of another library, which keeps its module loaded.

        Args:
            handle: a `CUfunction`, or its number.
            device: the device; None for the default device.
            symbol: its name in messages.
            params: as for `KernelModule.function`.

        Raises:
            CallError: `handle` is not a handle, or `params` has a name that is not a dtype.
        """
        return cls(
            handle_number(
                handle, "a function", "pass a CUfunction of cuda.bindings, or its number"
            ),
            Device(device),
            symbol,
            _checked(symbol, params, None),
            None,
        )

    def residency(self, config: LaunchConfig) -> Residency:
        """Count the blocks and clusters that the device holds at once of such launches.

        Raises:
            LaunchLimitError: the device allows no such launch, apart from residency.
            CallError: `config` is not a `LaunchConfig`.
        """
        from tilec_runtime.launch.occupancy import held_of  # no launch needs it

        fix = "pass the one of the launch"
        require_kind("residency", "a LaunchConfig", config, LaunchConfig, fix)

        check_device_limits(self.symbol, config.shape, self.device.info)
        return held_of(self.symbol, config.shape, self.loaded)

    @functools.cached_property
    def loaded(self) -> LoadedFunction:
        """The function and its resources, for checks of limits."""
        device, entry = self.device.info, self._entry
        facts = self.device.driver.function_facts(self.handle)
        image = ImageInfo(
            target=Target.parse("tileir" if device.interprets else "compute_80"),
            digest="",
            size=0,
            symbol=self.symbol,
            max_threads=0 if entry is None else entry.max_threads,
            required_block=() if entry is None else entry.required_block,
            cluster=facts.cluster if entry is None else entry.cluster,
        )
        return LoadedFunction(
            handle=self.handle,
            facts=facts,
            image=image,
            device=device,
            driver=self.device.driver,
        )

    def __repr__(self) -> str:
        """Show symbol, parameters and device."""
        known = (
            ", ".join(self.params)
            if self.params is not None
            else ""
            if self.sizes is None
            else f"bytes {self.sizes}"
        )
        return f"<KernelFunction {self.symbol}({known}) on {self.device!r}>"


def size_of(dtype: str) -> int:
    """Return the bytes of a kernel argument."""
    return 8 if dtype == "ptr" else DTYPES[dtype].bytes


def _checked(
    symbol: str, params: tuple[str, ...] | None, entry: Entry | None
) -> tuple[str, ...] | None:
    if params is None:
        return None
    for name in params:
        if name != "ptr" and name not in DTYPES:
            raise CallError(
                f"{symbol}: {name!r} is no dtype of a parameter",
                fix=f"use ptr, {', '.join(DTYPES)}",
            )
    sizes = tuple(size_of(name) for name in params)
    if entry is not None and sizes != tuple(param.size for param in entry.params):
        has = ", ".join(str(param.size) for param in entry.params) or "none"
        message = f"{symbol}: the parameters ({', '.join(params)}) have {', '.join(map(str, sizes)) or 'none'} bytes, those of the kernel {has}"
        raise CallError(message, fix="name the parameters as the kernel's source has them")
    return tuple(params)
