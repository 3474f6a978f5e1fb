"""Makes results/h200_vendor.json and the tables of docs/kernels.md of what vendor_kernels.py measured: medians, intervals, variants.

usage: python benchmarks/vendor_page.py RUN.json [RUN.json…]; without any, the page alone, of the JSON that is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULT, PAGE = ROOT / "benchmarks" / "results" / "h200_vendor.json", ROOT / "docs" / "kernels.md"
KEPT = ("row", "size", "unit", "safe", "variant", "vendors", "against", "against_raw", "device_state")
# How many times as fast as torch's best way a row is to be.
WANTED = {"gemm": 0.97, "fp8": 0.97, "gemm_ragged": 0.9, "batched_gemm": 0.95, "grouped_gemm": 0.95, "attention": 0.8}
RAW = 0.99  # of the twin in cuda.tile
# Rows that nothing is wanted of: small matrices.
FREE = (("gemm", "2048 x 2048 x 2048"),)
# Why a row is below: row, what its size contains, and what is known of it; an empty text for what is to be looked into.
SPREAD = "runs differ by half a percent"
STRADDLING = (
    "rows are 8240 bytes apart, so that what TMA copies straddles lines of 128 bytes. The same variant took 181 us for 4095 x 4095 x 4095,"
    " whose rows are 8192 bytes apart, in as many waves of blocks. Tiles of 256 x 256 over two multiprocessors read less, and end in a"
    " wave that is nearly empty (17 x 16 of them for 66 pairs): no better. The twin in cuda.tile is as slow"
)
ALONE = (
    "one block of 128 queries fits a multiprocessor (168 registers a thread, 96 KiB), and nothing runs beside its first loads and its last"
    " store: the longer the rows, the less they weigh. Blocks of 64 queries fit, and need twice the keys. The twin in cuda.tile is as slow"
)
REASONS = (
    ("saxpy", "bf16", "not known: f32 has the same code, a barrier between loads and store in place included, and reaches it"),
    ("add", "bf16", f"two loads and one store of 16 bytes a thread, no branch and no barrier: nothing is left to take away, and {SPREAD}"),
    ("swiglu", "", f"nothing is left to take away but the arithmetic, and {SPREAD}"),
    (
        "rms_norm",
        "x 1024",
        f"tileiras reduces the two rows of a block one after another, with five barriers (in the twin too), and {SPREAD}",
    ),
    ("rms_norm", "x 8192", "tileiras moves the loads of the weights behind the barriers of the reduction (in the twin too)"),
    ("layer_norm", "x 1024", f"weight and bias are loaded behind the barriers of the reduction (in the twin too), and {SPREAD}"),
    ("gemm_ragged", "rows at 128 bytes", ""),
    ("gemm_ragged", "4104 x 4088 x 4120", STRADDLING),
    ("attention", "x 1024 x 128", ALONE),
)
COMMAND = (
    "python benchmarks/vendor_candidates.py build/vendor",
    "PYTHONPATH=. python benchmarks/vendor_kernels.py build/vendor/dist/vendor-1.0.0.tilec build/vendor.json --quick",
    "python benchmarks/vendor_page.py build/vendor.json",
)


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("runs", type=Path, nargs="*", help="what vendor_kernels.py wrote; of a row measured twice the last counts")
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
    """One table of several runs on one machine, without the candidates that lost.

    Raises:
        SystemExit: a row failed, or the machines differ.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        if run["machine"] != runs[0]["machine"]:
            sys.exit("the runs are of different machines: measure all rows on one")
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
    }


def written(found: Mapping[str, Any]) -> str:
    """JSON with one row on a line."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in found["rows"])
    head = {key: value for key, value in found.items() if key != "rows"}
    return json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def parts(found: Mapping[str, Any]) -> dict[str, str]:
    """The page's parts that follow from the JSON, by the name of their marks."""
    return {"device": device(found), "table": table(found), "misses": missed(found)}


def filled(text: str, name: str, made: str) -> str:
    """The page with a part replaced.

    Raises:
        SystemExit: the page has no marks for it.
    """
    begin, end = f"<!-- {name}: made by benchmarks/vendor_page.py -->\n", f"<!-- end of {name} -->\n"
    if begin not in text or end not in text:
        sys.exit(f"{PAGE} has no marks of the part {name!r}")
    return text[: text.index(begin) + len(begin)] + made + text[text.index(end) :]


def device(found: Mapping[str, Any]) -> str:
    """Where it was measured."""
    machine = found["machine"]
    said = f"{machine['gpu']}, driver {machine['driver']}, torch {machine['torch']}, Python {machine['python']}"
    cut = sum(row.get("device_state", "").endswith("0x0000000000000004") for row in found["rows"])
    return f"{said}. The power limit held the clock down in {cut} of {len(found['rows'])} rows, for all that took turns in them.\n"


def table(found: Mapping[str, Any]) -> str:
    """Every row."""
    lines = [
        "| kernel | size | tilec | torch's best | times as fast | wanted | of cuda.tile | variant |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        against, raw, least = row["against"], row.get("against_raw"), wanted(row)
        best = f"{row['vendors'][against['name']]['rate']:.4g} ({against['name']})"
        wish = f"{least:.2f}" if least else ""
        twin = f"{raw['times']:.3f}" if raw else ""
        lines.append(
            f"| {row['row']} | {row['size']} | {row['safe']['rate']:.4g} {row['unit']} | {best} | {shown(against)} | {wish} | {twin}"
            f" | `{row['variant']}` |"
        )
    return "\n".join(lines) + "\n"


def missed(found: Mapping[str, Any]) -> str:
    """What is below, by how much, and why."""
    lines = []
    for row in misses(found):
        near = ", which its interval reaches" if row["against"]["times_95"][1] >= wanted(row) else ""
        lines.append(f"- {row['row']}, {row['size']}: {shown(row['against'])} of {wanted(row):.2f}{near}: {reason(row)}.")
    for row in found["rows"]:
        raw = row.get("against_raw")
        if raw and raw["times"] < RAW:
            lines.append(f"- {row['row']}, {row['size']}: {shown(raw)} of its twin in cuda.tile.")
    return "\n".join(lines or ["Nothing."]) + "\n"


def misses(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Rows whose median is below what is wanted."""
    return (row for row in found["rows"] if row["against"]["times"] < wanted(row))


def wanted(row: Mapping[str, Any]) -> float:
    """How many times as fast as torch a row is to be; 0 for whatever it is."""
    return 0.0 if any(row["row"] == name and size in row["size"] for name, size in FREE) else WANTED.get(row["row"], 1.0)


def reason(row: Mapping[str, Any]) -> str:
    """Why a row is below, empty where nobody has said."""
    return next((why for name, size, why in REASONS if name == row["row"] and size in row["size"]), "")


def shown(ratio: Mapping[str, Any]) -> str:
    """A ratio and its interval."""
    return f"{ratio['times']:.3f} [{ratio['times_95'][0]:.3f}, {ratio['times_95'][1]:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
