"""The generated package on a GPU, with torch tensors: results, streams, threads, graphs, the choice
of images.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from tilec_runtime.errors import NoDeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def randn(torch, *shape, dtype=None):
    return torch.randn(*shape, device="cuda", dtype=dtype or torch.float32)


def test_launches_run_in_the_order_of_their_stream_and_return_at_once(kernels, torch):
    stream = torch.cuda.Stream()
    x, y = torch.zeros(1 << 16, device="cuda"), torch.ones(1 << 16, device="cuda")
    z = torch.empty_like(x)
    kernels.vector_add(z, x, y, stream=stream)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        x.fill_(41.0)
    kernels.vector_add(z, x, y, stream=stream)
    assert not stream.query(), "the call waited for the device"
    stream.synchronize()
    assert torch.all(z == 42.0)


def test_every_kind_of_stream(kernels, torch):
    from tilec_runtime import Stream

    x = randn(torch, 4096)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with Stream() as own:
        for stream in (side, side.cuda_stream, own, own.handle, 0, 1, 2):
            z = torch.empty_like(x)
            torch.cuda.synchronize()
            kernels.vector_add(z, x, x, stream=stream)
            torch.cuda.synchronize()
            torch.testing.assert_close(z, 2 * x)


def test_threads_launch_at_once(kernels, torch):
    """New threads have no current context: their first launch gives them the device's."""
    failures: list[BaseException] = []
    results = {}

    def work(number):
        try:
            stream = torch.cuda.Stream()
            x = torch.full((4096 + number,), float(number), device="cuda")
            z = torch.empty_like(x)
            torch.cuda.synchronize()
            for _ in range(200):
                kernels.vector_add(z, x, x, stream=stream)
                kernels.saxpy(z, x, float(number), stream=stream)
            stream.synchronize()
            results[number] = bool(torch.all(z == 2 * number + number * number))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert results == dict.fromkeys(range(1, 5), True)


def test_a_first_launch_needs_no_cuda_bindings(dist, torch):
    """Importing them takes longer than all else of a first launch."""
    code = f"""
import sys; sys.path.insert(0, {str(dist)!r})
import torch, tilec_examples
z, x = torch.empty(256, device="cuda"), torch.ones(256, device="cuda")
before = "cuda.bindings.driver" in sys.modules
tilec_examples.load("cuda:0").vector_add(z, x, x)
print(before, "cuda.bindings.driver" in sys.modules, float(z.sum()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "False False 512.0\n")


def test_a_second_device(package, torch):
    if torch.cuda.device_count() < 2:
        with pytest.raises(
            NoDeviceError, match=r"^there is no device 1: this process sees 1, numbered from 0"
        ):
            package.load(1)
        return
    assert torch.cuda.current_device() == 0, "whatever devices tests before have used"
    second = package.load("cuda:1")
    x = torch.randn(4096, device="cuda:1")
    z = torch.empty_like(x)
    torch.cuda.synchronize(1)
    for stream in (0, torch.cuda.current_stream(1)):  # while device 0 is the current one
        z.zero_()
        torch.cuda.synchronize(1)
        second.vector_add(z, x, x, stream=stream)
        torch.cuda.synchronize(1)
        torch.testing.assert_close(z, 2 * x)
    assert torch.cuda.current_device() == 0


def test_after_a_strict_load_and_a_preload_a_capture_loads_nothing(dist, torch):
    """In a process of its own: here other tests have loaded images."""
    program = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(dist)!r})
        import tilec_examples, torch
        from tilec_runtime.device.driver import Driver

        x = torch.ones(4096, device="cuda")
        y, z = torch.ones_like(x), torch.zeros_like(x)
        kernels = tilec_examples.load(0, strict=True)
        loaded = kernels.preload()
        assert loaded == kernels.preload() > 1, loaded

        def refuse(*_):
            raise AssertionError("an image was loaded after all were")

        Driver.load_module = refuse
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernels.vector_add(z, x, y)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.all(z == 2), z
        assert not kernels.compiled
        print("ready", loaded)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ready")
