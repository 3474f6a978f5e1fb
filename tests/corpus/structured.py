"""Entries for operations on whole tiles and on memory: reductions, scans, products, shapes, views,
gathers, atomics, control flow.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.corpus.elementwise import TILE_NAMES
from tests.corpus.entries import FLOATS, INTEGERS, NUMBERS, UNSIGNED, Arg, Entry


def structured() -> Iterator[Entry]:
    """All of them."""
    yield from _reductions()
    yield from _scans()
    yield from _products()
    yield from _shapes()
    yield from _memory()
    yield from _atomics()
    yield from _control()


def _entry(
    operation: str,
    dtypes: tuple[str, ...],
    label: str,
    args: tuple[Arg, ...],
    *body: str,
    ordered: bool = True,
) -> Entry:
    name = "_".join([operation, *dict.fromkeys(dtypes), *([label] if label else [])])
    return Entry(name=name, operation=operation, args=args, body=body, ordered=ordered)


def _reductions() -> Iterator[Entry]:
    for dtype in NUMBERS:
        for name in ("sum", "prod", "max", "min", "argmax", "argmin"):
            out = "i32" if name.startswith("arg") else dtype
            domain = "small" if name in ("sum", "prod") else "plain"
            ordered = not (dtype in FLOATS and name in ("sum", "prod"))
            for axis, shape in ((0, (16,)), (1, (8,))):
                args = (
                    Arg(name="z", dtype=out, shape=shape, out=True),
                    Arg(name="x", dtype=dtype, shape=(8, 16), domain=domain),
                )
                where = "(ct.bid(0),)"
                cast = f".astype(ct.{TILE_NAMES[out]})"
                body = (
                    "t = ct.load(x, (ct.bid(0), 0), (8, 16))",
                    f"ct.store(z, {where}, ct.{name}(t, axis={axis}){cast})",
                )
                yield _entry(name, (dtype,), f"axis{axis}", args, *body, ordered=ordered)
    for dtype in ("f32", "i32"):
        args = (
            Arg(name="z", dtype=dtype, shape=(8,), out=True),
            Arg(name="x", dtype=dtype, shape=(8, 16), domain="small"),
        )
        body = (
            "t = ct.load(x, (ct.bid(0), 0), (8, 16))",
            "s = ct.reduce(t, 1, lambda a, b: a + b + a * b, 0)",
            "ct.store(z, (ct.bid(0),), s)",
        )
        yield _entry("reduce_custom", (dtype,), "", args, *body, ordered=False)


def _scans() -> Iterator[Entry]:
    for dtype in ("f32", "f64", "i32", "i64", "u32"):
        for name in ("cumsum", "cumprod"):
            for axis in (0, 1):
                for reverse in (False, True):
                    args = (
                        Arg(name="z", dtype=dtype, shape=(8, 16), out=True),
                        Arg(name="x", dtype=dtype, shape=(8, 16), domain="small"),
                    )
                    body = (
                        "t = ct.load(x, (ct.bid(0), 0), (8, 16))",
                        f"ct.store(z, (ct.bid(0), 0), ct.{name}(t, axis={axis}, reverse={reverse}))",
                    )
                    label = f"axis{axis}{'_reverse' if reverse else ''}"
                    yield _entry(name, (dtype,), label, args, *body, ordered=dtype in INTEGERS)


def _products() -> Iterator[Entry]:
    pairs = (
        ("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("f8e4m3", "f32"), ("f8e5m2", "f32"),
        ("f8e4m3", "f16"), ("i8", "i32"), ("u8", "i32"),
    )  # fmt: skip
    for dtype, out in pairs:
        for m, n, k in ((16, 16, 16), (32, 16, 64)):
            args = (
                Arg(name="z", dtype=out, shape=(m, n), out=True),
                Arg(
                    name="x",
                    dtype=dtype,
                    shape=(m, k),
                    domain="small" if dtype not in INTEGERS else "any",
                ),
                Arg(
                    name="y",
                    dtype=dtype,
                    shape=(k, n),
                    domain="small" if dtype not in INTEGERS else "any",
                ),
                Arg(name="c", dtype=out, shape=(m, n), domain="small"),
            )
            body = (
                f"a = ct.load(x, (ct.bid(0), 0), ({m}, {k}))",
                f"b = ct.load(y, (ct.bid(0), 0), ({k}, {n}))",
                f"d = ct.load(c, (ct.bid(0), 0), ({m}, {n}))",
                "ct.store(z, (ct.bid(0), 0), ct.mma(a, b, d))",
            )
            yield _entry(
                "mma", (dtype, out), f"{m}x{n}x{k}", args, *body, ordered=dtype in INTEGERS
            )
    args = (
        Arg(name="z", dtype="f32", shape=(16, 16), out=True),
        Arg(name="x", dtype="f32", shape=(16, 16), domain="small"),
        Arg(name="y", dtype="f32", shape=(16, 16), domain="small"),
    )
    body = (
        "a = ct.load(x, (ct.bid(0), 0), (16, 16)).astype(ct.tfloat32)",
        "b = ct.load(y, (ct.bid(0), 0), (16, 16)).astype(ct.tfloat32)",
        "ct.store(z, (ct.bid(0), 0), ct.mma(a, b, ct.zeros((16, 16), ct.float32)))",
    )
    yield _entry("mma", ("tf32",), "16x16x16", args, *body, ordered=False)


def _shapes() -> Iterator[Entry]:
    for dtype in ("bool", "i8", "i64", "f16", "bf16", "f32", "f64", "f8e4m3"):
        forms = (
            ("reshape", (16, 8), "t.reshape((16, 8))", "(ct.bid(0), 0)"),
            ("permute", (16, 8), "ct.permute(t, (1, 0))", "(ct.bid(0), 0)"),
            ("transpose", (16, 8), "ct.transpose(t)", "(ct.bid(0), 0)"),
            (
                "broadcast",
                (8, 16),
                "ct.broadcast_to(ct.extract(t, (0, 3), (8, 1)), (8, 16))",
                "(ct.bid(0), 0)",
            ),
            ("cat", (16, 16), "ct.cat((t, t), 0)", "(ct.bid(0), 0)"),
            ("extract", (4, 8), "ct.extract(t, (1, 1), (4, 8))", "(ct.bid(0), 0)"),
            (
                "insert",
                (8, 16),
                "ct.insert(t, (1, 0), ct.extract(t, (0, 1), (4, 8)))",
                "(ct.bid(0), 0)",
            ),
            ("expand_dims", (8, 16), "ct.expand_dims(t, 1).reshape((8, 16))", "(ct.bid(0), 0)"),
        )
        for name, shape, expression, at in forms:
            if name == "insert" and dtype == "bool":
                continue
            args = (
                Arg(name="z", dtype=dtype, shape=shape, out=True),
                Arg(name="x", dtype=dtype, shape=(8, 16)),
            )
            yield _entry(
                name,
                (dtype,),
                "",
                args,
                "t = ct.load(x, (ct.bid(0), 0), (8, 16))",
                f"ct.store(z, {at}, {expression})",
            )
    for dtype in (*INTEGERS, "f32", "f64"):
        args = (
            Arg(name="z", dtype=dtype, shape=(64,), out=True),
            Arg(name="x", dtype="f32", shape=(64,)),
        )
        yield _entry(
            "arange",
            (dtype,),
            "",
            args,
            f"ct.store(z, (ct.bid(0),), ct.arange(64, dtype=ct.{TILE_NAMES[dtype]}))",
        )
    for dtype in ("i16", "u32", "i64", "f16", "f32", "f8e5m2"):
        size = 8 if dtype[1:] == "64" else 1 if dtype == "f8e5m2" else int(dtype.lstrip("iuf")) // 8
        args = (
            Arg(name="z", dtype="u8", shape=(64 * size,), out=True),
            Arg(name="x", dtype=dtype, shape=(64,)),
        )
        yield _entry(
            "pack",
            (dtype,),
            "",
            args,
            "t = ct.load(x, (ct.bid(0),), (64,))",
            "ct.store(z, (ct.bid(0),), ct.pack_to_bytes(t))",
        )
        args = (
            Arg(name="z", dtype=dtype, shape=(64,), out=True),
            Arg(name="x", dtype="u8", shape=(64 * size,)),
        )
        unpack = f"ct.unpack_from_bytes(t, ct.{TILE_NAMES[dtype]})"
        yield _entry(
            "unpack",
            (dtype,),
            "",
            args,
            f"t = ct.load(x, (ct.bid(0),), ({64 * size},))",
            f"ct.store(z, (ct.bid(0),), {unpack})",
        )


def _memory() -> Iterator[Entry]:
    for dtype in ("i8", "i32", "f16", "bf16", "f32", "f64", "f8e4m3"):
        args = (
            Arg(name="z", dtype=dtype, shape=(5, 24), out=True),
            Arg(name="x", dtype=dtype, shape=(5, 24)),
        )
        # Tiles that reach beyond the array: 20 rows in tiles of 8, 24 columns in tiles of 16.
        loop = "for j in range(2):"
        yield _entry(
            "partial_tiles",
            (dtype,),
            "",
            args,
            loop,
            "    ct.store(z, (ct.bid(0), j), ct.load(x, (ct.bid(0), j), (8, 16)))",
        )
        out = (Arg(name="z", dtype=dtype, shape=(8, 32), out=True), args[1])
        for mode in (
            ("ZERO", "NEG_ZERO", "NAN", "POS_INF", "NEG_INF")
            if dtype.startswith(("f1", "f3", "f6", "bf"))
            else ("ZERO",)
        ):
            line = f"    ct.store(z, (ct.bid(0), j), ct.load(x, (ct.bid(0) % 3, j), (8, 16), padding_mode=ct.PaddingMode.{mode}))"
            yield _entry(f"padding_{mode.lower()}", (dtype,), "", out, loop, line)
        ordered = (
            Arg(name="z", dtype=dtype, shape=(16, 8), out=True),
            Arg(name="x", dtype=dtype, shape=(8, 16)),
        )
        yield _entry(
            "load_transposed",
            (dtype,),
            "",
            ordered,
            "ct.store(z, (ct.bid(0), 0), ct.load(x, (0, ct.bid(0)), (16, 8), order='F'))",
        )
        gather = (
            Arg(name="z", dtype=dtype, shape=(64,), out=True),
            Arg(name="x", dtype=dtype, shape=(64,)),
            Arg(name="i", dtype="i32", shape=(64,), domain="index"),
        )
        body = ("t = ct.load(i, (ct.bid(0),), (64,))",)
        yield _entry(
            "gather", (dtype,), "", gather, *body, "ct.store(z, (ct.bid(0),), ct.gather(x, t))"
        )
        yield _entry(
            "gather_bounds",
            (dtype,),
            "",
            gather,
            *body,
            "ct.store(z, (ct.bid(0),), ct.gather(x, t * 2 - 30))",
        )
        yield _entry(
            "gather_mask",
            (dtype,),
            "",
            gather,
            *body,
            "ct.store(z, (ct.bid(0),), ct.gather(x, t, mask=t % 3 == 0))",
        )
        scatter = (Arg(name="z", dtype=dtype, shape=(64,), out=True, zero=True), gather[1])
        body = (
            "t = 255 - (ct.bid(0) * 64 + ct.arange(64, dtype=ct.int32))",
            "ct.scatter(z, t, ct.load(x, (ct.bid(0),), (64,)))",
        )
        yield _entry("scatter", (dtype,), "", scatter, *body)
        yield _entry(
            "scatter_mask", (dtype,), "", scatter, body[0], body[1][:-1] + ", mask=t % 5 != 0)"
        )
    args = (
        Arg(name="z", dtype="i32", shape=(8,), out=True),
        Arg(name="x", dtype="f32", shape=(5, 24)),
    )
    names = (
        "ct.num_blocks(0)",
        "ct.num_tiles(x, axis=0, shape=(8, 16))",
        "ct.num_tiles(x, axis=1, shape=(8, 16))",
        "x.shape[0]",
        "x.shape[1]",
        "ct.bid(0)",
    )
    lines = [f"t = ct.where(t == {100 + k}, {n}, t)" for k, n in enumerate(names)]
    yield _entry(
        "queries",
        ("i32",),
        "",
        args,
        "t = ct.arange(8, dtype=ct.int32) + 100",
        *lines,
        "ct.store(z, (ct.bid(0),), t)",
    )


def _atomics() -> Iterator[Entry]:
    for dtype in ("i32", "u32", "i64", "u64", "f32", "f64"):
        integer = dtype in INTEGERS
        for name in ("add", *(("max", "min", "and", "or", "xor") if integer else ())):
            args = (
                Arg(name="z", dtype=dtype, shape=(4,), out=True, zero=True),
                Arg(
                    name="x",
                    dtype=dtype,
                    shape=(64,),
                    domain="small" if dtype not in UNSIGNED else "index",
                ),
            )
            body = (
                "t = ct.load(x, (ct.bid(0),), (64,))",
                "i = ct.arange(64, dtype=ct.int32) % 16",
                f"ct.atomic_{name}(z, i, t)",
            )
            yield _entry(f"atomic_{name}", (dtype,), "", args, *body, ordered=integer)
    for dtype in ("i32", "i64"):
        args = (
            Arg(name="z", dtype=dtype, shape=(16,), out=True, zero=True),
            Arg(name="x", dtype=dtype, shape=(16,)),
        )
        body = (
            "i = ct.bid(0) * 16 + ct.arange(16, dtype=ct.int32)",
            "t = ct.load(x, (ct.bid(0),), (16,))",
        )
        yield _entry(
            "atomic_xchg",
            (dtype,),
            "",
            args,
            *body,
            "old = ct.atomic_xchg(z, i, t)",
            "ct.atomic_xchg(z, i, t + old)",
        )
        yield _entry(
            "atomic_cas",
            (dtype,),
            "",
            args,
            *body,
            "ct.atomic_cas(z, i, 0, t)",
            "ct.atomic_cas(z, i, t + 1, 5)",
        )


def _control() -> Iterator[Entry]:
    args = (
        Arg(name="z", dtype="i32", shape=(16,), out=True),
        Arg(name="x", dtype="i32", shape=(16,), domain="small"),
    )
    load, store = "t = ct.load(x, (ct.bid(0),), (16,))", "ct.store(z, (ct.bid(0),), t)"
    forms = {
        "if_by_block": ("if ct.bid(0) % 2 == 0:", "    t = t + 1", "else:", "    t = t * 3"),
        "for_by_block": ("for k in range(ct.bid(0) * 3):", "    t = t * 2 + k"),
        "for_step": ("for k in range(1, 10, 3):", "    t = t + k"),
        "while_break": (
            "k = 0",
            "while k < 100:",
            "    k = k + 1",
            "    if k * ct.bid(0) > 17:",
            "        break",
            "t = t + k",
        ),
        "while_continue": (
            "k = 0",
            "while k < 9:",
            "    k = k + 1",
            "    if k % (ct.bid(0) + 2) == 0:",
            "        continue",
            "    t = t + k",
        ),
        "early_return": (
            "if ct.bid(0) == 2:",
            "    ct.store(z, (ct.bid(0),), t - 7)",
            "    return",
        ),
        "nested": (
            "for i in range(3):",
            "    for j in range(ct.bid(0) + i):",
            "        if (i + j) % 2 == 0:",
            "            t = t + i * j",
            "        else:",
            "            t = t - 1",
        ),
    }
    for name, body in forms.items():
        yield _entry(f"control_{name}", ("i32",), "", args, load, *body, store)
    yield _entry(
        "control_scalar_math",
        ("i32",),
        "",
        args,
        load,
        "n = ct.bid(0) * 5 - 3",
        "t = t + n // 2 + n % 3 + min(n, 4)",
        store,
    )
