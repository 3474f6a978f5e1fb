"""Reads arrays from `.npy`, `.npz` and safetensors files."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilec_runtime.model.dtype import BY_NUMPY
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.tensors.host import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

SUFFIXES = (".npy", ".npz", ".safetensors")
FORMS = "FILE.npy, FILE.npz:KEY or FILE.safetensors:KEY"
KEYS_SHOWN = 8

_PLACE = re.compile(r"(.*?\.(?:npz|safetensors))(?::(.*))?", re.DOTALL)
_SAFETENSORS = {
    "BOOL": "bool",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in "IU" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "BF16": "bf16",
    "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2",
    "F8_E8M0": "f8e8m0",
}


class UnfitError(Exception):
    """A file cannot be read; the text says why."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ArrayFile:
    """A file and the key of one of its arrays; empty for the only one or the parameter's name."""

    path: Path
    key: str = ""

    def __str__(self) -> str:
        """Return the text for a command line."""
        return f"{self.path}:{self.key}" if self.key else str(self.path)


def storable(array: Array) -> Array:
    """Return a view that a NumPy file can hold: raw bytes in place of ml_dtypes' numbers."""
    return array.view(f"V{array.itemsize}") if array.dtype.isbuiltin == 2 else array


def is_file(text: str) -> bool:
    """Return whether a value names a file of an array."""
    return text.endswith(".npy") or _PLACE.fullmatch(text) is not None


def parse_array_file(text: str, *, cwd: Path) -> ArrayFile:
    """Read `x.npy`, `x.npz:key` or `x.safetensors:key`: a text that `is_file` accepts."""
    match = _PLACE.fullmatch(text)
    if match is None:  # an .npy file
        return ArrayFile(path=cwd / text)
    return ArrayFile(path=cwd / match[1], key=match[2] or "")


def dtype_in(file: ArrayFile, name: str) -> str:
    """Return the dtype of a parameter's array; empty if the file has its element size only.

    Raises:
        UnfitError: the file cannot be read, or has no such array.
    """
    dtype = _load(file, name).dtype
    return BY_NUMPY[dtype.name].name if dtype.name in BY_NUMPY else ""


def read_array(file: ArrayFile, name: str, dtype: np.dtype[Any]) -> Array:
    """Return a parameter's array, C-contiguous.

    Args:
        file: the file.
        name: of the parameter.
        dtype: required. `.npy` files do not name dtypes that NumPy lacks, only their size.

    Raises:
        UnfitError: the file cannot be read, has no such array, or holds another dtype.
    """
    loaded = _load(file, name)
    if loaded.dtype.kind == "V" and loaded.dtype.itemsize == dtype.itemsize:
        loaded = loaded.view(dtype)
    if loaded.dtype.name != dtype.name:
        stored = BY_NUMPY.get(loaded.dtype.name, loaded.dtype.name)
        raise UnfitError(f"it holds {stored}, not {BY_NUMPY[dtype.name]}")
    array: Array = np.require(loaded, dtype, "C")  # ascontiguousarray would add an axis to scalars
    return array


def _load(file: ArrayFile, name: str) -> Array:
    try:
        if file.path.suffix == ".safetensors":
            return _load_safetensors(file, name)
        loaded = np.load(file.path, allow_pickle=False)
        if file.path.suffix == ".npy":
            npy: Array = loaded
            return npy
        with loaded as archive:
            array: Array = archive[_key(file, name, archive.files)]
            return array
    except UnfitError:
        raise
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UnfitError(reason or str(error) or type(error).__name__) from error


def _load_safetensors(source: ArrayFile, name: str) -> Array:
    data = np.memmap(source.path, np.uint8, "r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > data.size - 8:
        raise UnfitError(f"its header cannot be {length} bytes long in a file of {data.size}")
    header = json.loads(data[8 : 8 + length].tobytes())
    row = header[_key(source, name, [key for key in header if key != "__metadata__"])]
    if row["dtype"] not in _SAFETENSORS:
        raise UnfitError(f"it holds {row['dtype']}, which is no dtype of kernels")
    dtype = numpy_dtype(_SAFETENSORS[row["dtype"]])
    first, end = row["data_offsets"]
    array: Array = data[8 + length :][first:end].copy().view(dtype).reshape(row["shape"])
    return array


def _key(file: ArrayFile, name: str, known: Sequence[str]) -> str:
    """Return the key of the wanted array: as given, the parameter's name, or the only one."""
    key = file.key or (name if name in known else known[0] if len(known) == 1 else "")
    if key in known:
        return key
    shown = ", ".join(known[:KEYS_SHOWN]) or "no arrays"
    if len(known) > KEYS_SHOWN:
        shown += f" and {len(known) - KEYS_SHOWN} more"
    if key:
        raise UnfitError(f"it has no array {key!r}{did_you_mean(key, known)}; it has {shown}")
    raise UnfitError(f"say which array: {file.path.name}:KEY; it has {shown}")
