"""Writes the corpus as a tilec project: kernels and manifest. `python -m tests.corpus.write DIR`,
then `tilec -C DIR build`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.corpus.elementwise import elementwise
from tests.corpus.entries import BLOCKS, Entry
from tests.corpus.structured import structured

PER_FILE = 64  # kernels of a module: importing one stays quick, and its errors are found
TARGETS = ("sm_90", "tileir")
# Operations that no sm_90 has: block-scaled products.


def entries() -> tuple[Entry, ...]:
    """The whole corpus. Names are unique."""
    found = (*elementwise(), *structured())
    names = [entry.name for entry in found]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
    return found


def write(folder: Path, chosen: Sequence[Entry], targets: Sequence[str] = TARGETS) -> None:
    """Write a project with these entries."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = [
        "edition = 1",
        "",
        "[package]",
        'name = "tile-corpus"',
        'version = "0.1.0"',
        'module = "tile_corpus"',
        "",
    ]
    manifest += [
        "[targets]",
        f"default = [{', '.join(repr(target) for target in targets)}]".replace("'", '"'),
    ]
    for first in range(0, len(chosen), PER_FILE):
        file = f"kernels_{first // PER_FILE:02d}.py"
        part = chosen[first : first + PER_FILE]
        (folder / file).write_text(
            "\n".join(["import cuda.tile as ct", *map(_kernel, part)]), encoding="utf-8"
        )
        for entry in part:
            manifest += [
                "",
                f"[kernel.{entry.name}]",
                f'source = "{file}:{entry.name}"',
                f'launch = {{ grid = ["{BLOCKS}"] }}',
            ]
            for arg in entry.args:
                out = ", out = true" if arg.out else ""
                manifest.append(
                    f'params.{arg.name} = {{ dtype = "{arg.dtype}", rank = {len(arg.shape)}{out} }}'
                )
    (folder / "tilec.toml").write_text("\n".join(manifest) + "\n", encoding="utf-8")


def _kernel(entry: Entry) -> str:
    names = ", ".join(arg.name for arg in entry.args)
    return "\n".join(
        [
            "",
            "",
            "@ct.kernel",
            f"def {entry.name}({names}):",
            *(f"    {line}" for line in entry.body),
        ]
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), entries())
