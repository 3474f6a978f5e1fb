"""Arrays in files that others wrote: `.npy`, `.npz` and safetensors, of which no more is read than
their own headers and sizes allow.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.lib import format as npy

from tilec_runtime.errors import UsageError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES, DType
from tilec_runtime.model.suggest import did_you_mean

Array = np.ndarray[Any, np.dtype[Any]]

SUFFIXES = (".npy", ".npz", ".safetensors")
FORMS = "FILE.npy, FILE.npz:KEY or FILE.safetensors:KEY"
# The formats' own limit of a header, and a bound on what a reader takes of one.
MOST_HEADER = 100_000_000
MOST_NPY_HEADER = 64 * 1024
KEYS_SHOWN = 8
# What NumPy and the modules of archives raise where a file is damaged: the words of a header, or
# compressed bytes, are no longer theirs.
UNREADABLE = (
    *(OSError, ValueError, EOFError, RuntimeError, MemoryError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)

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
class Place:
    """Where an array lies: a file, and which of its arrays; the key is empty where there is one
    alone, or one of the parameter's name.
    """

    path: Path
    key: str = ""

    def __str__(self) -> str:
        """As it is written on a command line."""
        return f"{self.path}:{self.key}" if self.key else str(self.path)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """An array of a file, whose bytes come next.

    Attributes:
        shape: its extents. fortran: the first of them runs fastest.
        numpy: its dtype as NumPy has it; None where the file names it in its own words.
        dtype: tilec's; None for one that tilec has not. word: the file's name of it.
        offset: where its bytes begin in the file.
    """

    shape: tuple[int, ...]
    fortran: bool = False
    numpy: np.dtype[Any] | None = None
    dtype: DType | None = None
    word: str = ""
    offset: int = 0


def is_file(text: str) -> bool:
    """Whether a value is meant as a file."""
    return text.endswith(".npy") or _PLACE.fullmatch(text) is not None


def parse_place(text: str, *, cwd: Path) -> Place:
    """Read `x.npy`, `x.npz:key` or `x.safetensors:key`.

    Raises:
        UsageError: it is none of them.
    """
    if text.endswith(".npy"):
        return Place(path=cwd / text)
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} names no file of an array", fix=f"an array comes from {FORMS}")
    return Place(path=cwd / match[1], key=match[2] or "")


def dtype_in(place: Place, name: str) -> str:
    """The dtype of the array that a place names for a parameter; empty where the file knows its
    size only.

    Raises:
        UnfitError: the file cannot be read, or has no such array.
    """
    with _Reader(place, name) as reader:
        return reader.entry.dtype.name if reader.entry.dtype else ""


def read_array(place: Place, name: str, dtype: np.dtype[Any]) -> Array:
    """The array that a place names for a parameter, as a C-contiguous one of its own memory.

    Args:
        place: where it lies.
        name: the parameter.
        dtype: what the array has to be of; `.npy` files do not keep the names of the dtypes that
            NumPy lacks.

    Raises:
        UnfitError: the file cannot be read, has no such array, or holds another dtype.
    """
    with _Reader(place, name) as reader:
        return reader.read(dtype)


@final
class _Reader:
    """One open file, and the entry that is asked of it."""

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name
        self._open: list[Any] = []
        try:
            self._file = self._kept(place.path.open("rb"))
            self._read_head()
        except UNREADABLE as error:
            self.__exit__()
            raise UnfitError(_reason(error)) from error
        except UnfitError:
            self.__exit__()
            raise

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.pop().close()

    def _kept(self, opened: Any) -> Any:
        self._open.append(opened)
        return opened

    def _read_head(self) -> None:
        self._stream: IO[bytes] = self._file
        size = self._place.path.stat().st_size
        match self._place.path.suffix:
            case ".npz":
                archive = self._kept(zipfile.ZipFile(self._file))
                members = {
                    one.filename.removesuffix(".npy"): one
                    for one in archive.infolist()
                    if one.filename.endswith(".npy")
                }
                member = members[self._key(tuple(members))]
                self._stream = self._kept(archive.open(member))
                self.entry = _npy_entry(self._stream, member.file_size)
            case ".safetensors":
                tensors = _tensors(self._file, size)
                self.entry = tensors[self._key(tuple(tensors))]
                self._file.seek(self.entry.offset)
            case _:
                self.entry = _npy_entry(self._file, size)

    def _key(self, known: Sequence[str]) -> str:
        """Which array is meant: the one that is named, one of the parameter's name, or the only
        one.
        """
        key = self._place.key or (
            self._name if self._name in known else known[0] if len(known) == 1 else ""
        )
        if key in known:
            return key
        shown = ", ".join(known[:KEYS_SHOWN]) + (
            f" and {len(known) - KEYS_SHOWN} more" if len(known) > KEYS_SHOWN else ""
        )
        if not key:
            raise UnfitError(
                f"say which array: {self._place.path.name}:KEY; it has {shown}"
                if known
                else "it holds no arrays"
            )
        raise UnfitError(
            f"it has no array {key!r}{did_you_mean(key, known)}; it has {shown or 'none'}"
        )

    def read(self, dtype: np.dtype[Any]) -> Array:
        entry = self.entry
        stored = dtype if entry.numpy is None else entry.numpy
        if stored.kind == "V" and stored.names is None and stored.itemsize == dtype.itemsize:
            stored = dtype
        elif (entry.dtype.numpy if entry.dtype else "") != dtype.name:
            raise UnfitError(f"it holds {entry.dtype or entry.word}, not {BY_NUMPY[dtype.name]}")
        try:
            flat = np.empty(math.prod(entry.shape), stored)
            self._fill(flat.view(np.uint8).data)
        except UNREADABLE as error:
            raise UnfitError(_reason(error)) from error
        found = flat.reshape(entry.shape[::-1]).T if entry.fortran else flat.reshape(entry.shape)
        array: Array = np.ascontiguousarray(found.astype(dtype, copy=False)).reshape(entry.shape)
        return array

    def _fill(self, memory: memoryview) -> None:
        done = 0
        while done < len(memory):
            count = self._stream.readinto(memory[done:])  # type: ignore[attr-defined]  # files and members of archives have it
            if not count:
                raise UnfitError(f"it ends after {done} of the array's {len(memory)} bytes")
            done += count
        if self._stream is not self._file:
            self._stream.read(1)  # at its end a member of an archive is held against its checksum


def _npy_entry(file: IO[bytes], size: int) -> _Entry:
    """The header of a `.npy` file, held against the file's size."""
    version = npy.read_magic(file)
    reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if reader is None:
        raise UnfitError(f"version {version[0]}.{version[1]} of .npy is not known: 1.0 and 2.0 are")
    shape, fortran, dtype = reader(file, max_header_size=MOST_NPY_HEADER)
    if dtype.hasobject:
        raise UnfitError("it holds Python objects, not numbers")
    extents = _shape(shape)
    if file.tell() + math.prod(extents) * dtype.itemsize != size:
        raise UnfitError(
            f"{list(extents)} of {dtype.name} are not the {size - file.tell()} bytes that it holds"
        )
    return _Entry(
        shape=extents,
        numpy=dtype,
        dtype=BY_NUMPY.get(dtype.name),
        word=dtype.name,
        fortran=bool(fortran),
    )


