"""Every operation of cuda.tile that the language has is applied to tiles that a kernel in the
language loaded, and compiled.
"""

from __future__ import annotations

import types

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import frontend, job, tensor
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.errors import CompileError

pytestmark = pytest.mark.toolchain

# x, y: tiles of f32; i, j: of i32; all of them 16 x 16. `e` is a tile of f8.
UNARY = (
    *(
        "abs",
        "ceil",
        "cos",
        "cosh",
        "exp",
        "exp2",
        "floor",
        "isnan",
        "log",
        "log2",
        "negative",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
    ),
    "tanh",
)
BINARY = (
    *(
        "add",
        "atan2",
        "equal",
        "floordiv",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "maximum",
        "minimum",
        "mod",
    ),
    *("mul", "not_equal", "pow", "sub", "truediv"),
)
WHOLE = (
    "divmod",
    "bitwise_and",
    "bitwise_lshift",
    "bitwise_or",
    "bitwise_rshift",
    "bitwise_xor",
    "cdiv",
)
ALONG = ("argmax", "argmin", "cumprod", "cumsum", "max", "min", "prod", "sum")
CALLS = {
    **{name: f"tl.{name}(x)" for name in UNARY},
    **{name: f"tl.{name}(x, y)" for name in BINARY},
    **{name: f"tl.{name}(i, j)" for name in WHOLE},
    **{name: f"tl.{name}(x, 1)" for name in ALONG},
    "arange": "tl.arange(16, dtype=tl.int32)",
    "assert_": "tl.assert_(i >= 0)",
    "astile": "tl.astile(1.5, dtype=tl.float32)",
    "astype": "tl.astype(x, tl.float16)",
    "bid": "tl.bid(0)",
    "bitcast": "tl.bitcast(x, tl.int32)",
    "bitwise_not": "tl.bitwise_not(i)",
    "broadcast_to": "tl.broadcast_to(tl.max(x, 1, keepdims=True), (16, 16))",
    "cat": "tl.cat((x, y), 0)",
    "ensure_constant": "tl.ensure_constant(3)",
    "expand_dims": "tl.expand_dims(x, 0)",
    "extract": "tl.extract(x, (0, 1), (8, 8))",
    "full": "tl.full((16, 16), 2.0, tl.float32)",
    "insert": "tl.insert(x, (1, 0), tl.extract(y, (0, 0), (8, 8)))",
    "matmul": "tl.matmul(x, y)",
    "mma": "tl.mma(x, y, x)",
    "mma_scaled": "tl.mma_scaled(e, scale, tl.transpose(e), tl.transpose(scale), x)",
    "num_blocks": "tl.num_blocks(0)",
    "ones": "tl.ones((16, 16), tl.float32)",
    "pack_to_bytes": "tl.pack_to_bytes(tl.reshape(e, (512,)))",
    "permute": "tl.permute(x, (1, 0))",
    "print": 'tl.print("x", x)',
    "printf": 'tl.printf("%d", i)',
    "reduce": "tl.reduce(x, 1, both, 0.0)",
    "reshape": "tl.reshape(x, (8, 32))",
    "scan": "tl.scan(x, 1, both, 0.0)",
    "static_assert": "static_assert(BM == 16)",
    "static_eval": "static_eval(BM + 1)",
    "static_iter": None,  # a loop: below
    "static_exception": None,  # stands for an error where it is reached: in a branch that is not compiled
    "transpose": "tl.transpose(x)",
    "unpack_from_bytes": "tl.unpack_from_bytes(tl.pack_to_bytes(tl.reshape(e, (512,))), tl.float8_e4m3fn)",
    "where": "tl.where(x > y, x, y)",
    "zeros": "tl.zeros((16, 16), tl.float32)",
}
HEAD = """import tilec.lang as tl
from tilec.lang import static_assert, static_eval, static_exception, static_iter

BM = tl.size("BM")


def both(a, b):
    return a + b


@tl.kernel
def k(z: tl.Mut[tl.float32, (BM, BM)], a: tl.Ref[tl.float32, 2], b: tl.Ref[tl.int32, 2]):
    x, y = a.load_tile_like(z), a.load_tile((0, 0), (BM, BM))
    i, j = b.load_tile_like(z), b.load_tile((0, 0), (BM, BM))
    e = tl.cat((x, y), 1).astype(tl.float8_e4m3fn)
    scale = tl.full((16, 1), 1.0, tl.float8_e8m0fnu)
    if BM != 16:
        raise static_exception(ValueError("tiles of 16 x 16"))
    for n in static_iter(range(2)):
        x = x + n
"""


def test_every_operation_works_on_tiles(tmp_path) -> None:
    import tilec.lang.ops as ops

    operations = {
        name for name in ops.__all__ if isinstance(getattr(ops, name), types.FunctionType)
    }
    assert operations == set(CALLS), "each operation has a call, and no call has lost its operation"
    lines = [f"    r{number} = {call}\n" for number, call in enumerate(CALLS.values()) if call]
    write(tmp_path, {"k.py": f"{HEAD}{''.join(lines)}    z.store(x)\n"})
    params = (tensor("z", "f32", 2, out=True), tensor("a", "f32", 2), tensor("b", "i32", 2))
    text = render(
        read_module(
            frontend()
            .compile(
                job(frontend(), tmp_path, "k.py", "k", params, target="tileir", axes={"BM": 16})
            )
            .data
        )
    )
    # What has an effect is there whatever becomes of the rest, whose results nothing takes.
    assert text.count("print") >= 2
    assert "assert" in text


def test_an_error_whose_place_cuda_tile_cannot_write_down_is_told(tmp_path) -> None:
    """Its own text of it fails; the place is then that of the kernel."""
    write(tmp_path, {"k.py": f'{HEAD}    static_exception(ValueError("no"))\n'})
    params = (tensor("z", "f32", 2, out=True), tensor("a", "f32", 2), tensor("b", "i32", 2))
    with pytest.raises(CompileError) as caught:
        frontend().compile(
            job(frontend(), tmp_path, "k.py", "k", params, target="tileir", axes={"BM": 16})
        )
    (problem,) = caught.value.diagnostics
    assert problem.message.startswith("static_exception() is only allowed after `raise`")
    assert problem.location is not None
    assert problem.location.file == "k.py"
