"""Every name of the documents is in the table that translates them, or is the same here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilec_runtime as runtime

PAGE = Path(__file__).resolve().parents[2] / "docs" / "background" / "from-rust.md"
NAMES = """
zeros ones full fill arange linspace eye eye_rect convert rand randn randn_f16 reshape partition try_partition unpartition shape
strides size num_bytes is_contiguous device_id device_pointer cu_deviceptr reinterpret view slice copy_host_vec_to_device
copy_device_to_host_vec to_host_vec dup memcpy from_host zeroed Device::new CudaContext::new device_count ordinal name new_stream
default_stream borrow_raw init_device_contexts grid const_grid compile_options generics occupancy num_cta_in_cga max_divisibility
CUTILE_TILEIRAS_PATH CUDA_OXIDE_TARGET LaunchConfig grid_dim block_dim shared_mem_bytes for_num_elems AsyncKernelLaunch push_arg
push_device_ptr set_launch_config load_module_from_file load_module_from_ptx load_kernel_module load_function kernels::load
load_async vecadd_async vecadd_async_owned cuda_launch! cuda_launch_async! cluster_launch cooperative_launch launch_bounds
DisjointSlice cuOccupancyMaxActiveBlocksPerMultiprocessor zip! unzip then and_then map inspect first last shared boxed value
with_context unwrap_arc IntoDeviceOp BoxedDeviceOp sync sync_on await into_future schedule graph graph_on tokio::spawn
then_unchecked StreamPoolRoundRobin SingleStream SchedulingPolicy next_stream with_default_device_policy DeviceOperation execute
get_cuda_stream malloc_async memcpy_htod_async free_async CudaGraph scope record GraphNode take_output update launch DeviceError
cutile::error::Error DevicePointer DeviceBox CudaFunction Module::borrow_raw Function::borrow_raw slice_mut cluster_dim
cooperative SharedDeviceOp DeviceFuture thread::index_1d blockIdx_x threadIdx_x
"""
HERE = (
    runtime,
    runtime.api,
    runtime.Tensor,
    runtime.DeviceOp,
    runtime.LazyLaunch,
    runtime.Device,
    runtime.Stream,
    runtime.AsyncKernelLaunch,
    runtime.LaunchConfig,
    runtime.ExecutionContext,
    runtime.SchedulingPolicy,
    runtime.CudaGraph,
    runtime.GraphScope,
)


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_leads_to_ours(name: str) -> None:
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    there = " ".join(line.split(" | ")[0] for line in lines if line.startswith("| "))
    same = any(hasattr(kind, name) for kind in HERE) or name in ("DeviceError", "next_stream")
    assert same or re.search(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])", there), (
        f"{name} is not in {PAGE.name}"
    )