def _tensors(file: IO[bytes], size: int) -> dict[str, _Entry]:
    """The header of a safetensors file: every tensor's dtype, shape and bytes, held against the
    file's size.
    """
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(MOST_HEADER, size - 8):
        raise UnfitError(f"its header cannot be {length} bytes long in a file of {size}")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"its header is no JSON of tensors: {_reason(error)}") from error
    if not isinstance(header, dict):
        raise UnfitError("its header is no JSON of tensors")
    rows = {name: row for name, row in header.items() if name != "__metadata__"}
    return {name: _tensor(name, row, 8 + length, size) for name, row in rows.items()}


def _tensor(name: str, row: Any, start: int, size: int) -> _Entry:
    fields = row if isinstance(row, Mapping) else {}
    word, offsets = fields.get("dtype"), fields.get("data_offsets")
    if not isinstance(word, str) or not isinstance(offsets, list) or len(offsets) != 2:
        raise UnfitError(f"its header does not say what {name!r} is")
    shape, (first, end) = _shape(fields.get("shape")), _shape(offsets)
    dtype = DTYPES.get(_SAFETENSORS.get(word, ""))
    if not first <= end <= size - start:
        raise UnfitError(f"{name!r} would lie at bytes {first} to {end} of {size - start}")
    if dtype is not None and end - first != math.prod(shape) * dtype.bytes:
        raise UnfitError(f"{name!r} is {list(shape)} of {word} in {end - first} bytes")
    return _Entry(shape=shape, dtype=dtype, word=word, offset=start + first)


def _shape(value: Any) -> tuple[int, ...]:
    """Whole numbers that are not negative.

    Raises:
        UnfitError: they are not.
    """
    if isinstance(value, list | tuple) and all(
        type(extent) is int and 0 <= extent < 2**63 for extent in value
    ):
        return tuple(value)
    raise UnfitError(f"{value!r} are no extents")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "it does not fit in memory"
    return (
        error.strerror
        if isinstance(error, OSError) and error.strerror
        else str(error) or type(error).__name__
    )
