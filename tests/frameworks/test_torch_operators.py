"""Operators in torch on the cpu device: schemas, opcheck, gradients, torch.compile, mutation, and
what is refused.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest
import torch


@pytest.fixture
def ops(package: Any) -> Any:
    return package.torch


def samples() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    x, v = torch.randn(5, 40), torch.randn(100)
    return {
        "softmax": ((x,), {"ROWS": 4}),
        "softmax_backward": ((x, torch.softmax(x, 1)), {}),
        "scale": ((v, 3.0), {}),
        "scale_backward": ((v,), {}),
        "both": ((v, v.clone()), {}),
        "sums": ((v,), {}),
        "accumulate": ((v.clone(), v), {}),
        "weighted": ((v, v + 1), {}),
    }


def test_there_is_no_build_half() -> None:
    assert importlib.util.find_spec("tilec") is None


def test_a_package_imports_torch_on_request_only(package: Any) -> None:
    code = "import sys, operators; assert 'torch' not in sys.modules; import operators.torch"
    path = sys.path[: sys.path.index(package.__path__[0].removesuffix("/operators")) + 1]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("softmax", "(Tensor x, *, int? ROWS=None) -> Tensor"),
        ("scale", "(Tensor x, float factor=2.) -> Tensor"),
        ("both", "(Tensor x, Tensor y) -> (Tensor, Tensor)"),
        ("accumulate", "(Tensor(a!) y, Tensor x) -> ()"),
    ],
)
def test_schemas(ops: Any, name: str, schema: str) -> None:
    found = getattr(torch.ops.operators, name).default._schema
    assert str(found) == f"operators::{name}{schema}"


@pytest.mark.parametrize("name", samples())
def test_opcheck(ops: Any, name: str) -> None:
    args, axes = samples()[name]
    torch.library.opcheck(getattr(torch.ops.operators, name).default, args, axes)


def test_results(ops: Any) -> None:
    x, v = torch.randn(5, 40), torch.randn(100)
    for rows in (None, 2, 4):
        torch.testing.assert_close(ops.softmax(x, ROWS=rows), torch.softmax(x, 1))
    torch.testing.assert_close(ops.scale(v), v * 2)
    torch.testing.assert_close(ops.scale(v.half(), factor=0.5), v.half() / 2)
    expected = torch.nn.functional.pad(v, (0, 28)).reshape(-1, 64).sum(1)
    torch.testing.assert_close(ops.sums(v), expected)
    torch.testing.assert_close(ops.both(v, v), (2 * v, 0 * v))


def test_calls_that_allocate_without_the_module_of_torch(package: Any) -> None:
    x = torch.randn(5, 40, requires_grad=True)
    y = package.load("cpu").softmax(x)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.softmax(x, 1).detach())


def test_mutation_is_seen_by_autograd(ops: Any) -> None:
    y, x, w = torch.ones(100), torch.ones(100), torch.ones(100, requires_grad=True)
    product = y * w
    assert ops.accumulate(y, x) is None
    torch.testing.assert_close(y, x + 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_mutation_that_gradients_would_miss_is_refused(ops: Any) -> None:
    x, weight = torch.ones(100), torch.ones(100, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"operators::accumulate has no gradient of y: pass y.d"):
        ops.accumulate(weight * 2, x)
    with pytest.raises(RuntimeError, match=r"operators::accumulate has no gradient of x: pass x.d"):
        ops.accumulate(x, weight)
    with torch.no_grad():
        ops.accumulate(weight, x)
    torch.testing.assert_close(weight.detach(), x + 1)


def test_gradients(ops: Any) -> None:
    x = torch.randn(3, 20, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.softmax, (x,))
    v = torch.randn(100, requires_grad=True)
    assert torch.autograd.gradcheck(ops.scale, (v, 3.0), eps=1e-2, atol=1e-2, rtol=1e-2)
    weight = torch.randn(20, 3, dtype=torch.float64).t()  # its gradient is not contiguous
    (found,) = torch.autograd.grad((ops.softmax(x) * weight).sum(), x)
    (expected,) = torch.autograd.grad((torch.softmax(x, 1) * weight).sum(), x)
    torch.testing.assert_close(found, expected)


def test_a_second_gradient_by_what_was_saved_is_refused(ops: Any) -> None:
    x, weight = torch.randn(3, 20, requires_grad=True), torch.randn(3, 20)
    y = ops.softmax(x)
    # The gradient of y depends on nothing, that of x on y, which was saved.
    (grad,) = torch.autograd.grad((y * weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        ((y * weight).sum() + grad.square().sum()).backward()
    (grad,) = torch.autograd.grad((ops.softmax(x) * weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        torch.autograd.grad(grad.sum(), x, allow_unused=True)


def test_a_first_gradient_may_be_taken_with_a_graph(ops: Any) -> None:
    x, other = torch.randn(3, 20, requires_grad=True), torch.randn(3, 20, requires_grad=True)
    (ops.softmax(x).square().sum() + other.pow(3).sum()).backward(create_graph=True)
    expected = x.detach().clone().requires_grad_()
    torch.softmax(expected, 1).square().sum().backward()
    torch.testing.assert_close(x.grad.detach(), expected.grad)
    x.grad = other.grad = None


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_a_break(ops: Any, dynamic: bool) -> None:
    def plain(x: Any) -> Any:
        row = torch.ones_like(x[0])
        ops.accumulate(row, x[0].detach().contiguous())
        return ops.softmax(x * 2, ROWS=4) + 1, row, ops.sums(row)

    compiled = torch.compile(plain, fullgraph=True, dynamic=dynamic)
    for rows in (5, 6):
        x = torch.randn(rows, 40, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        found, expected = compiled(x), plain(other)
        torch.testing.assert_close(found, expected)
        found[0].square().sum().backward()
        expected[0].square().sum().backward()
        torch.testing.assert_close(x.grad, other.grad)


def test_arguments_are_checked_as_of_every_launch(ops: Any) -> None:
    from tilec_runtime.errors import LaunchError

    with pytest.raises(LaunchError, match=r"softmax: .* has dtype i32"):
        ops.softmax(torch.zeros(2, 3, dtype=torch.int32))
    with pytest.raises(LaunchError, match=r"x\.shape"):
        ops.softmax(torch.zeros(2, 65))


def test_a_gradient_that_no_backward_computes_is_refused(ops: Any) -> None:
    x, weight = torch.randn(100, requires_grad=True), torch.randn(100, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"operators::weighted has no gradient of weight: pass"):
        ops.weighted(x, weight)
    (found,) = torch.autograd.grad(ops.weighted(x, weight.detach()).sum(), x)
    torch.testing.assert_close(found, weight)


def test_the_gradient_of_an_operator_without_backward_is_refused(ops: Any) -> None:
    x = torch.randn(100, requires_grad=True)
    assert (ops.sums(x).detach() == ops.sums(x.detach())).all()
    with pytest.raises(
        RuntimeError, match=r"^operators::sums has no gradient: .*sums\.op\.backward"
    ):
        ops.sums(x).sum().backward()
    with pytest.raises(
        RuntimeError, match=r"^operators::both has no gradient: .*both\.op\.backward"
    ):
        ops.both(x.detach(), x)[1].sum().backward()
    compiled = torch.compile(lambda x: ops.sums(x * 2), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x.detach()), ops.sums(2 * x.detach()))
    with pytest.raises(Exception, match=r"operators::sums has no gradient"):
        compiled(x)


def test_schemas_of_what_a_signature_can_hold() -> None:
    from tilec_runtime.errors import Location
    from tilec_runtime.model.kernel import KernelInfo
    from tilec_runtime.model.operator import OperatorInfo, OutputInfo
    from tilec_runtime.model.signature import Param, ParamKind
    from tilec_runtime.torch_ops import schema_of

    info = KernelInfo(
        name="all",
        language="cuda",
        location=Location(file="k.cu", line=1),
        params=(
            Param(name="x", kind=ParamKind.TENSOR, dtype="f32", rank=1),
            Param(name="low", kind=ParamKind.SCALAR, dtype="f32", default=float("-inf")),
            Param(name="z", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
            Param(name="n", kind=ParamKind.SCALAR, dtype="i64", default=3),
            Param(name="high", kind=ParamKind.SCALAR, dtype="f32", default=float("inf")),
            Param(name="flag", kind=ParamKind.SCALAR, dtype="bool", default=True),
            Param(name="bias", kind=ParamKind.TENSOR, dtype="f32", rank=1, optional=True),
            Param(name="seen", kind=ParamKind.TENSOR, dtype="i32", rank=1, out=True, optional=True),
        ),
        axes=(("BM", (1, 2)), ("MODE", ("a", "b")), ("FAST", (False, True)), ("W", (0.5, 1.0))),
        op=OperatorInfo(outputs=(OutputInfo(param="z", like="x", dtype="f32"),)),
    )
    schema = schema_of(info)
    assert schema == (
        "(Tensor x, float low, SymInt n, float high, bool flag=True, Tensor? bias=None, "
        "Tensor(a!)? seen=None, *, int? BM=None, str? MODE=None, bool? FAST=None, float? W=None) "
        "-> Tensor"
    )
    library = torch.library.Library("schemas", "FRAGMENT")
    library.define(f"all{schema}")
