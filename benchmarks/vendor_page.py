"""Makes results/h200_vendor.json and the tables of docs/background/vendor-kernels.md of what vendor_kernels.py
measured: medians, intervals, variants.

usage: python benchmarks/vendor_page.py RUN.json [RUN.json…]; without any, the page alone, of the
JSON that is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from vendor_tasks import wanted

ROOT = Path(__file__).resolve().parents[1]
RESULT, PAGE = (
    ROOT / "benchmarks" / "results" / "h200_vendor.json",
    ROOT / "docs" / "background" / "vendor-kernels.md",
)
KEPT = (
    "row",
    "size",
    "unit",
    "safe",
    "variant",
    "vendors",
    "against",
    "against_raw",
    "device_state",
)
YES, BY_INTERVAL, NO = "yes", "by its interval", "no"
RAW = 0.99  # of the twin in cuda.tile
# Why a row is below: row, what its size contains, and what is known of it; an empty text for what
# is to be looked into.
NUMBER = "each block divides its number by the size of a cluster before its first load (below; seen in the code, not isolated by a run)"
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "add",
        "bf16",
        f"two loads and one store of 16 bytes a thread, without a branch; but {NUMBER}",
    ),
    (
        "saxpy",
        "bf16",
        f"a barrier between loads and store in place costs 0.2 % (below); the rest is what add misses too: {NUMBER}",
    ),
    (
        "rms_norm",
        "x 1024",
        f"the two rows of a block are summed one after another, with five barriers; and {NUMBER}",
    ),
    (
        "rms_norm",
        "x 8192",
        "plain loads of the weights stand behind the sum; copied ahead, they cost 1 % less, in two halves (below)",
    ),
    (
        "kv_append",
        "",
        "whether a place, which is data, lies in the cache is checked before the store, and the whole launch takes 1.9 us",
    ),
)
COMMAND = (
    "python benchmarks/vendor_candidates.py build/vendor",
    "tilec -C examples/kernels build",
    "export PYTHONPATH=. BUNDLE=build/vendor/dist/vendor-1.0.0.tilec",
    "python benchmarks/vendor_kernels.py $BUNDLE build/vendor.json --package examples/kernels/dist --quick --causes",
    "python benchmarks/vendor_page.py build/vendor.json",
)


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        help="what vendor_kernels.py wrote; of a row measured twice the last counts",
    )
    runs = parser.parse_args().runs
    if runs:
        found = merged([json.loads(run.read_text(encoding="utf-8")) for run in runs])
        RESULT.write_text(written(found), encoding="utf-8")
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    for name, made in parts(found).items():
        text = filled(text, name, made)
    PAGE.write_text(text, encoding="utf-8")
    unknown = [f"{row['row']} {row['size']}" for row in misses(found) if not reason(row)]
    for name in unknown:
        print(f"{name} is below what is wanted, and REASONS has no reason", file=sys.stderr)
    return 1 if unknown else 0


def merged(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One table of several runs of the package on one machine.

    Raises:
        SystemExit: a row failed, the machines differ, or a run is not of the package.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    causes: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        if run["machine"] != runs[0]["machine"]:
            sys.exit("the runs are of different machines: measure all rows on one")
        if run["of"] != "package":
            sys.exit("the page shows the package as it is shipped: measure with --package")
        causes.update({(cause["cause"], cause["size"]): cause for cause in run["causes"]})
        for row in run["rows"]:
            if "error" in row:
                sys.exit(f"{row['row']} {row['size']}: {row['error']}")
            rows[row["row"], row["size"]] = {key: row[key] for key in KEPT if key in row}
    return {
        "schema_version": 1,
        "benchmark": "vendor_kernels",
        "command": COMMAND,
        "machine": runs[0]["machine"],
        "rows": list(rows.values()),
        "causes": list(causes.values()),
    }


def written(found: Mapping[str, Any]) -> str:
    """JSON with one row on a line."""
    text = json.dumps(
        {key: value for key, value in found.items() if key not in ("rows", "causes")}, indent=1
    )[:-2]
    for key in ("rows", "causes"):
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found[key])
        text += f',\n "{key}": [\n{rows}\n ]'
    return text + "\n}\n"


def parts(found: Mapping[str, Any]) -> dict[str, str]:
    """The page's parts that follow from the JSON, by the name of their marks."""
    return {
        "device": device(found),
        "table": table(found),
        "misses": missed(found),
        "causes": causes(found),
    }


