"""What a case is held against: what is read, what is refused and in which words, and libraries that
are there or not.
"""

from __future__ import annotations

import time
import types
from typing import Any

import numpy as np
import pytest

from tilec.bench.libraries import CupyContender, HostContender, TorchContender, open_library
from tilec.bench.rivals import Rival, function_of, read_rival
from tilec.testing.fake_driver import H200
from tilec_runtime.cpu.driver import CPU
from tilec_runtime.errors import CaseError, Location, MissingError

PLACE = Location(file="tilec.toml", line=7, column=1)
INPUTS = ("a", "b", "alpha")


def read(text: str) -> Rival:
    return read_rival(text, INPUTS, case="gemm/4k", location=PLACE)


def test_calls_and_functions_of_files_are_read() -> None:
    assert read("torch:matmul(a, b)") == Rival(
        text="torch:matmul(a, b)", library="torch", call="matmul(a, b)"
    )
    assert read("triton:bench/mine.py:gemm") == Rival(
        text="triton:bench/mine.py:gemm", library="torch", reference="bench/mine.py:gemm"
    )
    assert read("cupy: add(a * alpha, b.T[0, :], out=None)").library == "cupy"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tourch:matmul(a, b)", "unknown library 'tourch'; did you mean 'torch'"),
        ("jax:add(a, b)", "unknown library 'jax'; there are torch, triton, cupy, numpy"),
        ("torch:matmul(a, b", "not valid Python: '(' was never closed"),
        ("torch:a", "it calls nothing"),
        ("torch:matmul(a, b); b", "not valid Python: invalid syntax"),
        ("torch:[matmul(a, x) for x in b]", "it calls nothing"),
        ("torch:matmul(a, [x for x in b])", "ListComp has no place in it"),
        ("torch:(lambda: a)()", "Lambda has no place in it"),
        ("torch:a.__class__()", "'__class__' is private"),
        ("torch:__import__('os')", "'__import__' is private"),
        ("torch:matmul(a, b := a)", "NamedExpr has no place in it"),
        ("torch:a(b)", "'a' is an input, and cannot be called"),
        ("torch:matmul(f'{a}', b)", "JoinedStr has no place in it"),
        (
            "numpy:a * 9**9**9",
            "9 ** 9 ** 9 is a power of plain numbers, which may take for ever: write the number",
        ),
        (
            "numpy:a + (1 << 1 << 40)",
            "1 << 1 << 40 is a power of plain numbers, which may take for ever: write the number",
        ),
        ("numpy:zeros(4)", "it uses none of the case's inputs (a, b"),
    ],
)
def test_what_is_no_call_is_refused_where_it_is_written(text: str, said: str) -> None:
    with pytest.raises(CaseError) as caught:
        read(text)
    assert str(caught.value).startswith(f"tilec.toml:7:1: gemm/4k: against {text!r}: {said}")
    assert caught.value.fix


def test_a_call_computes_with_the_librarys_functions() -> None:
    rival = read("numpy:add(a * alpha, b.T)")
    call = function_of(rival, np, INPUTS, case="gemm/4k")
    assert call({"a": np.ones(2), "b": np.full(2, 3.0), "alpha": 2.0}).tolist() == [5.0, 5.0]
    assert (
        function_of(read("numpy:norm(a)"), np, INPUTS, case="")(
            {"a": np.array([3.0, 4.0]), "b": 0, "alpha": 0}
        )
        == 5.0
    )


def test_a_function_or_input_that_is_not_there_says_what_was_meant() -> None:
    for text, meant in (("numpy:matmull(a, b)", "matmul"), ("numpy:matmul(a, alfa)", "alpha")):
        with pytest.raises(CaseError, match=f"did you mean '{meant}'") as caught:
            function_of(read(text), np, INPUTS, case="gemm/4k", location=PLACE)
        assert caught.value.location == PLACE


def test_builtins_are_out_of_reach() -> None:
    with pytest.raises(CaseError, match="has no 'open'"):
        function_of(
            Rival(text="x", library="torch", call="open(a)"),
            types.SimpleNamespace(),
            INPUTS,
            case="",
        )


def absent(name: str) -> Any:
    raise ImportError(name)


def test_libraries_that_are_not_there_say_so() -> None:
    no_gpu = types.SimpleNamespace(
        __version__="2.9", cuda=types.SimpleNamespace(is_available=lambda: False)
    )
    for device, name, find, said in (
        (H200, "torch", absent, "torch is not installed"),
        (CPU, "cupy", lambda _name: object(), "cupy computes on GPUs only"),
        (H200, "numpy", absent, "numpy computes on the host"),
        (H200, "torch", lambda _name: no_gpu, "torch 2.9 sees no GPU"),
    ):
        with pytest.raises(MissingError, match=said):
            open_library(name, device, lambda: 0.0, find)


