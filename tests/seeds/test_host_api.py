"""cuTile Rust, "Host API": tensors, transfers, streams, launches, combinators, ownership, errors
and graphs, on the cpu device.
"""

from __future__ import annotations

import asyncio
from types import ModuleType

import numpy as np
import pytest

from tests.seeds.conftest import Built
from tilec_runtime import (
    CudaGraph,
    Device,
    DeviceOp,
    SchedulingPolicy,
    SingleStream,
    Stream,
    StreamPoolRoundRobin,
    Tensor,
    api,
    as_op,
    shared,
    use_device,
    use_policy,
    with_context,
    zip_ops,
)
from tilec_runtime.errors import (
    CallError,
    DeviceError,
    GraphCaptureError,
    LaunchError,
    NestedExecutionError,
    OwnershipError,
    TensorError,
    VariantError,
)

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

KERNELS = """
import tilec.lang as tl

T = tl.dtype("T")
B = tl.size("B")


@tl.kernel
@tl.preconditions("x.shape == z.shape")
def double(z: tl.Mut[T, (B,)], x: tl.Ref[T, 1]) -> None:
    tile = tl.load_tile_like(x, z)
    z.store(tile + tile)

"""
MANIFEST = """
edition = 1

[package]
name = "host_api"
version = "0.1.0"

[targets]
default = ["tileir"]

[kernel.double]
source = "kernels.py"
matrix = { T = ["f32", "f16"], B = [64, 128], occupancy = [1, 4] }
dispatch = { default = { occupancy = 1 } }
"""


@pytest.fixture(scope="module")
def host_api(built: Built) -> ModuleType:
    return built("host_api", kernels__py=KERNELS, tilec__toml=MANIFEST)


# --- tensors
# -----------------------------------------------------------------------------------------------------------------------


def test_constructors(stream: Stream) -> None:
    made = {
        "zeros": (api.zeros(1024), (1024,)),
        "ones": (api.ones((256, 256)), (256, 256)),
        "full": (api.full((2, 3), 2.5), (2, 3)),
        "randn": (api.randn((4, 8, 16), mean=0.0, std=1.0), (4, 8, 16)),
        "rand": (api.rand(1024, seed=42), (1024,)),
        "arange": (api.arange(1024, dtype="i32"), (1024,)),
        "linspace": (api.linspace(0, 1, 5), (5,)),
        "eye": (api.eye(64), (64, 64)),
        "eye_rect": (api.eye(2, 3), (2, 3)),
        "randn_f16": (api.randn((8,), mean=0.0, std=1.0, seed=7, dtype="f16"), (8,)),
    }
    tensors = {name: op.sync_on(stream) for name, (op, _) in made.items()}
    assert {name: t.shape for name, t in tensors.items()} == {
        name: shape for name, (_, shape) in made.items()
    }
    assert tensors["arange"].to_host()[:3].tolist() == [0, 1, 2]
    assert tensors["eye_rect"].to_host().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tensors["randn_f16"].dtype == "f16"
    filled = api.fill(tensors["zeros"], 3).sync_on(stream)
    assert filled.to_host().max() == 3
    assert api.convert(filled.share(), "f16").sync_on(stream).dtype == "f16"


def test_shapes_partitions_and_metadata(stream: Stream) -> None:
    x = api.arange(32).reshape((4, 8)).sync_on(stream)
    assert (x.shape, x.strides, x.size, x.num_bytes, x.is_contiguous, x.device_id) == (
        (4, 8),
        (8, 1),
        32,
        128,
        True,
        -1,
    )
    assert x.device_pointer == x.ptr
    z = api.zeros(32).partition(4).sync_on(stream)
    assert z.unpartition().shape == (32,)
    weights = api.ones((4, 8)).sync_on(stream).share()
    flat = weights.reshape((8, 4))
    with pytest.raises(OwnershipError, match="owners"):  # there are two
        flat.try_partition(2, 4)
    del weights
    assert flat.try_partition(2, 4).grid == (4, 1)
    raw = api.arange(4, dtype="u32").sync_on(stream).share()
    assert raw.reinterpret("f32", (4,)).shape == (4,)


