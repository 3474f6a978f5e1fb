"""Arrays out of files: what was written is read, and whatever is damaged is rejected."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec.case.files import UnfitError, dtype_in, parse_place, read_array

F32 = np.dtype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)


def read(folder: Path, text: str, dtype: np.dtype[Any] = F32, name: str = "x") -> np.ndarray:
    return read_array(parse_place(text, cwd=folder), name, dtype)


def safetensors(path: Path, rows: object, data: bytes = b"") -> None:
    head = json.dumps(rows).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


@pytest.mark.parametrize(
    ("array", "dtype", "said"),
    [
        (np.arange(6, dtype="<f4").reshape(2, 3), F32, "f32"),
        (np.asarray(np.arange(6).reshape(2, 3), "<f4", "F"), F32, "f32"),
        (np.arange(6, dtype=">f4"), F32, "f32"),
        (np.float32(3), F32, "f32"),
        (np.zeros((0, 4), np.float32), F32, "f32"),
        (np.arange(3).astype(BF16), BF16, ""),  # NumPy writes no name of this dtype
    ],
)
def test_numpys_files_come_back(tmp_path: Path, array: Any, dtype: Any, said: str) -> None:
    np.save(tmp_path / "x.npy", array)
    np.savez_compressed(tmp_path / "z.npz", x=array, y=np.ones(2))
    for text in ("x.npy", "z.npz:x", "z.npz"):  # the parameter's name is a key
        found = read(tmp_path, text, dtype)
        assert (found.dtype, found.flags.c_contiguous) == (dtype, True)
        np.testing.assert_array_equal(found, array)
        assert dtype_in(parse_place(text, cwd=tmp_path), "x") == said


def test_safetensors_come_back(tmp_path: Path) -> None:
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
    with pytest.raises(UnfitError, match=r"^it holds F6_E2M3, which is no dtype of kernels$"):
        read(tmp_path, "a.safetensors:odd")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("z.npz:yy", r"^it has no array 'yy'; did you mean 'y'; it has v, y$"),
        ("z.npz", r"^say which array: z.npz:KEY; it has v, y$"),
        ("v.npy", r"^it holds f64, not f32$"),
        ("c.npy", r"^it holds complex64, not f32$"),
        ("none.npy", r"^No such file or directory$"),
        ("o.npy", "Object arrays cannot be loaded"),
        ("e.safetensors", "^say which array: e.safetensors:KEY; it has no arrays$"),
    ],
)
def test_other_keys_and_dtypes_are_rejected(tmp_path: Path, text: str, said: str) -> None:
    np.savez(tmp_path / "z.npz", v=np.ones(1), y=np.ones(2))
    np.save(tmp_path / "v.npy", np.ones(2))
    np.save(tmp_path / "c.npy", np.ones(2, np.complex64))
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    safetensors(tmp_path / "e.safetensors", {})
    with pytest.raises(UnfitError, match=said):
        read(tmp_path, text)


def samples(folder: Path) -> dict[str, bytes]:
    array = np.arange(64, dtype=np.float32)
    np.save(folder / "x.npy", array)
    np.savez(folder / "x.npz", x=array)
    memory = io.BytesIO()
    np.savez_compressed(memory, x=array)
    (folder / "c.npz").write_bytes(memory.getvalue())
    row = {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}
    safetensors(folder / "x.safetensors", {"x": row}, array.tobytes())
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_rejected_and_nothing_else_is_raised(tmp_path: Path) -> None:
    """Cut off anywhere, or with bytes changed anywhere."""
    rng = random.Random(0)
    for name, data in samples(tmp_path).items():
        for place in [0, 1, 8, *rng.sample(range(len(data)), 60), len(data) - 1]:
            changed = bytearray(data)
            changed[place] = rng.randrange(256)
            for damaged in (data[:place], bytes(changed)):
                (tmp_path / name).write_bytes(damaged)
                try:
                    assert read(tmp_path, name).dtype == F32  # an element changed, or a date
                except UnfitError as refused:
                    assert str(refused)  # noqa: PT017 - either is right, nothing else is
