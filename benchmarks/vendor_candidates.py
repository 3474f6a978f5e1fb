"""Builds what vendor_kernels.py measures: every likely variant of the kernels of examples/kernels,
and of their twins in cuda.tile.

usage: python benchmarks/vendor_candidates.py FOLDER [--rows gemm,softmax] [--small] [--targets
sm_90]. Needs tilec[build] and no GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Point = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """A kernel and the variants of it that may be the fastest somewhere.

    Attributes:
        source: the module that the safe kernel is in. name: its name there, and that of its twin.
        points: axis values, one table for each variant.
        arrays: the twin's arrays: name, dtype, rank, and whether it writes them. scalars: those of
            both.
        divisible: divisors of the arrays' extents that the first assumption set promises; with axes
            for their tiles, none hangs over.
        pitch: divisors of their strides instead.
        grid: the twin's grid. persistent: a grid of as many blocks as run at once, for a second
            kernel of both.
        twin_only: there is no safe kernel; one of vendor_causes.py is compared with the twin.
    """

    source: str
    name: str
    points: Sequence[Point]
    arrays: Sequence[tuple[str, str, int, bool]]
    scalars: Mapping[str, str] = dataclasses.field(default_factory=dict)
    divisible: Mapping[str, Sequence[int | str]] = dataclasses.field(default_factory=dict)
    pitch: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    grid: Sequence[str] = ()
    persistent: bool = False
    twin_only: bool = False


def over(**axes: Sequence[Any]) -> list[Point]:
    """Every combination."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def with_dtypes(dtypes: Sequence[str], points: Sequence[Point]) -> list[Point]:
    """Each point for each dtype."""
    return [{"T": dtype, **point} for dtype in dtypes for point in points]


BOTH = ("f32", "bf16")
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)


def rows_of(*lengths: int) -> list[Point]:
    """Rows of so many elements, some at once or one by one, on four warps or eight."""
    found: list[Point] = []
    for length in lengths:
        for elements, warps in (
            (1024, 4),
            (2048, 4),
            (4096, 4),
            (8192, 4),
            (4096, 8),
            (8192, 8),
            (32768, 8),
        ):
            rows = elements // length
            if rows in (1, 2, 4):
                found += over(ROWS=[rows], COLS=[length], num_worker_warps=[warps])
    return [
        *found,
        *over(ROWS=[1], COLS=[length for length in lengths if length > 8192], num_worker_warps=[8]),
    ]


def norm_points() -> list[Point]:
    """As many registers as there may be, or room for more blocks."""
    sizes = (
        (1024, 1, 4, (8, 12)),
        (1024, 2, 4, (6, 8, 10, 12)),
        (1024, 4, 4, (4, 6)),
        (1024, 8, 8, (2, 4)),
        (4096, 1, 4, (4, 6)),
        (4096, 1, 8, (3, 4)),
        (8192, 1, 4, (2, 3, 4)),
        (8192, 1, 8, (2, 3, 4)),
        (8192, 2, 8, (2,)),
    )
    return [
        {"T": "bf16", "ROWS": rows, "COLS": columns, "num_worker_warps": warps, "occupancy": blocks}
        for columns, rows, warps, counts in sizes
        for blocks in counts
    ]


def rms_norm_points() -> list[Point]:
    """Those, and long rows whose weights are copied ahead of the sum."""
    points = [{**point, "AHEAD": False} for point in norm_points()]
    return [
        *points,
        *(
            {**point, "AHEAD": True}
            for point in points
            if point["COLS"] == 8192 and point["ROWS"] == 1
        ),
    ]


