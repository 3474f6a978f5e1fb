"""What a GPU gave for the corpus, as `compare --record` wrote it down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.corpus.compare import digest, hold
from tests.corpus.entries import Array, Entry
from tests.corpus.tolerances import tolerance
from tilec_runtime.tensors.host import numpy_dtype

HERE = Path(__file__).parent


class Recorded:
    """Results of one GPU: `NAME.json` and `NAME.npz` beside this file."""

    def __init__(self, name: str) -> None:
        self._digests: dict[str, str] = json.loads(
            (HERE / f"{name}.json").read_text(encoding="utf-8")
        )["digests"]
        with np.load(HERE / f"{name}.npz") as arrays:
            self._arrays: dict[str, Array] = dict(arrays)

    @property
    def names(self) -> frozenset[str]:
        """Entries that there are results of."""
        return frozenset(self._digests)

    def differs(self, entry: Entry, outputs: dict[str, Array], scale: dict[str, Array]) -> str:
        """How outputs differ from the GPU's by more than the table allows; empty where they do not."""
        if not tolerance(entry):
            return (
                ""
                if digest(outputs) == self._digests[entry.name]
                else f"{entry.name}: other bits than the GPU's"
            )
        dtypes = {arg.name: numpy_dtype(arg.dtype) for arg in entry.args}
        given = {name: self._arrays[f"{entry.name}.{name}"].view(dtypes[name]) for name in outputs}
        row = hold(
            entry,
            {name: array.reshape(outputs[name].shape) for name, array in given.items()},
            outputs,
            scale,
        )
        return (
            ""
            if row["status"] in ("equal", "within")
            else f"{entry.name}: {row['ulps']} units off, {row['allowed']} are allowed: {row.get('first')}"
        )
