"""Start of every command without work: its `--help` against Python doing nothing, and the modules
that it must not import.

Processor time tells on a machine that does other things too.
"""

from __future__ import annotations

import subprocess
import sys

from common import Spent, median, options, save, spent, tilec, timed

from tilec.cli.main import COMMANDS

HEAVY = ("numpy", "jinja2", "rich", "cuda", "tomllib", "tomli")
WANTED = 200  # milliseconds


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "", repeats=9).parse_args()
    lines = {
        "tilec": [tilec(), "--help"],
        **{name: [tilec(), name, "--help"] for name in COMMANDS},
        "python": [sys.executable, "-c", "pass"],
    }
    taken: dict[str, list[Spent]] = {name: [] for name in lines}
    timed(lines["tilec"])
    for _ in range(arguments.repeats):
        for name, line in lines.items():
            taken[name].append(spent(lambda line=line: timed(line)))  # type: ignore[misc]
    code = "import sys; import tilec.cli.main; print(' '.join(m for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = sorted(set(done.stdout.split()) & set(HEAVY))
    table = []
    for name, times in taken.items():
        shown = (
            "python -c pass"
            if name == "python"
            else " ".join(dict.fromkeys(("tilec", name, "--help")))
        )
        wanted = "" if name == "python" else f" (wanted: under {WANTED})"
        wall, cpu = (
            median([getattr(one, kind) for one in times]) * 1e3 for kind in ("wall", "cpu")
        )
        table.append((shown, f"{wall:.0f} ms{wanted}, {cpu:.0f} ms of processor time"))
    table.append(("heavy modules imported", ", ".join(heavy) or "none"))
    numbers = {
        name: {"wall": [one.wall for one in times], "cpu": [one.cpu for one in times]}
        for name, times in taken.items()
    }
    save("help_time", arguments.out, {"commands": numbers, "heavy": heavy}, table)


if __name__ == "__main__":
    main()
