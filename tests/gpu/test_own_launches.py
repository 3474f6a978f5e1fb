"""AsyncKernelLaunch on a GPU: grids and blocks of all dimensions, shared memory, clusters,
cooperative launches and both.
"""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    KernelFunction,
    LaunchConfig,
    api,
    load_module_from_ptx,
)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
# The first thread of each block writes down what it was launched as, in 8 words at the block's
# number.
PTX = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry shape(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    or.b32 %r4, %r1, %r2;
    or.b32 %r4, %r4, %r3;
    setp.ne.u32 %p1, %r4, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %nctaid.y;
    mov.u32 %r7, %ctaid.z;
    mov.u32 %r8, %ctaid.y;
    mov.u32 %r9, %ctaid.x;
    mad.lo.s32 %r10, %r7, %r6, %r8;
    mad.lo.s32 %r10, %r10, %r5, %r9;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r10, 32;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r11, %ntid.x;
    mov.u32 %r12, %ntid.y;
    mov.u32 %r13, %ntid.z;
    mov.u32 %r14, %dynamic_smem_size;
    mov.u32 %r15, %cluster_nctarank;
    mov.u32 %r16, %nctaid.z;
    st.global.u32 [%rd3], %r5;
    st.global.u32 [%rd3+4], %r6;
    st.global.u32 [%rd3+8], %r16;
    st.global.u32 [%rd3+12], %r11;
    st.global.u32 [%rd3+16], %r12;
    st.global.u32 [%rd3+20], %r13;
    st.global.u32 [%rd3+24], %r14;
    st.global.u32 [%rd3+28], %r15;
DONE:
    ret;
}
"""
# By what they are: a config, and (grid, block, shared memory, blocks of a cluster) as the device is
# to see them.
CONFIGS = {
    "elements": (LaunchConfig.for_num_elems(1000), ((4, 1, 1), (256, 1, 1), 0, 1)),
    "2-D": (LaunchConfig.for_2d(40, 20), ((3, 2, 1), (16, 16, 1), 0, 1)),
    "3-D": (LaunchConfig.for_3d(9, 8, 17), ((2, 1, 3), (8, 8, 8), 0, 1)),
    "shared": (LaunchConfig(grid=4, block=32, shared=2048), ((4, 1, 1), (32, 1, 1), 2048, 1)),
    "much shared": (
        LaunchConfig(grid=2, block=32, shared=100_000),
        ((2, 1, 1), (32, 1, 1), 100_000, 1),
    ),
    "cluster": (LaunchConfig(grid=(8, 2), block=64, cluster=(4, 2)), ((8, 2, 1), (64, 1, 1), 0, 8)),
    "cooperative": (
        LaunchConfig(grid=16, block=64, cooperative=True),
        ((16, 1, 1), (64, 1, 1), 0, 1),
    ),
    "both": (
        LaunchConfig(grid=16, block=64, shared=1024, cluster=4, cooperative=True),
        ((16, 1, 1), (64, 1, 1), 1024, 4),
    ),
}


@pytest.fixture(scope="module")
def shape() -> KernelFunction:
    if Device(0).info.cc < (9, 0):
        pytest.skip("clusters came with sm_90")
    return load_module_from_ptx(PTX, 0).function("shape", ("ptr",))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_device_sees_what_was_configured(name: str, shape: KernelFunction) -> None:
    config, (grid, block, shared, cluster) = CONFIGS[name]
    blocks = int(np.prod(grid))
    out = api.zeros((blocks, 8), "u32").sync()
    (out,) = AsyncKernelLaunch(shape).push_arg(out).set_launch_config(config).sync()
    assert out.to_host().tolist() == [[*grid, *block, shared, cluster]] * blocks
