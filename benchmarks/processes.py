"""Tables of several processes: in one process after another the same launch costs up to 0.3 us more
or less, and one alone says little.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def several(script: str, arguments: Sequence[str], count: int) -> list[dict[str, Any]]:
    """What a benchmark writes in each of so many processes, one after another.

    Args:
        script: the benchmark, which takes the file that it writes first.
        arguments: that it takes behind that.
        count: how many processes.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            out = Path(folder, f"{number}.json")
            done = subprocess.run(
                [sys.executable, script, str(out), *arguments], stdout=subprocess.DEVNULL
            )
            if done.returncode:
                sys.exit(done.returncode)
            found.append(json.loads(out.read_text(encoding="utf-8")))
    return found


def merged(tables: Sequence[dict[str, Row]]) -> dict[str, Row]:
    """One table: the least of minima, the median of everything else, and of ratios those of all
    processes.
    """
    rows: dict[str, Row] = {}
    for name, first in tables[0].items():
        each = [table[name] for table in tables]
        rows[name] = row = dict(first)
        for key, value in first.items():
            if isinstance(value, float):
                values = [one[key] for one in each if key in one]
                row[key] = min(values) if key == "minimum" else round(statistics.median(values), 3)
                if key.startswith("times_"):
                    row["processes"] = values
    return rows
