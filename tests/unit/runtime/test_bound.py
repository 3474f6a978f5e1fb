"""Bound launches: arguments are given and checked once, and whatever can change of them is looked at in every launch."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device
from tests.runtime_samples import ADD, GEMM, STRUCT, TENSOR, Array, bundle_of, fake_driver, image, kernel, loaded, slot
from tests.unit.runtime import fake_torch
from tests.unit.runtime.fake_torch import TensorGuards
from tests.waiting import joined
from tilec.errors import AliasError, ArgumentError, BorrowError, DriverError, LaunchError, UseAfterMoveError, VariantError
from tilec.model.kernel import LaunchInfo, VariantInfo
from tilec.model.signature import Param
from tilec.runtime import DeviceBuffer, Module, Stream, Tensor, load, torch_guard
from tilec.runtime.fastpath import unrolled
from tilec.runtime.tensors.recording import begin_recording, end_recording
from tilec.testing.fake_driver import FakeDriver

TIMES = 3


@pytest.fixture
def made() -> tuple[Module, FakeDriver]:
    driver = fake_driver(ADD)
    return load(bundle_of(ADD), driver=driver), driver


def new(driver: Any, count: int = 3, *, ordinal: int = 0, stream: int = 5) -> list[Tensor]:
    return [Tensor.uninitialized((1024,), "f32", driver=driver, ordinal=ordinal, stream=stream) for _ in range(count)]


def launched(driver: FakeDriver) -> list[tuple[int, tuple[Any, ...]]]:
    found = [(launch.stream, launch.arguments) for launch in driver.launches]
    driver.launches.clear()
    return found


def test_it_launches_what_it_was_given(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    bound = module.add.bind(z, y=y, x=x, alpha=2.0)
    assert driver.launches == []
    assert repr(bound) == "<BoundLaunch add on device 0 (Fake H200)>"
    for _ in range(TIMES):
        bound.launch(5)
    assert launched(driver) == [(5, (z.ptr, x.ptr, y.ptr, 1024, 2.0))] * TIMES


def test_it_is_checked_when_it_is_made(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    with pytest.raises(ArgumentError, match=r"^add: takes .* missing: 'y'"):
        module.add.bind(z, x)
    with pytest.raises(AliasError):
        module.add.bind(z, z, y)
    with pytest.raises(ArgumentError, match="alpha"):
        module.add.bind(z, x, y, 1e300)
    x.share()
    with pytest.raises(UseAfterMoveError):
        module.add.bind(z, x, y)
    with y.borrow_mut(), pytest.raises(BorrowError):
        module.add.bind(z, z, y)
    assert driver.launches == []


def test_what_happened_to_a_tensor_since_is_seen(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    bound = module.add.bind(z, x, y)
    for _ in range(TIMES):
        bound.launch(5)
    with z.borrow(), pytest.raises(BorrowError, match="still reads it"):
        bound.launch(5)
    with x.borrow():
        bound.launch(5)
    with x.borrow_mut(), pytest.raises(BorrowError, match="still writes it"):
        bound.launch(5)
    bound.launch(5)
    assert len(launched(driver)) == TIMES + 2
    x.share()
    for _ in range(TIMES):
        with pytest.raises(UseAfterMoveError, match="moved into share"):
            bound.launch(5)
    assert driver.launches == []


def test_a_view_that_was_released_is_refused(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    view = x.view(1024)
    bound = module.add.bind(z, view, y)
    for _ in range(TIMES):
        bound.launch(5)
    assert len(launched(driver)) == TIMES
    view.release()
    with pytest.raises(BorrowError, match=r"the view.* has ended"):
        bound.launch(5)
    assert driver.launches == []


def test_a_mutable_borrow_that_ended_is_refused(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    with z.borrow_mut() as out:
        bound = module.add.bind(out, x, y)
        for _ in range(TIMES):
            bound.launch(5)
    with pytest.raises(BorrowError, match="has ended"):
        bound.launch(5)
    assert len(launched(driver)) == TIMES


def test_streams_are_ordered(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    bound = module.add.bind(z, x, y)
    for stream in (5, 5, 6, 6, 5):
        driver.steps.clear()
        bound.launch(stream)
        calls = [(step.call, step.stream) for step in driver.steps]
        assert calls[-1] == ("launch", stream)
        assert (("wait", stream) in calls) is (len(driver.launches) in (3, 5))
    assert [stream for stream, _ in launched(driver)] == [5, 5, 6, 6, 5]


def test_streams_that_are_none_or_gone(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    bound = module.add.bind(*new(driver))
    stream = Stream(0, driver=driver)
    for _ in range(TIMES):
        bound.launch(stream)
    stream.close()
    with pytest.raises(ArgumentError, match=r"^add: the stream is closed"):
        bound.launch(stream)
    with pytest.raises(ArgumentError, match=r"^add: the stream is None"):
        bound.launch(None)  # type: ignore[arg-type]


def test_what_the_driver_refuses_is_told_and_the_next_launch_works(made: tuple[Module, FakeDriver]) -> None:
    """A stream of another device among it: the driver alone knows whose a handle is."""
    module, driver = made
    bound = module.add.bind(*new(driver))
    for _ in range(TIMES):
        bound.launch(5)
    driver.fail["launch"] = "CUDA_ERROR_INVALID_HANDLE"
    with pytest.raises(DriverError, match=r"^add: .*CUDA_ERROR_INVALID_HANDLE"):
        bound.launch(5)
    driver.fail.clear()
    driver.launches.clear()
    for _ in range(TIMES):
        bound.launch(5)
    assert len(launched(driver)) == TIMES


def test_it_keeps_its_tensors(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    bound = module.add.bind(*new(driver))
    bound.launch(5)
    assert [step for step in driver.steps if step.call == "free"] == []
    del bound
    assert len([step for step in driver.steps if step.call == "free"]) == 3


def test_buffers_and_arrays_of_other_libraries(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x = (DeviceBuffer((1024,), "f32", driver=driver) for _ in range(2))
    y = Array(1024, ptr=0x30000)
    bound = module.add.bind(z, x, y)
    for _ in range(TIMES):
        bound.launch(5)
    x.free()
    with pytest.raises(Exception, match=r"^add: argument 'x' .*the buffer was freed"):
        bound.launch(5)
    assert [found[:3] for _, found in launched(driver)] == [(z.ptr, x._ptr, 0x30000)] * TIMES


def torch_bound(monkeypatch: pytest.MonkeyPatch, guards: Any) -> tuple[Any, FakeDriver, list[fake_torch.Tensor]]:
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(guards))
    torch_guard._maker.cache_clear()
    module, driver = loaded(ADD)
    tensors = [fake_torch.Tensor((1024,), ptr=0x10000 * place) for place in (1, 2, 3)]
    bound = module.add.bind(*tensors)
    for stream in (5, 5, 5, 6, 6):
        bound.launch(stream)
    assert len(launched(driver)) == 5
    return bound, driver, tensors


@pytest.mark.parametrize("guards", [TensorGuards, None])
def test_torch_tensors_that_change(monkeypatch: pytest.MonkeyPatch, guards: Any) -> None:
    bound, driver, (z, x, y) = torch_bound(monkeypatch, guards)
    x.ptr = 0x70000  # its storage was resized
    for stream in (5, 6):
        bound.launch(stream)
    assert launched(driver) == [(stream, (0x10000, 0x70000, 0x30000, 1024, 1.0)) for stream in (5, 6)]
    for tensor in (z, x, y):
        tensor.shape = (512,)
    for stream in (5, 6, 6):  # another grid
        bound.launch(stream)
    assert launched(driver) == [(stream, (0x10000, 0x70000, 0x30000, 512, 1.0)) for stream in (5, 6, 6)]
    for name, content, before in (("shape", (4,), (512,)), ("negative", True, False), ("ptr", 0, 0x30000), ("step", (2,), None)):
        setattr(y, name, content)
        for stream in (5, 6):
            with pytest.raises(LaunchError, match=r"^add: "):
                bound.launch(stream)
        setattr(y, name, before)
        bound.launch(5)
    assert len(launched(driver)) == 4


def test_structs_are_those_of_bind() -> None:
    abi = (slot("ptr", "z.ptr"), slot("struct", "box", size=8))
    params = (Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True), Param(name="box", kind=STRUCT, size=8))
    variant = VariantInfo(id="fill", abi=abi, images=(image("fill"),))
    info = kernel("fill", params, (variant,), launch=LaunchInfo(grid=("1",), block=("32",)))
    module, driver = loaded(info)
    box = bytearray(b"abcdefgh")
    bound = module.fill.bind(Array(16), box)
    box[:] = b"ABCDEFGH"
    for _ in range(TIMES):
        bound.launch(5)
    assert {found[1] for _, found in launched(driver)} == {b"abcdefgh"}


def test_axes_and_restricted_launchers() -> None:
    module, driver = loaded(GEMM)
    arguments = (Array(100, 64, dtype="f16"), Array(100, 32, dtype="f16", ptr=0x20000), Array(32, 64, dtype="f16", ptr=0x30000))
    for choice in (64, 128):
        bound = module.gemm.bind(*arguments, BM=choice)
        bound.launch(5)
        module.gemm(5, *arguments, BM=choice)
        mine, plain = driver.launches[-2:]
        assert mine == plain
    with pytest.raises(VariantError):
        module.gemm.bind(*arguments, BM=7)


def test_threads_share_one() -> None:
    module, driver = loaded(ADD)
    arguments = [Array(1024, ptr=0x10000 * place) for place in (1, 2, 3)]
    bound = module.add.bind(*arguments)

    def work(stream: int) -> None:
        for _ in range(200):
            bound.launch(stream)

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (1, 2, 3)]
    for thread in threads:
        thread.start()
    joined(*threads)
    found = launched(driver)
    assert sorted(stream for stream, _ in found) == [1] * 200 + [2] * 200 + [3] * 200
    assert {values for _, values in found} == {(0x10000, 0x20000, 0x30000, 1024, 1.0)}


def test_many_streams_do_not_pile_up(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    bound = module.add.bind(*(Array(1024, ptr=0x10000 * place) for place in (1, 2, 3)))
    for stream in range(200):
        bound.launch(stream)
    assert len(bound._held.records) <= 64
    assert [stream for stream, _ in launched(driver)] == list(range(200))


def test_a_known_launch_makes_one_call_of_python_code(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    bound = module.add.bind(*new(driver))
    bound.launch(5)
    seen: list[str] = []

    def profile(frame: Any, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "tilec" in name and not any(double in name for double in ("double", "fake_driver", "scalars", "lost")):
            seen.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        bound.launch(5)
    finally:
        sys.setprofile(None)
    assert seen == ["launch", "<lambda>"]  # around the double's function; of CUDA's driver, the parts of what it gives are called


def test_a_call_that_is_only_bound_to_its_arguments_is_not_called_through_that() -> None:
    assert unrolled(functools.partial(divmod, 1, 2)) == (divmod, 1, 2)
    for call in (functools.partial(divmod, 1), functools.partial(print, 1, 2, end=""), lambda address, held: (address, held)):
        function, first, second = unrolled(call)
        assert (first, second) == (None, None)
        if not isinstance(call, functools.partial):
            assert function(first, second, 3, 4) == (3, 4)


def test_it_computes_on_the_cpu_device() -> None:
    module, driver = device()
    z, x, y = new(driver, ordinal=-1, stream=0)
    for tensor, number in ((x, 3), (y, 4)):
        np.asarray(tensor)[...] = number
    with Stream("cpu", driver=driver) as stream:
        bound = module.add.bind(z, x, y)
        for _ in range(TIMES):
            bound.launch(stream)
        stream.sync()
    assert np.asarray(z).tolist() == [7.0] * 1024


def test_each_launch_that_is_captured_is_told_to_its_graph(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    bound = module.add.bind(z, x, y)
    for _ in range(TIMES):
        bound.launch(5)
    for _ in range(2):
        recording = begin_recording(driver, 0, 0x9000)
        for _ in range(TIMES):
            bound.launch(0x9000)
        end_recording(driver, 0, 0x9000)
        assert {id(storage): write for storage, write in recording.uses.values()} == {
            id(z.storage): True,
            id(x.storage): False,
            id(y.storage): False,
        }
    bound.launch(5)
    assert [stream for stream, _ in launched(driver)] == [5] * TIMES + [0x9000] * 2 * TIMES + [5]


def test_a_part_of_a_mutable_borrow_is_written_until_it_ends(made: tuple[Module, FakeDriver]) -> None:
    module, driver = made
    z, x, y = new(driver)
    with z.borrow_mut() as m:
        half = m.size // 2
        part = m[half:]
        bound = module.add.bind(part, x[:half], y[:half])
        for _ in range(TIMES):
            bound.launch(5)
        with part[:4], pytest.raises(BorrowError, match=r"the slice .* still writes it"):
            bound.launch(5)
        m[:half].release()
        part.release()
        with pytest.raises(BorrowError, match=r"the slice .* has ended"):
            bound.launch(5)
    assert [arguments[0] for _, arguments in launched(driver)] == [z.ptr + 4 * half] * TIMES
