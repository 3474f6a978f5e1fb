"""The kernels behind `tilec.runtime.api`: CUDA C++ that tilec itself builds into kernels.tilec, and NumPy twins with the same bits."""

from __future__ import annotations

import threading
import weakref
from importlib.resources import files
from pathlib import Path

from tilec.model.dtype import DTYPES
from tilec.runtime.load import Module, load
from tilec.runtime.seam import DeviceDriver

BUNDLE = "kernels.tilec"
# What the kernels call a dtype: its place here, as in elements.cuh.
CODES = {
    name: code
    for code, name in enumerate(
        ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f8e8m0")
    )
}
_LOADED: weakref.WeakKeyDictionary[DeviceDriver, dict[int, Module]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def kernels(driver: DeviceDriver, ordinal: int) -> Module:
    """The kernels on a GPU, loaded at the first call for it.

    Raises:
        BundleError: the bundle that was installed with tilec is damaged.
    """
    with _LOCK:
        loaded = _LOADED.setdefault(driver, {})
        if ordinal not in loaded:
            resource = files(__name__).joinpath(BUNDLE)
            # tilec in a zip file has no path: its bundle is then held in memory.
            loaded[ordinal] = load(resource if isinstance(resource, Path) else resource.read_bytes(), ordinal, driver=driver)
        return loaded[ordinal]


def width_of(dtype: str) -> int:
    """Bytes of an element, as a power of two."""
    return DTYPES[dtype].bytes.bit_length() - 1