def filled(text: str, name: str, made: str) -> str:
    """The page with a part replaced.

    Raises:
        SystemExit: the page has no marks for it.
    """
    begin, end = (
        f"<!-- generated: {name}, by benchmarks/vendor_page.py -->\n",
        f"<!-- end of {name} -->\n",
    )
    if begin not in text or end not in text:
        sys.exit(f"{PAGE} has no marks of the part {name!r}")
    return text[: text.index(begin) + len(begin)] + made + text[text.index(end) :]


def device(found: Mapping[str, Any]) -> str:
    """Where it was measured."""
    machine = found["machine"]
    said = f"{machine['gpu']}, driver {machine['driver']}, torch {machine['torch']}, Python {machine['python']}"
    cut = sum(row.get("device_state", "").endswith("0x0000000000000004") for row in found["rows"])
    aimed = [row for row in found["rows"] if wanted(row["row"], row["size"])]
    how = [reached(row) for row in aimed]
    counts = f"{how.count(YES)} by their median, {how.count(BY_INTERVAL)} by their interval alone"
    return (
        f"{said}. The power limit held the clock down in {cut} of {len(found['rows'])} rows, for all that took turns in them.\n"
        f"{len(how) - how.count(NO)} of {len(how)} rows reach what is wanted: {counts}.\n"
    )


def reached(row: Mapping[str, Any]) -> str:
    """Whether a row reaches what is wanted: its median does, or the interval of its ratio holds it;
    empty where nothing is wanted.
    """
    least = wanted(row["row"], row["size"])
    if not least:
        return ""
    return (
        YES
        if row["against"]["times"] >= least
        else BY_INTERVAL
        if row["against"]["times_95"][1] >= least
        else NO
    )


def table(found: Mapping[str, Any]) -> str:
    """Every row."""
    lines = [
        "| kernel | size | tilec | torch's best | times as fast | wanted | reached | of cuda.tile | variant |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        against, raw, least = (
            row["against"],
            row.get("against_raw"),
            wanted(row["row"], row["size"]),
        )
        cells = (
            row["row"],
            row["size"],
            f"{row['safe']['rate']:.4g} {row['unit']}",
            f"{row['vendors'][against['name']]['rate']:.4g} ({against['name']})",
            shown(against),
            f"{least:.2f}" if least else "",
            reached(row),
            f"{raw['times']:.3f}" if raw else "",
            f"`{row['variant']}`",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def missed(found: Mapping[str, Any]) -> str:
    """What is below, by how much, and why."""
    below = ((row, wanted(row["row"], row["size"])) for row in misses(found))
    lines = [
        f"- {row['row']}, {row['size']}: {shown(row['against'])} of {least:.2f}: {reason(row)}."
        for row, least in below
    ]
    for row in found["rows"]:
        raw = row.get("against_raw")
        if raw and raw["times"] < RAW:
            lines.append(
                f"- {row['row']}, {row['size']}: {shown(raw)} of its twin in cuda.tile: {reason(row)}."
            )
    return "\n".join(lines or ["Nothing."]) + "\n"


def misses(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Rows that do not reach what is wanted."""
    return (row for row in found["rows"] if reached(row) == NO)


def causes(found: Mapping[str, Any]) -> str:
    """One table for each cause: medians of what took turns, in microseconds."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for cause in found["causes"]:
        ways = tuple(cause["us"])
        lines = tables.setdefault(
            ways, [f"| {cause['cause']} | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
        )
        times = [f"{cause['us'][way]:.1f} us" for way in ways]
        lines.append(f"| {cause['size']} | {' | '.join(times)} |")
    return "\n\n".join("\n".join(lines) for lines in tables.values()) + "\n"


def reason(row: Mapping[str, Any]) -> str:
    """Why a row is below, empty where nobody has said."""
    return next(
        (why for name, size, why in REASONS if name == row["row"] and size in row["size"]), ""
    )


def shown(ratio: Mapping[str, Any]) -> str:
    """A ratio and its interval."""
    return f"{ratio['times']:.3f} [{ratio['times_95'][0]:.3f}, {ratio['times_95'][1]:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
