"""Parameters: tensors that may be None, tile boxes, slices, divisors, captured numbers, template
arguments, and inputs that fit them.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.plan.test_plan import CUDA_DECL, cuda_kernel, plan, problems
from tests.unit.plan.test_source import Reports
from tilec.manifest.types import (
    AssumeSet,
    Bench,
    Case,
    Input,
    Kernel,
    Launch,
    Matrix,
    ParamTable,
)
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.matrix import expand
from tilec.plan.points import with_points
from tilec.plan.report import Report
from tilec_runtime.errors import Location
from tilec_runtime.model.signature import Param, ParamKind

DECL = KernelDecl(
    name="norm",
    location=Location(file="k.py", line=3),
    params=(
        *(ParamDecl(name=name, kind="tensor") for name in ("y", "x", "b")),
        ParamDecl(name="n", kind="scalar", dtype="i32", type="tl.int32"),
    ),
)


def norm_params() -> tuple[ParamTable, ParamTable]:
    return ParamTable(name="y", out=True, dtype="f32", rank=1), ParamTable(
        name="x", dtype="f32", rank=1
    )


def norm(**changes: object) -> Kernel:
    kernel = Kernel(
        name="norm",
        source="k.py",
        function="norm",
        symbol="norm",
        language="triton",
        params=(*norm_params(), ParamTable(name="b", dtype="f32", rank=1, optional=True)),
        args=("y.ptr", "x.ptr", "b.ptr", "i32(b.size)"),
        launch=Launch(grid=("x.size",), requires=("b.size == x.size",)),
        cases=(Case(name="plain", inputs=tuple(Input(name=name, shape=("8",)) for name in "yx")),),
    )
    return dataclasses.replace(kernel, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"language": "cuda", "launch": Launch(grid=("1",), block=("32",))},
            "kernel.norm.params.b.optional: a cuda kernel takes no tensor that may be None",
        ),
        (
            {"launch": Launch(grid=("cdiv(b.size, 256)",))},
            "kernel.norm.launch.grid[0]: 'cdiv(b.size, 256)' reads b, which may be None: read a tensor that every call gives",
        ),
        (
            {
                "matrix": Matrix(axes=(("T", ("f16", "f32")),)),
                "params": (*norm_params(), ParamTable(name="b", dtype="T", rank=1, optional=True)),
            },
            "kernel.norm.params.b.dtype: T is said by b alone, which may be None: give it a dtype",
        ),
        (
            {
                "cases": (
                    Case(
                        name="c",
                        inputs=tuple(Input(name=n, shape=("8",)) for n in "yx"),
                        bench=Bench(bytes="nbytes(b)"),
                    ),
                )
            },
            "kernel.norm.case.c.bench.bytes: 'nbytes(b)' reads b, which may be None",
        ),
        (
            {"matrix": Matrix(max_variants=1)},
            "the matrix gives 2 variants, more than max-variants = 1",
        ),
    ],
)
def test_refuses_optional_parameters_where_none_may_stand(
    changes: dict[str, object], what: str
) -> None:
    found = problems(norm(**changes), decls={"norm": DECL})
    assert any(what in problem for problem in found), found


PARAMS = tuple(Param(name=name, kind=ParamKind.TENSOR, dtype="f32", rank=2) for name in ("y", "x"))


def expanded(axes, *sets):
    told = Reports()
    kernel = Kernel(
        name="k",
        source="k.py",
        function="k",
        language="tile",
        matrix=Matrix(axes=axes),
        assume=sets,
    )

    report = Report(told)
    kernel, points = with_points(kernel, DECL, report)
    variants = expand(kernel, points, PARAMS, report)
    return variants, told


@pytest.mark.parametrize(
    ("divisor", "axes", "said"),
    [
        (
            "COL",
            (("COLS", (512, 1024)),),
            "'COL' is no axis of the matrix: it has COLS; did you mean 'COLS'",
        ),
        ("COLS", (), "'COLS' is no axis of the matrix: it has none"),
        (
            "T",
            (("T", ("f32", "f16")),),
            "axis T is 'f32' in a variant: divisors are positive integers",
        ),
        (
            "FAST",
            (("FAST", (True,)),),
            "axis FAST is True in a variant: divisors are positive integers",
        ),
        ("N", (("N", (0, 4)),), "axis N is 0 in a variant: divisors are positive integers"),
    ],
)
def test_refuses_divisors_that_are_none(divisor, axes, said):
    _, told = expanded(axes, AssumeSet(divisible=(("x", (1, divisor)),)))
    assert told[0] == (said, ("assume", "sets", 0, "divisible", "x", 1))


BOXED = KernelDecl(
    name="copy",
    location=Location(file="k.py", line=3),
    params=(ParamDecl(name="y", kind="tensor", rank=2), ParamDecl(name="x", kind="tensor", rank=2)),
)


def copied(*args: str, **facts: object) -> Kernel:
    tensor = {"dtype": "T", "rank": 2, "aligned": 16, "stride": (None, 1)}
    params = (ParamTable(name="y", out=True, **tensor), ParamTable(name="x", **{**tensor, **facts}))  # type: ignore[arg-type]
    matrix = Matrix(axes=(("T", ("f16", "f32")), ("BM", (64,)), ("BN", (64, 128))))
    base = norm(name="copy", function="copy", symbol="copy", cases=(), params=params, matrix=matrix)
    return dataclasses.replace(
        base, args=args or None, launch=Launch(grid=("cdiv(y.shape[0], BM)",))
    )


@pytest.mark.parametrize(
    ("box", "facts", "what"),
    [
        (
            "descriptor(x, BM)",
            {},
            "args[1]: descriptor(x, BM) has a box of 1 extents, and x has rank 2",
        ),
        (
            "descriptor(x, BM, 48)",
            {},
            "args[1]: descriptor(x, BM, 48): a box has extents that are powers of two, and these are 64, 48",
        ),
        (
            "descriptor(x, BM, BN * 3)",
            {},
            "args[1]: descriptor(x, BM, BN * 3): a box has extents that are powers of two, and these are 64, 192",
        ),
        (
            "descriptor(x, BM, 4)",
            {},
            "args[1]: descriptor(x, BM, 4): a row of a box has 16 bytes at least, and 4 x 2 are 8: widen the last extent",
        ),
        (
            "descriptor(x, x.shape[0], BN)",
            {},
            "the extents of a box are numbers and axes of the matrix",
        ),
        (
            "descriptor(BM, BM, BN)",
            {},
            "args[1]: descriptor(BM, BM, BN): 'BM' is no tensor of the launcher",
        ),
        (
            "descriptor(x, BM, BN)",
            {"aligned": 8},
            "args[1]: x is passed as a tensor descriptor, and nothing says that it is aligned: params.x.aligned = 16",
        ),
        (
            "x.ptr",
            {},
            "args[1]: 'x.ptr' is an address, and the source takes tiles of x at 2 offsets: args = [",
        ),
        (
            "descriptor(x, BM, BN, 1)",
            {"rank": 3, "stride": (None, None, 1)},
            "params.x.rank: rank 3, but the source takes tiles of x at 2 offsets",
        ),
    ],
)
def test_boxes_that_are_wrong(box: str, facts: dict[str, object], what: str) -> None:
    found = problems(copied("descriptor(y, BM, BN)", box, **facts), decls={"copy": BOXED})
    assert any(what in problem for problem in found), found


SCALED = KernelDecl(
    name="scaled",
    location=Location(file="k.py", line=1),
    params=(ParamDecl(name="y", type="Mut[f32]", kind="tensor", dtype="f32", rank=1, out=True),),
    captures=(
        ParamDecl(name="scale", type="a float", kind="scalar", dtype="f64"),
        ParamDecl(name="count", type="an int", kind="scalar", dtype="i64"),
        ParamDecl(name="flag", type="a bool", kind="scalar", dtype="bool"),
        ParamDecl(name="table", type="an ndarray", kind="constant"),
    ),
)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (ParamTable(name="scal"), "kernel 'scaled' has no parameter 'scal'; did you mean 'scale'"),
        (ParamTable(name="table"), "'table' cannot be a launch parameter: it is an ndarray"),
        (
            ParamTable(name="scale", rank=1),
            "'scale' is a captured number, which is passed as a scalar",
        ),
        (
            ParamTable(name="scale", kind="struct"),
            "'scale' is a captured number, which is passed as a scalar",
        ),
        (
            ParamTable(name="scale", dtype="i32"),
            "the kernel captures 'scale' as a float, which i32 does not hold",
        ),
        (
            ParamTable(name="count", dtype="bool"),
            "the kernel captures 'count' as an int, which bool does not hold",
        ),
        (
            ParamTable(name="flag", dtype="f32"),
            "the kernel captures 'flag' as a bool, which f32 does not hold",
        ),
    ],
)
def test_refuses_what_is_no_captured_number(table: ParamTable, message: str) -> None:
    launch = Launch(grid=("1",), block=("32",))
    kernel = Kernel(
        name="scaled",
        source="k.py",
        function="scaled",
        language="cuda",
        launch=launch,
        params=(table,),
    )
    (told,) = problems(kernel, decls={"scaled": SCALED})
    assert told.endswith(message)


def test_cuda_parameters_come_from_the_source_through_the_template() -> None:
    planned = plan(cuda_kernel()).kernels[0]
    assert [(p.name, p.kind.value, p.dtype, p.rank, p.out) for p in planned.info.params] == [
        ("x", "tensor", "T", 1, False),
        ("y", "tensor", "T", 1, True),
        ("s", "scalar", "f32", 0, False),
    ]
    assert planned.info.dtype_axes == ("T",)
    assert [(s.type, s.expr, s.size) for s in planned.jobs[0].spec.abi] == [
        ("ptr", "y.ptr", 8),
        ("ptr", "x.ptr", 8),
        ("i32", "x.size", 4),
        ("f32", "s", 4),
    ]


def test_a_template_parameter_pack_takes_several_arguments() -> None:
    decls = {"scale": dataclasses.replace(CUDA_DECL, template=("T", "VECS..."))}
    for symbol in ("scale<{T}, {VEC}>", "scale<{T}, {VEC}, 2, 3>"):
        planned = plan(cuda_kernel(symbol=symbol), decls=decls).kernels[0]
        assert planned.info.params[0].dtype == "T"
    assert problems(cuda_kernel(symbol="scale"), decls=decls) == [
        'kernel.scale.symbol: scale is a template: say which instance, for example symbol = "scale<{T}, …>"'
    ]


def array(name: str, *, out: bool) -> ParamDecl:
    return ParamDecl(name=name, type="float*", kind="tensor", dtype="f32", out=out)


def number(name: str, dtype: str) -> ParamDecl:
    return ParamDecl(name=name, type=dtype, kind="scalar", dtype=dtype)


VECADD = KernelDecl(
    name="vecadd",
    location=Location(file="k.cu", line=1),
    params=(
        array("a", out=False),
        number("a_len", "u64"),
        number("scale", "f32"),
        array("c", out=True),
        number("c_len", "i32"),
    ),
)


VECADD_KERNEL = Kernel(
    name="vecadd",
    source="k.cu",
    function="vecadd",
    language="cuda",
    params=(ParamTable(name="c", kind="slice"), ParamTable(name="a", kind="slice", doc="in")),
    launch=Launch(open=("grid", "block")),
)


def test_cases_need_a_default_for_open_grids() -> None:
    case = Case(
        name="small",
        inputs=(
            Input(name="a", shape=("8",)),
            Input(name="c", shape=("8",)),
            Input(name="scale", value=2),
        ),
    )
    kernel = dataclasses.replace(VECADD_KERNEL, cases=(case,))
    (told,) = problems(kernel, decls={"vecadd": VECADD})
    assert told.endswith(
        "cases launch without a config: give what is open too, which they then take"
    )
    launch = Launch(grid=("cdiv(c.size, 256)",), block=("256",), open=("grid", "block", "shared"))
    (planned,) = plan(dataclasses.replace(kernel, launch=launch), decls={"vecadd": VECADD}).kernels
    assert planned.info.launch.preset
    assert planned.info.launch.open == ("grid", "block", "shared")


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ((array("a", out=False),), "is missing"),
        ((array("a", out=False), number("eps", "f32")), "is f32 eps"),
        ((array("a", out=False), array("c", out=True)), "is float* c"),
    ],
)
def test_a_length_has_to_follow(params: tuple[ParamDecl, ...], found: str) -> None:
    decl = dataclasses.replace(VECADD, params=params)
    kernel = dataclasses.replace(VECADD_KERNEL, params=(ParamTable(name="a", kind="slice"),))
    (told,) = problems(kernel, decls={"vecadd": decl})
    assert told.endswith(
        f"a slice is an address and an integer behind it, and what follows float* a in the source {found}"
    )


def test_parameters_of_no_known_kind_hide_no_other_problem() -> None:
    block = ParamDecl(name="BLOCK", kind="constant")
    decl = dataclasses.replace(DECL, params=(*DECL.params, block))
    kernel = Kernel(name="norm", source="k.py", function="norm", language="triton")
    unknown, constant, grid = sorted(problems(kernel, decls={"norm": decl}), key=len, reverse=True)
    assert unknown.startswith("kernel.norm: the source does not say what y, x, b are")
    assert "constant 'BLOCK' of the kernel is bound by no axis" in constant
    assert "no grid: say how many blocks are launched" in grid


def test_proposes_names_that_python_and_the_source_leave_free() -> None:
    tensors = ("in_ptr", "x_ptr", "_ptr", "y_ptr", "yy_ptr")
    numbers = ("x", "x_row_stride", "stride_yyn", "stride")
    decl = dataclasses.replace(
        DECL,
        params=(
            *(ParamDecl(name=name, kind="tensor", address=True) for name in tensors),
            *(ParamDecl(name=name, kind="scalar") for name in numbers),
        ),
    )
    kernel = Kernel(name="norm", source="k.py", function="norm", language="triton")
    told = max(problems(kernel, decls={"norm": decl}), key=len)
    assert told.endswith(
        'args = ["in_ptr.ptr", "x_ptr.ptr", "_ptr.ptr", "y.ptr", "yy.ptr", '
        '"i32(…)", "i32(x_ptr.stride[…])", "i32(yy.stride[…])", "i32(…)"]'
    )


GIVEN = {
    "x": {"shape": ("10",), "dtype": "T"},
    "y": {"shape": ("x.shape[0]",)},
    "s": {"value": 2.0},
}


def with_case(**changes: dict[str, object]):
    inputs = tuple(
        Input(name=name, **(changes.get(name) or given)) for name, given in GIVEN.items()
    )
    return cuda_kernel(cases=(Case(name="few", inputs=inputs),))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x": {"shape": ("2", "5")}}, ".x.shape: 2 extents, and the kernel takes 1 for x"),
        ({"y": {"shape": ()}}, ".y.shape: 0 extents, and the kernel takes 1 for y"),
        (
            {"x": {"shape": ("10",), "dtype": "f64"}},
            ".x.dtype: f64, and the kernel takes f16, f32 for x",
        ),
        (
            {"x": {"value": 3}},
            ".x: x is a tensor, and a number is given: inputs.x = { shape = [1024] }",
        ),
        ({"s": {"shape": ("1",)}}, ".s: s is a number, and a tensor is given: inputs.s = 2"),
    ],
)
def test_inputs_that_no_launch_would_take(changes: dict[str, dict[str, object]], told: str) -> None:
    assert problems(with_case(**changes)) == [f"kernel.scale.case.few.inputs{told}"]


FACTLESS = (
    "Triton compiles norm without facts of alignment and divisibility, which costs registers and pipelining: write "
    "kernel.norm.assume.sets = [{ aligned = 16, divisible = { y = [16], x = [16], b = [16] } }, {}], or [{}] if launches have none"
)


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, (FACTLESS,)),
        ({"assume": (AssumeSet(aligned=(("", 16),)), AssumeSet())}, ()),
        ({"assume": (AssumeSet(),)}, ()),
        ({"assume": (AssumeSet(divisible=(("x", (16,)),)), AssumeSet())}, ()),
        (
            {
                "args": ("x.ptr", "i32(x.size)"),
                "params": (ParamTable(name="x", dtype="f32", rank=1, aligned=16),),
                "launch": Launch(grid=("x.size",)),
                "cases": (),
            },
            (),
        ),
    ],
)
def test_triton_kernels_without_facts_are_named(
    changes: dict[str, object], notes: tuple[str, ...]
) -> None:
    decl = DECL
    if "args" in changes:
        decl = dataclasses.replace(DECL, params=(DECL.params[1], DECL.params[-1]))
    assert plan(norm(**changes), decls={"norm": decl}, targets=("sm_90",)).notes == notes


def test_rows_of_a_free_stride_are_named_and_take_no_divisor() -> None:
    kernel = norm(
        args=("x.ptr", "i32(x.stride[1])"),
        params=(ParamTable(name="x", dtype="f32", rank=2),),
        launch=Launch(grid=("x.shape[0]",)),
        assume=(AssumeSet(divisible=(("x", (1, 16)),), aligned=(("", 16),)), AssumeSet()),
        cases=(),
    )
    decl = dataclasses.replace(DECL, params=(DECL.params[1], DECL.params[-1]))
    made = plan(kernel, decls={"norm": decl}, targets=("sm_90",))
    assert made.notes == (
        (
            "Triton vectorizes and pipelines no loads of rows whose stride is free: if the rows of x are "
            'contiguous, write kernel.norm.params.x.stride = ["?", 1]; else "?" in place of 1'
        ),
    )
    meant = dataclasses.replace(kernel.params[0], stride=(None, None))
    silent = dataclasses.replace(kernel, params=(meant,))
    assert plan(silent, decls={"norm": decl}, targets=("sm_90",)).notes == ()
    (fact,) = made.jobs[0].variant.assume
    assert (fact.shape, fact.stride) == ((1, 16), (16, 1))
    pitched = dataclasses.replace(kernel, args=("x.ptr", "i32(x.stride[0])"))
    made = plan(pitched, decls={"norm": decl}, targets=("sm_90",))
    assert (made.notes, made.kernels[0].info.params[0].stride) == ((), (None, 1))
