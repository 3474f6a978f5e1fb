"""Write results/h200_vendor.json, its table in Markdown, and docs/background/vendor-kernels.md.

usage: python benchmarks/vendor_page.py [RUN.json…]. The runs come from vendor_kernels.py. Without
any, table and page are written from the JSON that exists.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from vendor_tasks import wanted

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "h200_vendor.json"
TABLE = RESULT.with_suffix(".md")
PAGE = ROOT / "docs" / "background" / "vendor-kernels.md"
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
# Why a row misses its aim: row, part of its size, and the reason; a row without one is an error.
INDEX = "each block divides its index before its first load (read from the code, not isolated)"
REASONS: tuple[tuple[str, str, str], ...] = (
    ("add", "bf16", INDEX),
    ("saxpy", "bf16", f"a barrier between loads and store costs 0.2%; {INDEX}"),
    ("rms_norm", "x 1024", f"five barriers for the two rows of a block; {INDEX}"),
    (
        "rms_norm",
        "x 8192",
        "the loads of the weights wait for the sum; copying them ahead, in two halves, saves 1%",
    ),
    (
        "kv_append",
        "",
        "a position, which is data, is compared with the cache's extent before the store, and the whole launch takes 1.9 us",
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
    """Write the JSON, the table and the page."""
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
    TABLE.write_text(listing(found), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for name, made in parts(found).items():
        text = filled(text, name, made)
    PAGE.write_text(text, encoding="utf-8")
    unknown = [f"{row['row']} {row['size']}" for row in misses(found) if not reason(row)]
    for name in unknown:
        print(f"{name} misses its aim, and REASONS has no reason", file=sys.stderr)
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
    """Return the generated parts of the page, by the name of their marks."""
    return {
        "device": machine(found),
        "summary": summary(found),
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


def listing(found: Mapping[str, Any]) -> str:
    """Return the Markdown file with every row and every cause."""
    return (
        f"# h200_vendor\n\n{device(found)}\n{table(found)}\n"
        f"Rows that miss their aim:\n\n{missed(found)}\n{causes(found)}"
    )


def machine(found: Mapping[str, Any]) -> str:
    """Return the machine and its software."""
    of = found["machine"]
    return f"{of['gpu']}, driver {of['driver']}, torch {of['torch']}, Python {of['python']}.\n"


def device(found: Mapping[str, Any]) -> str:
    """Return the machine, and how many rows reach their aim."""
    cut = sum(row.get("device_state", "").endswith("0x0000000000000004") for row in found["rows"])
    aimed = [row for row in found["rows"] if wanted(row["row"], row["size"])]
    how = [reached(row) for row in aimed]
    counts = f"{how.count(YES)} by their median, {how.count(BY_INTERVAL)} by their interval alone"
    return (
        f"{machine(found)}"
        f"The power limit lowered the clock in {cut} of {len(found['rows'])} rows, for all sides alike.\n"
        f"{len(how) - how.count(NO)} of {len(how)} rows reach their aim: {counts}.\n"
    )


def summary(found: Mapping[str, Any]) -> str:
    """Return one line for each kernel: the ranges over its dtypes and sizes."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        groups.setdefault(row["row"], []).append(row)
    lines = [
        "| kernel | rows | tilec | speed-up over torch | torch's best |",
        "|---|---|---|---|---|",
    ]
    for name, rows in groups.items():
        dtypes = dict.fromkeys(row["size"].split()[0] for row in rows)
        best = dict.fromkeys(row["against"]["name"] for row in rows)
        cells = (
            f"{name} {', '.join(dtypes)}",
            str(len(rows)),
            f"{between([row['safe']['rate'] for row in rows], '.4g')} {rows[0]['unit']}",
            between([row["against"]["times"] for row in rows], ".3f"),
            ", ".join(best),
        )
        lines.append(f"| {' | '.join(cells)} |")
    twins = [row["against_raw"]["times"] for row in found["rows"] if row.get("against_raw")]
    overall = f"\nOver the twins in cuda.tile: {between(twins, '.3f')}.\n" if twins else ""
    return "\n".join(lines) + "\n" + overall


def between(values: Sequence[float], form: str) -> str:
    """Return the least and the greatest value, or the one."""
    ends = dict.fromkeys(format(end, form) for end in (min(values), max(values)))
    return " to ".join(ends)


def reached(row: Mapping[str, Any]) -> str:
    """Return whether a row's median or the interval of its ratio reaches the aim, empty without one."""
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
    """Return a line for every row."""
    lines = [
        "| kernel | size | tilec | torch's best | speed-up | aim | reached | over cuda.tile | variant |",
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
    """Return the rows that miss their aim, each with its ratio and the reason."""
    listed = [
        (row, f"{shown(row['against'])} of {wanted(row['row'], row['size']):.2f}")
        for row in misses(found)
    ]
    for row in found["rows"]:
        raw = row.get("against_raw")
        if raw and raw["times"] < RAW:
            listed.append((row, f"{shown(raw)} of its twin in cuda.tile"))
    return (
        "".join(
            textwrap.fill(
                f"- {row['row']}, {row['size']}: {line}: {reason(row)}.",
                100,
                subsequent_indent="  ",
            )
            + "\n"
            for row, line in listed
        )
        or "Nothing.\n"
    )


def misses(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that miss their aim."""
    return (row for row in found["rows"] if reached(row) == NO)


def causes(found: Mapping[str, Any]) -> str:
    """Return one table for each cause: medians of the ways that alternated, in microseconds."""
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
    """Return why a row misses its aim, empty if that is unknown."""
    return next(
        (why for name, size, why in REASONS if name == row["row"] and size in row["size"]), ""
    )


def shown(ratio: Mapping[str, Any]) -> str:
    """A ratio and its interval."""
    return f"{ratio['times']:.3f} [{ratio['times_95'][0]:.3f}, {ratio['times_95'][1]:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
