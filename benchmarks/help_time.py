"""Start of the command: `tilec --help` against Python doing nothing, and the modules that it must not import."""

from __future__ import annotations

import subprocess
import sys

from common import median, options, save, tilec, timed

HEAVY = ("numpy", "jinja2", "rich", "cuda", "tomllib", "tomli")


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "", repeats=15).parse_args()
    helps, bare = [], []
    timed([tilec(), "--help"])
    for _ in range(arguments.repeats):
        helps.append(timed([tilec(), "--help"]))
        bare.append(timed([sys.executable, "-c", "pass"]))
    code = "import sys; import tilec.cli.main; print(' '.join(m for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = sorted(set(done.stdout.split()) & set(HEAVY))
    table = [
        ("tilec --help", f"{median(helps) * 1e3:.0f} ms (wanted: under 120)"),
        ("python -c pass", f"{median(bare) * 1e3:.0f} ms"),
        ("heavy modules imported", ", ".join(heavy) or "none"),
    ]
    save("help_time", arguments.out, {"help": helps, "python": bare, "heavy": heavy}, table)


if __name__ == "__main__":
    main()