def test_on_the_cpu_device_numpy_is_timed_by_the_hosts_clock() -> None:
    ticks = iter((1.0, 4.0))
    library = open_library("numpy", CPU, lambda: next(ticks))
    assert library.title == f"numpy {np.__version__}"
    given = np.ones(3)
    tensor = library.tensor(given, "f32")
    assert tensor is not given
    seen: list[Any] = []
    contender = library.contender(
        lambda values: seen.append(values["x"]), [{"x": tensor}, {"x": given}], flush=0, clocks=None
    )
    assert isinstance(contender, HostContender)
    assert contender.seconds(3) == 3.0
    assert [one is tensor for one in seen] == [True, False, True]


class Cuda:
    """Streams, events and graphs of torch, as far as they are used; `steps` is what was done, in
    order.
    """

    def __init__(self, *, captures: bool = True) -> None:
        self.steps: list[str] = []
        self.captures = captures
        self.Stream = lambda *_, **__: types.SimpleNamespace(synchronize=lambda: None)
        self.CUDAGraph = lambda: types.SimpleNamespace(replay=lambda: self.steps.append("replay"))

    def Event(self, **_: Any) -> Any:  # noqa: N802 - torch's name
        def record(_stream: Any) -> None:
            self.steps.append("record")

        return types.SimpleNamespace(
            record=record, synchronize=lambda: None, elapsed_time=lambda _end: 2.0
        )

    def synchronize(self, _device: Any = None) -> None:
        self.steps.append("synchronize")

    def _within(self, name: str) -> Any:
        steps, captures = self.steps, self.captures

        class Within:
            def __enter__(self) -> None:
                if name == "graph":
                    if not captures:
                        raise RuntimeError("operation not permitted\nmore")
                    steps.append("[")

            def __exit__(self, *_: object) -> None:
                if name == "graph":
                    steps.append("]")

        return Within()

    def device(self, _device: Any) -> Any:
        return self._within("device")

    def stream(self, _stream: Any) -> Any:
        return self._within("stream")

    def graph(self, _graph: Any, **_: Any) -> Any:
        return self._within("graph")


def torch_with(cuda: Cuda) -> Any:
    flush = types.SimpleNamespace(fill_=lambda _byte: cuda.steps.append("flush"))
    return types.SimpleNamespace(cuda=cuda, uint8="uint8", empty=lambda *_, **__: flush)


def test_torch_is_timed_in_graphs_that_torch_captures() -> None:
    cuda = Cuda()
    sets = [{"n": "a"}, {"n": "b"}]
    contender = TorchContender(
        torch_with(cuda), "cuda:0", lambda values: cuda.steps.append(values["n"]), sets
    )
    assert contender.seconds(1) == pytest.approx(2e-3)
    assert cuda.steps == ["record", "a", "record"]
    cuda.steps.clear()
    contender.seconds(3)
    assert cuda.steps == ["a", "b", "[", "a", "b", "a", "]", "record", "replay", "record"]
    cuda.steps.clear()
    contender.seconds(3)
    assert cuda.steps == ["record", "replay", "record"]


def test_a_cold_sample_of_torch_is_behind_a_write_over_the_cache_and_no_longer_than_its_sets() -> (
    None
):
    cuda = Cuda()
    contender = TorchContender(torch_with(cuda), "cuda:0", lambda _values: None, [{}, {}], flush=64)
    contender.seconds(5)
    cuda.steps.clear()
    assert contender.seconds(5) == pytest.approx(6e-3)
    assert cuda.steps == ["flush", "record", "replay", "record"] * 2 + ["flush", "record", "record"]


def test_what_torch_cannot_capture_is_launched_one_by_one_and_that_is_said() -> None:
    cuda = Cuda(captures=False)
    contender = TorchContender(
        torch_with(cuda), "cuda:0", lambda _values: cuda.steps.append("call"), [{}]
    )
    contender.seconds(2)
    assert contender.note.startswith("it cannot be captured in a CUDA graph")
    assert contender.note.endswith("operation not permitted")
    cuda.steps.clear()
    contender.seconds(2)
    assert cuda.steps == ["record", "call", "call", "record"]


def test_cupy_is_timed_one_by_one_and_that_is_said() -> None:
    cuda = Cuda()
    device = cuda.device(0)
    cupy = types.SimpleNamespace(
        cuda=types.SimpleNamespace(
            Device=lambda _ordinal: device,
            Stream=lambda **_: device,
            Event=cuda.Event,
            get_elapsed_time=lambda _start, _end: 4.0,
        )
    )
    contender = CupyContender(cupy, 0, lambda _values: cuda.steps.append("call"), [{}])
    assert contender.seconds(2) == pytest.approx(4e-3)
    assert cuda.steps == ["record", "call", "call", "record"]
    assert "one by one" in contender.note


def test_a_call_may_import_what_it_needs_the_first_time() -> None:
    """Compiled functions, such as some of torch and all of CuPy, import by the builtins of whoever
    calls them.
    """
    rival = read_rival("numpy:strptime(x, y)", ("x", "y"), case="k/c")
    assert (
        function_of(rival, time, ("x", "y"), case="k/c")({"x": "2026", "y": "%Y"}).tm_year == 2026
    )
