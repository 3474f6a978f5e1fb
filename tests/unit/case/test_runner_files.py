"""Arrays out of files: what is read, and what is refused before memory is taken for it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec.case.files import UnfitError, dtype_in, is_file, parse_place, read_array

F32 = np.dtype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)


def read(folder: Path, text: str, dtype: np.dtype[Any] = F32, name: str = "x") -> np.ndarray:
    return read_array(parse_place(text, cwd=folder), name, dtype)


def safetensors(
    path: Path, header: object, data: bytes = b"", *, length: int | None = None
) -> None:
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(head) if length is None else length).to_bytes(8, "little") + head + data)


def test_numpys_files(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    for order, dtype in (("C", "<f4"), ("F", "<f4"), ("C", ">f4")):
        np.save(tmp_path / "x.npy", np.asarray(matrix, dtype, order))  # type: ignore[call-overload]
        found = read(tmp_path, "x.npy")
        assert (found.dtype, found.flags.c_contiguous, found.tolist()) == (
            F32,
            True,
            matrix.tolist(),
        )
        assert dtype_in(parse_place("x.npy", cwd=tmp_path), "x") == "f32"
    np.save(tmp_path / "s.npy", np.float32(3))
    assert read(tmp_path, "s.npy").shape == ()
    np.save(tmp_path / "e.npy", np.zeros((0, 4), np.float32))
    assert read(tmp_path, "e.npy").shape == (0, 4)
    np.save(tmp_path / "b.npy", np.arange(3).astype(BF16))
    assert read(tmp_path, "b.npy", BF16).tolist() == [0, 1, 2]
    assert dtype_in(parse_place("b.npy", cwd=tmp_path), "x") == "", (
        "NumPy does not say which dtype it was"
    )


def test_archives(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "z.npz", x=np.arange(4, dtype=np.float32), y=np.ones(2, np.float32)
    )
    assert read(tmp_path, "z.npz:y").tolist() == [1, 1]
    assert read(tmp_path, "z.npz").tolist() == [0, 1, 2, 3], "the parameter's name is a key"
    with pytest.raises(UnfitError, match=r"^it has no array 'yy'; did you mean 'y'; it has x, y$"):
        read(tmp_path, "z.npz:yy")
    with pytest.raises(UnfitError, match=r"^say which array: z.npz:KEY; it has x, y$"):
        read(tmp_path, "z.npz", name="w")


def test_safetensors(tmp_path: Path) -> None:
    data = np.arange(4).astype(BF16).tobytes() + np.arange(2, dtype=np.float32).tobytes()
    rows = {
        "__metadata__": {"format": "np"},
        "w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
        "odd": {"dtype": "F6_E2M3", "shape": [1], "data_offsets": [8, 9]},
    }
    safetensors(tmp_path / "a.safetensors", rows, data)
    assert read(tmp_path, "a.safetensors:w", BF16).tolist() == [[0, 1], [2, 3]]
    assert read(tmp_path, "a.safetensors").tolist() == [0, 1]
    assert dtype_in(parse_place("a.safetensors:w", cwd=tmp_path), "x") == "bf16"
    with pytest.raises(UnfitError, match=r"^it holds bf16, not f32$"):
        read(tmp_path, "a.safetensors:w")
    with pytest.raises(UnfitError, match=r"^it holds F6_E2M3, not f32$"):
        read(tmp_path, "a.safetensors:odd")


ROW = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "length", "why"),
    [
        ({"x": ROW}, 2**62, "its header cannot be 4611686018427387904 bytes long in a file of "),
        (b"{nonsense", None, "its header is no JSON of tensors"),
        (b"[" * 100_000, None, "its header is no JSON of tensors"),
        (b"[]", None, "its header is no JSON of tensors"),
        (b'{"x": {}, "x": {}}', None, "a name stands there twice"),
        ({"x": {**ROW, "shape": [3]}}, None, r"'x' is \[3\] of F32 in 8 bytes"),
        ({"x": {**ROW, "shape": [-2]}}, None, r"\[-2\] are no extents"),
        ({"x": {**ROW, "shape": "2"}}, None, "'2' are no extents"),
        ({"x": {**ROW, "data_offsets": [0, 800]}}, None, "'x' would lie at bytes 0 to 800 of 8"),
        ({"x": {**ROW, "data_offsets": [8, 0]}}, None, "'x' would lie at bytes 8 to 0 of 8"),
        ({"x": {**ROW, "dtype": 3}}, None, "its header does not say what 'x' is"),
        ({"x": 3}, None, "its header does not say what 'x' is"),
        ({}, None, "it holds no arrays"),
    ],
)
def test_a_safetensors_file_is_held_against_its_size(
    tmp_path: Path, header: object, length: int | None, why: str
) -> None:
    safetensors(tmp_path / "a.safetensors", header, b"12345678", length=length)
    with pytest.raises(UnfitError, match=why):
        read(tmp_path, "a.safetensors:x" if header else "a.safetensors")


def npy(shape: str, dtype: str = "'<f4'") -> bytes:
    """The header of an array that is not there."""
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "EOF|magic"),
        (b"hello", "magic|EOF"),
        (
            npy("(1000000000000000,)"),
            r"^\[1000000000000000\] of float32 are not the 0 bytes that it holds$",
        ),
        (npy("(-1,)"), r"are no extents$"),
        (npy("(2,)", "'|O'") + b"12345678" * 2, "^it holds Python objects, not numbers$"),
        (b"\x93NUMPY\x09\x00" + b"0" * 20, "^version 9.0 of .npy is not known: 1.0 and 2.0 are$"),
    ],
)
def test_a_npy_file_is_held_against_its_size(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(UnfitError, match=why):
        read(tmp_path, "x.npy")
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(UnfitError, match=why):
        read(tmp_path, "z.npz:x")


def test_a_damaged_archive(tmp_path: Path) -> None:
    memory = io.BytesIO()
    np.savez(memory, x=np.ones(100, np.float32))
    data = bytearray(memory.getvalue())
    data[300] ^= 1  # a number of the array
    (tmp_path / "z.npz").write_bytes(data)
    with pytest.raises(UnfitError, match="Bad CRC-32"):
        read(tmp_path, "z.npz:x")
    (tmp_path / "z.npz").write_bytes(data[:200])
    with pytest.raises(UnfitError, match="not a zip file"):
        read(tmp_path, "z.npz:x")


def test_a_damaged_header_is_told_whoever_reads_it(tmp_path: Path) -> None:
    """Its text is read by Python's tokenizer, and in an archive it is unpacked first: they have
    errors of their own.
    """
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole.replace(b"}", b"("))
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(64, dtype=np.float32))
    packed = bytearray((tmp_path / "x.npz").read_bytes())
    start = 30 + int.from_bytes(packed[26:28], "little") + int.from_bytes(packed[28:30], "little")
    packed[start] |= 0x06  # no such kind of a block
    (tmp_path / "x.npz").write_bytes(packed)
    for name, why in (
        ("x.npy", "EOF in multi-line statement|was never closed|Cannot parse header"),
        ("x.npz", "invalid block type"),
    ):
        for ask in (
            lambda name=name: dtype_in(parse_place(name, cwd=tmp_path), "x"),
            lambda name=name: read(tmp_path, name),
        ):
            with pytest.raises(UnfitError, match=why):
                ask()


def test_other_dtypes_and_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(2))
    with pytest.raises(UnfitError, match=r"^it holds f64, not f32$"):
        read(tmp_path, "x.npy")
    np.save(tmp_path / "c.npy", np.ones(2, np.complex64))
    with pytest.raises(UnfitError, match=r"^it holds complex64, not f32$"):
        read(tmp_path, "c.npy")
    with pytest.raises(UnfitError, match=r"^No such file or directory$"):
        read(tmp_path, "none.npy")


def test_what_is_meant_as_a_file() -> None:
    assert all(
        map(is_file, ("a.npy", "a.npz", "a.npz:k", "d.npz/a.safetensors:k.weight", "a.npz:"))
    )
    assert not any(map(is_file, ("a", "1.5", "[4]", "f32[4]", "a.txt", "npz")))
    assert (
        str(parse_place("d.npz/a.safetensors:k.weight", cwd=Path("/")))
        == "/d.npz/a.safetensors:k.weight"
    )
