"""Parts of mutable borrows in what writes: launches, copies, fills, partitions and graphs."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.unit.runtime.ops.graph_samples import COUNT, Cpu, Gpu
from tilec_runtime import CudaGraph, Stream, TensorMut, api, as_op, use_device
from tilec_runtime.errors import BorrowError, TensorError

HALF = COUNT // 2


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


def test_contents_go_to_a_part_and_back(cpu: Cpu) -> None:
    t, u = cpu.tensor(0), cpu.tensor(5)
    with use_device(cpu.device):
        with t.borrow_mut() as m:
            api.memcpy(m[0:16], np.full(16, 1, np.float32)).sync()
            api.memcpy(m[16:32], u[:16]).sync()
            api.memcpy(m[32:48:2], m[0:8]).sync()
            api.fill(m[48:], 7).sync()
            assert api.to_host(m[15:17]).sync().tolist() == [1, 5]
            assert m[47:].dup().sync().to_host().tolist() == [0] + [7] * 16
        with t[0:16] as start:
            api.memcpy(u, t).sync()
            with pytest.raises(BorrowError, match=r"for reading only(.|\n)*m\[0:4\]"):
                api.memcpy(start, np.zeros(16, np.float32))
    expected = [1] * 16 + [5] * 16 + [1, 0] * 8 + [7] * 16
    expected[32:48] = [1, 0] * 8
    assert t.to_host().tolist() == u.to_host().tolist() == expected


def test_a_slot_of_a_cache_is_written_time_after_time(cpu: Cpu) -> None:
    with use_device(cpu.device):
        cache = api.zeros((4, 6, 8)).sync()
        expected = np.zeros((4, 6, 8), np.float32)
        with cache.borrow_mut() as m:
            for step in range(6):
                new = np.full((4, 8), step + 1, np.float32)
                api.memcpy(m[:, step], api.from_host(new)).sync()  # a row of each, with gaps
                expected[:, step] = new
            with pytest.raises(TensorError, match="takes a contiguous target"):
                api.memcpy(m[:, 0], new)
    assert np.array_equal(cache.to_host(), expected)


def test_launches_write_parts(cpu: Cpu) -> None:
    t, x = cpu.tensor(0), cpu.tensor(1).share()
    stream = cpu.stream
    with use_device(cpu.device), t.borrow_mut() as m, x.clone()[:HALF] as read:
        cpu.module.add(m[:HALF], read, read, stream=stream)
        for _ in range(3):  # the remembered plan too
            cpu.module.add(m[HALF:], read, read, 2.0, stream=stream)
        with m[:HALF] as first:
            given = cpu.add(first, m[HALF:], read).sync()  # reads one part, and writes another
            assert given is first
            op = cpu.add(first, read, read)
            with pytest.raises(BorrowError, match=r"the launch of add .* still writes it"):
                first.to_host()
            op.sync_on(stream)
            with pytest.raises(
                BorrowError, match=r"the launch of add .*: the slice .* still writes it"
            ):
                cpu.module.add(m, x, x, stream=stream)
            with pytest.raises(
                BorrowError, match=r"the launch of add .*: the slice .* still writes it"
            ):
                cpu.add(m, x, x)
            with (
                first.borrow() as still,
                pytest.raises(
                    BorrowError, match=r"the launch of add .*: the borrow .* still reads it"
                ),
            ):
                cpu.module.add(first, still, read, stream=stream)
    stream.sync()
    assert t.to_host().tolist() == [2] * HALF + [3] * HALF


def test_a_launch_cannot_outlive_the_borrow_of_its_part(cpu: Cpu) -> None:
    t, x = cpu.tensor(0), cpu.tensor(1).share()
    with use_device(cpu.device):
        with t.borrow_mut() as m:
            op, part = cpu.add(m[:HALF], x[:HALF], x[:HALF]), m[HALF:]
            copied = api.memcpy(part, x[:HALF])
            with pytest.raises(BorrowError, match=r"the slice .* still writes it"):
                m[HALF - 1 :]
        for late in (op, copied):
            with pytest.raises(BorrowError, match=r"the mutable borrow .* has ended"):
                late.sync()
        with pytest.raises(BorrowError, match=r"the mutable borrow .* has ended"):
            cpu.module.add(part, x[:HALF], x[:HALF], stream=cpu.stream)
    t.share()
    assert cpu.runs == 0


def test_partitions_of_parts(cpu: Cpu) -> None:
    t, x = cpu.tensor(0), cpu.tensor(1).share()
    with use_device(cpu.device), t.borrow_mut() as m:
        with m[:HALF].partition(HALF) as tiles:
            cpu.add(tiles, x[:HALF], x[:HALF]).sync()
            with pytest.raises(
                BorrowError, match=r"cannot be read by .*: the slice .* still writes it"
            ):
                m.to_host()
        part = as_op(m[HALF:].partition(HALF)).unpartition().sync()
        assert type(part) is TensorMut
        api.fill(part, 4).sync()
        api.fill(part.partition(8), 5).sync()
        del part
        assert m.to_host().tolist() == [2] * HALF + [5] * HALF


def test_graphs_of_parts(cpu: Cpu) -> None:
    t, x = cpu.tensor(0), cpu.tensor(1).share()
    with t.borrow_mut() as m:
        with CudaGraph.scope(cpu.stream) as s:
            s.record(cpu.add(m[:HALF], x[:HALF], x[:HALF]))
            s.record(api.memcpy(m[HALF:], m[:HALF]))
        assert not m.lease.taken
    s.graph.replay()
    cpu.stream.sync()
    assert t.to_host().tolist() == [2] * COUNT
    with t.borrow_mut() as m:
        m_part = m[:HALF]
        with pytest.raises(BorrowError, match=r"the mutable borrow .* still writes it"):
            s.graph.replay()
        m_part.release()
    with use_device(cpu.device), t.borrow_mut() as m:
        api.fill(m[HALF:], 0).sync()
    s.graph.replay()
    cpu.stream.sync()
    assert t.to_host().tolist() == [2] * COUNT


def test_streams_that_use_parts_wait_for_each_other() -> None:
    gpu = Gpu()
    t, x = gpu.tensor(), gpu.tensor().share()
    with t.borrow_mut() as m:
        gpu.module.ops.add(m[:HALF], x[:HALF], x[HALF:]).enqueue_on(gpu.stream)
        gpu.steps()
        gpu.module.ops.add(m[HALF:], x[:HALF], x[HALF:]).enqueue_on(gpu.other)
    assert any("wait" in call for call, _ in gpu.steps())  # by memory, whichever part


def test_many_parts_in_random_order_give_what_numpy_gives(cpu: Cpu) -> None:
    numbers, expected = random.Random(7), np.zeros((6, 8), np.float32)
    ranges = [slice(*pair) for pair in itertools.combinations(range(7), 2)]
    with use_device(cpu.device), Stream(cpu.device, driver=cpu.driver) as other:
        t = api.zeros((6, 8)).sync()
        with t.borrow_mut() as m:
            for number in range(60):
                index = (numbers.choice(ranges), numbers.choice(ranges))
                array = np.full(expected[index].shape, number, np.float32)
                op = api.memcpy(m[index], api.from_host(array))
                op.sync() if number % 2 else op.sync_on(other)
                expected[index] = array
            assert np.array_equal(m.to_host(), expected)
