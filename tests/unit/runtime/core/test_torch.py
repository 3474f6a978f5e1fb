"""Facts of torch's own tensors in C, of every kind that programs meet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.core.samples import by_python, core, expected

torch = pytest.importorskip("torch")


def tensors() -> dict[str, Any]:
    base = torch.zeros(4, 6)
    with torch.inference_mode():
        inferred = torch.zeros(3)
    made = {
        "plain": base,
        "view": base[1:, ::2],
        "transposed": base.t(),
        "expanded": torch.zeros(1, 6).expand(4, 6),
        "empty": torch.zeros(0, 3),
        "scalar": torch.zeros(()),
        "grad": torch.zeros(3, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.zeros(3)),
        "inference": inferred,
        "negated": torch.view_as_complex(torch.zeros(4, 2)).conj().imag,
        "conjugated": torch.zeros(3, dtype=torch.complex64).conj(),
        "sparse": torch.zeros(3, 3).to_sparse(),
        "meta": torch.zeros(3, device="meta"),
        "lazy clone": torch._lazy_clone(torch.zeros(3)),
        "channels last": torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "quantized": torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
        "subclass": torch.zeros(3).as_subclass(type("Sub", (torch.Tensor,), {})),
        "fp4": torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    }
    return made | {name: torch.zeros(3, dtype=getattr(torch, name)) for name in DTYPE_NAMES}


DTYPE_NAMES = (
    *(
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ),
    *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex128"),
)
KINDS = (
    *(
        "plain",
        "view",
        "transposed",
        "expanded",
        "empty",
        "scalar",
        "grad",
        "parameter",
        "inference",
        "negated",
        "conjugated",
        "sparse",
    ),
    *("meta", "lazy clone", "channels last", "quantized", "subclass", "fp4", *DTYPE_NAMES),
)


BY_PYTHON = {
    "meta",
    "sparse",
    "subclass",
    "quantized",
    "negated",
    "conjugated",
    "complex128",
    "fp4",
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_facts_of_torch(name: str) -> None:
    value = tensors()[name]
    wanted = expected(value)
    found = core.facts(value, lambda _: None)
    assert found == (None if name in BY_PYTHON else wanted)
    assert name in BY_PYTHON or wanted is not None
    assert core.facts(value, by_python) in (None, wanted)


@pytest.mark.filterwarnings("ignore")
def test_functional_and_fake_tensors_are_left_to_python() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    seen = []

    def look(value: Any) -> Any:
        seen.append(core.facts(value, lambda _: pytest.fail("read by Python")))
        return value

    torch.func.vmap(look)(torch.zeros(3, 4))
    torch.func.grad(lambda value: look(value).sum())(torch.zeros(3))
    with FakeTensorMode():
        fake = torch.zeros(3)
    seen.append(core.facts(fake, lambda _: None))
    assert seen == [None, None, None]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.resize_(5, 2),
        lambda t: t.set_(torch.zeros(40)[4:16].view(3, 4)),
        lambda t: t.set_(t.untyped_storage(), 1, (2, 3), (3, 1)),  # from the second element on
        lambda t: setattr(t, "data", torch.zeros(2, 3, dtype=torch.float16)),
        lambda t: t.t_(),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_that_changes_is_read_anew(change: Any) -> None:
    value = torch.zeros(3, 4)
    for step in (lambda _: None, change):
        step(value)
        found = core.facts(value, lambda _: pytest.fail("read by Python"))
        assert found == expected(value)
        assert (value.data_ptr(), tuple(value.shape), value.stride()) == found[:3]


@pytest.mark.filterwarnings("ignore")
def test_lazy_bits_that_come_and_go_are_seen() -> None:
    value, negated = torch.zeros(4), torch._neg_view(torch.zeros(4))
    for made, known in ((value, True), (negated, False), (negated.resolve_neg(), True)):
        assert (core.facts(made, lambda _: None) is not None) is known
    value.data = negated  # the same object from now on
    assert value.is_neg() == (core.facts(value, lambda _: None) is None)


@pytest.mark.filterwarnings("ignore")
def test_views_with_offsets_in_bytes() -> None:
    for first in range(0, 13, 4):
        value = torch.zeros(64, dtype=torch.uint8)[first : first + 16].view(torch.float32)
        found = core.facts(value, lambda _: pytest.fail("read by Python"))
        assert found[:3] == (value.data_ptr(), (4,), (1,))
    odd = torch.frombuffer(bytearray(65), dtype=torch.float32, offset=1, count=16)
    assert core.facts(odd, lambda _: pytest.fail("read by Python"))[0] == odd.data_ptr()
