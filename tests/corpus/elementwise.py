"""Entries for operations that work element by element: arithmetic, functions, comparisons,
conversions.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.corpus.entries import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    SHAPES,
    SIGNED,
    SMALL_FLOATS,
    UNSIGNED,
    Arg,
    Entry,
)

TILE_NAMES = {
    "bool": "bool_", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}  # fmt: skip
BITS = {
    "bool": 1,
    **{name: int(name[1:]) for name in INTEGERS},
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f8e4m3": 8,
    "f8e5m2": 8,
}
MODES = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP"}


def elementwise() -> Iterator[Entry]:
    """All of them."""
    yield from _unary()
    yield from _binary()
    yield from _compare()
    yield from _rounded()
    yield from _casts()


def of(
    operation: str,
    expression: str,
    dtypes: tuple[str, ...],
    out: str,
    *,
    domains: tuple[str, ...] = (),
    shapes: tuple[tuple[int, ...], ...] = SHAPES,
) -> Iterator[Entry]:
    """An entry per shape for `z = expression` over tiles x, y and w."""
    names = ("x", "y", "w")[: len(dtypes)]
    for shape in shapes:
        at = f"({', '.join(['ct.bid(0)', *['0'] * (len(shape) - 1)])},)"
        loads = tuple(f"{name} = ct.load({name}_in, {at}, {shape})" for name in names)
        domain = [*domains, *["any"] * len(dtypes)]
        yield Entry(
            name="_".join([operation, *dict.fromkeys((*dtypes, out)), "x".join(map(str, shape))]),
            operation=operation,
            args=(
                Arg(name="z", dtype=out, shape=shape, out=True),
                *(
                    Arg(name=f"{name}_in", dtype=dtype, shape=shape, domain=domain[i])
                    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True))
                ),
            ),
            body=(*loads, f"ct.store(z, {at}, {expression})"),
        )


def _unary() -> Iterator[Entry]:
    for dtype in FLOATS:
        for name, expression in (
            ("abs", "ct.abs(x)"),
            ("negative", "-x"),
            ("floor", "ct.floor(x)"),
            ("ceil", "ct.ceil(x)"),
        ):
            yield from of(name, expression, (dtype,), dtype)
        for name in (
            "sqrt",
            "rsqrt",
            "exp",
            "exp2",
            "log",
            "log2",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
        ):
            yield from of(name, f"ct.{name}(x)", (dtype,), dtype)
        yield from of("isnan", "ct.isnan(x)", (dtype,), "bool")
    for dtype in SIGNED:
        yield from of("abs", "ct.abs(x)", (dtype,), dtype)
    for dtype in INTEGERS:
        yield from of("negative", "-x", (dtype,), dtype)
        yield from of("not", "~x", (dtype,), dtype)
    yield from of("not", "~x", ("bool",), "bool")


def _binary() -> Iterator[Entry]:
    for dtype in NUMBERS:
        for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*")):
            yield from of(name, f"x {symbol} y", (dtype, dtype), dtype)
        for name in ("maximum", "minimum"):
            yield from of(name, f"ct.{name}(x, y)", (dtype, dtype), dtype)
        yield from of("where", "ct.where(x < y, x, y)", (dtype, dtype), dtype)
    for dtype in FLOATS:
        yield from of("truediv", "x / y", (dtype, dtype), dtype)
        yield from of("mod", "x % y", (dtype, dtype), dtype, domains=("plain", "plain"))
        yield from of("pow", "ct.pow(x, y)", (dtype, dtype), dtype, domains=("positive", "small"))
        yield from of("atan2", "ct.atan2(x, y)", (dtype, dtype), dtype)
        yield from of("multiply_add", "x * y + w", (dtype,) * 3, dtype)
        for name in ("maximum", "minimum"):
            yield from of(
                f"{name}_nan", f"ct.{name}(x, y, propagate_nan=True)", (dtype, dtype), dtype
            )
    for dtype in INTEGERS:
        for name, expression in (
            ("floordiv", "x // y"),
            ("mod", "x % y"),
            ("cdiv", "ct.cdiv(x, y)"),
        ):
            if name == "floordiv" and dtype in UNSIGNED:
                continue  # cuda.tile writes a rounding for it that tileiras refuses
            domain = "positive" if name == "cdiv" else "any"
            yield from of(
                name,
                expression,
                (dtype, dtype),
                dtype,
                domains=(domain, "positive" if name == "cdiv" else "nonzero"),
            )
        for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
            yield from of(name, f"x {symbol} y", (dtype, dtype), dtype)
        for name, symbol in (("shift_left", "<<"), ("shift_right", ">>")):
            yield from of(name, f"x {symbol} y", (dtype, dtype), dtype, domains=("any", "shift"))
    for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        yield from of(name, f"x {symbol} y", ("bool", "bool"), "bool")


def _compare() -> Iterator[Entry]:
    pairs = (
        ("equal", "=="),
        ("not_equal", "!="),
        ("less", "<"),
        ("less_equal", "<="),
        ("greater", ">"),
        ("greater_equal", ">="),
    )
    for dtype in NUMBERS:
        for name, symbol in pairs:
            yield from of(name, f"x {symbol} y", (dtype, dtype), "bool", shapes=SHAPES[:1])


def _rounded() -> Iterator[Entry]:
    for dtype in ("f32", "f64"):
        for suffix, mode in MODES.items():
            more = f"rounding_mode=ct.RoundingMode.{mode}"
            for name in ("add", "sub", "mul", "truediv"):
                yield from of(
                    f"{name}_{suffix}",
                    f"ct.{name}(x, y, {more})",
                    (dtype, dtype),
                    dtype,
                    shapes=SHAPES[:1],
                )
            yield from of(
                f"sqrt_{suffix}", f"ct.sqrt(x, {more})", (dtype,), dtype, shapes=SHAPES[:1]
            )
    for name in ("add", "sub", "mul", "truediv", "maximum", "minimum"):
        yield from of(
            f"{name}_ftz",
            f"ct.{name}(x, y, flush_to_zero=True)",
            ("f32", "f32"),
            "f32",
            shapes=SHAPES[:1],
        )
    for name in ("sqrt", "rsqrt", "exp2"):
        yield from of(
            f"{name}_ftz", f"ct.{name}(x, flush_to_zero=True)", ("f32",), "f32", shapes=SHAPES[:1]
        )
    for mode in ("APPROX", "FULL"):
        more = f"rounding_mode=ct.RoundingMode.{mode}"
        yield from of(
            f"truediv_{mode.lower()}",
            f"ct.truediv(x, y, {more})",
            ("f32", "f32"),
            "f32",
            shapes=SHAPES[:1],
        )
        for name in ("exp", "tanh"):
            yield from of(
                f"{name}_{mode.lower()}",
                f"ct.{name}(x, {more})",
                ("f32",),
                "f32",
                shapes=SHAPES[:1],
            )
    yield from of(
        "sqrt_approx",
        "ct.sqrt(x, rounding_mode=ct.RoundingMode.APPROX)",
        ("f32",),
        "f32",
        shapes=SHAPES[:1],
    )


def _casts() -> Iterator[Entry]:
    every = (*NUMBERS, *SMALL_FLOATS, "bool")
    for source in every:
        for target in every:
            if source != target:
                # Beyond the range of the target the result is not defined: those values are left
                # out.
                domain = (
                    "small" if target in INTEGERS and source in (*FLOATS, *SMALL_FLOATS) else "any"
                )
                if domain == "small" and target in UNSIGNED:
                    yield from of(
                        f"cast_to_{target}",
                        f"ct.abs(x.astype(ct.float32)).astype(ct.{TILE_NAMES[target]})",
                        (source,),
                        target,
                        domains=("plain",),
                        shapes=SHAPES[:1],
                    )
                    continue
                domain = "plain" if domain == "small" else domain
                if target == "bool" and source in SMALL_FLOATS:
                    domain = "positive"  # a GPU finds that -0 of eight bits is not zero, and that of wider types is; here both are
                yield from of(
                    f"cast_to_{target}",
                    f"x.astype(ct.{TILE_NAMES[target]})",
                    (source,),
                    target,
                    domains=(domain,),
                    shapes=SHAPES[:1],
                )
    for source in every:
        for target in every:
            if source != target and BITS[source] == BITS[target]:
                yield from of(
                    f"bitcast_to_{target}",
                    f"ct.bitcast(x, ct.{TILE_NAMES[target]})",
                    (source,),
                    target,
                    shapes=SHAPES[:1],
                )
    yield from of(
        "through_tf32",
        "x.astype(ct.tfloat32).astype(ct.float32)",
        ("f32",),
        "f32",
        shapes=SHAPES[:1],
    )
