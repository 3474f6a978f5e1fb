"""What compute-sanitizer leaves of a launch: records and logs in the layout of version 2025.3, and a tool that leaves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.watched_project import IMAGE, write_tool
from tilec_runtime.model.digest import sha256

Y = 0x7F4B1C800000  # where y lies, which has 300 elements of 4 bytes
TOLD = {
    "variant": "scale",
    "image": sha256(IMAGE),
    "symbol": "scale",
    "tensors": {"y": [Y, 1200]},
    "grid": [3, 1, 1],
    "gap": 65536,
    "ended": True,
}
# What `tilec sanitize` prints of the case beyond/tail of tests/samples/watched; docs/debugging.md shows it.
SHOWN = """\
beyond/tail  FOUND   1 finding, 3 blocks

planted.cu:12: out of bounds: write of 4 bytes at y[300], 1 element behind the last (y has 300)
            y[i] = value;  // defect: four elements behind the end
  in beyond/tail, block (2, 0, 0), thread (44, 0, 0); 4 times in all
  memcheck found it
  fix: compare the index with the extent before the access, or launch fewer threads
"""
CLEAN = "ERROR SUMMARY: 0 errors"


def report(*records: str) -> str:
    return '<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput>\n' + "".join(records) + "</ComputeSanitizerOutput>\n"


def log(*lines: str) -> str:
    return "".join(f"========= {line}\n" for line in ("COMPUTE-SANITIZER", *lines))


def where(line: int, *, file: str = "scale.cu", function: str = "scale") -> str:
    place = f"<path>{file}</path><line>{line}</line>" if file else ""
    return f"<where><func>{function}</func>{place}<pc>0x140</pc></where>"


def who(thread: int, block: int = 0) -> str:
    return f"<who>{_place('threadIdx', thread)}{_place('blockIdx', block)}</who>"


def precise(
    address: int, *, thread: int = 44, block: int = 2, error: str = "out of bounds", space: str = "__global__", line: int = 3, **place: str
) -> str:
    what = (
        f"<what><text>Invalid {space} write of size 4 bytes is {error}</text><space>{space}</space><size>4</size>"
        f"<direction>write</direction><error>{error}</error><address>{address:#x}</address></what>"
    )
    return f"<record><kind>Precise</kind><level>Error</level>{who(thread, block)}{what}{where(line, **place)}</record>\n"


def uninitialized(address: int, thread: int) -> str:
    what = f"<what><text>Uninitialized __global__ memory read of size 4 bytes</text><address>{address:#x}</address><size>4</size></what>"
    return f"<record><kind>Initcheck</kind>{who(thread)}{what}{where(3)}</record>\n"


def race(*others: tuple[str, int, int], direction: str = "Write", level: str = "Error") -> str:
    """A race between line 2 and others, each as (direction, line, count)."""
    ends = "".join(
        f"<destination><direction>{does}</direction>{where(line)}<count>{count}</count></destination>" for does, line, count in others
    )
    source = f"<source><direction>{direction}</direction>{where(2)}</source>"
    return f"<record><kind>Analysis</kind><level>{level}</level><what><text>Race condition</text>{source}{ends}</what></record>\n"


def write_sanitizer(folder: Path, reports: Mapping[str, str], logs: Mapping[str, str], *, told: object = None, end: str = "") -> None:
    """A compute-sanitizer that leaves, for each of its tools, a report and a log; what is not said is clean. `end` is run last."""
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        (folder / f"{tool}.xml").write_text(reports.get(tool, report()))
        (folder / f"{tool}.log").write_text(logs.get(tool, log(CLEAN)))
    (folder / "told.json").write_text(json.dumps(TOLD if told is None else told))
    write_tool(
        folder,
        "compute-sanitizer",
        'while [ $# -gt 0 ]; do case "$1" in --tool) tool=$2 ;; --save) xml=$2 ;; --log-file) log=$2 ;; esac; last=$1; shift; done\n'
        f'cp {folder}/told.json "$last"; cp {folder}/$tool.xml "$xml"; cp {folder}/$tool.log "$log"\n{end}',
    )


def options(call: Sequence[str]) -> dict[str, str]:
    """The options of a command line, each with the word behind it."""
    return {word: call[number + 1] for number, word in enumerate(call[:-1]) if word.startswith("--")}


def _place(name: str, x: int) -> str:
    return f"<{name}><x>{x}</x><y>0</y><z>0</z></{name}>"
