"""Threads that no library has given a device, in processes without torch: all works on every GPU,
and leaves the thread as it was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilec_runtime import Device

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = '''
import sys, threading
import numpy as np
from cuda.bindings import driver as cuda
from tilec_runtime.bundle.read import Bundle
from tilec_runtime import (AsyncKernelLaunch, Device, LaunchConfig, SingleStream, Stream, Tensor, api, load,
                           load_module_from_ptx, use_device)

PTX = """
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 all[];
.visible .entry last(.param .u64 out)
{
    .reg .b32 %r<3>; .reg .b64 %d<3>;
    mov.u32 %r1, 7;
    st.shared.u32 [all+99996], %r1;
    ld.shared.u32 %r2, [all+99996];
    ld.param.u64 %d1, [out];
    st.global.u32 [%d1], %r2;
    ret;
}
"""
ordinal, bundle = int(sys.argv[1]), Bundle.open(sys.argv[2])
failures = []


class Foreign:
    def __init__(self, t):
        self.__cuda_array_interface__ = {"shape": t.shape, "typestr": "<f4", "data": (t.ptr, False), "version": 3, "strides": None}


def work(step):
    """Each thread begins with another of them, so that each is the first thing that a thread does."""
    with use_device(ordinal):
        device = Device(ordinal)
        host = np.arange(1024, dtype=np.float32)

        def launches():
            z, x, y = (api.from_host(host).sync() for _ in range(3))
            module = load(bundle, ordinal)
            with Stream(ordinal) as stream:
                module.vector_add(z, x, y, stream=stream)
                assert (z.to_host() == 2 * host).all()
            z, *_ = module.ops.vector_add(z, x, y).sync()
            assert (z.to_host() == 2 * host).all()

        def shared():
            function = load_module_from_ptx(PTX, ordinal).function("last", ("ptr",))
            out = api.zeros(1, "i32").sync()
            config = LaunchConfig(grid=1, block=1, shared=100_000)
            (out,) = AsyncKernelLaunch(function).push_arg(out).set_launch_config(config).sync()
            assert out.to_host().tolist() == [7]

        def graphs():
            graph = api.memcpy(api.zeros(1024).sync(), api.ones(1024).sync()).graph()
            graph.replay()

        def foreign():
            t = api.full(1024, 3.0, "f32").sync()
            made = Tensor.from_foreign(Foreign(t))
            assert made.device == ordinal, f"taken to be on device {made.device}"
            assert set(made.to_host().tolist()) == {3.0}, "other contents"
            del made

        def waits():
            futures = [api.ones(1 << 16).future() for _ in range(8)]
            assert all(future.result().to_host().all() for future in futures)
            with Stream(ordinal) as one, Stream(ordinal) as two:
                t = api.ones(1024).sync_on(one)
                assert api.dup(t).sync_on(two).to_host().all()
            device.sync()

        steps = [launches, shared, graphs, foreign, waits]
        try:
            for number in range(len(steps)):
                steps[(step + number) % len(steps)]()
                left = int(cuda.cuCtxGetCurrent()[1])
                assert left == 0 or ordinal == 0, "a thread is left on a device that it did not ask for"
        except BaseException as error:
            failures.append((steps[(step + number) % len(steps)].__name__, step, error))


for step in range(5):
    thread = threading.Thread(target=work, args=(step,))
    thread.start()
    thread.join()
for name, step, error in failures:
    print(f"{name}, in the thread that began with {step}: {type(error).__name__}: {error}")
sys.exit(bool(failures))
'''


@pytest.mark.parametrize("ordinal", [0, 1])
def test_everything_works_in_a_thread_without_a_context(ordinal: int) -> None:
    if ordinal >= Device.count():
        pytest.skip("there is one GPU here")
    bundle = (
        Path(os.environ.get("TILEC_GPU_DIST", str(ROOT / "dist"))) / "tilec-examples-0.1.0.tilec"
    )
    if not bundle.is_file():
        pytest.skip(f"{bundle} is not there: build the examples first, with `tilec build`")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
    }
    command = [sys.executable, "-c", PROGRAM, str(ordinal), str(bundle)]
    done = subprocess.run(
        command, env=environ, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert not done.stdout + done.stderr
    assert done.returncode == 0