STREAM = [
    {"TILE": tile, "num_worker_warps": warps}
    for tile, warps in ((512, 4), (1024, 4), (2048, 4), (2048, 8), (4096, 4), (4096, 8))
]
GEMM_TILES: list[Point] = [
    {"BM": bm, "BN": bn, "BK": bk, "num_worker_warps": warps, "num_ctas": ctas}
    for bm, bn, bk, warps, ctas in (
        (128, 256, 32, 8, 1),
        (128, 128, 64, 4, 1),
        (128, 256, 64, 8, 1),
        (256, 256, 64, 8, 2),
        (512, 256, 64, 8, 4),
        (256, 128, 32, 8, 1),
        (256, 128, 64, 8, 1),
    )
]
# For few rows: little to multiply, and all of b to read, which many blocks in long steps do best.
REST_TILES: list[Point] = [
    {"BM": bm, "BN": bn, "BK": bk, "num_worker_warps": 4, "num_ctas": 1}
    for bm, bn, bk in ((64, 64, 128), (64, 64, 256), (16, 32, 256), (16, 64, 256))
]
LINEAR_TILES: list[Point] = [
    {
        "OUT": "bf16",
        "BM": bm,
        "BN": bn,
        "BK": bk,
        "num_worker_warps": warps,
        "num_ctas": 1,
        "FAST": fast,
    }
    for bm, bn, bk, warps, fast in (
        (128, 256, 128, 8, True),
        (128, 256, 64, 8, True),
        (128, 128, 128, 4, True),
        (128, 128, 128, 8, False),
        (128, 128, 64, 8, False),
    )
]
ATTENTION = [
    {
        "T": "bf16",
        "BM": bm,
        "BN": bn,
        "D": d,
        "GROUP": group,
        "CAUSAL": True,
        "num_worker_warps": warps,
        "occupancy": occupancy,
    }
    for d, group in ((64, 1), (128, 1), (128, 4))
    for bm, bn, warps, occupancy in (
        (128, 128, 8, 1),
        (128, 128, 8, 2),
        (128, 64, 8, 2),
        (64, 64, 4, 2),
        (64, 64, 4, 3),
        (64, 64, 4, 4),
        (64, 128, 4, 2),
    )
]