def test_views_and_slices(stream: Stream) -> None:
    tensor = api.arange(1024).sync_on(stream)
    with (
        tensor.view((32, 32)) as matrix,
        tensor[0:512] as half,
        matrix[1:3] as rows,
        matrix[1:3, 2:6] as block,
    ):
        assert (half.shape, rows.shape, block.shape) == ((512,), (2, 32), (2, 4))
        assert block.to_host()[0].tolist() == [34, 35, 36, 37]
    with tensor[100:200] as outer, outer[10:20] as inner:
        assert inner.to_host().tolist() == list(range(110, 120))


# --- transfers
# ---------------------------------------------------------------------------------------------------------------------


def test_transfers(stream: Stream) -> None:
    data = np.ones(1024, np.float32)
    tensor = api.from_host(data).sync_on(stream)
    np.testing.assert_array_equal(tensor.to_host(), data)
    copy = tensor.dup().sync_on(stream)
    api.memcpy(copy, api.zeros(1024).sync_on(stream)).sync_on(stream)
    assert copy.to_host().sum() == 0
    with pytest.raises(TensorError) as caught:
        api.memcpy(copy, api.zeros(1024, dtype="f16").sync_on(stream))
    assert caught.value.cause == "a copy changes no dtype"


def test_a_kernels_output_on_the_host(host_api: ModuleType, stream: Stream) -> None:
    x = api.ones(1024).sync_on(stream).share()
    host = (
        host_api.ops.double(api.zeros(1024).partition(128), x)
        .first()
        .unpartition()
        .to_host()
        .sync_on(stream)
    )
    assert host.tolist() == [2.0] * 1024


# --- devices, streams, launches
# ----------------------------------------------------------------------------------------------------


def test_devices_and_streams(stream: Stream) -> None:
    device = Device("cpu")
    assert (device.ordinal, Device.count() >= 0, bool(device.name)) == (-1, True, True)
    assert Stream.borrow_raw(stream.handle, device).handle == stream.handle


def test_compile_options_grid_and_generics(host_api: ModuleType, stream: Stream) -> None:
    def launch(blocks: int = 128) -> DeviceOp[object]:
        return host_api.ops.double(api.zeros(1024).partition(blocks), api.ones(1024))  # type: ignore[no-any-return]

    for op in (
        launch().options(occupancy=4),
        launch().grid(8),
        launch().grid((8, 1, 1)),
        launch().variant(B=128),
    ):  # type: ignore[attr-defined]
        assert op.sync_on(stream)[0].unpartition().to_host().sum() == 2048
    with pytest.raises(VariantError, match="options that were built: occupancy=1; occupancy=4"):
        launch().options(occupancy=2)  # type: ignore[attr-defined]
    with pytest.raises(VariantError, match="num_cta_in_cga of cuTile Rust is num_ctas here"):
        launch().options(num_cta_in_cga=2)  # type: ignore[attr-defined]
    assert launch().options(max_divisibility=16).sync_on(stream)  # type: ignore[attr-defined]
    with pytest.raises(VariantError, match="B = 32 was not built; built are 64, 128"):
        launch().variant(B=32)  # type: ignore[attr-defined]
    half = host_api.ops.double(
        api.zeros(64, dtype="f16").partition(64), api.ones(64, dtype="f16")
    ).sync_on(stream)[0]
    assert half.unpartition().dtype == "f16"  # dtypes follow from the tensors


# --- combinators
# -------------------------------------------------------------------------------------------------------------------


def test_combinators(stream: Stream) -> None:
    a, b = zip_ops(as_op(1), as_op("a")).unzip()
    assert (a.sync_on(stream), b.sync_on(stream)) == (1, "a")
    seen: list[int] = []
    op = as_op(20).then(lambda x: as_op(x + 1)).map(lambda x: 2 * x).inspect(seen.append)
    assert (op.sync(), seen) == (42, [42])
    assert as_op((1, 2, 3)).first().sync() == 1
    assert as_op((1, 2, 3)).last().sync() == 3
    assert with_context(lambda ctx: ctx.stream).sync_on(stream) == stream.handle


