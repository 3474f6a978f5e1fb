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


@pytest.mark.parametrize("size", [1, 1000, 1024, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vector_add(kernels, torch, size, dtype):
    x, y = (randn(torch, size, dtype=getattr(torch, dtype)) for _ in range(2))
    z = torch.full_like(x, torch.nan)
    kernels.vector_add(z, x, y)
    torch.testing.assert_close(z, x + y)


def test_saxpy_with_its_default_and_by_name(kernels, torch):
    stream, x, y = torch.cuda.current_stream(), randn(torch, 5000), randn(torch, 5000)
    expected = y + x
    kernels.saxpy(y, x, stream=stream)
    torch.testing.assert_close(y, expected)
    kernels.saxpy(alpha=-2.5, x=x, y=y, stream=stream)
    torch.testing.assert_close(y, expected - 2.5 * x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 1024), (33, 1000), (1, 7)])
def test_row_kernels(kernels, torch, shape):
    stream, x = torch.cuda.current_stream(), randn(torch, *shape)
    y = torch.empty_like(x)
    kernels.softmax(y, x, stream=stream)
    torch.testing.assert_close(y, torch.softmax(x, 1), rtol=1e-4, atol=1e-6)
    weight, bias = randn(torch, shape[1]), randn(torch, shape[1])
    kernels.layer_norm(y, x, weight, bias, stream=stream)
    torch.testing.assert_close(
        y, torch.nn.functional.layer_norm(x, shape[1:], weight, bias), rtol=1e-3, atol=1e-3
    )
    half, factors = x.bfloat16(), weight.bfloat16()
    out = torch.empty_like(half)
    kernels.rms_norm(out, half, factors, eps=1e-5, stream=stream)
    scale = torch.rsqrt((half.float() ** 2).mean(1, keepdim=True) + 1e-5)
    torch.testing.assert_close(
        out.float(), half.float() * scale * factors.float(), rtol=2e-2, atol=2e-2
    )


@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 256), (129, 67, 33)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gemm(kernels, torch, m, n, k, dtype):
    a, b = (
        randn(torch, m, k, dtype=getattr(torch, dtype)),
        randn(torch, k, n, dtype=getattr(torch, dtype)),
    )
    c = torch.empty(m, n, device="cuda", dtype=a.dtype)
    kernels.gemm(c, a, b)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-1)


def test_cuda_kernels(kernels, torch):
    stream, x = torch.cuda.current_stream(), torch.rand(97, 1001, device="cuda")
    total = torch.zeros(1, device="cuda")
    kernels.reduce_sum(total, x, stream=stream)
    torch.testing.assert_close(total, x.sum().reshape(1), rtol=1e-4, atol=1e-2)
    numbers = torch.randint(-100, 100, (9, 1001), device="cuda", dtype=torch.int32)
    sums = torch.empty_like(numbers)
    kernels.block_scan(sums, numbers, stream=stream)
    assert torch.equal(sums, torch.cumsum(numbers, 1, dtype=torch.int32))
    y = torch.empty_like(x)
    kernels.stencil(y, x, 0.2, stream=stream)
    padded = torch.nn.functional.pad(x[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    torch.testing.assert_close(y, x + 0.2 * (around - 4 * x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_matrix_of_dtypes_and_widths(kernels, torch, dtype, width):
    x = randn(torch, 3, 1237, dtype=getattr(torch, dtype))
    y = torch.empty_like(x)
    kernels.elementwise(y, x, 1.5, -0.25, VEC=width)
    torch.testing.assert_close(y.float(), x.float() * 1.5 - 0.25, rtol=2e-2, atol=2e-2)


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


def test_a_launch_in_a_thread_that_never_touched_cuda(kernels, torch):
    x = randn(torch, 4096)
    z = torch.zeros_like(x)
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work():
        try:
            kernels.vector_add(z, x, x)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    torch.cuda.synchronize()
    assert failures == []
    torch.testing.assert_close(z, 2 * x)


def test_launches_are_captured_into_a_graph(kernels, torch):
    stream = torch.cuda.Stream()
    x, y = randn(torch, 4096), randn(torch, 4096)
    z = torch.empty_like(x)
    kernels.vector_add(z, x, y, stream=stream)
    kernels.saxpy(z, x, 3.0, stream=stream)  # loaded before the capture begins
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kernels.vector_add(z, x, y)
        kernels.saxpy(z, x, 3.0)
    x.copy_(randn(torch, 4096))
    z.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(z, x + y + 3.0 * x, rtol=1e-5, atol=1e-5)


def test_the_image_is_the_one_for_this_device(kernels, torch):
    major, minor = torch.cuda.get_device_capability(0)
    x = randn(torch, 4096)
    why = kernels["vector_add"].explain(torch.empty_like(x), x, x)
    assert why.image is not None
    assert why.image.target.runs_on((major, minor), exact=why.image.exact)
    accepted = [candidate for candidate in why.images.candidates if candidate.accepted]
    assert accepted[0].image is why.image
    built = {str(candidate.image.target) for candidate in why.images.candidates}
    if f"sm_{major}{minor}" in built:
        assert str(why.image.target) == f"sm_{major}{minor}"
    assert "not on" in str(why)


def test_the_variant_follows_from_the_arguments(kernels, torch):
    base = randn(torch, 8192)

    def variant(tensor):
        return kernels["vector_add"].explain(torch.empty_like(tensor), tensor, tensor).variant

    assert variant(base[:4096]).assume
    assert not variant(base[:4095]).assume
    assert not variant(base[1:4097]).assume
    assert not variant(torch.empty(4096, device="cuda", dtype=torch.float16)[:7]).assume


COLD = """
import sys
sys.path.insert(0, {dist!r})
import tilec_examples
from tilec_runtime import DeviceBuffer, Stream
kernels = tilec_examples.load(0)
stream = Stream(0)
z, x, y = (DeviceBuffer((4096,), "f32", 0, stream) for _ in range(3))
x.fill(0, stream)
y.fill(0, stream)
z.fill(0xFF, stream)
kernels.vector_add(z, x, y, stream=stream)
stream.sync()
banned = {{"click", "rich", "jinja2", "tomli", "tomllib", "cuda.core", "cuda.tile", "torch", "numpy"}}
print(sorted(name for name in sys.modules if name in banned or name.startswith(("tilec.manifest", "tilec.frontends", "tilec.package"))))
print(float(abs(z.to_host(stream)).max()))
"""


def test_a_fresh_process_imports_no_more_than_it_needs(dist, torch):
    code = textwrap.dedent(COLD).format(dist=str(dist))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stderr, done.stdout.split("\n")[:2]) == ("", ["[]", "0.0"])


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