FAMILIES: dict[str, Family] = {
    "add": Family(
        source="elementwise.py",
        name="add",
        points=with_dtypes(BOTH, STREAM),
        arrays=(("z", "T", 1, True), ("x", "T", 1, False), ("y", "T", 1, False)),
        divisible={"z": ["TILE"], "x": ["TILE"], "y": ["TILE"]},
        grid=("cdiv(z.shape[0], TILE)",),
    ),
    "saxpy": Family(
        source="elementwise.py",
        name="saxpy",
        points=with_dtypes(BOTH, STREAM),
        arrays=(("y", "T", 1, True), ("x", "T", 1, False)),
        scalars={"alpha": "f32"},
        divisible={"y": ["TILE"], "x": ["TILE"]},
        grid=("cdiv(y.shape[0], TILE)",),
    ),
    "axpy": Family(
        source="elementwise.py",
        name="axpy",
        points=with_dtypes(("bf16",), STREAM[1:2]),
        arrays=(("z", "T", 1, True), ("y", "T", 1, False), ("x", "T", 1, False)),
        scalars={"alpha": "f32"},
        divisible={"z": ["TILE"], "y": ["TILE"], "x": ["TILE"]},
        grid=("cdiv(z.shape[0], TILE)",),
        twin_only=True,
    ),
    "swiglu": Family(
        source="elementwise.py",
        name="swiglu",
        points=with_dtypes(("bf16",), [point for point in STREAM if point["TILE"] > 512]),
        arrays=(("z", "T", 1, True), ("gate", "T", 1, False), ("up", "T", 1, False)),
        divisible={"z": ["TILE"], "gate": ["TILE"], "up": ["TILE"]},
        grid=("cdiv(z.shape[0], TILE)",),
    ),
    "rope": Family(
        source="elementwise.py",
        name="rope",
        points=with_dtypes(("bf16",), over(ROWS=[8, 16, 32], HALF=[64])),
        arrays=(
            ("y", "T", 3, True),
            ("x", "T", 3, False),
            ("cos", "f32", 2, False),
            ("sin", "f32", 2, False),
        ),
        divisible={
            "y": [1, "ROWS", "HALF"],
            "x": [1, "ROWS", "HALF"],
            "cos": [1, "HALF"],
            "sin": [1, "HALF"],
        },
        grid=("y.shape[0]", "cdiv(y.shape[1], ROWS)"),
    ),
    "dropout": Family(
        source="elementwise.py",
        name="dropout",
        points=with_dtypes(BOTH, over(TILE=[1024, 2048, 4096])),
        arrays=(("y", "T", 1, True), ("x", "T", 1, False)),
        scalars={"seed": "i32", "keep": "f32"},
        divisible={"y": ["TILE"], "x": ["TILE"]},
        grid=("cdiv(y.shape[0], TILE)",),
    ),
    "softmax": Family(
        source="rows.py",
        name="softmax",
        points=with_dtypes(BOTH, rows_of(*LENGTHS)),
        arrays=(("y", "T", 2, True), ("x", "T", 2, False)),
        divisible={"y": ["ROWS", "COLS"], "x": ["ROWS", "COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "softmax_long": Family(
        source="rows.py",
        name="softmax_long",
        points=with_dtypes(BOTH, over(ROWS=[1], COLS=[2048, 4096, 8192], num_worker_warps=[4, 8])),
        arrays=(("y", "T", 2, True), ("x", "T", 2, False)),
        divisible={"y": ["ROWS", "COLS"], "x": ["ROWS", "COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "rms_norm": Family(
        source="rows.py",
        name="rms_norm",
        points=rms_norm_points(),
        arrays=(("y", "T", 2, True), ("x", "T", 2, False), ("weight", "T", 1, False)),
        scalars={"eps": "f32"},
        divisible={"y": ["ROWS", "COLS"], "x": ["ROWS", "COLS"], "weight": ["COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "layer_norm": Family(
        source="rows.py",
        name="layer_norm",
        points=norm_points(),
        arrays=(
            ("y", "T", 2, True),
            ("x", "T", 2, False),
            ("weight", "T", 1, False),
            ("bias", "T", 1, False),
        ),
        scalars={"eps": "f32"},
        divisible={
            "y": ["ROWS", "COLS"],
            "x": ["ROWS", "COLS"],
            "weight": ["COLS"],
            "bias": ["COLS"],
        },
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "add_rms_norm": Family(
        source="rows.py",
        name="add_rms_norm",
        points=norm_points(),
        arrays=(
            ("y", "T", 2, True),
            ("total", "T", 2, True),
            ("x", "T", 2, False),
            ("residual", "T", 2, False),
            ("weight", "T", 1, False),
        ),
        scalars={"eps": "f32"},
        divisible={name: ["ROWS", "COLS"] for name in ("y", "total", "x", "residual")}
        | {"weight": ["COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "argmax": Family(
        source="rows.py",
        name="argmax",
        points=with_dtypes(("bf16",), rows_of(4096, 32768)),
        arrays=(("y", "i32", 1, True), ("x", "T", 2, False)),
        divisible={"x": ["ROWS", "COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "argmax_long": Family(
        source="rows.py",
        name="argmax_long",
        points=with_dtypes(
            ("bf16",), over(ROWS=[1], COLS=[2048, 4096, 8192], num_worker_warps=[4, 8])
        ),
        arrays=(("y", "i32", 1, True), ("x", "T", 2, False)),
        divisible={"x": ["ROWS", "COLS"]},
        grid=("cdiv(y.shape[0], ROWS)",),
    ),
    "gemm": Family(
        source="gemm.py",
        name="gemm",
        points=with_dtypes(("bf16", "f16"), GEMM_TILES),
        arrays=(("c", "T", 2, True), ("a", "T", 2, False), ("b", "T", 2, False)),
        pitch={"c": [8, 1], "a": [8, 1], "b": [8, 1]},
        grid=("cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)",),
        persistent=True,
    ),
    "gemm_rest": Family(
        source="gemm.py",
        name="gemm",
        points=with_dtypes(("bf16",), REST_TILES),
        arrays=(("c", "T", 2, True), ("a", "T", 2, False), ("b", "T", 2, False)),
        pitch={"c": [8, 1], "a": [8, 1], "b": [8, 1]},
        grid=("cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)",),
    ),
    # Whole tiles and those of the edge in one launch, for what docs/background/vendor-kernels.md says of it.
    "gemm_split": Family(
        source="gemm.py",
        name="gemm_split",
        points=[
            {
                "T": "bf16",
                "BM": 256,
                "BN": 256,
                "BK": 64,
                "EM": 64,
                "EN": 64,
                "num_worker_warps": 8,
                "num_ctas": 2,
            }
        ],
        arrays=(
            ("c", "T", 2, True),
            ("rest", "T", 2, True),
            ("a", "T", 2, False),
            ("last", "T", 2, False),
            ("b", "T", 2, False),
        ),
        pitch={name: [8, 1] for name in ("c", "rest", "a", "last", "b")},
        grid=("min(cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN), 66)",),
        twin_only=True,
    ),
    "linear": Family(
        source="gemm.py",
        name="linear",
        points=with_dtypes(("f8e4m3",), LINEAR_TILES),
        arrays=(("c", "OUT", 2, True), ("a", "T", 2, False), ("b", "T", 2, False)),
        pitch={"c": [16, 1], "a": [16, 1], "b": [16, 1]},
        grid=("cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)",),
        persistent=True,
    ),
    "batched_gemm": Family(
        source="gemm.py",
        name="batched_gemm",
        points=with_dtypes(("bf16",), GEMM_TILES[:4]),
        arrays=(("c", "T", 3, True), ("a", "T", 3, False), ("b", "T", 3, False)),
        divisible={"c": [1, 1, 8], "a": [1, 1, 8], "b": [1, 1, 8]},
        grid=("c.shape[0] * cdiv(c.shape[1], BM) * cdiv(c.shape[2], BN)",),
        persistent=True,
    ),
    "grouped_gemm": Family(
        source="gemm.py",
        name="grouped_gemm",
        points=with_dtypes(("bf16",), [point for point in GEMM_TILES[:4] if point["BM"] == 128]),
        arrays=(
            ("c", "T", 2, True),
            ("a", "T", 2, False),
            ("b", "T", 3, False),
            ("group", "i32", 1, False),
        ),
        divisible={"c": [1, 8], "a": [1, 8], "b": [1, 1, 8]},
        grid=("cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)",),
        persistent=True,
    ),
    "attention": Family(
        source="attention.py",
        name="attention",
        points=ATTENTION,
        arrays=(
            ("o", "T", 3, True),
            ("q", "T", 3, False),
            ("k", "T", 3, False),
            ("v", "T", 3, False),
        ),
        scalars={"scale": "f32"},
        divisible={"o": [1, 1, 16], "q": [1, 1, 16], "k": [1, 1, 16], "v": [1, 1, 16]},
        grid=("o.shape[0] * cdiv(o.shape[1], BM)",),
    ),
    "embedding": Family(
        source="lookup.py",
        name="embedding",
        points=with_dtypes(("bf16",), over(COLS=[1024, 2048, 4096])),
        arrays=(("y", "T", 2, True), ("table", "T", 2, False), ("ids", "i32", 1, False)),
        divisible={"y": [1, "COLS"], "table": [1, "COLS"]},
        grid=("y.shape[0]", "cdiv(y.shape[1], COLS)"),
    ),
    "kv_append": Family(
        source="lookup.py",
        name="kv_append",
        points=with_dtypes(("bf16",), over(COLS=[512, 1024])),
        arrays=(("cache", "T", 3, True), ("new", "T", 3, False), ("start", "i32", 1, False)),
        divisible={"cache": [1, 1, "COLS"], "new": [1, 1, "COLS"]},
        grid=("cache.shape[0]", "1", "cdiv(cache.shape[2], COLS)"),
    ),
    "group_peaks": Family(
        source="lookup.py",
        name="group_peaks",
        points=[
            {"T": "f32", "PEAKS": part // group, "PART": part, "GROUP": group}
            for group, part in ((32, 2048), (64, 4096))
        ],
        arrays=(),
        divisible={"peaks": [1, "PEAKS"], "x": [1, "PART"]},
    ),
    "top_k": Family(
        source="lookup.py",
        name="top_k",
        points=[
            {
                "T": "f32",
                "COLS": 131072 // group,
                "K": 64,
                "GROUP": group,
                "num_worker_warps": warps,
            }
            for group in (32, 64)
            for warps in (4, 8)
        ],
        arrays=(),
        divisible={"peaks": [1, "COLS"]},
    ),
}
# Rows of the table that want more than the family of their name.
NEEDS = {
    "softmax": ("softmax", "softmax_long"),
    "top_k": ("group_peaks", "top_k"),
    "argmax": ("argmax", "argmax_long"),
    "fp8": ("linear",),
    "gemm_ragged": ("gemm", "gemm_rest", "gemm_split"),
    "saxpy": ("saxpy", "axpy"),
}
# One point of each family, small enough for the cpu device.
SMALL = {
    "gemm": {"BM": 64, "BN": 64, "BK": 64},
    "gemm_rest": {"BM": 64, "BN": 64, "BK": 64},
    "gemm_split": {"BM": 64, "BN": 64, "BK": 64, "EM": 64, "EN": 64},
    "linear": {"OUT": "bf16", "BM": 64, "BN": 64, "BK": 64, "FAST": False},
    "batched_gemm": {"BM": 64, "BN": 64, "BK": 64},
    "grouped_gemm": {"BM": 64, "BN": 64, "BK": 64},
}


def main() -> int:
    """Write the project, and build it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "folder",
        type=Path,
        help="where the project is written; its bundle is FOLDER/dist/vendor-1.0.0.tilec",
    )
    parser.add_argument("--rows", default="", help="rows of the table, by comma (default: all)")
    parser.add_argument("--targets", default="sm_90", help="targets to build for")
    parser.add_argument(
        "--small", action="store_true", help="the first variants alone, to try the program itself"
    )
    parser.add_argument("--list", action="store_true", help="write the project, and build nothing")
    arguments = parser.parse_args()
    names = families(arguments.rows)
    project(arguments.folder, names, targets=arguments.targets, small=arguments.small)
    if arguments.list:
        return 0
    return subprocess.run(
        [sys.executable, "-m", "tilec", "build", "--emit", "bundle"],
        cwd=arguments.folder,
        check=False,
    ).returncode


def families(rows: str) -> list[str]:
    """The families that rows of the table need.

    Raises:
        SystemExit: a row is none.
    """
    asked = [row for row in rows.split(",") if row]
    known = {*FAMILIES, *NEEDS}
    for row in asked:
        if row not in known:
            sys.exit(f"no row {row!r}: rows are {', '.join(sorted(known))}")
    wanted = dict.fromkeys(name for row in asked or FAMILIES for name in NEEDS.get(row, (row,)))
    return list(wanted)


def project(folder: Path, names: Sequence[str], *, targets: str, small: bool) -> None:
    """A project of the candidates: sources and manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in {FAMILIES[name].source for name in names}:
        shutil.copy(ROOT / "examples" / "kernels" / source, folder / source)
    shutil.copy(ROOT / "benchmarks" / "raw_kernels.py", folder / "raw_kernels.py")
    text = [
        'edition = 1\n[package]\nname = "vendor"\nversion = "1.0.0"',
        f"[targets]\ndefault = {json.dumps(targets.split(','))}",
        *(table for name in names for table in tables(name, FAMILIES[name], small=small)),
    ]
    (folder / "tilec.toml").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def tables(name: str, family: Family, *, small: bool) -> Iterator[str]:
    """The manifest's tables of a family: the safe kernel and its twin, and both again on a grid of
    blocks that stay.
    """
    points = list(family.points)
    if small:
        of_dtypes = {point.get("T"): point for point in reversed(points)}
        points = (
            [{"T": points[0]["T"], **SMALL[name]}] if name in SMALL else list(of_dtypes.values())
        )
    for persistent in (False, True) if family.persistent else (False,):
        suffix = "_persistent" if persistent else ""
        if not family.twin_only:
            yield _safe(f"{name}{suffix}", family, points, persistent=persistent)
        if family.arrays:
            yield _raw(f"raw_{name}{suffix}", family, points, persistent=persistent)


def _grid(family: Family, points: Sequence[Point], *, persistent: bool) -> str:
    if not persistent:
        return json.dumps(list(family.grid))
    # A block takes most of a multiprocessor's shared memory; one over two multiprocessors takes
    # that of both.
    some = "132 // num_ctas" if any("num_ctas" in point for point in points) else "132"
    return json.dumps([f"min({family.grid[0]}, {some})"])


def _safe(name: str, family: Family, points: Sequence[Point], *, persistent: bool) -> str:
    lines = [f"[kernel.{name}]", f'source = "{family.source}:{family.name}"']
    if persistent:
        lines.append(f"launch = {{ grid = {_grid(family, points, persistent=True)} }}")
    if family.pitch:
        free = ", ".join(each + ' = { stride = ["?", 1] }' for each in family.pitch)
        lines.append(f"params = {{ {free} }}")
    return "\n".join([*lines, *_common(family, points)])


def _raw(name: str, family: Family, points: Sequence[Point], *, persistent: bool) -> str:
    lines = [
        f"[kernel.{name}]",
        f'source = "raw_kernels.py:{family.name}"',
        f"launch = {{ grid = {_grid(family, points, persistent=persistent)} }}",
    ]
    params = []
    for each, dtype, rank, out in family.arrays:
        stride = ', stride = ["?", 1]' if each in family.pitch else ""
        params.append(
            f'{each} = {{ dtype = "{dtype}", rank = {rank}, out = {str(out).lower()}{stride} }}'
        )
    params += [f'{each} = {{ dtype = "{dtype}" }}' for each, dtype in family.scalars.items()]
    lines.append("[kernel." + name + ".params]\n" + "\n".join(params))
    assume = _common(family, points)[1]
    if any(
        isinstance(divisor, str) for divisors in family.divisible.values() for divisor in divisors
    ):
        points = [{**point, "CHECK": False} for point in points]
    return "\n".join(
        [
            *lines,
            f"[kernel.{name}.assume]",
            assume.removeprefix("assume."),
            f"[kernel.{name}.matrix]",
            *_axes(points),
        ]
    )


def _common(family: Family, points: Sequence[Point]) -> tuple[str, str]:
    facts = [f"divisible = {_facts(family.divisible)}"] if family.divisible else []
    facts += [f"stride = {_facts(family.pitch)}"] if family.pitch else []
    sets = [f'{{ name = "fast", {", ".join([*facts, "aligned = 16"])} }}'] if facts else ["{}"]
    return "matrix = { " + ", ".join(_axes(points)) + " }", f"assume.sets = [{', '.join(sets)}]"


def _facts(found: Mapping[str, Sequence[int | str]]) -> str:
    return (
        "{ "
        + ", ".join(f"{name} = {json.dumps(list(values))}" for name, values in found.items())
        + " }"
    )


def _axes(points: Sequence[Point]) -> list[str]:
    """The axes: the first point's values, and the others one by one."""
    first, *others = dict.fromkeys(tuple(point.items()) for point in points)
    lines = [f"{name} = [{json.dumps(value)}]" for name, value in first]
    rest = ", ".join(
        "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in other) + " }"
        for other in others
    )
    return [*lines, f"include = [{rest}]"] if rest else lines


if __name__ == "__main__":
    sys.exit(main())