def test_shared_runs_once_and_unwraps(host_api: ModuleType, stream: Stream) -> None:
    runs: list[int] = []
    x = api.ones(128).inspect(lambda _: runs.append(1)).shared()
    for _ in range(2):
        host_api.ops.double(api.zeros(128).partition(128), x.clone()).sync_on(stream)
    assert runs == [1]
    weights = api.ones(128).sync_on(stream).share()
    assert shared(weights).sync().shape == (128,)
    alone = api.ones(128).shared().sync()
    owned = as_op(alone).unshare().sync()
    assert isinstance(owned, Tensor)
    assert owned.partition(64).grid == (2,)


def test_errors_are_repeated_to_every_clone(stream: Stream) -> None:
    bad = as_op(1).then(lambda _: api.zeros(4).map(lambda t: t.reshape((3, 3)))).shared()
    for _ in range(2):
        with pytest.raises(TensorError):
            bad.clone().sync()


def test_awaits_futures_and_policies(host_api: ModuleType, stream: Stream) -> None:
    async def main() -> tuple[float, float]:
        first, second = await asyncio.gather(
            api.ones(4).to_host(), asyncio.ensure_future(api.full(4, 2).to_host())
        )
        return float(first.sum()), float(second.sum())

    with use_device("cpu"):
        assert asyncio.run(main()) == (4, 8)
    assert api.ones(4).to_host().future().result().sum() == 4
    policy = StreamPoolRoundRobin(4, Device("cpu"))
    assert isinstance(policy, SchedulingPolicy)
    streams = [with_context(lambda ctx: ctx.stream).schedule(policy).result() for _ in range(5)]
    assert (len(set(streams)), streams[0] == streams[4]) == (4, True)
    with use_policy(SingleStream(Device("cpu"))):
        assert len({with_context(lambda ctx: ctx.stream).sync() for _ in range(3)}) == 1


def test_nested_execution_is_an_error(stream: Stream) -> None:
    with pytest.raises(NestedExecutionError):
        as_op(1).then(lambda x: as_op(as_op(x).sync_on(stream))).sync_on(stream)
    assert as_op(1).then_unchecked(lambda x: as_op(as_op(x + 1).sync())).sync_on(stream) == 2


# --- errors and graphs
# -------------------------------------------------------------------------------------------------------------


def test_errors_by_kind(host_api: ModuleType, stream: Stream) -> None:
    with pytest.raises(LaunchError, match=r"^double: requires x.shape == z.shape"):
        host_api.ops.double(api.zeros(128).partition(128), api.ones(64)).sync_on(stream)
    for call in (lambda: zip_ops(1), lambda: Device("tpu"), lambda: host_api.load("tpu")):  # type: ignore[call-overload]
        with pytest.raises(DeviceError) as caught:
            call()
        assert isinstance(caught.value, CallError)


def test_a_captured_op_is_replayed(host_api: ModuleType, stream: Stream) -> None:
    x, out = api.zeros(128).sync_on(stream), api.zeros(128).sync_on(stream)
    forward = host_api.ops.double(out.partition(128), x.borrow())
    graph = forward.graph_on(stream)
    output, _ = graph.take_output()
    for token in (1, 2):
        graph.update(api.memcpy(x, api.full(128, token).sync()))
        graph.launch().sync_on(stream)
    assert output.unpartition().to_host().tolist() == [4.0] * 128


def test_a_scope_records_one_op_after_another(host_api: ModuleType, stream: Stream) -> None:
    output, weights = api.zeros(128).sync_on(stream), api.ones(128).sync_on(stream)
    middle = api.zeros(128).sync_on(stream)
    with CudaGraph.scope(stream) as s:
        s.record(host_api.ops.double(middle.partition_mut(128), weights.borrow()))
        s.record(host_api.ops.double(output.partition_mut(64), middle.borrow()))
    s.graph.launch().sync_on(stream)
    assert output.to_host().tolist() == [4.0] * 128
    with pytest.raises(GraphCaptureError), CudaGraph.scope(stream) as s:
        s.record(api.zeros(4))  # type: ignore[arg-type]
